"""Keys of a Zarr store with all that it tells of them, so that a change is noticed: size and time, an ETag, a snapshot.

References (kerchunk) are known by what they refer to: the bytes themselves, or part of a file and that file's size and
time. A snapshot of Icechunk does not change, so its id stands for all its chunks. Files on this machine that its
virtual chunks refer to may change, so their sizes and times are added.
"""

import hashlib
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from typing import Any

from zarr.abc.store import Store
from zarr.core.common import concurrent_map
from zarr.core.config import config
from zarr.storage import FsspecStore, ObjectStore, ZipStore

from spae_dask.storage.remote.object_requests import StoredFile, objects_below

UNKNOWN = StoredFile("", 1, 0.0)
"""Description of an object whose store reports neither size nor time."""

MARKS = ("ETag", "etag", "generation", "md5Hash", "LastModified", "last_modified", "updated", "mtime", "CRC", "created")
"""Keys that file systems of fsspec change when a file is written again. The first one that exists counts."""


async def listed_below(store: Store, prefix: str) -> AsyncIterator[StoredFile]:
    """All keys below a prefix of a store that wraps no other.

    Raises
    ------
    NotImplementedError
        If the store cannot be listed.
    """
    if isinstance(store, ObjectStore):
        async for each in objects_below(store, prefix):
            yield each
    elif isinstance(store, FsspecStore):
        listed = _references if hasattr(store.fs, "references") else _files
        for each in await listed(store, prefix):
            yield each
    else:
        known = await _all_alike(store)
        async for key in store.list_prefix(prefix):
            yield replace(known, path=key)


def stored_file(path: str, name: str) -> StoredFile | None:
    """A file on a disk, under a name; None if there is none."""
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    return StoredFile(name, stat.st_size, stat.st_mtime, f"{stat.st_size} {stat.st_mtime_ns}")


def icechunk_session(store: Store) -> Any:
    """The session of a store of Icechunk; None for other stores. Nothing is imported to find out."""
    module = sys.modules.get("icechunk")
    return store.session if module is not None and isinstance(store, module.IcechunkStore) else None


async def _all_alike(store: Store) -> StoredFile:
    """Description that fits each object of a store which tells nothing of single ones."""
    if isinstance(store, ZipStore):
        return stored_file(str(store.path), "") or UNKNOWN
    session = icechunk_session(store)
    if session is None:
        return UNKNOWN
    told = [session.snapshot_id]
    if session.has_uncommitted_changes:
        told.append(repr(session.status()))
    if session.config.virtual_chunk_containers:
        places = sorted(set(await session.all_virtual_chunk_locations_async()))
        files = (stored_file(each.removeprefix("file://"), each) for each in places if each.startswith("file://"))
        told += [each.tag for each in files if each is not None]
    return replace(UNKNOWN, tag=" ".join(told))


async def _files(store: FsspecStore, prefix: str) -> list[StoredFile]:
    root = f"{store.path.rstrip('/')}/"
    _forget_listings(store.fs)
    found = await store.fs._find(f"{root}{prefix}", detail=True)
    return [StoredFile(path.removeprefix(root), _size(info), 0.0, _tag(info)) for path, info in found.items()]


async def _references(store: FsspecStore, prefix: str) -> list[StoredFile]:
    root = f"{store.path.strip('/')}/".lstrip("/")
    wanted = (key for key in store.fs.references if key.startswith(f"{root}{prefix}"))
    found = [(key, ref) for key in wanted if (ref := store.fs.references.get(key)) is not None]
    files = await _tags_of(store.fs, {ref[0] for _, ref in found if isinstance(ref, list | tuple)})
    described = []
    for key, ref in found:
        if isinstance(ref, list | tuple):
            tag, nbytes = repr((*ref, files[ref[0]])), ref[2] if len(ref) > 1 else 1
        else:  # the bytes themselves
            raw = ref.encode() if isinstance(ref, str) else bytes(ref)
            tag, nbytes = hashlib.sha256(raw).hexdigest(), len(raw)
        described.append(StoredFile(key.removeprefix(root), nbytes, 0.0, tag))
    return described


async def _tags_of(fs: Any, urls: Iterable[str | None]) -> dict[str | None, str]:
    """Marks of the files that references are to."""
    for system in fs.fss.values():
        _forget_listings(system)

    async def tag(url: str | None) -> tuple[str | None, str]:
        place = url or fs.target
        scheme, mark, _ = place.partition("://")
        try:
            return url, _tag(await fs.fss[scheme if mark else None]._info(place))
        except FileNotFoundError:
            return url, "gone"

    return dict(await concurrent_map([(url,) for url in urls], tag, limit=int(config.get("async.concurrency") or 1)))


def _forget_listings(fs: Any) -> None:
    getattr(fs, "sync_fs", fs).invalidate_cache()


def _size(info: Mapping[str, Any]) -> int:
    size = info.get("size")
    return 1 if size is None else int(size)


def _tag(info: Mapping[str, Any]) -> str:
    mark = next((info[name] for name in MARKS if info.get(name) is not None), "")
    return f"{info.get('size')} {mark}"
