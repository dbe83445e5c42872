"""Requests of object stores beyond those of Zarr's stores: uploads in parts, and listings with sizes and times."""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from zarr.abc.store import Store
from zarr.storage import ObjectStore


@dataclass(frozen=True)
class StoredFile:
    """A file or an object.

    Attributes
    ----------
    path : str
        Path below the listed prefix.
    nbytes : int
        Its size.
    time : float
        Time at which it was written, in seconds since 1970.
    tag : str
        Changes whenever the object is written again: the ETag of an object store, size and time of a file.
    """

    path: str
    nbytes: int
    time: float
    tag: str = ""


PART_NBYTES = 16 << 20
"""Bytes of a part of an uploaded object. S3 takes 10,000 parts."""

LISTED_AT_ONCE = 1000
"""Objects that S3 lists by one request."""

N_PARTS_AT_ONCE = 4
"""Parts of one object that are held and sent at once."""


async def upload(client: Store, key: str, pieces: Iterable[bytes | memoryview]) -> None:
    """Put an object in parts; it appears when the last one is there. Parts of one that fails are taken back."""
    import obstore

    await obstore.put_async(
        _client(client),
        key,
        _cut(pieces),
        use_multipart=True,
        chunk_size=PART_NBYTES,
        max_concurrency=N_PARTS_AT_ONCE,
    )


async def objects_below(client: Store, prefix: str) -> AsyncIterator[StoredFile]:
    """All objects below a prefix, however deep, as they are listed."""
    import obstore

    async for listed in obstore.list(_client(client), prefix or None, chunk_size=LISTED_AT_ONCE):
        for each in _files(listed):
            yield each


async def names_below(client: Store, prefix: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names directly below a prefix: those that have others below them, and those of objects."""
    import obstore

    found = await obstore.list_with_delimiter_async(_client(client), prefix or None)
    both = found["common_prefixes"], (each.path for each in _files(found["objects"]))
    folders, files = (tuple(sorted(path.rpartition("/")[2] for path in paths)) for paths in both)
    return folders, files


def _client(client: Store) -> Any:
    assert isinstance(client, ObjectStore), "only object stores are asked for this; please report this"
    return client.store


def _files(listed: Iterable[Any]) -> Iterator[StoredFile]:
    for each in listed:
        name = each["path"].rpartition("/")[2]
        # consoles make empty objects for folders; their names have no slash at the end
        if each["size"] or "." in name:
            tag = each["e_tag"] or ""
            yield StoredFile(each["path"], int(each["size"]), each["last_modified"].timestamp(), tag)


def _cut(pieces: Iterable[bytes | memoryview]) -> Iterator[memoryview]:
    """The same bytes in pieces of no more than a part, so that sending keeps pace with cutting; nothing is copied."""
    for piece in pieces:
        whole = memoryview(piece)
        for start in range(0, len(whole), PART_NBYTES):
            yield whole[start : start + PART_NBYTES]
