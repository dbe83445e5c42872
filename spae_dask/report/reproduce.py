"""Shell command and lines of Python that reproduce an encoder from its record."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from spae_dask.plain_files import in_shell
from spae_dask.storage.masks import WITH_DATA
from spae_dask.strategies.parameters import KEEP, PARAMETERS, SIZES, Parameter, option_words

OPTION_OF = {"rows": "--where", "sample_dim": "--sample-dim"}
"""Options that are not called as the arguments of ``open_matrix``."""

BY_VALUES = {"covariates": "z", "row_weights": "w", "fold_groups": "groups", "top_features_batch": "batches"}
"""Parameters whose values may be given, and the variables that stand for these."""


IN_HDF5 = re.compile(r"\.(h5ad|h5|hdf5)/.")
"""End of the name of an HDF5 file, and a matrix in it: the name of data that were given as an object of such a file."""


def fit_command(parameters: Mapping[str, Any], provenance: Mapping[str, Any]) -> str | None:
    """Shell command of the fit and of all updates.

    None if the data, covariates, groups or row weights did not come from a file.

    Parameters
    ----------
    parameters, provenance : Mapping
        Parameters and provenance as in ``EncoderResults``.
    """
    by_values = any(_by_values(parameters, provenance, name) for name in BY_VALUES)
    path = _path(provenance)
    if path is None or by_values:
        return None
    words = ["spae", "fit", path]
    for each, value in _wanted(parameters, provenance):
        words += each.words(value)
    commands = [shlex.join([*words, *_choices(provenance), "-o", "encoder.zarr"])]
    for part in _updates(provenance):
        path = _path(part)
        if path is None:
            return None
        weight = [] if part["forget"] == 1.0 else ["--forget", str(part["forget"])]
        commands.append(shlex.join(["spae", "update", "encoder.zarr", path, *_choices(part), *weight]))
    return " && ".join(commands)


def data_words(provenance: Mapping[str, Any]) -> tuple[str, str]:
    """The file of the fit, or ``DATA``, in a shell command, and the options that say what of it was chosen."""
    path = _path(provenance)
    return (in_shell(path), shlex.join(_choices(provenance))) if path is not None else ("DATA", "")


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
    arguments = [_literal(k), *(f"{each.argument}={_literal(value)}" for each, value in others)]
    # values are not stored
    arguments += [f"{name}={short}" for name, short in BY_VALUES.items() if _by_values(parameters, provenance, name)]
    made = f"encoder = SparseEncoder({', '.join(arguments)})"
    lines, updates = _fit_lines(provenance), [_update_line(part) for part in _updates(provenance)]
    opens = ", open_matrix" if any("open_matrix(" in line for line in (*lines, *updates)) else ""
    return [f"from spae_dask import SparseEncoder{opens}", "", made, *lines, *updates]


def _fit_lines(provenance: Mapping[str, Any]) -> list[str]:
    if provenance.get("source") == "rows given to partial_fit":
        return ["for rows in batches:  # the same rows in the same order; how they are batched does not matter",
                "    encoder.partial_fit(rows)"]  # fmt: skip
    data, note = _opened(provenance)
    return [f"encoder.fit({data}){note}"]


def _update_line(part: Mapping[str, Any]) -> str:
    data, note = _opened(part)
    weight = "" if part["forget"] == 1.0 else f", forget={part['forget']!r}"
    return f"encoder.update({data}{weight}){note}"


def _opened(record: Mapping[str, Any]) -> tuple[str, str]:
    """Data of a record as an argument in Python, and a comment that names them if they were no file."""
    path = _path(record)
    if path is None:
        return "x", f"  # the same data: {_one_line(record.get('source'))}"
    how = [f"{name}={value!r}" for name, value in _chosen(record).items()]
    how += ["decode=False"] if record.get("raw") else []
    return (f"open_matrix({', '.join([_literal(path), *how])})" if how else _literal(path)), ""


def _updates(provenance: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Data that were added to those of the fit."""
    return [part for part in provenance.get("parts", ()) if "forget" in part]


def _by_values(parameters: Mapping[str, Any], provenance: Mapping[str, Any], name: str) -> bool:
    """True if a parameter of that name was given by its values."""
    return bool(provenance.get(name)) and parameters.get(name) is None


def _path(provenance: Mapping[str, Any]) -> str | None:
    """The path or URL that was opened, which older records have as the source; None for data that were an object.

    The object of an HDF5 file may be some of its rows alone, and `IN_HDF5` is no path of a file.
    """
    if "path" in provenance:
        return str(provenance["path"])
    source = provenance.get("source")
    is_place = isinstance(source, str) and (source.startswith("/") or "://" in source)
    return str(source) if is_place and not IN_HDF5.search(str(source)) else None


def _chosen(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Selection of array, columns and mask, by the names of the command line and of ``open_matrix``."""
    by = "mask" if provenance.get("columns") is None else "columns"
    names = ("array", by, "rows", "sample_dim", "weights")
    return {name: provenance[name] for name in names if provenance.get(name) not in (None, WITH_DATA)}


def _wanted(parameters: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[tuple[Parameter, Any]]:
    """The size, and all parameters that are not at their defaults; the strategy as it was taken."""
    taken = {**parameters, "strategy": provenance.get("strategy", parameters.get("strategy", "auto"))}
    if taken.get("n_nonzero") is not None:
        taken |= {"eps": None, "keep": None}
    elif all(taken.get(name) is None for name in SIZES):
        taken["keep"] = KEEP
    found = ((each, taken.get(each.argument, each.default)) for each in PARAMETERS.values())
    return [(each, value) for each, value in found if each.required or value != each.default]


def _literal(value: Any) -> str:
    return repr(tuple(value) if isinstance(value, list) else value)


def _one_line(source: object) -> str:
    return " ".join(str(source).split())
