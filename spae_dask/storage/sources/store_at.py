"""Stores of Zarr that Zarr itself does not open by their address: zipped ones, references, snapshots of Icechunk."""

from pathlib import Path
from typing import Any

from zarr.storage import FsspecStore, ZipStore

from spae_dask.storage.checks import refuse_odd_archive
from spae_dask.storage.remote.icechunk_address import is_icechunk, open_snapshot, parse_icechunk, pinned

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
