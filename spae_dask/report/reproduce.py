"""How to make an encoder again: the command, and the lines of Python, that a record stands for."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spae_dask.algorithms.parameters import KEEP
from spae_dask.plain_files import in_shell, listed


@dataclass(frozen=True)
class Asked:
    """How a parameter of ``SparseEncoder`` is asked for on the command line.

    Attributes
    ----------
    parameter : str
        Its name.
    default : object
        What it is if nobody asks.
    option : str
        Its option. An option that stands for itself takes no value.
    """

    parameter: str
    default: Any
    option: str


ASKED = (
    Asked("method", "polished", "--method"),
    Asked("selection", "dual-set", "--selection"),
    Asked("center", True, "--no-center"),
    Asked("scale", False, "--scale"),
    Asked("orthonormal", False, "--orthonormal"),
    Asked("shared_support", False, "--shared-support"),
    Asked("n_rows", None, "--rows"),
    Asked("missing", "error", "--missing"),
    Asked("missing_value", None, "--missing-value"),
    Asked("strategy", "auto", "--strategy"),
    Asked("n_repeats", 1, "--repeats"),
    Asked("power_iterations", 0, "--power-iterations"),
    Asked("oversampling", None, "--oversampling"),
    Asked("split", "best", "--split"),
    Asked("projection", "randomized", "--projection"),
    Asked("precision", "exact", "--precision"),
    Asked("certified", False, "--certified"),
    Asked("n_candidates", None, "--candidates"),
    Asked("sketch_rows", None, "--sketch-rows"),
    Asked("tolerance", None, "--tolerance"),
    Asked("random_state", 0, "--seed"),
)
"""All parameters that decide what is found, but for k and r (or eps or keep)."""


def is_place(source: object) -> bool:
    """Whether a record's source is a path or a URL, so that a command can name it."""
    return isinstance(source, str) and (source.startswith("/") or "://" in source)


def fit_command(parameters: Mapping[str, Any], provenance: Mapping[str, Any]) -> str | None:
    """The command of the fit; None where the data were no file.

    Parameters
    ----------
    parameters, provenance : Mapping
        As in ``EncoderResults``.
    """
    if not is_place(_path(provenance)):
        return None
    words = ["spae", "fit", _path(provenance), "-k", str(parameters.get("n_components", 2))]
    size = parameters.get("n_nonzero")
    if size is None:
        name, target = _target(parameters)
        words += [f"--{name}", _word(target)]
    else:
        words += ["-r", ",".join(map(str, size)) if isinstance(size, list | tuple) else str(size)]
    for each, value in _wanted(parameters, provenance):
        words += [each.option] if isinstance(each.default, bool) else [each.option, _word(value)]
    return shlex.join([*words, *_choices(provenance), "-o", "encoder.zarr"])


def data_words(provenance: Mapping[str, Any]) -> tuple[str, str]:
    """The file of the fit, or ``DATA``, in a shell command, and the options that say what of it was chosen."""
    path = _path(provenance)
    return (in_shell(path), shlex.join(_choices(provenance))) if is_place(path) else ("DATA", "")


def _choices(provenance: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in _chosen(provenance).items():
        words += [f"--{name}", listed(value) if isinstance(value, list | tuple) else str(value)]
    return [*words, "--raw"] if provenance.get("raw") else words


def python_lines(parameters: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[str]:
    """The same in Python.

    Parameters
    ----------
    parameters, provenance : Mapping
        As in ``EncoderResults``.
    """
    size = parameters.get("n_nonzero")
    name, one = _target(parameters) if size is None else ("n_nonzero", size)
    arguments = [str(parameters.get("n_components", 2)), f"{name}={_literal(one)}"]
    arguments += [f"{each.parameter}={_literal(value)}" for each, value in _wanted(parameters, provenance)]
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


def _path(provenance: Mapping[str, Any]) -> str:
    """The path or URL that was opened; of older records, and of data that were no file, their name."""
    return str(provenance.get("path", provenance.get("source")))


def _chosen(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What of the data was chosen, by the names that the command line and ``open_matrix`` have for it."""
    return {name: provenance[name] for name in ("array", "columns", "mask") if provenance.get(name) is not None}


def _target(parameters: Mapping[str, Any]) -> tuple[str, Any]:
    """Name and value of the target, where the number of nonzeros is not given."""
    if parameters.get("eps") is not None:
        return "eps", parameters["eps"]
    keep = parameters.get("keep")
    return "keep", KEEP if keep is None else keep


def _wanted(parameters: Mapping[str, Any], provenance: Mapping[str, Any]) -> list[tuple[Asked, Any]]:
    """Parameters that are not as they would be unasked, the strategy as it was taken."""
    taken = {**parameters, "strategy": provenance.get("strategy", parameters.get("strategy", "auto"))}
    found = ((each, taken.get(each.parameter, each.default)) for each in ASKED)
    return [(each, value) for each, value in found if value != each.default]


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_word, value))
    return repr(value) if isinstance(value, float) else str(value)


def _literal(value: Any) -> str:
    return repr(tuple(value) if isinstance(value, list) else value)


def _one_line(source: object) -> str:
    return " ".join(str(source).split())
