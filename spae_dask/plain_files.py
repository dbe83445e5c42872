"""Paths as they are given: pipes and devices in the place of a file are refused, and paths are quoted for a shell."""

import csv
import io
import os
import shlex
import stat
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from spae_dask.errors import InvalidInput

KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}

N_COMPARED = 10_000
"""Names of a folder that are compared with one that is not there."""


def refuse_pipes(path: str | os.PathLike[str]) -> None:
    """Refuse a path, before it is opened, at which there is something other than a file or a folder.

    Raises
    ------
    InvalidInput
        If it is a pipe, a socket or a device. A missing file is left to its reader to report.
    """
    try:
        kind = KINDS.get(stat.S_IFMT(os.stat(path).st_mode))
    except (OSError, ValueError):
        return
    if kind is not None:
        raise InvalidInput(
            f"{os.fspath(path)} is {kind}, but spae_dask reads files, some more than once. Write its content "
            "to a file, and give that file."
        )


def in_shell(path: str | os.PathLike[str]) -> str:
    """``path`` as a word of a shell command, which no program takes for an option."""
    text = os.fsdecode(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def beside(path: str | os.PathLike[str]) -> str:
    """A question that names what lies beside a path at which there is nothing; empty if nothing is like it."""
    folder, name = os.path.split(os.fsdecode(path).rstrip("/"))
    try:
        with os.scandir(folder or ".") as entries:
            names = [each.name for each in islice(entries, N_COMPARED)]
    except (OSError, ValueError):
        return ""
    near = get_close_matches(name, names, n=1) or [each for each in sorted(names) if os.path.splitext(each)[0] == name]
    return f" Did you mean {os.path.join(folder, near[0])}?" if near else ""


def listed(values: Iterable[object]) -> str:
    """Numbers or names with commas between; a name with a comma of its own stands in double quotes."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()
