"""Unfinished files and folders: a lock that ends with its process marks them, and a later run removes what a kill left.

Unfinished work ``NAME`` has a lock file ``NAME.lock`` beside it. The process that writes the work holds that file by
``flock``, which the kernel ends with the process, however it ends. The file says on which machine that was, because not
every shared file system tells one machine of the locks of another.
"""

import fcntl
import json
import logging
import os
import re
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Literal

from spae_dask.errors import SpaeWarning, warn
from spae_dask.quantities import format_seconds

LOCK = ".lock"
"""The end of the name of a lock file."""

PARTIAL_END = r"\.partial-[0-9a-f]{8}"
"""The end of the name of an output that is not finished; a dot and the name of the output come before it."""

UNFINISHED = re.compile(rf"\..+{PARTIAL_END}|\.?spae-(workers|queue|tls)-[0-9a-f]{{8}}")
"""Names of unfinished outputs, and of folders that `scratch_folder` makes."""

OLD_DAYS = 7
"""Work of another machine counts as left behind if nothing in it changed for this long, and no lock is seen."""

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Leftover:
    """Unfinished work, and the fate of it.

    Attributes
    ----------
    path : Path
        A file or a folder. It does not exist if a kill left its lock file only.
    nbytes : int
        Bytes of its files.
    state : {"free", "old", "held", "unknown", "unmarked"}
        Not locked; seemingly not locked, and old; locked by a process; unknown to the lock; not ours.
    why : str
        The reason of the state, for people.
    """

    path: Path
    nbytes: int
    state: Literal["free", "old", "held", "unknown", "unmarked"]
    why: str

    @property
    def removable(self) -> bool:
        """True if the leftover may be removed."""
        return self.state in ("free", "old")

    def as_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self) | {"path": str(self.path)}


@contextmanager
def held(work: Path) -> Iterator[None]:
    """Hold a path that is about to be written, so that no other process takes it for a leftover.

    Parameters
    ----------
    work : Path
        A path at which nothing is yet. The lock file stays if something is left there in the end.

    Raises
    ------
    OSError
        If no file can be made beside it.
    """
    lock = _lock_of(work)
    descriptor = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            machine = _machine()
        except OSError:  # a file system without locks: it is unknown if this process is alive
            machine = ""
        record = {"spae": "in use", "machine": machine, "host": socket.gethostname(), "pid": os.getpid()}
        record["begun"] = datetime.now(UTC).isoformat(timespec="seconds")
        os.write(descriptor, json.dumps(record).encode())
        yield
    finally:
        if not os.path.lexists(work):
            lock.unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def scratch_folder(prefix: str, within: Path | None = None) -> Iterator[str]:
    """Make a folder that is removed in the end, after those that killed processes left of the same prefix.

    Parameters
    ----------
    prefix : str
        Start of its name, such as ``spae-workers-``.
    within : Path, optional
        The folder to make it in. Default: the temporary folder of the system.
    """
    parent = Path(within or gettempdir())
    remove_leftovers(parent, re.compile(rf"{re.escape(prefix)}[0-9a-f]{{8}}"))
    made = parent / f"{prefix}{secrets.token_hex(4)}"
    with held(made):
        try:
            made.mkdir(mode=0o700)
            yield str(made)
        finally:
            _remove(made)


def remove_leftovers(folder: Path, names: re.Pattern[str]) -> None:
    """Remove work of these names that killed processes of this user left directly in a folder; warn of doubts.

    Parameters
    ----------
    folder : Path
        It need not exist.
    names : Pattern
        Names of the work, matched in full.
    """
    try:
        works = find_leftovers(folder, names.fullmatch)
    except OSError:
        return
    for work in works:
        found = clear(work)
        if found.removable:
            LOG.info("removed %s: %s", work, found.why)
        if found.state in ("old", "unknown"):
            done = "was removed" if found.removable else "was left in place"
            warn(f"{work} {done}: {found.why}.", SpaeWarning)


def find_leftovers(folder: Path, matches: Callable[[str], Any]) -> list[Path]:
    """Unfinished work directly in a folder, in use or not, whose names match; sorted.

    Raises
    ------
    OSError
        If the folder cannot be listed.
    """
    return _unfinished(folder, os.listdir(folder), matches)


def find_below(folder: Path) -> Iterator[Path]:
    """Unfinished work in a folder, however deep, and directly in the temporary folder. Links are not followed."""
    for within, folders, files in os.walk(folder):
        yield from (found := _unfinished(within, [*folders, *files], UNFINISHED.fullmatch))
        folders[:] = [name for name in folders if Path(within, name) not in found]
    if not Path(gettempdir()).resolve().is_relative_to(folder.resolve()):
        yield from find_leftovers(Path(gettempdir()), UNFINISHED.fullmatch)


def clear(work: Path, *, dry_run: bool = False) -> Leftover:
    """Remove unfinished work unless it may be in use.

    Parameters
    ----------
    work : Path
        A file, a folder, or the name of one that is gone already.
    dry_run : bool
        True to report leftovers without removing them.
    """
    nbytes, newest = _size_and_time(work)
    try:
        descriptor = os.open(_lock_of(work), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return Leftover(work, nbytes, "unmarked", f"it has no lock file {work.name}{LOCK}, so its owner is unknown")
    except OSError as error:
        return Leftover(work, nbytes, "unmarked", f"its lock file cannot be opened ({error.strerror})")
    try:
        found = Leftover(work, nbytes, *_judged(descriptor, work, newest))
        if found.removable and not dry_run:
            _remove(work)
            if os.path.lexists(work):
                return Leftover(work, nbytes, "unknown", "it cannot be removed; check its permissions")
            _lock_of(work).unlink(missing_ok=True)
        return found
    finally:
        os.close(descriptor)


def _unfinished(folder: str | Path, names: list[str], matches: Callable[[str], Any]) -> list[Path]:
    works = {name.removesuffix(LOCK) for name in names}
    return sorted(Path(folder, name) for name in works if matches(name))


def _judged(
    descriptor: int, work: Path, newest: float
) -> tuple[Literal["free", "old", "held", "unknown", "unmarked"], str]:
    """State of unfinished work, and the reason; if it is free, this process holds its lock until it is closed."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or work.is_symlink():
        return "unmarked", "it, or its lock file, is a link or not a file"
    if {status.st_uid, _owner(work, status.st_uid)} != {os.geteuid()}:
        return "unmarked", "it belongs to another user"
    record = _record(descriptor)
    if record is None:
        return "unmarked", "its lock file is not one of spae_dask"
    writer = f"process {record.get('pid')} on {record.get('host')}"
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "held", f"{writer} still uses it"
    except OSError:
        seen = "this file system has no locks"
    else:
        if record.get("machine") == _machine():
            return "free", f"{writer} was killed"
        seen = "its lock is free, but not every file system shows locks of other machines"
    age = time.time() - max(newest, status.st_mtime)
    if age > 86400 * OLD_DAYS:
        return "old", f"{writer} wrote it; {seen}, and nothing changed in it for {format_seconds(age)}"
    return "unknown", f"{writer} may still write it; {seen}. If that process has ended, remove it yourself"


def _record(descriptor: int) -> dict[str, Any] | None:
    """The text of a lock file of ours; None if it is another file, or one that is just being written."""
    try:
        record = json.loads(os.pread(descriptor, 4096, 0))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("spae") == "in use" else None


def _remove(work: Path) -> None:
    if work.is_dir():
        shutil.rmtree(work, ignore_errors=True)
    else:
        with suppress(OSError):
            work.unlink()


def _size_and_time(work: Path) -> tuple[int, float]:
    """Bytes and latest change of a file, or of all files of a folder, which may vanish meanwhile; links stay links."""
    found = []
    with suppress(OSError):
        found.append(work.lstat())
    if found and stat.S_ISDIR(found[0].st_mode):
        for folder, folders, files in os.walk(work):
            for name in (*folders, *files):
                with suppress(OSError):
                    found.append(os.lstat(os.path.join(folder, name)))
    nbytes = sum(each.st_size for each in found if not stat.S_ISDIR(each.st_mode))
    return nbytes, max((each.st_mtime for each in found), default=0.0)


def _owner(work: Path, default: int) -> int:
    try:
        return work.lstat().st_uid
    except FileNotFoundError:
        return default


def _lock_of(work: Path) -> Path:
    return work.with_name(f"{work.name}{LOCK}")


def _machine() -> str:
    """The running kernel of this machine: containers on it share its locks, and no other machine has its name."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # not Linux
        return socket.gethostname()
