"""Single files that appear only when complete, while other processes may write or remove them."""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spae_dask.errors import StorageError
from spae_dask.storage.writing.disk import explanation, remove_surely, sync_to_disk


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
