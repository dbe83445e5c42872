"""Publication of outputs on disk: each appears under its name only when it is complete, and errors say why.

Work is done under a hidden name in the same directory, flushed to the disk and renamed into place. A process that is
killed leaves its hidden work behind (``.NAME.partial-1a2b3c4d`` and its lock file), never a half-written ``NAME``; the
next run that writes ``NAME`` removes it. One rename replaces an existing output. Only if a file
system cannot exchange two directories (NFS), a store is first renamed to ``.NAME.replaced-1a2b3c4d``, for a moment.
"""

import ctypes
import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spae_dask.errors import InvalidInput, OutputExists, SpaeError, SpaeWarning, StorageError, warn
from spae_dask.leftovers import LOCK, PARTIAL_END, find_leftovers, held, remove_leftovers
from spae_dask.quantities import format_nbytes
from spae_dask.storage.writing.output_paths import UNFINISHED, local_path, refuse_long

AT_FDCWD = -100
RENAME_EXCHANGE = 2
"""Constants of Linux."""

NOT_ABLE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
"""Errors of a kernel or a file system that does not support such a rename: NFS and others."""


def exchange(one: Path, other: Path) -> bool:
    """Have two files or directories change names at once, so that neither name is ever without one.

    Returns
    -------
    bool
        False if the system or the file system cannot; nothing has changed then.

    Raises
    ------
    OSError
        If it can, and fails.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in NOT_ABLE:
        return False
    raise OSError(number, os.strerror(number), str(other))


def rename_if_vacant(work: Path, target: Path) -> bool:
    """Give what was written its name unless something has it; of several writers one is first.

    Returns
    -------
    bool
        False if something is there; nothing has changed then.

    Raises
    ------
    OSError
        If it fails for another reason.
    """
    if work.is_file() and not work.is_symlink():
        try:
            os.link(work, target)
        except FileExistsError:
            return False
        except OSError:  # a file system without links: the last writer replaces the other's
            if os.path.lexists(target):
                return False
            work.rename(target)
        else:
            with suppress(FileNotFoundError):
                work.unlink()
        return True
    try:
        work.rename(target)  # a directory cannot replace one that is not empty
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


ZARR_MARKERS = ("zarr.json", ".zarray", ".zgroup")
"""A directory holding one of these is a Zarr store, of format 3 or 2; no other directory is ever replaced."""

READ_BITS = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH


@contextmanager
def publish(path: str | Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a path to write a file or a directory to; it is renamed to ``path`` if the ``with`` block succeeds.

    Parameters
    ----------
    path : str or Path
        Path of the output: a local path (or ``file://`` URL). A symbolic link is written through.
    overwrite : bool
        True to replace an existing file or Zarr store at ``path``. It stays as it is until the new one is complete.

    Yields
    ------
    Path
        A name in the same directory at which nothing exists yet. It is removed if the block fails in any way.

    Raises
    ------
    OutputExists
        If something is at ``path`` and may not be replaced. The error comes before the block is entered.
    InvalidInput
        If ``path`` is a URL or its directory does not exist. The error comes before the block is entered.
    StorageError
        If the directory cannot be written to, or an operating system's error ended the writing.
    """
    target = check_output(path, overwrite=overwrite)
    token = secrets.token_hex(4)
    work = target.with_name(f".{target.name}.partial-{token}")
    remove_leftovers(target.parent, re.compile(re.escape(f".{target.name}") + PARTIAL_END))
    try:
        with held(work), _removed_if_it_fails(work):
            yield work
            assert os.path.lexists(work), f"nothing was written at {work}; please report this"
            flush(work)
            while not rename_if_vacant(work, target):
                check_output(target, overwrite=overwrite)  # another run may have been faster
                if os.path.lexists(target):
                    _replace(work, target, aside=target.with_name(f".{target.name}.replaced-{token}"))
                    break
            sync_to_disk(target.parent)
    except OSError as error:
        if isinstance(error, SpaeError) or not _is_about_output(error, target, work):
            raise
        raise StorageError(explanation(target, error)) from error


@contextmanager
def _removed_if_it_fails(work: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        remove_surely(work, looks=2)
        raise


def check_output(path: str | Path, *, overwrite: bool) -> Path:
    """All that can be known to go wrong with an output before any work is done for it; the path to write to.

    Raises
    ------
    OutputExists, InvalidInput, StorageError
        As `publish`, which calls it. Long computations call it before they start.
    """
    target = local_path(path)
    refuse_long(target, f".{target.name}{UNFINISHED}")
    parent = target.parent
    if not parent.is_dir():
        what = "is not a directory" if parent.exists() else "does not exist"
        raise InvalidInput(f"{target} cannot be written: {parent} {what}. Create it (`mkdir -p`) or give another path.")
    if os.path.lexists(target):
        if not overwrite:
            raise OutputExists(f"{target} exists and is not overwritten. Use --force (overwrite=True) or another name.")
        if not _is_replaceable(target):
            raise OutputExists(
                f"{target} exists and is neither a file nor a Zarr store. Only those are ever overwritten. Give "
                "another name, or remove it yourself."
            )
    if not os.access(parent, os.W_OK | os.X_OK):
        raise StorageError(f"{target} cannot be written: no permission to write in {parent}. Give another path.")
    return target


def _is_replaceable(target: Path) -> bool:
    if not target.is_dir():
        return target.is_file()
    return any((target / marker).is_file() for marker in ZARR_MARKERS) or not any(target.iterdir())


def _replace(work: Path, target: Path, *, aside: Path) -> None:
    """Put the finished work in place of the target, with its permissions; that is restored if it fails."""
    _take_mode(target, work)
    if target.is_file() and work.is_file():
        work.rename(target)  # atomic
        return
    if not exchange(work, target):
        try:
            target.rename(aside)
            work.rename(target)
        finally:
            if os.path.lexists(aside) and not os.path.lexists(target):
                aside.rename(target)
        aside.rename(work)  # what is deleted is marked as unfinished, should this process be killed
    sync_to_disk(target.parent)
    remove_surely(work, looks=1)
    if os.path.lexists(work):
        warn(
            f"{target} was replaced, but its former content could not be deleted and is now at {work}. Delete it.",
            SpaeWarning,
        )


def _take_mode(former: Path, work: Path) -> None:
    """Give the work the permissions of what it replaces: who may read a file may enter a folder in its place."""
    if former.is_dir() == work.is_dir():
        shutil.copymode(former, work)
        return
    mode = former.stat().st_mode & (stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
    work.chmod(mode | (mode & READ_BITS) >> 2 if work.is_dir() else mode & ~(READ_BITS >> 2))


def _is_about_output(error: OSError, target: Path, work: Path) -> bool:
    """Return True if the error arose in writing, not in reading another file. Errors of ``write`` name no file."""
    if not isinstance(error.filename, str | Path):
        return True
    where = Path(error.filename)
    return where in (target, target.parent, work.with_name(f"{work.name}{LOCK}")) or where.is_relative_to(work)


N_REMOVALS = 20
"""Threads that were interrupted may still write while their work directory is being removed."""


def flush(work: Path) -> None:
    """Force files and directory entries to the disk, so that a crash cannot leave a whole name for empty files."""
    if work.is_file():
        sync_to_disk(work)
        return
    for folder, _, files in os.walk(work, topdown=False):
        for name in files:
            sync_to_disk(Path(folder, name))
        sync_to_disk(Path(folder))


def sync_to_disk(path: Path) -> None:
    """Force a file, or the entries of a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot sync directories
            raise
    finally:
        os.close(descriptor)


def remove_surely(path: Path, *, looks: int) -> None:
    """Delete a file or a directory, until it was found absent ``looks`` times in a row."""
    absent = 0
    for _ in range(N_REMOVALS):
        absent = 0 if os.path.lexists(path) else absent + 1
        if absent == looks:
            return
        if absent:
            time.sleep(0.05)
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def explanation(target: Path, error: OSError) -> str:
    """Return the error of an output, and a remedy, after the unfinished work was removed."""
    happened = f"{target} could not be written ({error.strerror or error}). Nothing was changed under that name. "
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = format_nbytes(shutil.disk_usage(target.parent).free)
        happened += f"With the unfinished output removed, {free} are free on that disk, or less under a quota. "
        partial = re.compile(re.escape(f".{target.name}") + PARTIAL_END)
        leftovers = [each.name for each in find_leftovers(target.parent, partial.fullmatch)]
        if leftovers:
            happened += f"Runs that still write, or were killed, left {', '.join(leftovers)} there. See `spae clean`. "
        return happened + "Free some space, or give a path on another disk."
    if error.errno == errno.EROFS:
        return happened + "The file system is mounted read-only: give a path on another one."
    if error.errno in (errno.EACCES, errno.EPERM):
        return happened + f"You may not write in {target.parent}: give another path, or ask for permission."
    return happened + "Check the disk and run again, or give a path on another disk."
