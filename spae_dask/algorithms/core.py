"""One read: from the data to a core, a small matrix L with L'L = X'X, and the columns' means and scales."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from spae_dask.accumulators import (
    Accumulator,
    CenteredTriangle,
    ColumnMoments,
    Gram,
    Imputed,
    Moments,
    NonFinite,
    NonFiniteEntries,
    Scatter,
    Together,
    Triangular,
)
from spae_dask.accumulators.single import RELATIVE_ERROR
from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.linalg.loss import total_variance
from spae_dask.linalg.scaling import unit_columns
from spae_dask.linalg.spectral import core_from_gram

Floats = npt.NDArray[np.float64]
Result = TypeVar("Result")

CONSTANT = 4 * float(np.finfo(np.float64).eps)
"""A column whose standard deviation is below this share of its mean is constant up to the rounding of its entries."""


class RunPass(Protocol):
    """One sweep over the data: given an accumulator, returns what it makes of all rows."""

    def __call__(self, accumulator: Accumulator[Result], name: str = ...) -> Result: ...


@dataclass(frozen=True, eq=False)
class CoreSummary:
    """All that a fit needs of the data.

    Attributes
    ----------
    n_samples : int
        Rows seen.
    core : ndarray (m, d)
        L with ``L'L = X'X``, X centered and scaled.
    mean : ndarray (d,)
        Subtracted from X; zeros if not centered.
    scale : ndarray (d,)
        X is divided by it; ones if not scaled.
    constant : ndarray of int
        Columns without variance.
    fill : ndarray (d,) or None
        What stood for NaN; None if NaN was refused.
    strategy, precision : str
        How the core was made, which decides what rounding did to it.
    """

    n_samples: int
    core: Floats
    mean: Floats
    scale: Floats
    constant: npt.NDArray[np.intp]
    fill: Floats | None
    strategy: str
    precision: str = "exact"

    def loss_error(self, loss: float) -> float:
        """Estimated absolute rounding error of a loss computed on the core.

        A Gram matrix errs by d u ||X||^2. A triangular factor errs by d u ||X|| in every singular value, which moves
        a small sum of squares far less. Float32 products err by their own share of the total.
        """
        total = total_variance(self.core)
        unit: float = self.core.shape[1] * float(np.finfo(np.float64).eps)
        if self.precision == "fast":
            return RELATIVE_ERROR * total
        if self.strategy == "gram":
            return unit * total
        return 2 * unit * math.sqrt(total) * math.sqrt(loss) + unit**2 * total


def choose_strategy(
    wanted: str, dtype: np.dtype[Any], precision: str = "exact", *, sparse: bool = False
) -> tuple[str, str]:
    """Strategy for one read, and why.

    A float64 Gram matrix loses nothing that float32, half or small integer data still held; float64 data may hold
    more, which a triangular factor keeps. Of sparse rows a Gram matrix takes the stored entries alone, where a
    triangular factor must see each zero: hundreds of times the work for digits that counts and their logarithms, which
    is what sparse rows mostly hold, do not have.
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
    if sparse:
        return "gram", "a Gram matrix takes sparse rows as they are; a QR would take each of their zeros as well"
    if dtype.kind == "f" and dtype.itemsize >= 8:
        return "tsqr", "float64 data may hold directions that a Gram matrix would round away"
    if dtype.kind in "iu" and dtype.itemsize >= 8:
        return "tsqr", "64-bit integers may hold directions that a Gram matrix would round away"
    return "gram", f"a float64 Gram matrix keeps all that {dtype} data hold, at half the work of a QR"


def core_passes(
    strategy: str, n_features: int, missing: str, precision: str = "exact"
) -> Sequence[tuple[str, Accumulator[Any]]]:
    """Names and recipes of the passes :func:`read_core` makes, for planning; fill values are placeholders."""
    fill = None if missing == "error" else np.zeros(n_features)
    last = ("core", _core_recipe(strategy, n_features, fill, precision))
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
) -> CoreSummary:
    """Summarise the data into a core.

    Passes: 1; 2 with ``missing="mean"``, since the column means must be known before gaps are filled with them.

    Parameters
    ----------
    run_pass : callable
        Sweeps the data.
    n_features : int
        d.
    strategy : {"gram", "tsqr"}
        Gram matrix or triangular factor.
    center, scale : bool
        Whether to center, and to divide columns by their standard deviations (divisor n - 1).
    missing : {"error", "mean", "zero"}
        What NaN means.
    precision : {"exact", "fast"}
        Whether a Gram matrix multiplies in float64 or in float32.

    Raises
    ------
    NonFiniteInput
        If there are NaN entries and ``missing="error"``, or infinite entries.
    InvalidInput
        If squares of the entries overflow.
    """
    fill = missing_fill(run_pass, n_features, missing)
    found = run_pass(_core_recipe(strategy, n_features, fill, precision), "core")
    refuse_non_finite(found["nonfinite"])
    return replace(summarize(found["core"], center=center, scale=scale), fill=fill, precision=precision)


def missing_fill(run_pass: RunPass, n_features: int, missing: str) -> Floats | None:
    """Values for NaN entries, one a column; None refuses them. One pass with ``missing="mean"``, else none."""
    if missing == "mean":
        found = run_pass(means_recipe(n_features), "column means")
        moments: ColumnMoments = found["moments"]
        _refuse_infinite(found["nonfinite"])
        return moments.mean
    return np.zeros(n_features) if missing == "zero" else None


def refuse_non_finite(entries: NonFiniteEntries, *, once: bool = False) -> None:
    """Raise ``NonFiniteInput`` if anything was not a finite number; ``once`` if the data cannot be read again."""
    if entries.n_nan:
        raise _placed(NonFiniteInput(_nan_message(entries, once)), entries)
    _refuse_infinite(entries)


def means_recipe(n_features: int) -> Accumulator[Any]:
    """Recipe of the extra pass of ``missing="mean"``."""
    return Together({"nonfinite": NonFinite(n_features), "moments": Moments(n_features)})


def core_recipe(strategy: str, n_features: int, precision: str = "exact") -> Gram | Triangular:
    """Recipe of the core alone."""
    return Gram(n_features, single=precision == "fast") if strategy == "gram" else Triangular(n_features)


def _core_recipe(strategy: str, n_features: int, fill: Floats | None, precision: str) -> Accumulator[Any]:
    recipe = Together({"nonfinite": NonFinite(n_features), "core": core_recipe(strategy, n_features, precision)})
    return recipe if fill is None else Imputed(recipe, fill)


def summarize(found: Scatter | CenteredTriangle, *, center: bool, scale: bool) -> CoreSummary:
    """Center and scale by algebra on the summary; X itself is never rewritten."""
    d = found.mean.size
    deviation = _variation(found) / np.sqrt(max(found.count - 1, 1))
    is_constant = constant_columns(deviation, found.mean)
    divisor = np.where(is_constant, 1.0, deviation) if scale else np.ones(d)
    summary = summary_about(found, found.mean.copy() if center else np.zeros(d), divisor)
    # centered, a constant column is zero; what is left of it is the rounding of its entries
    core = np.where(is_constant, 0.0, summary.core) if center else summary.core
    return replace(summary, core=core, constant=np.flatnonzero(is_constant))


def summary_about(found: Scatter | CenteredTriangle, origin: Floats, scale: Floats) -> CoreSummary:
    """Core of the data about ``origin`` and divided by ``scale``, both (d,)."""
    centered = np.array_equal(origin, found.mean)
    if isinstance(found, Scatter):
        gram = found.scatter if centered else found.about(origin)
        refuse_overflow(gram)
        core, strategy = core_from_gram(gram), "gram"
    else:
        refuse_overflow(found.triangle)
        core, strategy = found.triangle if centered else found.about(origin), "tsqr"
    core = core / scale
    # every loss is a sum of squares of such entries
    refuse_overflow(core, limit=math.sqrt(np.finfo(np.float64).max / core.size))
    return CoreSummary(
        n_samples=found.count,
        core=core,
        mean=origin,
        scale=scale,
        constant=np.zeros(0, dtype=np.intp),
        fill=None,
        strategy=strategy,
    )


def constant_columns(deviation: Floats, mean: Floats) -> npt.NDArray[np.bool_]:
    """Columns (d,) whose standard deviation is no more than the rounding of their mean."""
    still: npt.NDArray[np.bool_] = deviation <= CONSTANT * np.abs(mean)
    return still


def _variation(found: Scatter | CenteredTriangle) -> Floats:
    """Lengths (d,) of the centered columns."""
    if isinstance(found, Scatter):
        return np.sqrt(np.clip(np.diag(found.scatter), 0.0, None))
    return unit_columns(found.triangle)[1]


def refuse_overflow(values: Floats, limit: float = math.inf) -> None:
    """Raise ``InvalidInput`` if any of the sums of squares, columns last, is above ``limit`` or not a number."""
    # false for NaN too, which is what infinities less infinities leave
    fine = (np.abs(values) <= limit) & np.isfinite(values)
    if not fine.all():
        column = int(np.argwhere(~fine)[0][-1])
        raise InvalidInput(
            f"squares of the entries of column {column} overflow float64: its values are too large (about 1e150 or "
            "more). Divide the data by a constant and run again; the encoder does not change."
        )


def _refuse_infinite(entries: NonFiniteEntries) -> None:
    if entries.n_inf:
        column = int(np.flatnonzero(entries.inf_by_column)[0])
        message = (
            f"Input X contains infinity: {entries.n_inf} infinite entries in {np.count_nonzero(entries.inf_by_column)} "
            f"column(s), the first column being {column}{_first(entries)}. No value can stand for an infinite "
            "one: mend the data, or drop the column."
        )
        raise _placed(NonFiniteInput(message), entries)


def _nan_message(entries: NonFiniteEntries, once: bool) -> str:
    columns = np.flatnonzero(entries.nan_by_column)
    remedy = (
        "Pass missing='zero', or mend the data."
        if once
        else "Pass missing='mean' (one more read of the data) or missing='zero', or mend the data; `spae check` lists "
        "them."
    )
    return (
        f"Input X contains NaN: {entries.n_nan} NaN entries in {columns.size} column(s), the first column being "
        f"{int(columns[0])}{_first(entries)}. {remedy}"
    )


def _placed(error: NonFiniteInput, entries: NonFiniteEntries) -> NonFiniteInput:
    """The error, which knows the place for callers whose rows and columns have names."""
    if len(entries.first):
        row, column = entries.first[0]
        error.place = int(row), int(column)
    return error


def _first(entries: NonFiniteEntries) -> str:
    if not len(entries.first):
        return ""
    row, column = entries.first[0]
    return f"; the first non-finite entry is at row {row}, column {column}"
