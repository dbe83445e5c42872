"""Parser from a TOML file to a checked pipeline. It reports all problems of a file at once, with their lines."""

from typing import Any

from spae_dask.pipelines.kinds import KINDS
from spae_dask.pipelines.schema import Step
from spae_dask.toml.file import Problem, TomlFile
from spae_dask.toml.names import did_you_mean
from spae_dask.toml.tables import checked_table

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
    for number, table in enumerate(tables):
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
                    f"step[{first[name] + 1}] is named {name!r} too: give each its own name, which also names its "
                    "outputs. Without one, a step is named by its kind.",
                )
            )
        first.setdefault(name, number)
    return problems
