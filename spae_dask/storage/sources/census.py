"""Which chunks of a Zarr array are stored.

A chunk that is not there reads as the fill value: legitimate when a writer skipped an all-zero chunk, a disaster when
a file was lost. Nobody but the owner of the data can tell the two apart, so they are counted and named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from zarr.core.sync import sync
from zarr.storage import LocalStore

from spae_dask.blocks import RowBlocks
from spae_dask.storage.sources.counted import METADATA_KEYS, ReadsZarr, ZarrArray, grid_of, store_of, with_counted
from spae_dask.storage.sources.csr_blocks import CsrBlocks
from spae_dask.storage.sources.sentinel import SentinelBlocks
from spae_dask.storage.sources.submatrix import Submatrix
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks

N_NAMED = 5


@dataclass(frozen=True)
class ChunkCensus:
    """Stored objects (chunks, or shards) of an array.

    Attributes
    ----------
    n_expected, n_missing : int
        Objects a full array has, and how many of them are absent.
    first_missing : tuple of str
        Keys of the first few absent ones.
    fill_value : object
        What they read as.
    """

    n_expected: int
    n_missing: int
    first_missing: tuple[str, ...]
    fill_value: object

    def describe(self) -> str:
        """One line for people."""
        if not self.n_missing:
            return f"all {self.n_expected} chunks are stored"
        named = ", ".join(self.first_missing) + (", ..." if self.n_missing > len(self.first_missing) else "")
        missing = f"{self.n_missing} of {self.n_expected} chunks are not stored"
        return f"{missing} and read as {self.fill_value!r} (first: {named})"


@dataclass(frozen=True)
class _Count:
    """An array that knows which of its chunks were stored, and how many were."""

    array: ZarrArray
    census: ChunkCensus


def take_census(array: ZarrArray) -> ChunkCensus | None:
    """Count the stored objects of an array by listing its store once; ``None`` if the store cannot be listed."""
    count = _count(array)
    return None if count is None else count.census


def count_chunks(source: RowBlocks) -> tuple[RowBlocks, ChunkCensus | None]:
    """Count the chunks behind a source, and have it read by that.

    Returns
    -------
    RowBlocks
        The source. Reading it, here or in another process, ends with a ``StorageError`` where a chunk is missed that
        was stored; so it does for Zarr arrays beneath a dask array or an xarray variable.
    ChunkCensus or None
        Of the source's own arrays; None if it is not in a Zarr store, or that cannot be listed.
    """
    if not isinstance(source, ReadsZarr):
        return source, None
    own = isinstance(_beneath(source), ZarrBlocks | CsrBlocks)
    counts: list[_Count | None] = []

    def counted(array: ZarrArray) -> ZarrArray:
        try:
            count = _count(array)
        except Exception:
            if own:
                raise
            count = None  # what lies beneath a graph is counted where it can be
        counts.append(count)
        return array if count is None else count.array

    same = source.with_arrays(counted)
    found = [count for count in counts if count is not None]
    return same, _together(found) if own and found and len(found) == len(counts) else None


def _beneath(source: RowBlocks) -> RowBlocks:
    while isinstance(source, SentinelBlocks | Submatrix):
        source = source.source
    return source


def _together(counts: Sequence[_Count]) -> ChunkCensus:
    """The census of all arrays of a source; of several, which one a chunk is of stands before its key."""
    if len(counts) == 1:
        return counts[0].census
    first = [f"{each.array.basename}/{key}" for each in counts for key in each.census.first_missing]
    return ChunkCensus(
        sum(each.census.n_expected for each in counts),
        sum(each.census.n_missing for each in counts),
        tuple(first[:N_NAMED]),
        next((each.census.fill_value for each in counts if each.census.n_missing), 0),
    )


def _count(array: ZarrArray) -> _Count | None:
    store = store_of(array)
    if not store.supports_listing:
        return None
    keys = sync(_list_keys(array))
    if array.shards is not None and isinstance(store, LocalStore):
        keys -= _empty_files(store.root / array.path, keys)
    if not keys.intersection(METADATA_KEYS):
        return None  # a plain web server says it lists, and gives nothing: not even the metadata just read
    stored = bytearray()
    first: list[str] = []
    for coordinates in product(*map(range, grid_of(array))):
        key = array.metadata.encode_chunk_key(coordinates)
        stored.append(key in keys)
        if not stored[-1] and len(first) < N_NAMED:
            first.append(key)
    census = ChunkCensus(len(stored), stored.count(0), tuple(first), _plain(array.fill_value))
    return _Count(with_counted(array, stored), census)


def _plain(value: object) -> object:
    return value.item() if hasattr(value, "item") else value


def _empty_files(folder: Path, keys: set[str]) -> set[str]:
    """Keys whose file is empty, as a full disk or a crash leaves it: Zarr reads an empty shard as one not stored."""
    return {key for key in keys if (folder / key).stat().st_size == 0}


async def _list_keys(array: ZarrArray) -> set[str]:
    prefix = f"{array.path}/" if array.path else ""
    return {key.removeprefix(prefix) async for key in array.store.list_prefix(prefix)}
