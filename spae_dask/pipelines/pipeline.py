"""A pipeline whose steps are tied to one another, to their input files and to their outputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spae_dask.errors import InvalidInput
from spae_dask.features import files_in
from spae_dask.pipelines.matrices import BUILT_IN
from spae_dask.pipelines.schema import Compare, Input, Step
from spae_dask.pipelines.steps import KINDS
from spae_dask.plain_files import beside
from spae_dask.rules import RULES
from spae_dask.storage.readable import grid_files
from spae_dask.storage.writing.output_paths import local_path, refuse_same
from spae_dask.toml.file import Problem, TomlFile, checked_table
from spae_dask.toml.lines import KeyPath
from spae_dask.toml.names import did_you_mean

TOP = ("output", "step")
MODELS = {name: kind.model for name, kind in KINDS.items()}


def read_steps(file: TomlFile) -> tuple[Step, ...]:
    """The steps of a file, each valid by itself.

    Raises
    ------
    InvalidInput
        If there is any problem. The message names all of them.
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
    home = local_path(file.path).parent
    for number, table in enumerate(tables):
        for rule in set(RULES).intersection(table):
            table[rule] = files_in(table[rule], home)
        made = checked_table(("step", number), table, MODELS, lambda kind: {"name": kind})
        if isinstance(made, Step):
            steps.append(made)
        else:
            problems += made
    problems += _same_names(tables)
    if problems:
        raise file.error(problems)
    return tuple(steps)


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
                    f"step[{first[name] + 1}] is also named {name!r}. Give each step its own name, which also names "
                    "its outputs. Without a name, a step is named by its kind.",
                )
            )
        first.setdefault(name, number)
    return problems


RECORD = ".step.json"
"""Ending of the name of the record beside a step's outputs."""


@dataclass(frozen=True, eq=False)
class Node:
    """A step in its place.

    Attributes
    ----------
    step : Step
        Its table.
    line : int
        Line on which the step's table starts.
    files : Mapping
        Path or URL (or name, if built in) of each input, by the key that names it.
    made_by : Mapping
        Name of the earlier step that writes it, of those inputs that one does.
    outputs : Mapping
        Path of each output, by suffix.
    record : Path
        File that records the last run of the step.
    """

    step: Step
    line: int
    files: Mapping[KeyPath, str]
    made_by: Mapping[KeyPath, str]
    outputs: Mapping[str, Path]
    record: Path


@dataclass(frozen=True, eq=False)
class Pipeline:
    """Steps in the order of the file, which is the order they run in.

    Attributes
    ----------
    path, output : Path
        The file, and the folder for all results.
    nodes : tuple of Node
        The steps.
    """

    path: Path
    output: Path
    nodes: tuple[Node, ...]


def read_pipeline(path: str | Path, *, output: str | Path | None = None) -> Pipeline:
    """Read and check a pipeline; no data are read, nothing is written.

    Parameters
    ----------
    path : str or Path
        The TOML file. Inputs it names are relative to its folder.
    output : str or Path, optional
        Folder for the results, in place of the one the file names.

    Raises
    ------
    InvalidInput
        If a key is unknown, a value is not allowed, or an input does not exist. The message names the line of every
        one.
    NotFound, StorageError
        If the file cannot be read.
    """
    file = TomlFile(Path(path), "a pipeline")
    steps = read_steps(file)
    home = local_path(path).parent
    folder = local_path(home / file.table["output"] if output is None else output)
    problems: list[Problem] = []
    earlier: dict[str, Node] = {}
    written = {folder / f"{step.name}{suffix}": step.name for step in steps for suffix in step.suffixes}
    for number, step in enumerate(steps):
        files: dict[KeyPath, str] = {}
        made_by: dict[KeyPath, str] = {}
        for each in step.inputs:
            try:
                found = _resolve(each, step, steps, earlier, home, written)
            except InvalidInput as error:
                problems.append(Problem(("step", number, *each.key), str(error)))
                continue
            files[each.key] = found
            if each.value.startswith("@"):
                made_by[each.key] = each.value[1:]
        outputs = {suffix: folder / f"{step.name}{suffix}" for suffix in step.suffixes}
        record = folder / f"{step.name}{RECORD}"
        for key, source in files.items():
            if key not in made_by and source not in BUILT_IN:
                problems += _overlaps(number, key, source, [*outputs.values(), record])
        earlier[step.name] = Node(step.placed(files), file.line(("step", number)), files, made_by, outputs, record)
    if problems:
        raise file.error(problems)
    return Pipeline(Path(path), folder, tuple(earlier.values()))


def _resolve(
    given: Input,
    step: Step,
    steps: tuple[Step, ...],
    earlier: Mapping[str, Node],
    home: Path,
    written: Mapping[Path, str],
) -> str:
    """Path or URL of an input, or the name of built-in data."""
    if given.value.startswith("@"):
        return str(_made(given, steps, earlier))
    if isinstance(step, Compare) and given.value in BUILT_IN:
        return given.value
    if "://" in given.value and not given.value.startswith("file://"):
        return given.value
    path = home / given.value.removeprefix("file://")
    maker = written.get(path.resolve())
    if maker is not None:
        raise InvalidInput(f"{given.value!r} is the output of a step of this pipeline. Write '@{maker}'.")
    if not path.exists() and grid_files(str(path)) is None:
        built_in = f" Built in are {', '.join(BUILT_IN)}." if isinstance(step, Compare) else ""
        raise InvalidInput(
            f"there is nothing at {path}.{beside(path)} Give a path relative to the folder of this file, or "
            f"@NAME for the output of an earlier step.{built_in}"
        )
    return str(path)


def _made(given: Input, steps: tuple[Step, ...], earlier: Mapping[str, Node]) -> Path:
    """Return the path that an earlier step writes."""
    name = given.value[1:]
    node = earlier.get(name)
    if node is not None and node.step.makes == given.wants:
        return node.outputs[node.step.suffix]
    able = [each for each, node in earlier.items() if node.step.makes == given.wants]
    if name in earlier:
        what = f"writes no {given.wants}"
    else:
        what = "does not come before this one" if name in {each.name for each in steps} else "does not exist"
    listed = ", ".join(f"'@{each}'" for each in able) or "none"
    raise InvalidInput(
        f"{given.value!r} is not allowed: that step {what}. Earlier steps that write a suitable output: {listed}."
        f"{did_you_mean(name, able)}"
    )


def _overlaps(number: int, key: KeyPath, source: str, outputs: list[Path]) -> list[Problem]:
    for output in outputs:
        try:
            refuse_same(source, output)
        except InvalidInput as error:
            return [Problem(("step", number, *key), str(error))]
    return []
