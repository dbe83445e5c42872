"""Which chunks of a Zarr array are stored.

A chunk that is not there reads as the fill value: legitimate when a writer skipped an all-zero chunk, a disaster when
a file was lost. Nobody but the owner of the data can tell the two apart, so they are counted and named.
"""

from dataclasses import dataclass
from pathlib import Path

from zarr.core.sync import sync
from zarr.storage import LocalStore

from spae_dask.blocks import RowBlocks
from spae_dask.storage.zarr_blocks import ZarrArray, ZarrBlocks

N_NAMED = 5

METADATA_KEYS = ("zarr.json", ".zarray")


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
    array = source.array
    if not array.store.supports_listing:
        return None
    stored = sync(_list_keys(array))
    if array.shards is not None and isinstance(array.store, LocalStore):
        stored -= _empty_files(array.store.root / array.path, stored)
    if not stored.intersection(METADATA_KEYS):
        return None  # a plain web server says it lists, and gives nothing: not even the metadata just read
    n_expected = n_missing = 0
    first: list[str] = []
    for _, key in source.stored_keys():
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
    """Census of the array behind ``source``; ``None`` if it is not a Zarr array or cannot be listed."""
    return take_census(source) if isinstance(source, ZarrBlocks) else None
