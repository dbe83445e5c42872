"""The files of a checkpoint, in a local folder or under the URL of an object store: each there whole, or not at all."""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from spae_dask.errors import InvalidInput, StorageError
from spae_dask.storage.publish import refuse_long, replace_file

KEPT = " What was stored before is kept: run again, and it goes on from there."

PARTIAL = re.compile(r"\..+\.partial-[0-9a-f]{8}")
"""Files that a process was writing when it was killed."""

SECONDS_OF_WRITING = 3600
"""After which a file that is still partial is nobody's."""

READ_NBYTES = 16 << 20
"""Bytes of one request to an object store."""

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}


@dataclass(frozen=True)
class StoredFile:
    """A file of a checkpoint.

    Attributes
    ----------
    path : str
        Below the checkpoint.
    nbytes : int
        Its size.
    time : float
        When it was written, in seconds since 1970.
    """

    path: str
    nbytes: int
    time: float


@dataclass(frozen=True)
class LocalStates:
    """Files below a local or mounted folder.

    Parameters
    ----------
    root : Path
        Absolute.
    """

    root: Path

    def describe(self) -> str:
        """The path."""
        return str(self.root)

    def make(self, folder: str) -> None:
        """Make sure that a folder is there; the one above it must be."""
        try:
            (self.root / folder).mkdir(exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self.root / folder} cannot be made: {error.strerror}.{KEPT}") from error

    def folders(self) -> list[str]:
        """Names of the folders."""
        return sorted(each.name for each in self._entries("") if each.is_dir())

    def files(self, folder: str) -> list[str]:
        """Names of the files in a folder; ``""`` for the checkpoint's own."""
        return sorted(each.name for each in self._entries(folder) if each.is_file())

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Write a file, in place of what is there."""
        target = self.root / path
        if not target.parent.is_dir():
            raise StorageError(
                f"{target.parent} is not there, so nothing can be stored in it. The folder of a checkpoint must be one "
                "that all workers see under the same path, and must not be removed while a run goes on."
            )
        try:
            replace_file(target, pieces)
        except StorageError as error:
            raise StorageError(f"{error}{KEPT}") from error

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        """Open a file to read."""
        try:
            with (self.root / path).open("rb") as file:
                yield file
        except (FileNotFoundError, NotADirectoryError, StorageError):
            raise
        except OSError as error:
            raise StorageError(f"{self.root / path} cannot be read: {error.strerror}.{KEPT}") from error

    def remove(self, path: str) -> None:
        """Remove a file, or a folder that is empty, if it is there."""
        target = self.root / path
        with suppress(FileNotFoundError):
            try:
                target.rmdir() if target.is_dir() else target.unlink()
            except FileNotFoundError:
                raise
            except OSError as error:
                raise StorageError(f"{target} cannot be removed: {error.strerror}.") from error

    def all_files(self) -> list[StoredFile]:
        """Every file, however deep."""
        found = []
        for path in sorted(self.root.rglob("*")):
            with suppress(FileNotFoundError):
                if path.is_file():
                    stat = path.stat()
                    found.append(StoredFile(path.relative_to(self.root).as_posix(), stat.st_size, stat.st_mtime))
        return found

    def tidy(self) -> None:
        """Remove what killed processes were writing, long ago."""
        for each in self.all_files():
            if PARTIAL.fullmatch(Path(each.path).name) and time.time() - each.time > SECONDS_OF_WRITING:
                self.remove(each.path)

    def _entries(self, folder: str) -> list[Path]:
        try:
            return list((self.root / folder).iterdir())
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise
        except OSError as error:
            raise StorageError(f"{self.root / folder} cannot be listed: {error.strerror}.") from error


@dataclass(frozen=True)
class ObjectStates:
    """Objects under a URL, by fsspec. An object appears when all of it is there; until then it is held in memory.

    Parameters
    ----------
    url : str
        Such as ``s3://bucket/runs/7``.
    """

    url: str

    def describe(self) -> str:
        """The URL."""
        return self.url

    def make(self, folder: str) -> None:
        """Nothing: an object store has no folders."""

    def folders(self) -> list[str]:
        """First parts of the names of objects below others."""
        return sorted({each.path.partition("/")[0] for each in self.all_files() if "/" in each.path})

    def files(self, folder: str) -> list[str]:
        """Names of the objects directly below a folder."""
        parts = (each.path.rpartition("/") for each in self._listed(folder))
        return sorted(name for above, _, name in parts if above == folder)

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Put an object, in place of what is there."""
        with self._explained("written"):
            fs, root = self._fs()
            fs.pipe_file(f"{root}/{path}", b"".join(pieces))

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        """Open an object to read."""
        with self._explained("read"):
            fs, root = self._fs()
            file = fs.open(f"{root}/{path}", "rb", block_size=READ_NBYTES)
        try:
            with file:
                yield file
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(f"{self.url}/{path} cannot be read: {error}.{KEPT}") from error

    def remove(self, path: str) -> None:
        """Remove an object, if it is there."""
        with self._explained("removed"), suppress(FileNotFoundError):
            fs, root = self._fs()
            fs.rm_file(f"{root}/{path}")

    def all_files(self) -> list[StoredFile]:
        """Every object below the URL."""
        return self._listed("")

    def tidy(self) -> None:
        """Nothing: there are no partial objects."""

    def _listed(self, folder: str) -> list[StoredFile]:
        with self._explained("listed"):
            fs, root = self._fs()
            fs.invalidate_cache()  # another process may have written there
            try:
                found: dict[str, dict[str, Any]] = fs.find(f"{root}/{folder}".rstrip("/"), detail=True)
            except FileNotFoundError:
                return []
            below = len(root) + 1
            return [
                StoredFile(path[below:], int(about.get("size") or 0), _seconds(about))
                for path, about in sorted(found.items())
                if path.startswith(f"{root}/")
            ]

    def _fs(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        try:
            fs, root = url_to_fs(self.url)
        except ValueError as error:
            raise InvalidInput(f"the URL {self.url} is not understood: {error}. Give a folder, or s3://...") from error
        return fs, root.rstrip("/")

    @contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        """What an object store says, as an error of this package; that nothing is there stays what it is."""
        try:
            yield
        except (FileNotFoundError, StorageError, InvalidInput):
            raise
        except ImportError as error:
            scheme = self.url.partition("://")[0]
            extra = EXTRAS.get(scheme)
            remedy = f'pip install "spae-dask[{extra}]"' if extra else f"install what fsspec needs for {scheme}://"
            raise InvalidInput(f"{self.url} needs a library that is not installed ({error}): {remedy}.") from error
        except Exception as error:  # stores raise what they please: no connection, no permission
            raise StorageError(
                f"{self.url} cannot be {done}: {type(error).__name__}: {error}. Check the address and your "
                f"permissions.{KEPT}"
            ) from error


States = LocalStates | ObjectStates


def states_at(place: str | Path) -> States:
    """The files at a path or URL; nothing is made there.

    Raises
    ------
    InvalidInput
        If it is empty, or too long.
    """
    text = str(place)
    if not text:
        raise InvalidInput("the checkpoint has an empty name. Give it a folder of its own.")
    if "://" in text and not text.startswith("file://"):
        return ObjectStates(text.rstrip("/"))
    root = Path(text.removeprefix("file://")).resolve()
    refuse_long(root)
    return LocalStates(root)


def _seconds(about: dict[str, Any]) -> float:
    """When an object was written, as its store tells it."""
    for name in ("LastModified", "last_modified", "updated", "created", "mtime"):
        told = about.get(name)
        if told is not None:
            return float(told.timestamp() if hasattr(told, "timestamp") else told) if not isinstance(told, str) else 0.0
    return 0.0
