"""One read: from the data to a core, a small matrix L with L'L = X'X, and the columns' means and scales."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from spae_dask.accumulators import (
    Accumulator,
    ColumnMoments,
    Gram,
    Imputed,
    Moments,
    NonFinite,
    Together,
    Triangular,
    WholeRows,
)
from spae_dask.algorithms.core_summary import CoreSummary, Floats, summarize
from spae_dask.algorithms.non_finite import refuse_infinite, refuse_non_finite

NARROW = 1000
"""Columns up to which a d x d matrix costs too little to do without, however few the rows."""

Result = TypeVar("Result")


class RunPass(Protocol):
    """One sweep over the data: given an accumulator, returns what it makes of all rows."""

    def __call__(self, accumulator: Accumulator[Result], name: str = ...) -> Result: ...


def choose_strategy(
    wanted: str, dtype: np.dtype[Any], precision: str = "exact", *, sparse: bool = False, few_rows: bool = False
) -> tuple[str, str]:
    """Strategy for one read, and why.

    A float64 Gram matrix loses nothing that float32, half or small integer data still held; float64 data may hold
    more, which a triangular factor keeps. Of sparse rows a Gram matrix takes the stored entries alone, where a
    triangular factor must see each zero: hundreds of times the work for digits that counts and their logarithms, which
    is what sparse rows mostly hold, do not have. Few rows are a core themselves, see `are_few`.
    """
    if wanted == "paper":
        return wanted, "asked for: the paper's own passes, each with a thin state"
    if wanted == "sample":
        core = choose_strategy("auto", dtype, sparse=sparse)[0]
        return wanted, f"asked for: row blocks in random order, summed into a {core} core until enough are read"
    if wanted == "sketch":
        return wanted, "asked for: a sketch proposes candidate columns, a second read settles them exactly"
    if wanted == "stream":
        return (
            wanted,
            "asked for: one read into a sketch whose size does not depend on n, losses in certified intervals",
        )
    if wanted != "auto":
        return wanted, "asked for"
    if precision == "fast":
        return "gram", "products in float32, as asked for, summed in float64"
    if few_rows:
        return "tsqr", "fewer rows than columns: the rows themselves serve as the core"
    if sparse:
        return "gram", "a Gram matrix takes sparse rows as they are; a QR would take each of their zeros as well"
    if dtype.kind == "f" and dtype.itemsize >= 8:
        return "tsqr", "float64 data may hold directions that a Gram matrix would round away"
    if dtype.kind in "iu" and dtype.itemsize >= 8:
        return "tsqr", "64-bit integers may hold directions that a Gram matrix would round away"
    return "gram", f"a float64 Gram matrix keeps all that {dtype} data hold, at half the work of a QR"


def are_few(n_rows: int | None, n_features: int) -> bool:
    """True if the rows are a smaller core than any that is made of them, and there are columns enough to matter."""
    return n_rows is not None and n_rows < n_features > NARROW


def core_passes(
    strategy: str, n_features: int, missing: str, precision: str = "exact", n_rows: int | None = None
) -> Sequence[tuple[str, Accumulator[Any]]]:
    """Names and recipes of the passes :func:`read_core` makes, for planning; fill values are placeholders."""
    fill = None if missing == "error" else np.zeros(n_features)
    last = ("core", _core_recipe(strategy, n_features, fill, precision, n_rows))
    return [("column means", means_recipe(n_features)), last] if missing == "mean" else [last]


def read_core(
    run_pass: RunPass,
    n_features: int,
    *,
    strategy: str,
    center: bool,
    scale: bool,
    missing: str,
    precision: str = "exact",
    integers: bool = False,
    n_rows: int | None = None,
) -> CoreSummary:
    """Summarise the data into a core.

    Passes: 1; 2 with ``missing="mean"``, since the column means must be known before gaps are filled with them.

    Parameters
    ----------
    run_pass : callable
        Reads the data.
    n_features : int
        d.
    strategy : {"gram", "tsqr"}
        Gram matrix or triangular factor; for "tsqr" the rows themselves, if they are few.
    center, scale : bool
        True to center columns, and to divide them by their standard deviations (divisor n - 1).
    missing : {"error", "mean", "zero"}
        Treatment of NaN entries: refuse them, or fill them with the column's mean or with zero.
    precision : {"exact", "fast"}
        Arithmetic of the products in a Gram matrix: float64 or float32.
    integers : bool
        True if all entries are integers, see :func:`summarize`.
    n_rows : int or None
        n, if it is known before the pass.

    Raises
    ------
    NonFiniteInput
        If there are NaN entries and ``missing="error"``, or infinite entries.
    InvalidInput
        If squares of the entries overflow.
    """
    fill = missing_fill(run_pass, n_features, missing)
    found = run_pass(_core_recipe(strategy, n_features, fill, precision, n_rows), "core")
    refuse_non_finite(found["nonfinite"])
    return replace(summarize(found["core"], center=center, scale=scale, integers=integers), fill=fill)


def missing_fill(run_pass: RunPass, n_features: int, missing: str) -> Floats | None:
    """Values for NaN entries, one a column; None refuses them. One pass with ``missing="mean"``, else none."""
    if missing == "mean":
        found = run_pass(means_recipe(n_features), "column means")
        moments: ColumnMoments = found["moments"]
        refuse_infinite(found["nonfinite"])
        return moments.mean
    return np.zeros(n_features) if missing == "zero" else None


def means_recipe(n_features: int) -> Accumulator[Any]:
    """Recipe of the extra pass of ``missing="mean"``."""
    return Together({"nonfinite": NonFinite(n_features), "moments": Moments(n_features)})


def core_recipe(strategy: str, n_features: int, precision: str = "exact") -> Gram | Triangular:
    """Recipe of the core alone."""
    return Gram(n_features, single=precision == "fast") if strategy == "gram" else Triangular(n_features)


def _core_recipe(
    strategy: str, n_features: int, fill: Floats | None, precision: str, n_rows: int | None
) -> Accumulator[Any]:
    core: Accumulator[Any] = core_recipe(strategy, n_features, precision)
    if strategy == "tsqr" and n_rows is not None and are_few(n_rows, n_features):
        core = WholeRows(n_features, n_rows)
    recipe = Together({"nonfinite": NonFinite(n_features), "core": core})
    return recipe if fill is None else Imputed(recipe, fill)
