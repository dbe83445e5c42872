"""The files of a checkpoint in a local or mounted folder."""

import errno
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from spae_dask.errors import StorageError
from spae_dask.leftovers import PARTIAL_END
from spae_dask.plain_files import refuse_pipes
from spae_dask.storage.remote.object_requests import StoredFile
from spae_dask.storage.writing.publish import explanation, remove_surely, sync_to_disk


def replace_file(target: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file in place of what is there.

    Raises
    ------
    StorageError
        If it cannot be written.
    """
    with _written(target, pieces) as work:
        work.replace(target)
        sync_to_disk(target.parent)


def create_file(target: Path, content: bytes) -> None:
    """Write a file unless there is one; of several writers one is first.

    Raises
    ------
    StorageError
        If it cannot be written.
    """
    with _written(target, [content]) as work, suppress(FileExistsError):
        try:
            os.link(work, target)
        except FileExistsError:
            raise
        except OSError:  # a file system without links: one is first all the same, but may be seen while it writes
            _write_first(target, content)
        sync_to_disk(target.parent)


def _write_first(target: Path, content: bytes) -> None:
    """Write a new file. An incomplete one is removed, since no process could write it again."""
    with target.open("xb", buffering=0) as file:
        try:
            file.write(content)
            os.fsync(file.fileno())
        except BaseException:
            remove_surely(target, looks=1)
            raise


@contextmanager
def _written(target: Path, pieces: Iterable[bytes | memoryview]) -> Iterator[Path]:
    """A file of these bytes beside the target, on the disk; removed in the end if it is still there."""
    work = target.with_name(f".{target.name}.partial-{secrets.token_hex(4)}")
    try:
        with work.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        yield work
    except OSError as error:
        remove_surely(work, looks=1)
        raise StorageError(explanation(target, error)) from error
    finally:
        remove_surely(work, looks=1)


KEPT = " Stored states are kept. Run again, and the run resumes from them."

PARTIAL = re.compile(rf"\..+{PARTIAL_END}")
"""Files that a process was writing when it was killed."""

SECONDS_OF_WRITING = 3600
"""Seconds after which a partial file counts as abandoned."""


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
                f"{target.parent} does not exist, so nothing can be stored in it. All workers must see the folder "
                "of a checkpoint under the same path. Nothing may remove it during a run."
            )
        try:
            replace_file(target, pieces)
        except StorageError as error:
            raise StorageError(f"{error}{KEPT}") from error

    def write_if_absent(self, path: str, content: bytes) -> None:
        """Write a file unless it exists. Of several writers one is first, and its file appears only when complete."""
        try:
            create_file(self.root / path, content)
        except StorageError as error:
            raise StorageError(f"{error}{KEPT}") from error

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        """Open a file to read."""
        refuse_pipes(self.root / path)
        try:
            with (self.root / path).open("rb") as file:
                yield file
        except (FileNotFoundError, NotADirectoryError, StorageError):
            raise
        except OSError as error:
            raise StorageError(f"{self.root / path} cannot be read: {error.strerror}.{KEPT}") from error

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        self._remove(self.root / path, Path.unlink)

    def remove_folder(self, folder: str) -> None:
        """Remove a folder, if it is there and empty."""
        self._remove(self.root / folder, _remove_if_empty)

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
        """Remove what killed processes were writing, long ago by the clock of the file system.

        That of this process may be hours ahead of the one that stamps the files of others, which still write theirs.
        """
        there = self.all_files()
        newest = max((each.time for each in there), default=0.0)
        for each in there:
            if PARTIAL.fullmatch(Path(each.path).name) and newest - each.time > SECONDS_OF_WRITING:
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

    def _remove(self, target: Path, by: Callable[[Path], None]) -> None:
        with suppress(FileNotFoundError):
            try:
                by(target)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise StorageError(f"{target} cannot be removed: {error.strerror}.") from error


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
