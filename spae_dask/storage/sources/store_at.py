"""Stores of Zarr that Zarr itself does not open by their address: zipped ones, references, snapshots of Icechunk."""

from typing import Any

from zarr.storage import FsspecStore, ZipStore

from spae_dask.storage.remote.icechunk_address import is_icechunk, open_snapshot, parse_icechunk, pinned

ZIPPED, REFERENCES = ".zip", ".json"


def store_at(where: Any) -> Any:
    """The store at a path or URL, if Zarr does not open that by itself; else what was given.

    Raises
    ------
    NotFound, InvalidInput, StorageError
        If an Icechunk repository or the snapshot cannot be opened. Errors of zip files and of references are those of
        their libraries.
    """
    if not isinstance(where, str):
        return where
    if is_icechunk(where):
        return open_snapshot(pinned(parse_icechunk(where)))
    if where.endswith(ZIPPED) and "://" not in where:
        return ZipStore(where, mode="r", read_only=True)
    if where.endswith(REFERENCES) and "://" not in where:
        return FsspecStore.from_url("reference://", storage_options={"fo": where}, read_only=True)
    return where
