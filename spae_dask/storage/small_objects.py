"""A folder of small objects, each whole or absent: on a disk by write and rename, on an object store as it is."""

import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from spae_dask.errors import InvalidInput, StorageError
from spae_dask.storage.address import WRITABLE, is_remote, parse_address
from spae_dask.storage.publish import local_path
from spae_dask.storage.remote_store import RemoteStore, open_remote

WORK = ".partial-"


class SmallObjects(Protocol):
    """Bytes by name; names are plain, without slashes. It pickles, without secrets."""

    def put(self, name: str, content: bytes) -> None:
        """Store it whole, in place of what was there under that name."""
        ...

    def get(self, name: str) -> bytes | None:
        """What was stored, or None."""
        ...

    def list(self) -> tuple[str, ...]:
        """All names, sorted."""
        ...

    def delete(self, name: str) -> None:
        """Remove it; it may be absent."""
        ...


@dataclass(frozen=True)
class LocalObjects:
    """Files of a directory, which is made with the first."""

    folder: Path

    def put(self, name: str, content: bytes) -> None:
        """Write under another name, then rename."""
        path = self._path(name)
        work = path.with_name(f".{path.name}{WORK}{secrets.token_hex(4)}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            work.write_bytes(content)
            work.replace(path)
        except OSError as error:
            with suppress(OSError):
                work.unlink()
            raise _failed(path, "written", error) from error

    def get(self, name: str) -> bytes | None:
        """The file's content."""
        path = self._path(name)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed(path, "read", error) from error

    def list(self) -> tuple[str, ...]:
        """Names of the files, without what a killed writer left."""
        try:
            names = [each.name for each in self.folder.iterdir() if each.is_file()]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise _failed(self.folder, "listed", error) from error
        return tuple(sorted(name for name in names if not (name.startswith(".") and WORK in name)))

    def delete(self, name: str) -> None:
        """Remove the file."""
        path = self._path(name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _failed(path, "deleted", error) from error

    def _path(self, name: str) -> Path:
        return self.folder / _plain(name)


@dataclass(frozen=True)
class RemoteObjects:
    """Objects below an address; a service stores each whole, or not at all."""

    store: RemoteStore

    def put(self, name: str, content: bytes) -> None:
        """Store an object."""
        sync(self.store.set(_plain(name), default_buffer_prototype().buffer.from_bytes(content)))

    def get(self, name: str) -> bytes | None:
        """The object's content."""
        found = sync(self.store.get(_plain(name), default_buffer_prototype()))
        return None if found is None else found.to_bytes()

    def list(self) -> tuple[str, ...]:
        """Names of the objects."""
        return tuple(sorted(sync(_names(self.store))))

    def delete(self, name: str) -> None:
        """Remove the object."""
        sync(self.store.delete(_plain(name)))


def open_objects(place: str | Path) -> SmallObjects:
    """The folder at a local path or a URL of s3 or gs.

    Raises
    ------
    InvalidInput
        If it is a URL of another kind.
    """
    if not is_remote(place):
        return LocalObjects(local_path(place))
    address = parse_address(str(place))
    if address.scheme not in WRITABLE:
        raise InvalidInput(f"{address} cannot be written: give a local path, or a URL of s3:// or gs://.")
    return RemoteObjects(open_remote(address, read_only=False))


def _plain(name: str) -> str:
    assert re.fullmatch(r"\w[\w.=-]*", name), f"{name!r} is no plain name; please report this"
    return name


def _failed(path: Path, done: str, error: OSError) -> StorageError:
    return StorageError(f"{path} could not be {done} ({error.strerror or error}). Check the disk and your permissions.")


async def _names(store: RemoteStore) -> list[str]:
    return [name async for name in store.list_dir("")]
