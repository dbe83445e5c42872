"""Memory of this process: the bytes it may use, and the return of freed arrays to the system.

The limit is the machine's, or what is left of it by a container, a batch job or a login.

Linux limits groups of processes, and a group may lie inside others. Inside a container the group of the container is
usually all there is to see, and distributed knows its limit. The path of the process's own group leads to the limits of
a Slurm job, or of a service or login of systemd. It also does so in a container that sees the groups of its host.
"""

import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

LIMIT_FILES = {"cgroup": ("memory.limit_in_bytes",), "cgroup2": ("memory.max", "memory.high")}
"""Files that hold the memory limits of control groups, by version. Without a limit they hold ``max``, or a number
beyond any memory."""

M_MMAP_THRESHOLD = -3
"""Number of the parameter in glibc's ``malloc.h``."""

OWN_MAPPING_NBYTES = 1 << 20
"""Arrays from this size on have a mapping of their own, which goes back to the system when they are freed."""

FIXED_BY = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
"""Variables of the environment that keep glibc's threshold where it is. Dask's nannies set the second for workers."""

_fixed = False


def return_freed_arrays() -> None:
    """Have glibc return freed arrays to the system at once. For processes of our own: it holds until they end.

    Arrays above a certain size have mappings of their own. By default glibc raises that size to the largest array freed
    so far, up to 32 MiB. Later arrays then share heaps, one a thread, of which freed parts stay resident. A process
    whose arrays come and go, as those of a pass do, takes nearly twice what it holds.
    """
    global _fixed
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library than glibc, which has no such threshold
        return
    _fixed = bool(mallopt(M_MMAP_THRESHOLD, OWN_MAPPING_NBYTES))


def returns_freed_arrays() -> bool:
    """Return True if arrays that this process frees go back to the system at once."""
    glibc = "CS_GNU_LIBC_VERSION" in os.confstr_names
    return _fixed or not glibc or _fixed_at_start()


def _fixed_at_start() -> bool:
    """Return True if the environment in which this process began keeps glibc's threshold where it is.

    glibc reads it once. What is in ``os.environ`` now may be of later: a nanny leaves its variable in the process that
    starts workers.
    """
    try:
        names = {os.fsdecode(each).partition("=")[0] for each in Path("/proc/self/environ").read_bytes().split(b"\0")}
    except OSError:
        return False
    return any(name in names for name in FIXED_BY)


def memory_nbytes(proc: Path = Path("/proc/self")) -> int:
    """Bytes of memory that this process may use, together with those that share its limit.

    Parameters
    ----------
    proc : Path
        Folder in which the kernel describes the process.
    """
    from distributed.system import MEMORY_LIMIT  # imported here, so that a command can set up its memory first

    return min([int(MEMORY_LIMIT), *_group_limits(proc)])


def _group_limits(proc: Path) -> Iterator[int]:
    """Limits of the control groups that the process is in, from its own outwards; none on other systems than Linux."""
    try:
        # paths are bytes: of a disk that is mounted somewhere, in any encoding
        mounts, groups = (os.fsdecode((proc / name).read_bytes()).splitlines() for name in ("mountinfo", "cgroup"))
    except OSError:
        return
    for kind, root, mounted_at in _memory_mounts(mounts):
        group = mounted_at / _below(root, _group_path(kind, groups))
        for folder in (group, *group.parents):
            if not folder.is_relative_to(mounted_at):
                break
            for name in LIMIT_FILES[kind]:
                try:
                    limit = int((folder / name).read_text())
                except (OSError, ValueError):  # the outermost group has no limits, and "max" is none
                    continue
                if limit > 0:
                    yield limit


def _memory_mounts(mountinfo: list[str]) -> Iterator[tuple[str, str, Path]]:
    """Version, group at the top, and place of each file system of groups that may limit memory."""
    for line in mountinfo:
        about, _, filesystem = line.partition(" - ")
        kind, *_, options = filesystem.split(" ")
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(",")):
            root, mounted_at = about.split(" ")[3:5]
            yield kind, root, Path(_unescaped(mounted_at))


def _group_path(kind: str, groups: list[str]) -> str:
    """Path of the process's group: of lines ``4:memory:/job``, in version 2 ``0::/job``."""
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if (kind == "cgroup2" and not controllers) or (kind == "cgroup" and "memory" in controllers.split(",")):
            return path
    return "/"


def _below(root: str, path: str) -> PurePosixPath:
    """``path`` as seen from ``root``; the top itself, if the process is somewhere that cannot be seen from there."""
    group, top = PurePosixPath(path), PurePosixPath(_unescaped(root))
    if ".." in group.parts or not group.is_relative_to(top):
        return PurePosixPath()
    return group.relative_to(top)


def _unescaped(path: str) -> str:
    r"""A path of mountinfo, where a space is written ``\040``."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)
