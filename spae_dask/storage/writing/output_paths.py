"""Place of an output: a path that file systems take, and one that does not overlap the input."""

import errno
import os
from pathlib import Path

from spae_dask.errors import InvalidInput
from spae_dask.storage.remote.address import is_remote, place_of_url, redacted

UNFINISHED = ".partial-1a2b3c4d.lock"
"""Longest addition to the name of an output while it is unfinished. A dot is put before the name as well."""

NAME_MAX, PATH_MAX = 255, 4096
"""Bytes of a name and of a path, as Linux has it."""

SHOWN_LENGTH, SHOWN_PARTS = 40, 12
"""Limits of a path that is too long, in messages: characters of each name, and number of names."""


def local_path(path: str | Path) -> Path:
    """The absolute local path an output is to be written at, symbolic links resolved; URLs are refused."""
    text = os.fspath(path)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    elif "://" in text or "::" in text:
        raise InvalidInput(
            f"the output {redacted(text)} is a URL, but only Zarr stores can be written to URLs, of s3:// and "
            "gs://. Give a local path, and copy the finished output (for example with `rclone copy`)."
        )
    if not text:
        raise InvalidInput("the output path is empty. Give a path for the output.")
    try:
        path = Path(text).resolve()
    except (OSError, RuntimeError) as error:  # a loop of symbolic links
        raise InvalidInput(f"the output path {text} cannot be resolved: {error}. Give another path.") from error
    refuse_long(path)
    return path


def refuse_long(path: Path, *names: str) -> None:
    """Refuse a local path that no file system takes, before work is done for it.

    Parameters
    ----------
    path : Path
        Path to check.
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
    """Return the message about a path that no file system takes, with the path shortened."""
    parts = [part if len(part) <= SHOWN_LENGTH else f"{part[:SHOWN_LENGTH]}..." for part in path.split("/")]
    shown = "/".join(parts if len(parts) <= SHOWN_PARTS else [*parts[:SHOWN_PARTS], "..."])
    longest = max(len(os.fsencode(part)) for part in path.split("/"))
    return (
        f"the path {shown} is too long: it has {len(os.fsencode(path)):,} bytes, and its longest name "
        f"{longest:,}. Most file systems allow names of {NAME_MAX} bytes, {len(UNFINISHED) + 1} of which "
        f"an output needs while it is written, and paths of {PATH_MAX:,}. Give a shorter path."
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
                f"the output {redacted(str(output))} and the input {redacted(str(source))} are the same, or one "
                "contains the other. Writing would damage the input. Give another name."
            )
        return
    if "://" in read:
        return
    original, written = Path(read).resolve(), local_path(output)
    for inner, outer, how in ((written, original, "is or lies inside"), (original, written, "contains")):
        if _lies_within(inner, outer):
            raise InvalidInput(
                f"the output {output} {how} the input {source}. Writing would damage the input. Give a path "
                "outside the input."
            )


def _prefix(place: str) -> str:
    """Return the common prefix of the URLs of all objects of a store. Empty parts of the URL are left out."""
    scheme, _, rest = place.partition("://")
    return f"{scheme.lower()}://{'/'.join(part for part in rest.split('/') if part)}/"


def _lies_within(inner: Path, outer: Path) -> bool:
    # samefile sees through bind mounts and file systems that ignore case
    above = (inner, *inner.parents)
    return outer in above or (outer.exists() and any(each.exists() and each.samefile(outer) for each in above))
