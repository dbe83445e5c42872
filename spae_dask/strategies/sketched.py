"""Read that leaves a row sketch: moments, a core that stands in for X, and bounds on PCA's loss."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.passes.accumulators import (
    Accumulator,
    ColumnMoments,
    FrequentDirections,
    FrequentSketch,
    Imputed,
    Moments,
    NonFinite,
    RowSketch,
    Together,
)
from spae_dask.passes.accumulators.base import RunPass
from spae_dask.passes.accumulators.nonfinite import refuse_non_finite
from spae_dask.passes.accumulators.shift import SMALLEST_SQUARE, step_between, vanishing
from spae_dask.strategies.core import missing_fill
from spae_dask.strategies.core_summary import Floats, constant_columns, divisors, refuse_overflow
from spae_dask.strategies.parameters import ScaleLike
from spae_dask.strategies.rounding import Rounding

Columns = npt.NDArray[np.intp]


@dataclass(frozen=True)
class SketchSizes:
    """Sizes of the sketches that a read keeps.

    Attributes
    ----------
    rows : int
        Rows of the row sketch W; 0 for none.
    copies : int
        Number of independent row sketches of ``rows`` rows each; W holds one below the other.
    group : int
        Rows of X that are summed before they are sketched, see ``RowSketch``.
    frequent_rows : int
        Rows of the Frequent Directions sketch; 0 for none, and no certified bound.
    scaled : bool
        True to sketch scaled columns with Frequent Directions, so that the bounds hold for the scaled data.
    """

    rows: int
    group: int = 1
    frequent_rows: int = 0
    copies: int = 1
    scaled: bool = False

    @property
    def sketches(self) -> tuple[str, ...]:
        """Names of the row sketches in the read."""
        return ("sketch", *(f"sketch {copy}" for copy in range(1, self.copies))) if self.rows else ()


@dataclass(frozen=True, eq=False)
class Sketched:
    """Result of the read: sketches and exact moments.

    Attributes
    ----------
    n_samples : int
        n.
    center : ndarray (2, d)
        Subtracted from X, in two floats.
    scale : ndarray (d,)
        Divides the centered columns.
    lengths : ndarray (d,)
        Lengths of the columns of X centered and scaled.
    constant : ndarray of int
        Columns without variance.
    fill : ndarray (d,) or None
        Values that stand for NaN; None if NaN was refused.
    W : ndarray (m, d)
        Row sketch of X centered and scaled.
    frequent : FrequentSketch or None
        Frequent Directions sketch of X centered at its means.
    rounding : Rounding
        Errors of what was read, but for those of products yet to be made.
    n_left_out : int
        Columns that vary, but by no more than the rounding of their entries; they are left out as constant.
    """

    n_samples: int
    center: Floats
    scale: Floats
    lengths: Floats
    constant: Columns
    fill: Floats | None
    W: Floats
    frequent: FrequentSketch | None
    rounding: Rounding
    n_left_out: int = 0

    @property
    def mean(self) -> Floats:
        """Subtracted from X ``(d,)``: the nearest float64 numbers."""
        mean: Floats = self.center[0]
        return mean

    @property
    def total(self) -> float:
        """``||X||^2`` of X centered and scaled."""
        return float(np.sum(self.lengths**2))

    def without_sketch(self) -> "Sketched":
        """The same without W, whose memory is then free: a part of it would keep all of it alive."""
        return replace(self, W=np.zeros((0, self.W.shape[1])))

    def recipe(self, recipe: Accumulator[Any]) -> Accumulator[Any]:
        """The recipe on data whose NaN entries are filled, if they are to be."""
        return recipe if self.fill is None else Imputed(recipe, self.fill)

    def pca_interval(self, k: int) -> tuple[float, float]:
        """Certified bounds on PCA's loss, by Frequent Directions; nothing but ``[0, total]`` without."""
        if self.frequent is None:
            return 0.0, self.total + self.rounding.pca_error(0.0, 0)
        lower, upper = self.frequent.optimum_interval(k, self.center, self.scale)
        error = self.rounding.pca_error(upper, k)
        return max(lower - error, 0.0), min(upper + error, self.total + error)


def sketch_recipe(n_features: int, sizes: SketchSizes, seed: int) -> Accumulator[Any]:
    """Recipe of the read."""
    parts: dict[str, Accumulator[Any]] = {
        "nonfinite": NonFinite(n_features),
        "moments": Moments(n_features),
    }
    for stream, name in enumerate(sizes.sketches):
        parts[name] = RowSketch(n_features, sizes.rows, seed=seed, stream=stream, group=sizes.group)
    if sizes.frequent_rows:
        parts["frequent"] = FrequentDirections(n_features, sizes.frequent_rows, scaled=sizes.scaled)
    return Together(parts)


def read_sketch(
    run_pass: RunPass,
    n_features: int,
    sizes: SketchSizes,
    *,
    center: bool,
    scale: ScaleLike,
    missing: str,
    seed: int,
    integers: bool = False,
) -> Sketched:
    """Read the data once, twice with ``missing="mean"``, into sketches and exact moments.

    Parameters
    ----------
    run_pass : callable
        Reads the data.
    n_features : int
        d.
    sizes : SketchSizes
        Sizes of the sketches.
    center : bool
        True to center columns.
    scale : bool, str or sequence of float
        Divisors of the columns, see :func:`~spae_dask.strategies.core_summary.divisors`.
    missing : {"error", "mean", "zero"}
        Treatment of NaN entries: refuse them, or fill them with the column's mean or with zero.
    seed : int
        Seed of the sketch, which depends only on the seed and on the rows' global numbers.
    integers : bool
        True if all entries are integers, see :func:`~spae_dask.strategies.core_summary.summarize`.

    Raises
    ------
    NonFiniteInput
        If there are NaN entries and ``missing="error"``, or infinite entries.
    InvalidInput
        If squares of the entries overflow.
    """
    filled = missing_fill(run_pass, n_features, missing)
    recipe = sketch_recipe(n_features, sizes, seed)
    found = run_pass(recipe if filled is None else Imputed(recipe, filled), "sketch")
    refuse_non_finite(found["nonfinite"])
    moments: ColumnMoments = found["moments"]
    n = int(moments.count[0])
    refuse_vanishing_moments(moments)
    deviation = moments.standard_deviation
    constant = moments.constant if integers else constant_columns(deviation, moments.mean)
    divisor, constant = divisors(scale, moments.mean, deviation, constant)
    origin = moments.center if center else np.zeros((2, n_features))
    offset = step_between(origin, moments.center)
    squares = (moments.squared_deviations + n * offset**2) / divisor**2
    refuse_overflow(squares, limit=np.finfo(np.float64).max / n_features)
    W = np.vstack([np.zeros((0, n_features)), *(found[name].about(origin) for name in sizes.sketches)])
    W /= divisor
    left_out = constant & ~moments.constant & center
    rounding = Rounding(
        np.sqrt(squares),
        mean=moments.error,
        missed=np.sqrt(n) * origin[1] / divisor,
        left_out=float(np.sum(squares[left_out])),
    )
    if center:
        W[:, constant] = 0.0
        squares[constant] = 0.0
    return Sketched(
        n_samples=n,
        center=origin,
        scale=divisor,
        lengths=np.sqrt(squares),
        constant=np.flatnonzero(constant),
        fill=filled,
        W=W,
        frequent=found.get("frequent"),
        rounding=rounding,
        n_left_out=int(np.count_nonzero(left_out)),
    )


def refuse_vanishing_moments(moments: ColumnMoments) -> None:
    """Raise ``InvalidInput`` if a column varies but the sum of its squared deviations underflows."""
    lost = np.flatnonzero(~moments.constant & (moments.squared_deviations < SMALLEST_SQUARE))
    if lost.size:
        raise vanishing(int(lost[0]))
