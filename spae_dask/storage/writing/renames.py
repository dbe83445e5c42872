"""Renames that Python lacks: an exchange of two names, and a rename to a name that is free."""

import ctypes
import errno
import os
from contextlib import suppress
from pathlib import Path

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
        except OSError:  # a file system without links: whoever is last replaces the other's
            if os.path.lexists(target):
                return False
            work.rename(target)
        else:
            with suppress(FileNotFoundError):
                work.unlink()
        return True
    try:
        work.rename(target)  # a directory replaces none that holds anything
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True
