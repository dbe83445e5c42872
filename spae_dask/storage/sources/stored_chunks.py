"""Stored and missing chunks of a Zarr array.

A chunk that is not there reads as the fill value: legitimate when a writer skipped an all-zero chunk, a disaster when
a file was lost. Nobody but the owner of the data can tell the two apart, so they are counted and named.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from zarr.storage import LocalStore

from spae_dask.blocks import RowBlocks, asked_of, remember
from spae_dask.errors import DataChanged
from spae_dask.storage.sources.changed import ChangedBlocks
from spae_dask.storage.sources.checked_store import (
    ReadsZarr,
    ZarrArray,
    base_of,
    grid_of,
    key_of,
    place_of,
    with_checked_store,
)
from spae_dask.storage.sources.compressed_blocks import CompressedBlocks
from spae_dask.storage.sources.shards import InnerChunkCount, count_inner_chunks
from spae_dask.storage.sources.snapshot import Snapshot, StoredObjects, stored_files, stored_objects
from spae_dask.storage.sources.submatrix import Submatrix
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks

N_NAMED = 5

FEW_SHARDS = 10_000
"""Shards on a disk whose indexes are read without being asked: a second's work."""

LISTED_NBYTES = 96
"""Bytes of a listed object at the peak: 16 are kept, and the rest is taken while objects are sorted and compared."""


@dataclass(frozen=True)
class ChunkCount:
    """Stored objects (chunks, or shards) of an array.

    Attributes
    ----------
    n_expected, n_missing : int
        Objects a full array has, and how many of them are absent.
    first_missing : tuple of str
        Keys of the first few absent ones.
    fill_value : object
        Value of their entries.
    inner : InnerChunkCount or None
        Inner chunks of the stored shards, where they were counted.
    """

    n_expected: int
    n_missing: int
    first_missing: tuple[str, ...]
    fill_value: object
    inner: InnerChunkCount | None = None

    @property
    def n_absent(self) -> int:
        """Chunks and inner chunks that are not stored."""
        return self.n_missing + (self.inner.n_missing if self.inner else 0)

    def describe(self) -> str:
        """One line for people."""
        if not self.n_absent:
            return f"all {self.n_expected:,} chunks are stored"
        told = [_missing(self.n_missing, self.n_expected, "chunks", self.first_missing, self.fill_value)]
        if self.inner is not None:
            inner, kind = self.inner, "inner chunks of shards"
            told.append(_missing(inner.n_missing, inner.n_expected, kind, inner.first_missing, self.fill_value))
        return "; ".join(each for each in told if each)


def _missing(n_missing: int, n_expected: int, kind: str, first: Sequence[str], fill_value: object) -> str:
    if not n_missing:
        return ""
    named = ", ".join(first) + (", ..." if n_missing > len(first) else "")
    return f"{n_missing:,} of {n_expected:,} {kind} are not stored and read as {fill_value!r} (first: {named})"


def count_stored(array: ZarrArray) -> ChunkCount | None:
    """Count the stored objects of an array by listing its store once; ``None`` if the store cannot be listed."""
    objects = stored_objects(array)
    return None if objects is None else _counts_of(array, objects)


class CheckedSource(NamedTuple):
    """A source whose chunks were counted.

    Attributes
    ----------
    source : RowBlocks
        The source. Reading it, here or in another process, ends with a ``StorageError`` where a chunk is missed that
        was stored; so it does for Zarr arrays beneath a dask array or an xarray variable.
    chunks : ChunkCount or None
        Census of the arrays that are all of the source; None if none are, or their store cannot be listed. An array
        beneath a graph or a variable is all of it if it has as many entries.
    snapshot : Snapshot
        Stored objects of the array.
    """

    source: RowBlocks
    chunks: ChunkCount | None
    snapshot: Snapshot

    @property
    def missing_chunks(self) -> str | None:
        """Description of the chunks that are not stored; None if all are, or if it is unknown."""
        return self.chunks.describe() if self.chunks is not None and self.chunks.n_absent else None

    def refuse_changed(self) -> None:
        """Raise ``DataChanged`` if an object behind the source is another one than it was."""
        now = Snapshot(tuple(_visit(self.source, lambda array, _: array).parts))
        difference = now.difference(self.snapshot)
        if difference is not None:
            raise DataChanged.told(difference)


@runtime_checkable
class ReadsFiles(Protocol):
    """A source that reads plain files."""

    @property
    def files(self) -> Sequence[str]:
        """Their paths; none if they are elsewhere."""
        ...


def check_chunks(source: RowBlocks, *, deep: bool = False) -> CheckedSource:
    """Count the chunks behind a source, and have it read by that.

    Inner chunks of shards are counted too if the shards are few and on a disk, or with ``deep`` anyway.
    """
    counts: list[tuple[ZarrArray, ChunkCount]] = []

    def counted(array: ZarrArray, objects: StoredObjects) -> ZarrArray:
        counts.append((array, _counts_of(array, objects, deep=deep)))
        return with_checked_store(array, objects.numbers)

    visited = _visit(source, counted)
    whole = (
        counts
        and len(counts) == visited.n_arrays
        and (_is_zarr(source) or _n_entries(source) == sum(array.size for array, _ in counts))
    )
    chunks = _together(counts) if whole else None
    is_gap: Callable[[object], bool] = getattr(_beneath(source), "is_gap", lambda _: False)
    if chunks is not None and chunks.n_absent and is_gap(chunks.fill_value):
        chunks = None  # writers leave out tiles of land, and NaN elsewhere is refused or filled as the user asks
    return CheckedSource(visited.source, chunks, Snapshot(tuple(visited.parts)))


def listing_nbytes(source: RowBlocks) -> int:
    """Bytes that `check_chunks`, and the listings after it, take at their peak if all objects are stored."""
    counts: list[int] = []

    def count(array: ZarrArray) -> ZarrArray:
        if base_of(array).supports_listing:
            counts.append(math.prod(grid_of(array)))
        return array

    if isinstance(source, ReadsZarr):
        source.with_arrays(count)
    if isinstance(source, ReadsFiles):
        counts.append(len(source.files))
    return LISTED_NBYTES * sum(counts)


@dataclass
class _Visited:
    """A source whose arrays were listed one by one."""

    source: RowBlocks
    parts: list[StoredObjects]
    n_arrays: int = 0


def _visit(source: RowBlocks, listed: Callable[[ZarrArray, StoredObjects], ZarrArray]) -> _Visited:
    """List the objects of all arrays of a source, and have the source read what is made of each array."""
    found = _Visited(source, [])

    def change(array: ZarrArray) -> ZarrArray:
        found.n_arrays += 1
        try:
            objects = stored_objects(array)
        except Exception:
            if _is_zarr(source):
                raise
            objects = None  # the store beneath a graph is listed where possible
        if objects is None:
            return array
        found.parts.append(objects)
        return listed(array, objects)

    if isinstance(source, ReadsZarr):
        found.source = remember(source.with_arrays(change), **asked_of(source))
    if isinstance(source, ReadsFiles) and source.files:
        found.parts.append(stored_files(source.files))
    return found


def _is_zarr(source: RowBlocks) -> bool:
    """True for a source of Zarr arrays of its own, which are all of it."""
    return isinstance(_beneath(source), ZarrBlocks | CompressedBlocks)


def _n_entries(source: RowBlocks) -> float:
    """Entries that a source reads, with those of its rows that it leaves out."""
    beneath = _beneath(source)
    n_entries: float = getattr(beneath, "n_entries", math.prod(beneath.shape))
    return n_entries


def _beneath(source: RowBlocks) -> RowBlocks:
    while isinstance(source, ChangedBlocks | Submatrix):
        source = source.source
    return source


def _together(counted: Sequence[tuple[ZarrArray, ChunkCount]]) -> ChunkCount:
    """The chunks of all arrays of a source; of several, which one a chunk is of stands before its key."""
    if len(counted) == 1:
        return counted[0][1]
    in_one_store = len({array.basename for array, _ in counted}) == len(counted)
    counts = [(array.basename if in_one_store else place_of(array), each) for array, each in counted]
    first = [f"{name}/{key}" for name, each in counts for key in each.first_missing]
    return ChunkCount(
        sum(each.n_expected for _, each in counts),
        sum(each.n_missing for _, each in counts),
        tuple(first[:N_NAMED]),
        next((each.fill_value for _, each in counts if each.n_absent), 0),
        _inner_together([(name, each.inner) for name, each in counts if each.inner is not None]),
    )


def _inner_together(counts: Sequence[tuple[str, InnerChunkCount]]) -> InnerChunkCount | None:
    if not counts:
        return None
    first = [f"{name}/{key}" for name, each in counts for key in each.first_missing]
    n_expected, n_missing = np.sum([(each.n_expected, each.n_missing) for _, each in counts], axis=0).tolist()
    return InnerChunkCount(n_expected, n_missing, tuple(first[:N_NAMED]))


def _counts_of(array: ZarrArray, objects: StoredObjects, *, deep: bool = False) -> ChunkCount:
    n_expected = math.prod(grid_of(array))
    first = [key_of(array, number) for number in _first_missing(objects.numbers, n_expected)]
    cheap = isinstance(base_of(array), LocalStore) and objects.numbers.size <= FEW_SHARDS
    inner = count_inner_chunks(array, objects.numbers, N_NAMED) if deep or cheap else None
    return ChunkCount(n_expected, n_expected - objects.numbers.size, tuple(first), _plain(array.fill_value), inner)


def _first_missing(stored: npt.NDArray[np.int64], n_expected: int) -> list[int]:
    """The first few numbers that are not among some ascending ones."""
    # before place i of the stored ones, stored[i] - i numbers are missing
    missing = np.arange(min(N_NAMED, n_expected - stored.size))
    first: list[int] = (missing + np.searchsorted(stored - np.arange(stored.size), missing, side="right")).tolist()
    return first


def _plain(value: object) -> object:
    return value.item() if hasattr(value, "item") else value
