"""Zarr arrays whose chunks were counted: one that was stored then, and is not for a process that reads it, is an error.

A chunk that is not stored reads as the fill value. The process that begins a run counts them; but others read, by their
own mounts and copies of the data, and files get lost while a run goes on. So the array that they are sent knows which
chunks were stored. The store says with each chunk that is read whether it is there: nothing more is asked of it.
"""

import math
import os
import re
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ObjectStore, StorePath, WrapperStore

from spae_dask.blocks import RowBlocks
from spae_dask.errors import StorageError
from spae_dask.storage.remote.faults import not_seen, reader
from spae_dask.storage.sources.listings import icechunk_session

ZarrArray: TypeAlias = "zarr.Array[Any]"

ArrayChange: TypeAlias = Callable[[ZarrArray], ZarrArray]
"""From an array to the one that is read in its place."""

METADATA_KEYS = ("zarr.json", ".zarray")


@runtime_checkable
class ReadsZarr(Protocol):
    """A source that may read arrays of Zarr."""

    def with_arrays(self, change: ArrayChange) -> RowBlocks:
        """The same source with each of them changed."""
        ...


class CheckedStore(WrapperStore[Store]):
    """A store that refuses to be without chunks of an array that were stored when they were counted.

    Parameters
    ----------
    store : Store
        Store that holds the array.
    path : str
        Path of the array in the store.
    grid : tuple of int
        Stored objects (chunks, or shards) along each dimension.
    absent : bytes
        A bit for each of them, in row-major order, set if it was not stored; empty if all were.
    """

    def __init__(self, store: Store, path: str, grid: tuple[int, ...], absent: bytes) -> None:
        super().__init__(store)
        self.path = path
        self.grid = grid
        self.absent = absent

    @property
    def inner(self) -> Store:
        """The store itself."""
        return self._store

    def _with_store(self, store: Store) -> "CheckedStore":
        return type(self)(store, self.path, self.grid, self.absent)

    def __str__(self) -> str:
        return str(self._store)

    def __repr__(self) -> str:
        return repr(self._store)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return the value stored under ``key``.

        Raises
        ------
        StorageError
            If it is a chunk that was stored, and is not now, or is empty.
        """
        found = await self._store.get(key, prototype, byte_range)
        # a file that a full disk left empty is, to Zarr, a shard that is not stored
        if (found is None or not len(found)) and self._was_stored(key):
            raise StorageError(await self._lost(key))
        return found

    def _was_stored(self, key: str) -> bool:
        coordinates = coordinates_of(key.removeprefix(self._prefix), len(self.grid))
        if len(coordinates) < len(self.grid) or any(np.greater_equal(coordinates, self.grid)):
            return False
        if not self.absent:
            return True
        number = int(np.ravel_multi_index(coordinates, self.grid))
        return not self.absent[number >> 3] & 128 >> (number & 7)

    @property
    def _prefix(self) -> str:
        return prefix_of(self.path)

    async def _lost(self, key: str) -> str:
        where = _place(self._store, self.path)
        for name in METADATA_KEYS:
            if await self._store.exists(f"{self._prefix}{name}"):
                return (
                    f"chunk {key.removeprefix(self._prefix)!r} of {where} was stored when this run began, but for "
                    f"{reader()} it is missing or empty. It would be read as the fill value. Give data at a path, or "
                    "a URL, where all workers see the same files, not older copies. If the chunk was lost, restore "
                    "it."
                )
        return not_seen(where)


def store_of(array: ZarrArray) -> Store:
    """The store of an array, whether or not its chunks were counted."""
    store = array.store
    return store.inner if isinstance(store, CheckedStore) else store


def base_of(array: ZarrArray) -> Store:
    """The store of an array beneath all that wrap it, as logging does."""
    store: Store = array.store
    while isinstance(store, WrapperStore):
        store = store._store
    return store


def is_in_process(array: ZarrArray) -> bool:
    """Return True if the store of an array is in the memory of this process."""
    store = base_of(array)
    if isinstance(store, ObjectStore):
        return type(store.store).__name__ == "MemoryStore"
    return isinstance(store, MemoryStore) or place_of(array).startswith("memory://")


def place_of(array: ZarrArray) -> str:
    """Path or URL of an array."""
    return _place(array.store, array.path)


def _place(store: Store, path: str) -> str:
    while isinstance(store, WrapperStore) and not hasattr(store, "place"):
        store = store._store
    session = icechunk_session(store)
    if session is not None:
        base = f"the Icechunk snapshot {session.snapshot_id}"
    elif isinstance(store, FsspecStore):
        listed = store.fs.storage_options.get("fo") if hasattr(store.fs, "references") else None
        base = listed if isinstance(listed, str) else store.fs.unstrip_protocol(store.path)
    else:
        told = str(store)
        base = told if "://" in told else type(store).__name__  # an address in memory would change with the process
    return f"{base}/{path}".rstrip("/").removeprefix("file://")


def grid_of(array: ZarrArray) -> tuple[int, ...]:
    """Stored objects, shards if there are shards, else chunks, along each dimension if all are stored."""
    lengths = array.shards or array.chunks
    return tuple(-(-size // length) for size, length in zip(array.shape, lengths, strict=True))


def coordinates_of(key: str, n_dimensions: int) -> tuple[int, ...]:
    """Return the place in the grid of the object under ``key``. All of Zarr's key encodings end with its numbers."""
    return tuple(int(number) for number in re.findall(r"\d+", key)[-n_dimensions:])


def key_of(array: ZarrArray, number: int) -> str:
    """Key, below its array, of the object of a number: its place in the grid in row-major order."""
    return str(array.metadata.encode_chunk_key(tuple(int(each) for each in np.unravel_index(number, grid_of(array)))))


def prefix_of(path: str) -> str:
    """Return the prefix of all keys of the array at a path of a store."""
    return f"{path}/" if path else ""


def with_checked_store(array: ZarrArray, stored: npt.NDArray[np.int64]) -> ZarrArray:
    """The array, reading which ends with an error where an object is missed that was stored.

    Parameters
    ----------
    array : zarr.Array
        Array of one or more dimensions.
    stored : ndarray of int64
        Ascending numbers, in row-major order, of the objects of the grid that are stored.

    Returns
    -------
    zarr.Array
        Array that raises the error. Its pickle is larger only if an object was not stored, by a little for each object.
        The array itself is returned if its chunks are named in a way that is not Zarr's own.
    """
    grid = grid_of(array)
    last = tuple(length - 1 for length in grid)
    if coordinates_of(array.metadata.encode_chunk_key(last), len(grid)) != last:
        return array
    n_expected, absent = math.prod(grid), b""
    if stored.size < n_expected:
        bits = np.full(-(-n_expected // 8), 255, dtype=np.uint8)
        np.bitwise_and.at(bits, stored >> 3, ~(128 >> (stored & 7)).astype(np.uint8))
        absent = bits.tobytes()
    store = CheckedStore(store_of(array), array.path, grid, absent)
    same = copy(array._async_array)  # a copy, because the arguments of its constructor depend on the release of Zarr
    object.__setattr__(same, "store_path", StorePath(store, array.path))
    return zarr.Array(same)


if TYPE_CHECKING:
    from spae_dask.storage.sources.h5_arrays import H5Array

    StoredArray: TypeAlias = "zarr.Array[Any] | H5Array"

_SEEN: set[tuple[int, str, str]] = set()
"""Process, store and path of arrays on object stores that were there, which do not go away as a mount does."""


def refuse_invisible(array: "StoredArray") -> None:
    """Make sure that an array that was just read is there: of local files each time, elsewhere once a process.

    Raises
    ------
    StorageError
        If its metadata are not there.
    """
    if not isinstance(array, zarr.Array) or is_in_process(array):
        return
    store = base_of(array)
    if isinstance(store, LocalStore):
        folder = Path(store.root) / array.path
        if not any((folder / key).exists() for key in METADATA_KEYS):
            raise StorageError(not_seen(str(folder)))
        return
    known = os.getpid(), str(store), array.path
    if known in _SEEN:
        return
    prefix = prefix_of(array.path)
    # not all stores can tell if a key exists without reading it
    if all(sync(store.get(f"{prefix}{key}", default_buffer_prototype())) is None for key in METADATA_KEYS):
        raise StorageError(not_seen(place_of(array)))
    _SEEN.add(known)
