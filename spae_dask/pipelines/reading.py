"""From a TOML file to a checked pipeline. All that is wrong with a file is told at once, each with its line."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.pipelines.kinds import KINDS
from spae_dask.pipelines.schema import Step
from spae_dask.pipelines.toml_lines import KeyPath, key_lines
from spae_dask.pipelines.values import did_you_mean

MAX_NBYTES = 1 << 20
"""Of a pipeline file; what is larger is something else."""

TOP = ("output", "step")


@dataclass(frozen=True)
class Problem:
    """Something wrong with a file.

    Attributes
    ----------
    path : tuple
        Keys down to the place.
    message : str
        What was given, and what is allowed.
    """

    path: KeyPath
    message: str


class PipelineFile:
    """A pipeline file as parsed, and the errors that are about places in it.

    Parameters
    ----------
    path : Path
        The file.

    Attributes
    ----------
    table : dict
        Its content.

    Raises
    ------
    NotFound, StorageError, InvalidInput
        If it cannot be read, or is not TOML.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        text = _text(path)
        try:
            self.table: dict[str, Any] = tomllib.loads(text)
            self._lines = key_lines(text)
        except tomllib.TOMLDecodeError as error:
            said, _, where = str(error).partition(" (at ")
            found = re.match(r"line (\d+)", where)
            line = int(found[1]) if found else text.count("\n") + 1
            raise InvalidInput(f"{path}, line {line}: not TOML: {said[:1].lower()}{said[1:]}.") from error
        except RecursionError as error:
            raise InvalidInput(f"{path} nests too deep to be a pipeline.") from error

    def line(self, path: KeyPath) -> int:
        """Line of a key, or of the table that lacks it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def error(self, problems: list[Problem]) -> InvalidInput:
        """One error for all problems, in the order of the file."""
        told = sorted((self.line(each.path), f"{_dotted(each.path)}: {each.message}") for each in problems)
        if len(told) == 1:
            return InvalidInput(f"{self.path}, line {told[0][0]}: {told[0][1]}")
        listed = "".join(f"\n  line {line}: {text}" for line, text in told)
        return InvalidInput(f"{self.path} has {len(told)} problems:{listed}")


def read_steps(file: PipelineFile) -> tuple[Step, ...]:
    """The steps of a file, each valid by itself.

    Raises
    ------
    InvalidInput
        With every problem found.
    """
    problems = [
        Problem((key,), f"this key is not known.{did_you_mean(key, list(TOP))} A pipeline has {' and '.join(TOP)}.")
        for key in file.table
        if key not in TOP
    ]
    output = file.table.get("output")
    if not isinstance(output, str) or not output.isprintable() or not output:
        given = "it is missing" if output is None else f"{output!r} is not allowed"
        problems.append(Problem(("output",), f"{given}: give the folder for all results, such as 'results'."))
    tables = file.table.get("step")
    if not isinstance(tables, list) or not tables or not all(isinstance(each, dict) for each in tables):
        problems.append(Problem(("step",), "a pipeline has at least one step, a table that starts with [[step]]."))
        raise file.error(problems)
    steps: list[Step] = []
    for number, table in enumerate(tables):
        made = _step(("step", number), table)
        if isinstance(made, Step):
            steps.append(made)
        else:
            problems += made
    problems += _same_names(tables)
    if problems:
        raise file.error(problems)
    return tuple(steps)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_NBYTES + 1)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}. Give the path of a pipeline in TOML.") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}. Give the path of a pipeline in TOML.") from error
    if len(content) > MAX_NBYTES:
        raise InvalidInput(f"{path} has more than {MAX_NBYTES >> 20} MiB, so it is not a pipeline in TOML.")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"{path}, line {line}: not TOML, which is text in UTF-8: {error.reason}.") from error


def _dotted(path: KeyPath) -> str:
    """``step[2].matrix[1].source``, steps and matrices counted from 1."""
    return "".join(f"[{key + 1}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


def _step(path: KeyPath, table: dict[str, Any]) -> Step | list[Problem]:
    kind = table.get("kind")
    allowed = list(KINDS)
    if not isinstance(kind, str) or kind not in KINDS:
        given = "it is missing" if kind is None else f"{kind!r} is not allowed"
        names = ", ".join(map(repr, allowed))
        return [Problem((*path, "kind"), f"{given}: give one of {names}.{did_you_mean(kind, allowed)}")]
    model = KINDS[kind].model
    try:
        return model.model_validate({"name": kind} | table)
    except ValidationError as error:
        return [Problem((*path, *each["loc"]), _said(each, model)) for each in error.errors()]


def _said(error: Any, model: type[BaseModel]) -> str:
    """What pydantic found, in the words of this package."""
    if error["type"] == "missing":
        return "it is missing from the table that starts here."
    if error["type"] == "extra_forbidden":
        return _unknown(error["loc"], model)
    said = re.sub(r"^Input should (be|have) (?=greater|less)", "give a number ", error["msg"])
    said = re.sub(r"^(Value error, |Input should (be|have) )", lambda m: "" if "V" in m[0] else "give ", said)
    said = said.replace("a valid integer", "a whole number").replace("a valid boolean", "true or false")
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


def _same_names(tables: list[dict[str, Any]]) -> list[Problem]:
    """Steps whose outputs would have the same names, on a file system that may ignore case."""
    first: dict[str, int] = {}
    problems = []
    for number, table in enumerate(tables):
        name = str(table.get("name", table.get("kind", f"[{number}]"))).casefold()
        if name in first:
            problems.append(
                Problem(
                    ("step", number, "name"),
                    f"step[{first[name] + 1}] is named {name!r} too: give each its own name, which also names its "
                    "outputs. Without one, a step is named by its kind.",
                )
            )
        first.setdefault(name, number)
    return problems
