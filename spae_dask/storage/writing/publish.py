"""The one door by which outputs reach the disk: each appears whole under its name, or not at all.

Work is done under a hidden name in the same directory, flushed to the disk and renamed into place. A process that is
killed leaves its hidden work behind (``.NAME.partial-1a2b3c4d``, safe to delete), never a half-written ``NAME``. What
is replaced is so in one rename. Only where a file system cannot exchange two directories (NFS), a store is first
renamed to ``.NAME.replaced-1a2b3c4d``, for a moment.
"""

import errno
import os
import secrets
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dask.utils import format_bytes

from spae_dask.errors import InvalidInput, OutputExists, SpaeError, SpaeWarning, StorageError
from spae_dask.storage.remote.address import is_remote, place_of_url
from spae_dask.storage.remote.url_secrets import redacted
from spae_dask.storage.writing.renames import exchange, rename_if_vacant

ZARR_MARKERS = ("zarr.json", ".zarray", ".zgroup")
"""A directory holding one of these is a Zarr store, of format 3 or 2; no other directory is ever replaced."""

UNFINISHED = ".replaced-1a2b3c4d"
"""What is added, beside a dot before it, to the name of an output for a while, at its longest."""

NAME_MAX, PATH_MAX = 255, 4096
"""Bytes of a name and of a path, as Linux has it."""

SHOWN_LENGTH, SHOWN_PARTS = 40, 12
"""Of a path that is too long, characters of each name and the number of names that a message shows."""

N_REMOVALS = 20
"""Threads that were interrupted may still write while their work directory is being removed."""


@contextmanager
def publish(path: str | Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a path to write a file or a directory to; it is renamed to ``path`` if the ``with`` block succeeds.

    Parameters
    ----------
    path : str or Path
        Where the output shall appear; a local path (or ``file://`` URL). A symbolic link is written through.
    overwrite : bool
        Whether a file or a Zarr store at ``path`` may be replaced; it stays as it is until the new one is whole.

    Yields
    ------
    Path
        A name in the same directory at which nothing exists yet. It is removed if the block fails in any way.

    Raises
    ------
    OutputExists
        Before the block is entered, if something is at ``path`` and may not be replaced.
    InvalidInput
        Before the block is entered, if ``path`` is a URL or its directory does not exist.
    StorageError
        If the directory cannot be written to, or an operating system's error ended the writing.
    """
    target = check_output(path, overwrite=overwrite)
    token = secrets.token_hex(4)
    work = target.with_name(f".{target.name}.partial-{token}")
    try:
        yield work
        assert os.path.lexists(work), f"nothing was written at {work}; please report this"
        _flush(work)
        while not rename_if_vacant(work, target):
            check_output(target, overwrite=overwrite)  # another run may have been faster
            if os.path.lexists(target):
                _replace(work, target, aside=target.with_name(f".{target.name}.replaced-{token}"))
                break
        sync_to_disk(target.parent)
    except OSError as error:
        remove_surely(work, looks=2)
        if isinstance(error, SpaeError) or not _is_about_output(error, target, work):
            raise
        raise StorageError(explanation(target, error)) from error
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
                f"{target} exists and is neither a file nor a Zarr store; only those are ever overwritten. "
                "Give another name, or remove it yourself."
            )
    if not os.access(parent, os.W_OK | os.X_OK):
        raise StorageError(f"{target} cannot be written: no permission to write in {parent}. Give another path.")
    return target


def local_path(path: str | Path) -> Path:
    """The absolute local path an output is to be written at, symbolic links resolved; URLs are refused."""
    text = os.fspath(path)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    elif "://" in text or "::" in text:
        raise InvalidInput(
            f"the output {redacted(text)} is a URL, and only Zarr stores are written to URLs, of s3:// and gs://. Give "
            "a path on a disk, and copy the finished output where it belongs (for example with `rclone copy`)."
        )
    if not text:
        raise InvalidInput("the output path is empty. Give the path the output shall have.")
    try:
        path = Path(text).resolve()
    except (OSError, RuntimeError) as error:  # a loop of symbolic links
        raise InvalidInput(f"the output path {text} cannot be followed: {error}. Give another path.") from error
    refuse_long(path)
    return path


def refuse_long(path: Path, *names: str) -> None:
    """Refuse a local path that no file system takes, before work is done for it.

    Parameters
    ----------
    path : Path
        Where something is to be.
    names : str
        Names that it, or what lies in it, will have for a while, relative to the folder it is in.

    Raises
    ------
    InvalidInput
        If it, or one of those names, is too long.
    """
    for each in (path, *(path.parent / name for name in names)):
        try:
            os.lstat(each)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise InvalidInput(too_long(str(path))) from error


def too_long(path: str) -> str:
    """What to say of a path that no file system takes; not all of it."""
    parts = [part if len(part) <= SHOWN_LENGTH else f"{part[:SHOWN_LENGTH]}..." for part in path.split("/")]
    shown = "/".join(parts if len(parts) <= SHOWN_PARTS else [*parts[:SHOWN_PARTS], "..."])
    longest = max(len(os.fsencode(part)) for part in path.split("/"))
    return (
        f"the path {shown} is too long: it has {len(os.fsencode(path)):,} bytes, and its longest name {longest:,}. "
        f"Most file systems take names of {NAME_MAX} bytes, {len(UNFINISHED) + 1} of which an output needs while it is "
        f"written, and paths of {PATH_MAX:,}. Give a shorter one."
    )


def refuse_same(source: str | Path, output: str | Path) -> None:
    """Refuse an output that is the input, lies inside it or contains it: writing would destroy what is being read.

    Parameters
    ----------
    source, output : str or Path
        Paths or URLs. A remote place cannot be the same as a local one.

    Raises
    ------
    InvalidInput
        If they are the same place, or one contains the other.
    """
    read = place_of_url(source)
    if is_remote(output):
        there, here = _prefix(place_of_url(output)), _prefix(read)
        if there.startswith(here) or here.startswith(there):
            raise InvalidInput(
                f"the output {redacted(str(output))} and the input {redacted(str(source))} are the same, or one lies "
                "inside the other; the input would be damaged while it is read. Give another name."
            )
        return
    if "://" in read:
        return
    original, written = Path(read).resolve(), local_path(output)
    for inner, outer, how in ((written, original, "is or lies inside"), (original, written, "contains")):
        if _lies_within(inner, outer):
            raise InvalidInput(
                f"the output {output} {how} the input {source}, which would be damaged while it is read. "
                "Give a path outside the input."
            )


def _prefix(place: str) -> str:
    """What the URLs of all objects of a store start with, however its own is written: parts that say nothing go."""
    scheme, _, rest = place.partition("://")
    return f"{scheme.lower()}://{'/'.join(part for part in rest.split('/') if part)}/"


def _lies_within(inner: Path, outer: Path) -> bool:
    # samefile sees through bind mounts and file systems that ignore case
    above = (inner, *inner.parents)
    return outer in above or (outer.exists() and any(each.exists() and each.samefile(outer) for each in above))


def _is_replaceable(target: Path) -> bool:
    if not target.is_dir():
        return target.is_file()
    return any((target / marker).is_file() for marker in ZARR_MARKERS) or not any(target.iterdir())


def _replace(work: Path, target: Path, *, aside: Path) -> None:
    """Put the finished work in place of the target, with its permissions; that is restored if it fails."""
    shutil.copymode(target, work)
    if target.is_file() and work.is_file():
        work.rename(target)  # atomic
        return
    former = work if exchange(work, target) else aside
    if former is aside:
        try:
            target.rename(aside)
            work.rename(target)
        finally:
            if os.path.lexists(aside) and not os.path.lexists(target):
                aside.rename(target)
    sync_to_disk(target.parent)
    remove_surely(former, looks=1)
    if os.path.lexists(former):
        warnings.warn(
            f"{target} was replaced, but its former content could not be deleted and is now {former}. Delete it.",
            SpaeWarning,
            stacklevel=2,
        )


def _flush(work: Path) -> None:
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


def _is_about_output(error: OSError, target: Path, work: Path) -> bool:
    """Whether the error arose in writing, not in reading some other file; errors of ``write`` name no file."""
    if not isinstance(error.filename, str | Path):
        return True
    where = Path(error.filename)
    return where in (target, target.parent) or where.is_relative_to(work)


def explanation(target: Path, error: OSError) -> str:
    """What happened and what to do, after the unfinished work was removed."""
    happened = f"{target} could not be written ({error.strerror or error}). Nothing was changed under that name. "
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = format_bytes(shutil.disk_usage(target.parent).free)
        happened += f"With the unfinished output removed, {free} are free on that disk, or less under a quota. "
        leftovers = sorted(
            each.name for each in target.parent.iterdir() if each.name.startswith(f".{target.name}.partial-")
        )
        if leftovers:
            happened += f"Runs that were killed left {', '.join(leftovers)} there; they may be deleted. "
        return happened + "Free some space, or give a path on another disk."
    if error.errno == errno.EROFS:
        return happened + "The file system is mounted read-only: give a path on another one."
    if error.errno in (errno.EACCES, errno.EPERM):
        return happened + f"You may not write in {target.parent}: give another path, or ask for permission."
    return happened + "Check the disk and run again, or give a path on another disk."
