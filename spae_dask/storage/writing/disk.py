"""Writing to a disk: the output appears complete or not at all, and errors say why."""

import errno
import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from spae_dask.leftovers import PARTIAL_END, find_leftovers
from spae_dask.quantities import format_nbytes

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
