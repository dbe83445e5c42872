"""Read that leaves a row sketch: moments, a core that stands in for X, and bounds on PCA's loss."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.maths.linalg.design import Design
from spae_dask.maths.linalg.spectral import right_singular
from spae_dask.passes.accumulators import (
    Accumulator,
    Beside,
    ColumnMoments,
    CovariateProducts,
    CrossProducts,
    Folded,
    FoldedByNumber,
    FoldStates,
    FrequentDirections,
    FrequentSketch,
    Imputed,
    Moments,
    NonFinite,
    Products,
    RowFolds,
    RowSketch,
    SketchedRows,
    Together,
)
from spae_dask.passes.accumulators.base import RunPass
from spae_dask.passes.accumulators.moments import degrees_of_freedom
from spae_dask.passes.accumulators.nonfinite import refuse_non_finite
from spae_dask.passes.accumulators.shift import SMALLEST_SQUARE, step_between, vanishing
from spae_dask.strategies.core import missing_fill
from spae_dask.strategies.core_summary import Explained, Floats, constant_columns, divisors, refuse_overflow
from spae_dask.strategies.folds import FoldPlan
from spae_dask.strategies.parameters import ScaleLike
from spae_dask.strategies.residual_core import coefficients
from spae_dask.strategies.rounding import ROUNDOFF, Rounding

Columns = npt.NDArray[np.intp]

MOMENTS_HELD = 16
"""Vectors of length d that are held throughout: means, scales, lengths, fills, and what is made of them."""


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
    n_samples : float
        n, or the sum of the weights of the rows.
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
    design : Design or None
        Covariates; W and the lengths are those of what they leave.
    explained : Explained or None
        Part of the data that they explain, in its own units.
    folded : FoldedSketch or None
        Moments and row sketches of folds, if the read kept any.
    """

    n_samples: float
    center: Floats
    scale: Floats
    lengths: Floats
    constant: Columns
    fill: Floats | None
    W: Floats
    frequent: FrequentSketch | None
    rounding: Rounding
    n_left_out: int = 0
    design: Design | None = None
    explained: Explained | None = None
    folded: "FoldedSketch | None" = None

    @property
    def mean(self) -> Floats:
        """Subtracted from X ``(d,)``: the nearest float64 numbers."""
        mean: Floats = self.center[0]
        return mean

    @property
    def total(self) -> float:
        """``||X||^2`` of X centered and scaled."""
        return float(np.sum(self.lengths**2))

    @property
    def dropped(self) -> Columns:
        """Columns that are zero once they are centered, though their entries may not be."""
        return self.constant if self.center.any() else np.zeros(0, dtype=np.intp)

    def without_sketch(self) -> "Sketched":
        """The same without W and folds, whose memory is then free: a part of it would keep all of it alive."""
        return replace(self, W=np.zeros((0, self.W.shape[1])), folded=None)

    def recipe(self, recipe: Accumulator[Any]) -> Accumulator[Any]:
        """The recipe on data whose NaN entries are filled, if they are to be."""
        return recipe if self.fill is None else Imputed(recipe, self.fill)

    def leading(self, k: int) -> Floats:
        """First k right singular vectors of W (d, k)."""
        return right_singular(self.W, k)[1]

    def products(self, columns: Columns, Z: Floats, *, single: bool, folds: RowFolds | None = None) -> Accumulator[Any]:
        """Recipe of the second read: products of chosen columns and directions with all columns, for each fold."""
        if self.design is None:
            products: Accumulator[Any] = CrossProducts(columns, self.center, self.scale, Z, single=single)
            return self.recipe(products if folds is None else Folded(products, folds, self.scale.size))
        q, p = self.design.width, Z.shape[1]
        beside = CrossProducts(
            np.concatenate([np.arange(q), q + columns]),
            np.hstack([np.zeros((2, q)), self.center]),
            np.concatenate([np.ones(q), self.scale]),
            np.vstack([np.zeros((q, p)), Z]),
            single=single,
        )
        return self.recipe(Beside(beside, self.design, self.scale.size))

    def settled(self, products: Products, chosen: Columns) -> "tuple[Sketched, Products]":
        """The same, and products of the second read, of what covariates leave by exact products."""
        if self.design is None or self.explained is None:
            return self, products
        q = self.design.width
        ZX, by_products = products.cross[:q, q:], products.gram[q:, :q]
        effects = coefficients(products.gram[:q, :q], ZX)
        first = self.explained.effects / self.scale
        before = np.sqrt(self.lengths**2 + self.n_samples * np.sum(first**2, axis=0))
        lengths = before + np.sqrt(self.n_samples) * np.abs(effects).sum(axis=0)
        error = products.error + (q + 4) * ROUNDOFF
        squares = before**2 - np.einsum("ij,ij->j", effects, ZX)
        wholly = self.explained.wholly | ((squares <= error * lengths**2) & (before > 0.0))
        squares = np.where(wholly, 0.0, np.maximum(squares, 0.0))
        cross = products.cross[q:, q:] - by_products @ effects
        directions = products.directions[q:] - effects.T @ products.directions[:q]
        cross[:, wholly], directions[wholly] = 0.0, 0.0
        cross[wholly[chosen]] = 0.0
        left = replace(
            products,
            gram=(cross[:, chosen] + cross[:, chosen].T) / 2,
            cross=cross,
            directions=directions,
            column_norms=squares,
            error=error,
            noise=products.noise + 4 * ROUNDOFF,
        )
        about = replace(
            self,
            lengths=np.sqrt(squares),
            constant=np.union1d(self.constant, np.flatnonzero(wholly)),
            rounding=replace(self.rounding, lengths=lengths, excess=float(np.sum(lengths**2 - squares))),
            explained=Explained(effects * self.scale, wholly),
        )
        return about, left

    def pca_interval(self, k: int) -> tuple[float, float]:
        """Certified bounds on PCA's loss, by Frequent Directions; nothing but ``[0, total]`` without."""
        if self.frequent is None:
            return 0.0, self.total + self.rounding.pca_error(0.0, 0)
        lower, upper = self.frequent.optimum_interval(k, self.center, self.scale)
        error = self.rounding.pca_error(upper, k)
        return max(lower - error, 0.0), min(upper + error, self.total + error)


def sketch_recipe(
    n_features: int, sizes: SketchSizes, seed: int, design: Design | None = None, folds: RowFolds | None = None
) -> Accumulator[Any]:
    """Recipe of the read. With folds it keeps moments and row sketches of each, and there are no covariates."""
    moments: Accumulator[Any] = Moments(n_features)
    parts: dict[str, Accumulator[Any]] = {
        "nonfinite": NonFinite(n_features),
        "moments": moments if folds is None else Folded(moments, folds, n_features),
    }
    beside = 0 if design is None else design.width
    for stream, name in enumerate(sizes.sketches):
        sketch: Accumulator[Any] = RowSketch(
            beside + n_features, sizes.rows, seed=seed, stream=stream, group=sizes.group
        )
        if folds is not None:
            sketch = FoldedByNumber(sketch, folds, n_features)
        parts[name] = sketch if design is None else Beside(sketch, design, n_features)
    if design is not None:
        parts["covariates"] = CovariateProducts.of(n_features, design)
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
    design: Design | None = None,
    folds: FoldPlan | None = None,
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
    design : Design or None
        Covariates, of what they leave of the data the sketch is.
    folds : FoldPlan or None
        Folds of the rows; there are no covariates then.

    Raises
    ------
    NonFiniteInput
        If there are NaN entries and ``missing="error"``, or infinite entries.
    InvalidInput
        If squares of the entries overflow.
    """
    filled = missing_fill(run_pass, n_features, missing)
    recipe = sketch_recipe(n_features, sizes, seed, design, None if folds is None else folds.rows)
    found = run_pass(recipe if filled is None else Imputed(recipe, filled), "sketch")
    refuse_non_finite(found["nonfinite"])
    about = functools.partial(_sketched, center=center, scale=scale, integers=integers, fill=filled)
    if folds is None:
        sketches = (found.pop(name) for name in sizes.sketches)  # one after another: none is needed when it is moved
        all_rows = about(found["moments"], sketches, design=design, products=found.get("covariates"))
        return replace(all_rows, frequent=found.get("frequent"))
    folded = FoldedSketch(folds, found["moments"], [found[name] for name in sizes.sketches], about)
    return replace(folded.whole(), frequent=found.get("frequent"), folded=folded)


def _sketched(
    moments: ColumnMoments,
    sketches: Iterable[SketchedRows],
    *,
    center: bool,
    scale: ScaleLike,
    integers: bool,
    fill: Floats | None,
    design: Design | None = None,
    products: Any = None,
) -> Sketched:
    """Moments and row sketches of some rows as they stand for those rows, centered and scaled."""
    n_features, n = moments.count.size, moments.count[0].item()
    refuse_vanishing_moments(moments)
    explained, deviation = None, moments.standard_deviation
    constant = moments.constant if integers else constant_columns(deviation, moments.mean)
    if design is not None:
        explained, left = _explained(products.about(moments.center), moments, n)
        deviation = np.sqrt(left / degrees_of_freedom(n))
        constant = constant | explained.wholly
    divisor, constant = divisors(scale, moments.mean, deviation, constant)
    origin = moments.center if center else np.zeros((2, n_features))
    offset = step_between(origin, moments.center)
    squares = (moments.squared_deviations + n * offset**2) / divisor**2
    refuse_overflow(squares, limit=np.finfo(np.float64).max / n_features)
    q = 0 if design is None else design.width
    about = np.hstack([np.zeros((2, q)), origin])
    parts = [each.about(about) for each in sketches]
    W = parts[0] if len(parts) == 1 else np.vstack([np.zeros((0, q + n_features)), *parts])
    left_out, lengths = constant & ~moments.constant & center, np.sqrt(squares)
    if explained is not None:
        W = W[:, q:] - W[:, :q] @ explained.effects
        lengths = lengths + np.sqrt(n) * np.abs(explained.effects).sum(axis=0) / divisor
        squares, left_out = left / divisor**2, left_out & ~explained.wholly
    W /= divisor
    rounding = Rounding(
        lengths,
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
        fill=fill,
        W=W,
        frequent=None,
        rounding=rounding,
        n_left_out=int(np.count_nonzero(left_out)),
        design=design,
        explained=explained,
    )


@dataclass(frozen=True, eq=False)
class FoldedSketch:
    """Moments and row sketches of folds.

    Attributes
    ----------
    plan : FoldPlan
        The folds.
    moments : FoldStates
        Moments of each fold.
    sketches : sequence of FoldStates
        Row sketches of each fold, whose sum is that of all rows.
    about : callable
        Makes a ``Sketched`` of moments and row sketches.
    """

    plan: FoldPlan
    moments: FoldStates
    sketches: Sequence[FoldStates]
    about: Callable[[ColumnMoments, Iterable[SketchedRows]], Sketched]

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return self.plan.rows.n_folds

    def whole(self) -> Sketched:
        """All rows."""
        return self.about(self.moments.whole(), [each.whole() for each in self.sketches])

    def without(self, fold: int) -> Sketched:
        """Rows of all other folds."""
        return self.about(self.moments.without(fold), [each.without(fold) for each in self.sketches])

    def without_sketches(self) -> "FoldedSketch":
        """The same without the sketches, whose memory is then free."""
        return replace(self, sketches=())

    def held_out(self, fold: int, training: Sketched) -> Floats:
        """Row sketch of a fold about the mean of the others and in their scale."""
        W = np.vstack([each.only(fold).about(training.center) for each in self.sketches])
        W /= training.scale
        return W


def _explained(products: Floats, moments: ColumnMoments, n: float) -> tuple[Explained, Floats]:
    """The part that covariates explain, by products (q, d) with X about its means, and squares (d,) of the rest."""
    effects, total = products / n, moments.squared_deviations
    left = total - n * np.sum(effects**2, axis=0)
    lengths = np.sqrt(total) + np.sqrt(n) * np.abs(effects).sum(axis=0)
    error = moments.error + (len(effects) + 4) * ROUNDOFF
    wholly = (left <= error * lengths**2) & (total > 0.0)
    return Explained(effects, wholly), np.where(wholly, 0.0, np.maximum(left, 0.0))


def refuse_vanishing_moments(moments: ColumnMoments) -> None:
    """Raise ``InvalidInput`` if a column varies but the sum of its squared deviations underflows."""
    lost = np.flatnonzero(~moments.constant & (moments.squared_deviations < SMALLEST_SQUARE))
    if lost.size:
        raise vanishing(int(lost[0]))
