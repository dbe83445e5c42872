"""Stores of Zarr that Zarr itself does not open by their address: zipped ones, references, snapshots of Icechunk."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zarr
from zarr.storage import FsspecStore, ZipStore

from spae_dask.storage.checks import refuse_odd_archive
from spae_dask.storage.remote.address import is_remote, parse_address
from spae_dask.storage.remote.icechunk_address import is_icechunk, open_snapshot, parse_icechunk, pinned
from spae_dask.storage.remote.remote_store import open_remote

ZIPPED, REFERENCES = ".zip", ".json"


def store_at(where: Any) -> Any:
    """The store at a path or URL, if Zarr does not open that by itself; else what was given.

    Raises
    ------
    NotFound, InvalidInput, StorageError
        If an Icechunk repository or the snapshot cannot be opened, or the metadata of a zip file are too large. Other
        errors of zip files, and those of references, are of their libraries.
    """
    if not isinstance(where, str):
        return where
    if is_icechunk(where):
        return open_snapshot(pinned(parse_icechunk(where)))
    if where.endswith(ZIPPED) and "://" not in where:
        refuse_odd_archive(Path(where))
        return ZipStore(where, mode="r", read_only=True)
    if where.endswith(REFERENCES) and "://" not in where:
        return FsspecStore.from_url("reference://", storage_options={"fo": where}, read_only=True)
    return where


def root_at(path: str, options: Mapping[str, Any] | None = None) -> Any:
    """The array or group at a path or URL, to look beside a matrix that was opened there; None if it is no store.

    Parameters
    ----------
    path : str
        A path, or a URL of any kind that Zarr data are read from.
    options : mapping, optional
        Access to a URL.
    """
    store: Any = open_remote(parse_address(path, options)) if is_remote(path) else path
    if "://" not in path:
        where = Path(path).resolve()
        if not (where.is_dir() or where.suffix in (ZIPPED, REFERENCES)):
            return None
        store = str(where)
    try:
        return zarr.open(store_at(store), mode="r")
    except FileNotFoundError:
        return None
