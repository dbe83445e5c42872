"""Data that are not where the process that reads them looks: to Zarr they would be chunks that were never written.

A chunk that is not stored reads as the fill value. So a worker without access to the folder of an array, or to its
mount, would read zeros in place of the data, without an error.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import zarr
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore

from spae_dask.errors import StorageError
from spae_dask.storage.remote.passing import not_seen
from spae_dask.storage.sources.counted import METADATA_KEYS, prefix_of, store_of

if TYPE_CHECKING:
    from spae_dask.storage.sources.h5_arrays import H5Array

    StoredArray: TypeAlias = "zarr.Array[Any] | H5Array"

_SEEN: set[tuple[int, str, str]] = set()
"""Process, store and path of arrays on object stores that were there, which do not go away as a mount does."""


def refuse_unseen(array: "StoredArray") -> None:
    """Make sure that an array that was just read is there: of local files each time, elsewhere once a process.

    Raises
    ------
    StorageError
        If its metadata are not there.
    """
    if not isinstance(array, zarr.Array) or isinstance(store := store_of(array), MemoryStore):
        return
    if isinstance(store, LocalStore):
        folder = Path(store.root) / array.path
        if not any((folder / key).exists() for key in METADATA_KEYS):
            raise StorageError(not_seen(str(folder)))
        return
    known = os.getpid(), str(store), array.path
    if known in _SEEN:
        return
    prefix = prefix_of(array.path)
    if not any(sync(store.exists(f"{prefix}{key}")) for key in METADATA_KEYS):
        raise StorageError(not_seen(f"{store}/{array.path}".rstrip("/")))
    _SEEN.add(known)
