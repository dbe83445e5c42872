"""One run at a time in a folder of results: two would sweep the same data, and take each other's checkpoints away."""

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spae_dask.errors import StorageError

NAME = ".spae-run.lock"
"""Name of the file that a run locks. The process holds the lock, so a file left by a killed run is not locked."""

HELD = (errno.EACCES, errno.EAGAIN)
"""Errors that mean that another process holds the lock, and no other fault."""


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Hold the folder while the ``with`` block runs.

    On file systems without locks, or without those that other machines see, it locks nothing and refuses no run.

    Parameters
    ----------
    folder : Path
        Folder of the results, which exists.

    Raises
    ------
    StorageError
        If another process holds it.
    """
    file = _held(folder / NAME)
    try:
        yield
    finally:
        if file is not None:
            (folder / NAME).unlink(missing_ok=True)  # before it is let go: what is there afterwards is another's
            os.close(file)


def _held(path: Path) -> int | None:
    """The descriptor of the file, held; None where that cannot be done."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError:
            return None  # writing the results will tell
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            who = os.read(file, 300).decode(errors="replace").strip()
            os.close(file)
            if error.errno not in HELD:
                return None
            raise StorageError(
                f"another run is at work in {path.parent}{f' ({who})' if who else ''}. Wait until it has ended, and "
                "run again: what it has done is not done twice. Or give another folder with --output."
            ) from error
        if _is_at(file, path):
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()} of {socket.gethostname()}\n".encode())
            return file
        os.close(file)  # its holder has ended, and taken it away, between the two calls


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False
