"""Columns that vary most, by variance or as scanpy's flavour ``seurat_v3`` ranks genes: the reads that find them.

The second ranks raw counts, whatever the recipe makes of them. One read sums their means and variances. A loess curve
through the logarithms of both gives the deviation that is usual at each mean. Another read sums squared deviations in
that unit, with counts beyond sqrt(n) of them clipped: their mean is the standardized variance. With batches, the same
two reads keep the sums of each batch, and the ranks of all batches decide.

References
----------
Stuart, T. et al. (2019). Comprehensive integration of single-cell data. Cell 177, 1888-1902.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput
from spae_dask.estimators.covariates import labels_of
from spae_dask.maths.linalg.loess import loess
from spae_dask.passes.accumulators import (
    Accumulator,
    ClippedSquares,
    ColumnMoments,
    Cut,
    Imputed,
    Moments,
    NonFinite,
    Parted,
    PartedSquares,
    RowWeights,
    Together,
    weighted,
)
from spae_dask.passes.accumulators.base import RunPass
from spae_dask.passes.accumulators.moments import degrees_of_freedom
from spae_dask.passes.accumulators.nonfinite import refuse_infinite, refuse_non_finite
from spae_dask.storage.sources.submatrix import beneath_choice
from spae_dask.strategies.core import means_recipe
from spae_dask.strategies.parameters import PARAMETERS, FitParameters, whole

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of the rows, in each of which columns are ranked.

    Attributes
    ----------
    cut : Cut
        Batch of each row.
    names : tuple of str
        Names of the batches.
    """

    recipe_kind: ClassVar[str] = "batches"

    cut: Cut
    names: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.cut.n_rows


VARIANCES, COUNTS, STANDARDIZED = "variances", "variances of counts", "standardized variances"
"""Names of the reads."""

SPAN, DEGREE = 0.3, 2
"""Share of the columns that each part of the loess curve is fitted to, and the degree of its polynomials."""


def by_counts(params: FitParameters) -> bool:
    """Return True if columns are ranked by their raw counts."""
    return params.n_top_features is not None and params.top_features_flavor == "seurat_v3"


def with_batches(params: FitParameters, x: Any, source: RowBlocks) -> FitParameters:
    """Parameters of a fit whose batches are those of the rows; as they are without batches.

    Parameters
    ----------
    params : FitParameters
        Parameters of the fit.
    x : object
        The data as they are given, in which a name is looked up.
    source : RowBlocks
        The same, opened.

    Raises
    ------
    InvalidInput
        If another parameter rules batches out, there is not one label for each row, or a batch has a single row.
    """
    if params.top_features_batch is None:
        return params
    PARAMETERS["top_features_batch"].check(params.top_features_batch)
    params.check_top()
    labels = labels_of(params.top_features_batch, x, source, "batch")
    names = labels.levels or ()
    batches = Batches(Cut.by_codes(labels.values, len(names)), names)
    for name, n_rows in zip(names, batches.cut.counts, strict=True):
        if n_rows < 2:
            raise InvalidInput(
                f"the batch {name!r} of {labels.name!r} has {n_rows} row(s), and a variance needs at least 2. "
                "Leave out such rows, or join small batches."
            )
    return replace(params, top_features_batch=batches)


def ranked(source: RowBlocks, params: FitParameters) -> RowBlocks:
    """The data whose columns are ranked: those of the fit, or the raw counts beneath their recipe."""
    if not by_counts(params) or getattr(source, "recipe", None) is None:
        return source
    return beneath_choice(source, lambda data: data.raw)  # type: ignore[attr-defined]  # of what follows a recipe


def top_reads(source: RowBlocks, params: FitParameters) -> list[tuple[RowBlocks, str, Accumulator[Any]]]:
    """Data, name and recipe of each read that finds the columns, for a plan; none if all are used."""
    d = source.shape[1]
    if params.n_top_features is None:
        return []
    moments = _moments(d, params)
    if not by_counts(params):
        return [(source, VARIANCES, moments)]
    counts, batches = ranked(source, params), params.top_features_batch
    nothing = np.broadcast_to(0.0, (1 if batches is None else len(batches.names), d))
    return [(counts, COUNTS, moments), (counts, STANDARDIZED, _clipped(nothing, nothing, nothing[0], params))]


def most_variable(run_pass: RunPass, source: RowBlocks, params: FitParameters) -> npt.NDArray[np.intp]:
    """Read ``source`` for the ``n_top_features`` columns that vary most; features included in any case are among them.

    NaN is filled as the fit fills it.

    Raises
    ------
    NonFiniteInput
        If entries are infinite, or NaN is refused.
    InvalidInput
        If counts are negative, or no curve can be fitted to their variances.
    """
    standardizes = by_counts(params)
    found = run_pass(_moments(source.shape[1], params), COUNTS if standardizes else VARIANCES)
    if params.missing == "error":
        refuse_non_finite(found["nonfinite"])
    else:
        refuse_infinite(found["nonfinite"])
    batches: Batches | None = params.top_features_batch
    moments: ColumnMoments = found["moments"] if batches is None else found["moments"].whole
    weights: RowWeights | None = params.row_weights
    n = source.shape[0] if weights is None else weights.total
    fill = _fill(moments, params)
    of_all = _filled(moments, n, None if params.missing == "mean" else fill)
    if not standardizes:
        return largest(of_all[1], params)
    _refuse_negative(moments, source)
    if batches is None:
        ns, names, filled = [n], [""], [of_all]
    else:
        ns, names = batches.cut.counts.tolist(), [f" of batch {name!r}" for name in batches.names]
        filled = [_filled(each, rows, fill) for each, rows in zip(found["moments"], ns, strict=True)]
    usual = np.array(
        [
            usual_deviations(mean, squares / degrees_of_freedom(rows), name)
            for (mean, squares), rows, name in zip(filled, ns, names, strict=True)
        ]
    )
    mean, rows = np.array([mean for mean, _ in filled]), np.array(ns, dtype=np.float64)[:, None]
    clipped = run_pass(_clipped(mean, np.sqrt(rows) * usual, mean[0] if fill is None else fill, params), STANDARDIZED)
    scores = np.array([clipped] if batches is None else list(clipped)) / (degrees_of_freedom(rows) * usual**2)
    return largest(in_batches(scores, whole(params.n_top_features) or 0), params)


def in_batches(scores: Floats, n_top: int) -> Floats:
    """Scores (d,) of columns by their standardized variances (b, d) in batches: minus their places in scanpy's order.

    That order is by the median rank of a column over the batches in which it is among the first ``n_top``, then by the
    number of these batches. Columns that are among them in no batch come last.
    One batch has the order of its variances.
    """
    order = np.argsort(-scores, axis=1, kind="stable")
    ranks = np.empty(scores.shape)
    np.put_along_axis(ranks, order, np.arange(scores.shape[1], dtype=np.float64)[None, :], axis=1)
    ranks[ranks >= n_top] = np.inf
    ranks.sort(axis=0)
    n_among, columns = np.isfinite(ranks).sum(axis=0), np.arange(scores.shape[1])
    last = np.maximum(n_among - 1, 0)
    median = (ranks[last // 2, columns] + ranks[(last + 1) // 2, columns]) / 2
    places = np.empty(scores.shape[1])
    places[np.lexsort((-n_among, median))] = columns
    return -places


def _moments(n_features: int, params: FitParameters) -> Accumulator[Any]:
    """Recipe of the first read."""
    batches: Batches | None = params.top_features_batch
    if batches is None:
        return weighted(means_recipe(n_features), params.row_weights)
    moments = Parted(Moments(n_features), batches.cut)
    return Together({"nonfinite": NonFinite(n_features), "moments": moments})


def _fill(moments: ColumnMoments, params: FitParameters) -> Floats | None:
    """Values (d,) that stand for NaN; None if there is none."""
    if params.missing == "error":
        return None
    return np.zeros_like(moments.mean) if params.missing == "zero" else _filled(moments, 0, None)[0]


def _filled(moments: ColumnMoments, n: float, fill: Floats | None) -> tuple[Floats, Floats]:
    """Means and sums of squares (d,) of counts whose missing ones are ``fill (d,)``; of those that are there if None.

    ``n`` is the number of rows, or the sum of their weights.
    """
    count, sums, squares = moments.count, _sums_of_counts(moments), moments.squared_deviations
    if fill is None:
        return sums / np.where(count > 0, count, 1), squares
    lacking = n - count
    return (sums + lacking * fill) / n, squares + count / n * lacking * (moments.mean - fill) ** 2


def _sums_of_counts(moments: ColumnMoments) -> Floats:
    """Sums of columns, without the rounding of those that are whole numbers.

    Loess cuts the columns into groups by their means. So columns of equal sums must have means of the same bits, in
    whatever order rows were added.
    """
    sums: Floats = moments.mean * moments.count
    near = np.rint(sums)
    return np.where(np.abs(sums - near) <= 1e-10 * np.maximum(near, 1.0), near, sums)


def _clipped(mean: Floats, limit: Floats, fill: Floats, params: FitParameters) -> Accumulator[Any]:
    """Recipe of the second read of counts, about the means of each batch ``(b, d)``."""
    first, *others = (ClippedSquares(*each) for each in zip(mean, limit, strict=True))
    recipe: Accumulator[Any] = first
    if params.top_features_batch is not None:
        recipe = PartedSquares(first, params.top_features_batch.cut, tuple(others))
    if params.missing != "error":
        recipe = Imputed(recipe, fill)
    return weighted(recipe, params.row_weights)


def usual_deviations(mean: Floats, variance: Floats, of_batch: str = "") -> Floats:
    """Standard deviations (d,) that are usual at the means of counts (d,), by loess on the logarithms of both.

    Columns without variance have 1. ``of_batch`` names the batch in an error.

    Raises
    ------
    InvalidInput
        If the curve cannot be fitted.
    """
    varies, logs = variance > 0, np.zeros_like(mean)
    if varies.any():
        try:
            logs[varies] = loess(np.log10(mean[varies]), np.log10(variance[varies]), span=SPAN, degree=DEGREE)
        except ValueError as error:
            raise InvalidInput(
                f"top_features_flavor='seurat_v3' fits a curve to the variances of {int(varies.sum())} "
                f"columns{of_batch}, and loess cannot ({error}). Leave out columns that are 0 in nearly all "
                "rows, or use top_features_flavor='variance'."
            ) from error
    deviations: Floats = np.sqrt(10.0**logs)
    return deviations


def _refuse_negative(moments: ColumnMoments, source: RowBlocks) -> None:
    negative = np.flatnonzero(moments.minimum < 0)
    if negative.size:
        column, names = int(negative[0]), getattr(source, "feature_names", None)
        called = f"column {column}" + ("" if names is None else f" ({names[column]})")
        raise InvalidInput(
            f"top_features_flavor='seurat_v3' takes counts, but {called} of {source.describe()} holds "
            f"{moments.minimum[column]:g}. Give raw counts, such as array='layers/counts' of AnnData, or use "
            "top_features_flavor='variance'."
        )


def largest(scores: Floats, params: FitParameters) -> npt.NDArray[np.intp]:
    """The ``n_top_features`` columns of largest score, ascending; those included in any case come first."""
    scores = scores.copy()
    scores[np.array(params.rules.include, dtype=np.intp)] = np.inf
    columns: npt.NDArray[np.intp] = np.sort(np.argsort(-scores, kind="stable")[: whole(params.n_top_features)])
    return columns
