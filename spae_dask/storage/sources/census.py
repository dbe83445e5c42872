"""Which chunks of a Zarr array are stored.

A chunk that is not there reads as the fill value: legitimate when a writer skipped an all-zero chunk, a disaster when
a file was lost. Nobody but the owner of the data can tell the two apart, so they are counted and named.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import zarr
from zarr.core.sync import sync
from zarr.storage import LocalStore

from spae_dask.blocks import RowBlocks
from spae_dask.storage.sources.csr_blocks import CsrBlocks
from spae_dask.storage.sources.sentinel import SentinelBlocks
from spae_dask.storage.sources.submatrix import Submatrix
from spae_dask.storage.sources.unseen import METADATA_KEYS
from spae_dask.storage.sources.zarr_blocks import ZarrArray, ZarrBlocks

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


def take_census(source: ZarrBlocks) -> ChunkCensus | None:
    """Count the stored objects of an array by listing its store once; ``None`` if the store cannot be listed."""
    return _census_of(source.array, (key for _, key in source.stored_keys()))


def census_of_csr(source: CsrBlocks) -> ChunkCensus | None:
    """The same for the three arrays of a CSR matrix together; ``None`` outside Zarr, where no chunk can get lost."""
    found = {}
    for name, array in source.arrays.items():
        if not isinstance(array, zarr.Array):
            return None
        length = (array.shards or array.chunks)[0]
        numbers = range(-(-array.shape[0] // length))
        census = _census_of(array, (array.metadata.encode_chunk_key((number,)) for number in numbers))
        if census is None:
            return None
        found[name] = census
    first = [f"{name}/{key}" for name, census in found.items() for key in census.first_missing]
    return ChunkCensus(
        sum(census.n_expected for census in found.values()),
        sum(census.n_missing for census in found.values()),
        tuple(first[:N_NAMED]),
        next((census.fill_value for census in found.values() if census.n_missing), 0),
    )


def _census_of(array: ZarrArray, keys: Iterable[str]) -> ChunkCensus | None:
    if not array.store.supports_listing:
        return None
    stored = sync(_list_keys(array))
    if array.shards is not None and isinstance(array.store, LocalStore):
        stored -= _empty_files(array.store.root / array.path, stored)
    if not stored.intersection(METADATA_KEYS):
        return None  # a plain web server says it lists, and gives nothing: not even the metadata just read
    n_expected = n_missing = 0
    first: list[str] = []
    for key in keys:
        n_expected += 1
        if key not in stored:
            n_missing += 1
            if len(first) < N_NAMED:
                first.append(key)
    return ChunkCensus(n_expected, n_missing, tuple(first), _plain(array.fill_value))


def _plain(value: object) -> object:
    return value.item() if hasattr(value, "item") else value


def _empty_files(folder: Path, keys: set[str]) -> set[str]:
    """Keys whose file is empty, as a full disk or a crash leaves it: Zarr reads an empty shard as one not stored."""
    return {key for key in keys if (folder / key).stat().st_size == 0}


async def _list_keys(array: ZarrArray) -> set[str]:
    prefix = f"{array.path}/" if array.path else ""
    return {key.removeprefix(prefix) async for key in array.store.list_prefix(prefix)}


def missing_chunks(source: RowBlocks) -> ChunkCensus | None:
    """Census of the arrays behind ``source``; ``None`` if they are not in a Zarr store or cannot be listed."""
    while isinstance(source, SentinelBlocks | Submatrix):
        source = source.source
    if isinstance(source, CsrBlocks):
        return census_of_csr(source)
    return take_census(source) if isinstance(source, ZarrBlocks) else None
