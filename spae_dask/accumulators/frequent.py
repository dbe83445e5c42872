"""Frequent Directions over the rows of X, centered exactly, with its certified bounds."""

from dataclasses import dataclass

import numpy as np

from spae_dask.accumulators.base import Floats, Rows, State, panel_rows_for
from spae_dask.linalg.frequent import optimum_interval, shrink
from spae_dask.linalg.scaling import squared_columns


@dataclass(frozen=True, eq=False)
class FrequentSketch:
    """A Frequent Directions sketch of the centered rows.

    Attributes
    ----------
    count : int
        Rows seen.
    mean : ndarray (d,)
        Column means.
    sketch : ndarray (at most l, d)
        B.
    shrunk : float
        Sum of all that was taken off the squared singular values.
    squared_deviations : ndarray (d,)
        Squared norms of the centered columns.
    """

    count: int
    mean: Floats
    sketch: Floats
    shrunk: float
    squared_deviations: Floats

    def optimum_interval(
        self, k: int, origin: Floats | None = None, scale: Floats | None = None
    ) -> tuple[float, float]:
        """Certified bounds on the loss of the best rank-k approximation of X.

        Parameters
        ----------
        k : int
            Rank.
        origin : ndarray (d,), optional
            What X is taken about, if not its mean: one more row under the sketch, exactly.
        scale : ndarray (d,), optional
            Divides the columns. The bounds then widen by the k smallest scales, squared.
        """
        origin = self.mean if origin is None else origin
        divisor = np.ones(self.mean.size) if scale is None else scale
        sketch, left = self.about(origin, divisor)
        # the k largest eigenvalues of what is missing are at most those of its bound, shrunk / scale^2
        shrunk = self.shrunk * float(np.mean(np.sort(divisor**-2)[::-1][:k]))
        return optimum_interval(sketch, shrunk, float(np.vdot(sketch, sketch) + np.sum(left)), k)

    def about(self, origin: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Sketch B of X about ``origin`` and divided by ``scale``, both (d,), and what it misses of every column.

        Returns
        -------
        sketch : ndarray (at most l + 1, d)
            B; another origin than the mean is one more row, exactly.
        left : ndarray (d,)
            ``||x_j||^2 - ||b_j||^2``, the diagonal of ``X'X - B'B``; zero where only rounding is left.
        """
        # a difference of squares: below 1e-12 of the column it is rounding
        left = self.squared_deviations - squared_columns(self.sketch)
        left = np.where(left > 1e-12 * self.squared_deviations, left, 0.0) if self.shrunk > 0.0 else 0.0 * left
        offset = np.sqrt(self.count) * (self.mean - origin)
        sketch = np.vstack([self.sketch, offset]) if offset.any() else self.sketch
        return sketch / scale, left / scale**2


@dataclass(frozen=True)
class FrequentDirections:
    """Recipe for a Frequent Directions sketch. One pass; about 8 l operations an entry.

    Rows are centered about the mean of their panel; the difference of two means enters as one more row (Chan, Golub &
    LeVeque 1983), as in ``Triangular``, so the sketch is of the exactly centered matrix.

    Parameters
    ----------
    n_features : int
        d.
    size : int
        l, rows kept.
    """

    n_features: int
    size: int

    @property
    def state_nbytes(self) -> int:
        """L by d, a mean, and three numbers."""
        return 8 * (self.size * self.n_features + 2 * self.n_features + 3)

    @property
    def panel_rows(self) -> int:
        """As many new rows as are kept: then shrinking costs O(l) an entry."""
        return max(self.size, panel_rows_for(self.n_features, at_least=16))

    @property
    def work_nbytes(self) -> int:
        """The stacked rows and their singular value decomposition."""
        return 8 * 4 * (self.size + self.panel_rows + 1) * self.n_features

    @property
    def flops_per_row(self) -> float:
        """Singular value decomposition of two panels, spread over one."""
        return 8.0 * self.size * self.n_features

    def zero(self) -> State:
        """No rows."""
        return {
            "count": np.zeros((), dtype=np.int64),
            "kept": np.zeros((), dtype=np.int64),
            "mean": np.zeros(self.n_features),
            "sketch": np.zeros((self.size, self.n_features)),
            "shrunk": np.zeros(()),
            "squared": np.zeros(self.n_features),
        }

    def update(self, state: State, rows: Rows, first_row: int) -> State:  # noqa: ARG002 - rows are exchangeable
        """Stack the centered rows and the centring row under the sketch, then shrink."""
        if rows.shape[0] == 0:
            return state
        mean = rows.mean(axis=0, dtype=np.float64)
        centered = np.subtract(rows, mean, dtype=np.float64)
        new: State = {
            "count": np.array(rows.shape[0], dtype=np.int64),
            "mean": mean,
            "rows": centered,
            "shrunk": np.zeros(()),
            "squared": np.einsum("ij,ij->j", centered, centered),
        }
        for name, array in self._stack(state, state["sketch"][: int(state["kept"])], new).items():
            state[name][...] = array
        return state

    def merge(self, a: State, b: State) -> State:
        """Stack two sketches and their centring row, then shrink."""
        if a["count"] == 0 or b["count"] == 0:
            return {name: array.copy() for name, array in (b if a["count"] == 0 else a).items()}
        return self._stack(a, a["sketch"][: int(a["kept"])], b | {"rows": b["sketch"][: int(b["kept"])]})

    def _stack(self, a: State, above: Floats, b: State) -> State:
        n_a, n_b = int(a["count"]), int(b["count"])
        step = b["mean"] - a["mean"]
        centring = np.sqrt(n_a * n_b / (n_a + n_b)) * step
        stacked = np.vstack([above, b["rows"], centring[None, :]] if n_a else [above, b["rows"]])
        kept, delta = shrink(stacked, self.size)
        sketch = np.zeros((self.size, self.n_features))
        sketch[: kept.shape[0]] = kept
        return {
            "count": np.array(n_a + n_b, dtype=np.int64),
            "kept": np.array(kept.shape[0], dtype=np.int64),
            "mean": a["mean"] + step * (n_b / (n_a + n_b)),
            "sketch": sketch,
            "shrunk": np.asarray(a["shrunk"] + b["shrunk"] + delta),
            "squared": a["squared"] + b["squared"] + (centring**2 if n_a else 0.0),
        }

    def result(self, state: State) -> FrequentSketch:
        """The sketch and its bounds."""
        return FrequentSketch(
            count=int(state["count"]),
            mean=state["mean"].copy(),
            sketch=state["sketch"][: int(state["kept"])].copy(),
            shrunk=float(state["shrunk"]),
            squared_deviations=state["squared"].copy(),
        )
