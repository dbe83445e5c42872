"""Repositories of Icechunk by address: ``icechunk://`` before a path or URL, and perhaps the version after it.

The version is looked up once, where the address is opened. What travels to workers and into records is the address of
its snapshot, which never changes.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zarr.abc.store import Store
from zarr.storage import WrapperStore

from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.plain_files import beside
from spae_dask.storage.remote.address import VERSIONED, is_remote, parse_address, redacted, refuse_secrets
from spae_dask.storage.remote.object_clients import resolved

FORMS = f"{VERSIONED}PATH, or {VERSIONED}s3://BUCKET/NAME, with ?branch=NAME, ?tag=NAME or ?snapshot=ID after it"

KINDS = ("branch", "tag", "snapshot")


@dataclass(frozen=True)
class IcechunkAddress:
    """A repository and a version of it.

    Attributes
    ----------
    where : str
        Absolute path, or URL of an object store.
    kind, version : str
        One of `KINDS`, and its name or id.
    """

    where: str
    kind: str
    version: str

    def __str__(self) -> str:
        return f"{VERSIONED}{self.where}?{self.kind}={self.version}"


class SnapshotStore(WrapperStore[Store]):
    """A snapshot of a repository, read only. Pickled, it is its address, so each process has its own credentials.

    Parameters
    ----------
    address : IcechunkAddress
        Address of the snapshot.
    store : zarr.abc.store.Store
        Icechunk's store of it.
    """

    def __init__(self, address: IcechunkAddress, store: Store) -> None:
        super().__init__(store)
        self.place = str(address)
        self._address = address

    def __reduce__(self) -> tuple[Any, ...]:
        return open_snapshot, (self._address,)

    def _with_store(self, store: Store) -> "SnapshotStore":
        return SnapshotStore(self._address, store)

    def __str__(self) -> str:
        return self.place


def is_icechunk(text: str) -> bool:
    """Return True if it is the address of a repository of Icechunk."""
    return text.startswith(VERSIONED)


def parse_icechunk(text: str) -> IcechunkAddress:
    """The address in a text; nothing is opened.

    Raises
    ------
    InvalidInput
        If it is none.
    """
    where, mark, query = text.removeprefix(VERSIONED).partition("?")
    kind, _, version = query.partition("=") if mark else ("branch", "", "main")
    if not where or kind not in KINDS or not re.fullmatch(r"[^\s?#&=]+", version):
        raise InvalidInput(f"{redacted(text)} is not the address of an Icechunk repository. Give {FORMS}.")
    where = where.removeprefix("file://")
    if "://" not in where:
        return IcechunkAddress(os.path.realpath(where), kind, version)
    refuse_secrets(where)
    if not is_remote(where) or parse_address(where).scheme not in ("s3", "gs"):
        raise InvalidInput(f"{redacted(text)} is on a store that is not supported. Give {FORMS}.")
    return IcechunkAddress(where.rstrip("/"), kind, version)


def pinned(address: IcechunkAddress) -> IcechunkAddress:
    """The address of the snapshot that a branch or a tag names now.

    Raises
    ------
    NotFound
        If there is no such repository, branch, tag or snapshot.
    InvalidInput
        If Icechunk is not installed.
    StorageError
        If the repository cannot be read.
    """
    if address.kind == "snapshot":
        return address
    repository = _repository(address)
    there = sorted(repository.list_branches() if address.kind == "branch" else repository.list_tags())
    if address.version not in there:
        raise NotFound(
            f"{address.where} has no {address.kind} {address.version!r}. It has {', '.join(there) or 'none'}. "
            "Give one of these, or ?snapshot=ID."
        )
    look_up = repository.lookup_branch if address.kind == "branch" else repository.lookup_tag
    return replace(address, kind="snapshot", version=str(look_up(address.version)))


def open_snapshot(address: IcechunkAddress) -> SnapshotStore:
    """The store of a snapshot.

    Raises
    ------
    NotFound, InvalidInput, StorageError
        As `pinned`.
    """
    try:
        session = _repository(address).readonly_session(snapshot_id=address.version)
    except _error() as error:
        raise NotFound(
            f"{address.where} has no snapshot {address.version!r} that can be read ({_short(error)}). List its "
            "snapshots with Icechunk: repository.ancestry(branch='main')."
        ) from error
    return SnapshotStore(address, session.store)


def _repository(address: IcechunkAddress) -> Any:
    icechunk = _icechunk()
    local = "://" not in address.where
    if local and not Path(address.where).is_dir():  # Icechunk would make the folder
        raise NotFound(
            f"there is nothing at {address.where}.{beside(address.where)} Give the folder of an Icechunk repository."
        )
    try:
        if local:
            storage = icechunk.local_filesystem_storage(address.where)
        else:
            storage = _object_storage(icechunk, address.where)
        if not icechunk.Repository.exists(storage):
            raise NotFound(f"{address.where} is not an Icechunk repository. Give {FORMS}.")
        return icechunk.Repository.open(storage)
    except icechunk.IcechunkError as error:
        raise StorageError(
            f"the Icechunk repository {address.where} cannot be opened ({_short(error)}). Check the address, and your "
            "permissions."
        ) from error


def _object_storage(icechunk: Any, url: str) -> Any:
    address = resolved(parse_address(url))
    bucket, prefix = address.host, address.key
    access: dict[str, Any] = {"anonymous": True} if address.anon else {"from_env": True}
    if address.scheme == "gs":
        return icechunk.gcs_storage(bucket=bucket, prefix=prefix, **access)
    endpoint = address.endpoint_url
    return icechunk.s3_storage(
        bucket=bucket,
        prefix=prefix,
        region=address.region,
        endpoint_url=endpoint,
        allow_http=(endpoint or "").startswith("http://"),
        force_path_style=endpoint is not None,
        **access,
    )


def _icechunk() -> Any:
    try:
        import icechunk
    except ImportError as error:
        raise InvalidInput(
            f"{VERSIONED} needs a library that is not installed ({error}). Install it: "
            '`pip install "spae-dask[icechunk]"`.'
        ) from error
    if "ICECHUNK_LOG" not in os.environ:
        icechunk.set_logs_filter("error")  # warnings about commits would go to stdout
    return icechunk


def _error() -> type[Exception]:
    error: type[Exception] = _icechunk().IcechunkError
    return error


def _short(error: Exception) -> str:
    """The first line of Icechunk's message, without its mark."""
    return next((line.strip(" x") for line in str(error).splitlines() if line.strip(" x")), type(error).__name__)
