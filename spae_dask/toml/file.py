"""A TOML file with the places of its keys, for errors that name lines."""

import errno
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.plain_files import beside, refuse_pipes
from spae_dask.quantities import format_nbytes
from spae_dask.toml.lines import KeyPath, key_lines

MAX_NBYTES = 1 << 20
"""Largest size of a file, in bytes. A larger file is refused."""


@dataclass(frozen=True)
class Problem:
    """Something wrong with a file.

    Attributes
    ----------
    path : tuple
        Keys down to the place.
    message : str
        Value that was given, and values that are allowed.
    """

    path: KeyPath
    message: str


class TomlFile:
    """A file as parsed, and the errors that are about places in it.

    Parameters
    ----------
    path : Path
        The file.
    what : str
        Expected content of the file: "a pipeline" or "a cluster".

    Attributes
    ----------
    table : dict
        Its content.

    Raises
    ------
    NotFound, StorageError, InvalidInput
        If it cannot be read, or is not TOML.
    OSError
        If its name is too long for any file system. The caller reports it.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        text = _text(path, what)
        try:
            self.table: dict[str, Any] = tomllib.loads(text)
            self._lines = key_lines(text)
        except tomllib.TOMLDecodeError as error:
            said, _, where = str(error).partition(" (at ")
            found = re.match(r"line (\d+)", where)
            line = int(found[1]) if found else text.count("\n") + 1
            raise InvalidInput(f"{path}, line {line}: not TOML: {said[:1].lower()}{said[1:]}.") from error
        except ValueError as error:  # Python reads no integer of thousands of digits
            raise InvalidInput(f"{path} contains a number that is too long for {what}.") from error
        except RecursionError as error:
            raise InvalidInput(f"{path} is nested too deep for {what}.") from error

    def line(self, path: KeyPath) -> int:
        """Line of a key, or of the table that lacks it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def error(self, problems: list[Problem]) -> InvalidInput:
        """One error for all problems, in the order of the file."""
        told = sorted((self.line(each.path), _named(each)) for each in problems)
        if len(told) == 1:
            return InvalidInput(f"{self.path}, line {told[0][0]}: {told[0][1]}")
        listed = "".join(f"\n  line {line}: {text}" for line, text in told)
        return InvalidInput(f"{self.path} has {len(told)} problems:{listed}")


def _named(problem: Problem) -> str:
    """Return the message of a problem, after its key if it is about one key."""
    return f"{_dotted(problem.path)}: {problem.message}" if problem.path else problem.message


def _text(path: Path, what: str) -> str:
    refuse_pipes(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_NBYTES + 1)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}.{beside(path)} Give the path of {what} in TOML.") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise
        raise StorageError(f"{path} cannot be read: {error.strerror}. Give the path of {what} in TOML.") from error
    if len(content) > MAX_NBYTES:
        raise InvalidInput(f"{path} has more than {format_nbytes(MAX_NBYTES)}, so it is not {what} in TOML.")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"{path}, line {line}: not TOML, because it is not UTF-8 text: {error.reason}.") from error


def _dotted(path: KeyPath) -> str:
    """``step[2].matrix[1].source``, steps and matrices counted from 1."""
    return "".join(f"[{key + 1}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")
