"""Shell command and lines of Python that reproduce an encoder from its record."""

import shlex
from collections.abc import Mapping
from typing import Any

from spae_dask.plain_files import in_shell
from spae_dask.strategies.parameters import KEEP, PARAMETERS, Parameter, option_words

PLACEHOLDERS = {"covariates": "z", "row_weights": "w"}
"""Names that stand for values of the rows in lines of Python."""

OPTION_OF = {"rows": "--where"}
"""Options that are not called as the arguments of ``open_matrix``."""


def is_place(source: object) -> bool:
    """Return True if a record's source is a path or a URL, so that a command can name it."""
    return isinstance(source, str) and (source.startswith("/") or "://" in source)


def fit_command(parameters: Mapping[str, Any], provenance: Mapping[str, Any]) -> str | None:
    """Shell command of the fit; None if the data, covariates or row weights did not come from a file.

    Parameters
    ----------
    parameters, provenance : Mapping
        Parameters and provenance as in ``EncoderResults``.
    """
    if not is_place(_path(provenance)) or _by_values(parameters, provenance):
        return None
    words = ["spae", "fit", _path(provenance)]
    for each, value in _wanted(parameters, provenance):
        words += each.words(value)
    return shlex.join([*words, *_choices(provenance), "-o", "encoder.zarr"])


def data_words(provenance: Mapping[str, Any]) -> tuple[str, str]:
    """The file of the fit, or ``DATA``, in a shell command, and the options that say what of it was chosen."""
    path = _path(provenance)
    return (in_shell(path), shlex.join(_choices(provenance))) if is_place(path) else ("DATA", "")


def _choices(provenance: Mapping[str, Any]) -> list[str]:
    chosen = {**_chosen(provenance), **({"raw": True} if provenance.get("raw") else {})}
    return [word for name, value in chosen.items() for word in option_words(OPTION_OF.get(name, f"--{name}"), value)]


def python_lines(parameters: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[str]:
    """The same in Python.

    Parameters
    ----------
    parameters, provenance : Mapping
        Parameters and provenance as in ``EncoderResults``.
    """
    (_, k), *others = _wanted(parameters, provenance)
    arguments = [str(k), *(f"{each.argument}={_literal(value)}" for each, value in others)]
    # the values are not stored
    arguments += [f"{name}={PLACEHOLDERS[name]}" for name in _by_values(parameters, provenance)]
    made = f"encoder = SparseEncoder({', '.join(arguments)})"
    source = _path(provenance)
    lines = ["from spae_dask import SparseEncoder", "", made]
    how = [f"{name}={value!r}" for name, value in _chosen(provenance).items()]
    how += ["decode=False"] if provenance.get("raw") else []
    if is_place(source) and how:
        lines[0] = "from spae_dask import SparseEncoder, open_matrix"
        return [*lines, f"encoder.fit(open_matrix({', '.join([_literal(source), *how])}))"]
    if is_place(source):
        return [*lines, f"encoder.fit({_literal(source)})"]
    if source == "rows given to partial_fit":
        return [*lines, "for rows in batches:  # the same rows in the same order; how they are batched does not matter",
                "    encoder.partial_fit(rows)"]  # fmt: skip
    return [*lines, f"encoder.fit(x)  # the same data: {_one_line(source)}"]


def _by_values(parameters: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[str]:
    """Names of the parameters that were given by values of the rows: covariates and row weights."""
    return [name for name in PLACEHOLDERS if provenance.get(name) and parameters.get(name) is None]


def _path(provenance: Mapping[str, Any]) -> str:
    """The path or URL that was opened; of older records, and of data that were no file, their name."""
    return str(provenance.get("path", provenance.get("source")))


def _chosen(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Selection of array, columns and mask, by the names of the command line and of ``open_matrix``."""
    names = ("array", "columns", "rows") if provenance.get("columns") is not None else ("array", "mask", "rows")
    return {name: provenance[name] for name in names if provenance.get(name) is not None}


def _wanted(parameters: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[tuple[Parameter, Any]]:
    """The size, and all parameters that are not at their defaults; the strategy as it was taken."""
    taken = {**parameters, "strategy": provenance.get("strategy", parameters.get("strategy", "auto"))}
    if taken.get("n_nonzero") is not None:
        taken |= {"eps": None, "keep": None}
    elif taken.get("eps") is None and taken.get("keep") is None:
        taken["keep"] = KEEP
    found = ((each, taken.get(each.argument, each.default)) for each in PARAMETERS.values())
    return [(each, value) for each, value in found if each.required or value != each.default]


def _literal(value: Any) -> str:
    return repr(tuple(value) if isinstance(value, list) else value)


def _one_line(source: object) -> str:
    return " ".join(str(source).split())
