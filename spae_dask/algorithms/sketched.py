"""The read that leaves a row sketch: exact moments, a core that stands in for X, and bounds on PCA's loss."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.accumulators import (
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
from spae_dask.algorithms.core import RunPass, missing_fill
from spae_dask.algorithms.core_summary import Floats, constant_columns, refuse_overflow
from spae_dask.algorithms.non_finite import refuse_non_finite

Columns = npt.NDArray[np.intp]


@dataclass(frozen=True)
class SketchSizes:
    """What the sketches of a read keep.

    Attributes
    ----------
    rows : int
        Rows of the row sketch W; 0 for none.
    copies : int
        Independent row sketches of so many rows; W holds one below the other.
    group : int
        Rows of X that are summed before they are sketched, see ``RowSketch``.
    frequent_rows : int
        Rows of the Frequent Directions sketch; 0 for none, and no certified bound.
    """

    rows: int
    group: int = 1
    frequent_rows: int = 0
    copies: int = 1

    @property
    def sketches(self) -> tuple[str, ...]:
        """Names of the row sketches in the read."""
        return ("sketch", *(f"sketch {copy}" for copy in range(1, self.copies))) if self.rows else ()


@dataclass(frozen=True, eq=False)
class Sketched:
    """What the read leaves.

    Attributes
    ----------
    n_samples : int
        n.
    mean, scale : ndarray (d,)
        Subtracted from X, and what X is then divided by.
    total : float
        ``||X||^2`` of X centered and scaled, exact.
    constant : ndarray of int
        Columns without variance.
    fill : ndarray (d,) or None
        What stands for NaN; None if NaN was refused.
    W : ndarray (m, d)
        Row sketch of X centered and scaled.
    frequent : FrequentSketch or None
        Of X centered at its means, not scaled.
    """

    n_samples: int
    mean: Floats
    scale: Floats
    total: float
    constant: Columns
    fill: Floats | None
    W: Floats
    frequent: FrequentSketch | None

    def without_sketch(self) -> "Sketched":
        """The same without W, whose memory is then free: a part of it would keep all of it alive."""
        return replace(self, W=np.zeros((0, self.W.shape[1])))

    def recipe(self, recipe: Accumulator[Any]) -> Accumulator[Any]:
        """The recipe on data whose NaN entries are filled, if they are to be."""
        return recipe if self.fill is None else Imputed(recipe, self.fill)

    def pca_interval(self, k: int) -> tuple[float, float]:
        """Certified bounds on PCA's loss, by Frequent Directions; nothing but ``[0, total]`` without."""
        if self.frequent is None:
            return 0.0, self.total
        return self.frequent.optimum_interval(k, self.mean, self.scale)


def sketch_recipe(n_features: int, sizes: SketchSizes, seed: int) -> Accumulator[Any]:
    """Recipe of the read."""
    parts: dict[str, Accumulator[Any]] = {
        "nonfinite": NonFinite(n_features),
        "moments": Moments(n_features),
    }
    for stream, name in enumerate(sizes.sketches):
        parts[name] = RowSketch(n_features, sizes.rows, seed=seed, stream=stream, group=sizes.group)
    if sizes.frequent_rows:
        parts["frequent"] = FrequentDirections(n_features, sizes.frequent_rows)
    return Together(parts)


def read_sketch(
    run_pass: RunPass,
    n_features: int,
    sizes: SketchSizes,
    *,
    center: bool,
    scale: bool,
    missing: str,
    seed: int,
) -> Sketched:
    """Read the data once, twice with ``missing="mean"``, into sketches and exact moments.

    Parameters
    ----------
    run_pass : callable
        Sweeps the data.
    n_features : int
        d.
    sizes : SketchSizes
        What to keep.
    center, scale : bool
        Whether to center, and to divide columns by their standard deviations (divisor n - 1).
    missing : {"error", "mean", "zero"}
        What NaN means.
    seed : int
        Of the sketch, which depends on it and on the rows' global numbers only.

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
    constant = constant_columns(moments.standard_deviation, moments.mean)
    divisor = np.where(constant, 1.0, moments.standard_deviation) if scale else np.ones(n_features)
    mean = moments.mean if center else np.zeros(n_features)
    squares = (moments.squared_deviations + n * (moments.mean - mean) ** 2) / divisor**2
    refuse_overflow(squares, limit=np.finfo(np.float64).max / n_features)
    W = np.vstack([np.zeros((0, n_features)), *(found[name].about(mean) for name in sizes.sketches)])
    W /= divisor
    if center:
        W[:, constant] = 0.0
        squares[constant] = 0.0
    total = float(np.sum(squares))
    return Sketched(n, mean, divisor, total, np.flatnonzero(constant), filled, W, found.get("frequent"))
