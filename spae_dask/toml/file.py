"""A TOML file with the places of its keys, for errors that name lines, and the models of its tables.

`checked_table` makes the model of a table. It reports errors by key, in the words of this package.
"""

import errno
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.plain_files import beside, refuse_pipes
from spae_dask.quantities import format_nbytes
from spae_dask.toml.lines import KeyPath, key_lines
from spae_dask.toml.names import did_you_mean

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


Model = TypeVar("Model", bound=BaseModel)


def checked_table(
    path: KeyPath,
    table: Mapping[str, Any],
    models: Mapping[str, type[Model]],
    defaults: Callable[[str], dict[str, Any]],
) -> Model | list[Problem]:
    """The model of a table, or all that is wrong with it.

    Parameters
    ----------
    path : tuple
        Keys down to the table.
    table : Mapping
        Parsed table. Its key ``kind`` names the model.
    models : Mapping
        Models by kind.
    defaults : callable
        Given the kind, values for keys that the table does not have.
    """
    kind = table.get("kind")
    allowed = list(models)
    if not isinstance(kind, str) or kind not in models:
        given = "it is missing" if kind is None else f"{kind!r} is not allowed"
        names = ", ".join(map(repr, allowed))
        return [Problem((*path, "kind"), f"{given}: give one of {names}.{did_you_mean(kind, allowed)}")]
    model = models[kind]
    try:
        return model.model_validate(defaults(kind) | dict(table))
    except ValidationError as error:
        return [Problem((*path, *each["loc"]), _said(each, model)) for each in error.errors()]


def _said(error: Any, model: type[BaseModel]) -> str:
    """Return pydantic's finding in the words of this package."""
    if error["type"] == "missing":
        return "it is missing from the table that starts here."
    if error["type"] == "extra_forbidden":
        return _unknown(error["loc"], model)
    said = re.sub(r"^Input should (be|have) (?=greater|less)", "give a number ", error["msg"])
    said = re.sub(r"^(Value error, |Input should (be|have) )", lambda m: "" if "V" in m[0] else "give ", said)
    said = said.replace("a valid integer", "a whole number").replace("a valid boolean", "true or false")
    said = said.replace("a valid tuple", "a list, such as ['one', 'two']")
    said = f"{said[:1].lower()}{said[1:]}{'' if said.endswith(('.', '?')) else '.'}"
    if not error["loc"] or isinstance(error["input"], dict):
        return said
    return f"{error['input']!r} is not allowed: {said}"


def _unknown(loc: KeyPath, model: type[BaseModel]) -> str:
    """An unknown key: which the table has, and which of them may be meant."""
    for key in loc[:-1]:  # down to the model of the table it stands in
        if isinstance(key, str):
            parts = (model.model_fields[key].annotation, *_arguments(model.model_fields[key].annotation))
            model = next(each for each in parts if isinstance(each, type) and issubclass(each, BaseModel))
    keys = list(model.model_fields)
    return f"this key is not known.{did_you_mean(loc[-1], keys)} Allowed are {', '.join(keys)}."


def _arguments(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__args__", ())
