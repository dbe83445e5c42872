"""Frequent Directions over the rows of X, centered exactly, with its certified bounds."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spae_dask.maths.linalg.frequent import optimum_interval, shrink
from spae_dask.maths.linalg.scaling import squared_columns
from spae_dask.passes.accumulators.base import Floats, Rows, State, panel_rows_for, total_of, weighed
from spae_dask.passes.accumulators.roundings import AROUND, ROUNDOFF
from spae_dask.passes.accumulators.shift import Point, about_their_mean, in_two_floats, moved, step_between


@dataclass(frozen=True, eq=False)
class FrequentSketch:
    """A Frequent Directions sketch of the centered rows.

    Attributes
    ----------
    count : float
        Rows seen, or the sum of their weights.
    center : ndarray (2, d)
        Column means, in two floats.
    sketch : ndarray (at most l, d)
        B, whose columns are in ``units``.
    units : ndarray (d,)
        Columns of X were divided by these on the way in; ones if they were not.
    shrunk : float
        Sum of all that was taken off the squared singular values, of columns in ``units``.
    squared_deviations : ndarray (d,)
        Squared norms of the centered columns.
    error : float
        Rounding of the sketch: each of its columns errs by at most ``error`` of the length of that column of X.
    """

    count: float
    center: Floats
    sketch: Floats
    units: Floats
    shrunk: float
    squared_deviations: Floats
    error: float

    @property
    def mean(self) -> Floats:
        """Column means ``(d,)``, each the nearest float64 number."""
        mean: Floats = self.center[0]
        return mean

    def optimum_interval(self, k: int, origin: Point | None = None, scale: Floats | None = None) -> tuple[float, float]:
        """Certified bounds on the loss of the best rank-k approximation of X, rounding included.

        Parameters
        ----------
        k : int
            Rank.
        origin : ndarray (d,) or (2, d), optional
            X is taken about this point instead of its mean: one more row under the sketch, exactly.
        scale : ndarray (d,), optional
            Divides the columns. The bounds then widen by the k largest ratios of units and scales, squared.
        """
        divisor = np.ones(self.units.size) if scale is None else scale
        sketch, left = self.about(self.center if origin is None else origin, divisor)
        # the k largest eigenvalues of what is missing are at most those of its bound, shrunk * (units / scale)^2
        shrunk = self.shrunk * float(np.mean(np.sort((self.units / divisor) ** 2)[::-1][:k]))
        total = float(np.vdot(sketch, sketch) + np.sum(left))
        lower, upper = optimum_interval(sketch, shrunk, total, k)
        rounding = self.error * (1 + np.sqrt(k)) ** 2 * total
        return max(lower - rounding, 0.0), min(upper + rounding, total * (1 + self.error))

    def about(self, origin: Point, scale: Floats) -> tuple[Floats, Floats]:
        """Sketch B of X about ``origin`` and divided by ``scale (d,)``, and the part of every column that it misses.

        Parameters
        ----------
        origin : ndarray (d,) or (2, d)
            Another origin than the mean is one more row, exactly.

        Returns
        -------
        sketch : ndarray (at most l + 1, d)
            B.
        left : ndarray (d,)
            ``||x_j||^2 - ||b_j||^2``, the diagonal of ``X'X - B'B``.
        """
        sketch = self.sketch * self.units
        left = np.clip(self.squared_deviations - squared_columns(sketch), 0.0, None) * (self.shrunk > 0.0)
        offset = np.sqrt(self.count) * step_between(in_two_floats(origin), self.center)
        if offset.any():
            sketch = np.vstack([sketch, offset])
        return sketch / scale, left / scale**2


@dataclass(frozen=True)
class FrequentDirections:
    """Recipe for a Frequent Directions sketch. One pass; about 8 l operations an entry.

    Rows are centered about the mean of their panel; the difference of two means enters as one more row (Chan, Golub &
    LeVeque 1983), as in ``Triangular``, so the sketch is of the exactly centered matrix.

    The bounds hold for the sketched matrix, so a matrix that will be scaled should be sketched scaled. Its scales are
    not known before the pass. With ``scaled`` each state divides columns by the largest standard deviation they have
    had so far, rounded up to a power of two. Units only grow, and dividing by more only lowers what was taken off, so
    every bound stays true.

    Parameters
    ----------
    n_features : int
        d.
    size : int
        l, rows kept.
    scaled : bool
        True to divide each column by its running scale before it is sketched.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.frequent.FrequentDirections"
    takes_weights: ClassVar[bool] = True

    n_features: int
    size: int
    scaled: bool = False

    @property
    def state_nbytes(self) -> int:
        """L by d, a mean in two floats, two vectors and four numbers."""
        return 8 * (self.size * self.n_features + 4 * self.n_features + 4)

    @property
    def panel_rows(self) -> int:
        """Number of rows: at least the l rows kept, so that shrinking costs O(l) an entry."""
        return max(self.size, panel_rows_for(self.n_features, at_least=16))

    def work_nbytes(self, n_rows: int) -> int:
        """The stacked rows and their singular value decomposition."""
        return 8 * 4 * (self.size + n_rows + 1) * self.n_features

    @property
    def merge_scratch_nbytes(self) -> int:
        """The stacked rows of both and their singular value decomposition."""
        return 8 * 4 * (2 * self.size + 1) * self.n_features

    @property
    def flops_per_row(self) -> float:
        """Singular value decomposition of two panels, spread over one."""
        return 8.0 * self.size * self.n_features

    def zero(self) -> State:
        """No rows."""
        return {
            "count": np.zeros((), dtype=np.int64),
            "kept": np.zeros((), dtype=np.int64),
            "mean": np.zeros((2, self.n_features)),
            "units": np.zeros(self.n_features) if self.scaled else np.ones(self.n_features),
            "sketch": np.zeros((self.size, self.n_features)),
            "shrunk": np.zeros(()),
            # rows that were multiplied to make the sketch, one reduction after the other
            "depth": np.zeros(()),
            "squared": np.zeros(self.n_features),
        }

    def update(
        self,
        state: State,
        rows: Rows,
        first_row: int,  # noqa: ARG002 - rows are exchangeable
        roots: Floats | None = None,
    ) -> State:
        """Stack the centered rows and the centring row under the sketch, then shrink."""
        if rows.shape[0] == 0:
            return state
        centered, mean = about_their_mean(rows, roots)
        centered = weighed(centered, roots)
        new: State = {
            "count": np.array(total_of(rows.shape[0], roots)),
            "mean": mean,
            "units": np.ones(self.n_features),
            "shrunk": np.zeros(()),
            "depth": np.zeros(()),
            "squared": np.einsum("ij,ij->j", centered, centered),
        }
        for name, array in self._stack(state, new, centered).items():
            state[name][...] = array
        return state

    def merge(self, a: State, b: State) -> State:
        """Stack two sketches and their centring row, then shrink."""
        if a["count"] == 0 or b["count"] == 0:
            return {name: array.copy() for name, array in (b if a["count"] == 0 else a).items()}
        return self._stack(a, b, b["sketch"][: int(b["kept"])])

    def _stack(self, a: State, b: State, below: Floats) -> State:
        n_a, n_b = a["count"].item(), b["count"].item()
        above = a["sketch"][: int(a["kept"])]
        step = step_between(a["mean"], b["mean"]) if n_a else np.zeros(self.n_features)
        centring = np.sqrt(n_a * n_b / (n_a + n_b)) * step
        squared = a["squared"] + b["squared"] + centring**2
        units = self._units(a, b, squared, n_a + n_b)
        divisor = np.where(units > 0.0, units, 1.0)
        parts = [above * (a["units"] / divisor), below * (b["units"] / divisor)]
        stacked = np.vstack([*parts, (centring / divisor)[None, :]] if n_a else parts)
        kept, delta = shrink(stacked, self.size)
        sketch = np.zeros((self.size, self.n_features))
        sketch[: kept.shape[0]] = kept
        return {
            "count": np.array(n_a + n_b, dtype=a["count"].dtype),
            "kept": np.array(kept.shape[0], dtype=np.int64),
            "mean": moved(a["mean"], step * (n_b / (n_a + n_b))) if n_a else b["mean"],
            "units": units,
            "sketch": sketch,
            "shrunk": np.asarray(a["shrunk"] + b["shrunk"] + delta),
            "depth": np.asarray(np.maximum(a["depth"], b["depth"]) + stacked.shape[0]),
            "squared": squared,
        }

    def _units(self, a: State, b: State, squared: Floats, n: float) -> Floats:
        """Largest units so far, a power of two; those of ``b`` count only if it was itself sketched."""
        if not self.scaled:
            return a["units"].copy()
        spread = np.sqrt(squared / n)
        now = np.ldexp(1.0, np.frexp(spread)[1])
        units = np.maximum(a["units"], np.where(spread > 0.0, now, 0.0))
        return np.maximum(units, b["units"]) if "sketch" in b else units

    def result(self, state: State) -> FrequentSketch:
        """The sketch and its bounds."""
        return FrequentSketch(
            count=state["count"].item(),
            center=state["mean"].copy(),
            sketch=state["sketch"][: int(state["kept"])].copy(),
            units=np.where(state["units"] > 0.0, state["units"], 1.0),
            shrunk=float(state["shrunk"]),
            squared_deviations=state["squared"].copy(),
            error=2.0 * ROUNDOFF * (float(state["depth"]) + AROUND),
        )
