"""R factor of the centered matrix, by a running QR (TSQR with the centring row).

Each batch of rows is centered about its own mean; the difference of the two means enters as one more row,
``sqrt(n1 n2 / (n1 + n2)) (mean1 - mean2)``, which is the pairwise formula of Chan, Golub & LeVeque (1983) written as
a stack of rows. So the centered R never comes from a difference.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spae_dask.maths.linalg.triangular import add_rows, block_size, positive_diagonal, stack_triangles
from spae_dask.passes.accumulators.base import Floats, Rows, State, panel_rows_for, total_of, weighed
from spae_dask.passes.accumulators.roundings import AROUND, ROUNDOFF
from spae_dask.passes.accumulators.shift import about_their_mean, moved, step_between


@dataclass(frozen=True, eq=False)
class CenteredTriangle:
    """Triangular summary of the rows of X.

    Attributes
    ----------
    count : float
        Number of rows, or the sum of their weights.
    center : ndarray (2, d)
        Column means, in two floats.
    triangle : ndarray (d, d)
        R, upper triangular with nonnegative diagonal, ``R'R = (X - mean)'(X - mean)``.
    error : float
        R is exact for rows of which each column errs by at most ``error`` of its length.
    mean_error : float
        Largest error of the mean of a column, over its length and times the root of the count.
    lengths : ndarray (d,) or None
        Lengths that errors are relative to, where they are not those of R.
    """

    count: float
    center: Floats
    triangle: Floats
    error: float
    mean_error: float
    lengths: Floats | None = None

    @property
    def mean(self) -> Floats:
        """Column means ``(d,)``, each the nearest float64 number."""
        mean: Floats = self.center[0]
        return mean


@dataclass(frozen=True)
class Triangular:
    """Recipe for the R factor of X.

    One pass; 2 d^2 multiply-adds per row.

    Parameters
    ----------
    n_features : int
        d.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.triangular.Triangular"
    takes_weights: ClassVar[bool] = True

    n_features: int

    @property
    def state_nbytes(self) -> int:
        """A d x d triangle (stored square), the mean in two floats, and two numbers."""
        return 8 * self.n_features * (self.n_features + 2) + 16

    @property
    def panel_rows(self) -> int:
        """About d rows: then the Householder panels are neither flat nor out of cache."""
        return panel_rows_for(self.n_features, at_least=min(1024, max(256, self.n_features)))

    def work_nbytes(self, n_rows: int) -> int:
        """The centered rows, a column-major copy, and LAPACK's block reflectors with their scratch."""
        return 8 * self.n_features * (2 * n_rows + 2 + 2 * block_size(self.n_features))

    @property
    def merge_scratch_nbytes(self) -> int:
        """A copy of the second triangle, which LAPACK overwrites."""
        return 8 * self.n_features**2

    @property
    def flops_per_row(self) -> float:
        """Householder QR of the rows under a triangle."""
        return 2.0 * self.n_features * self.n_features + 3.0 * self.n_features

    def zero(self) -> State:
        """No rows."""
        d = self.n_features
        return {
            "count": np.zeros((), dtype=np.int64),
            "mean": np.zeros((2, d)),
            # QR factorizations behind the triangle, one after the other
            "depth": np.zeros(()),
            "triangle": np.zeros((d, d), order="F"),
        }

    def update(
        self,
        state: State,
        rows: Rows,
        first_row: int,  # noqa: ARG002 - rows are exchangeable
        roots: Floats | None = None,
    ) -> State:
        """Stack the centered rows and the centring row under the triangle."""
        n_rows, d = rows.shape
        if n_rows == 0:
            return state
        n, m = state["count"].item(), total_of(n_rows, roots)
        counted, mean = about_their_mean(rows, roots)
        step = step_between(state["mean"], mean) if n else np.zeros(d)
        stacked = np.empty((n_rows + 1, d), order="F")
        stacked[:n_rows] = weighed(counted, roots)
        stacked[n_rows] = np.sqrt(n * m / (n + m)) * step
        # in place, unless the state was stored and came back row-major: then LAPACK returns a column-major copy
        state["triangle"] = add_rows(state["triangle"], stacked)
        state["mean"] = moved(state["mean"], step * (m / (n + m))) if n else mean
        state["depth"] += 1.0
        state["count"] += m
        return state

    def merge(self, a: State, b: State) -> State:
        """Stack two triangles and their centring row."""
        if a["count"] == 0 or b["count"] == 0:
            only = b if a["count"] == 0 else a
            return {name: array.copy(order="F") for name, array in only.items()}
        n_a, n_b = a["count"].item(), b["count"].item()
        step = step_between(a["mean"], b["mean"])
        row = np.array(np.sqrt(n_a * n_b / (n_a + n_b)) * step[None, :], order="F")
        return {
            "count": np.array(n_a + n_b, dtype=a["count"].dtype),
            "mean": moved(a["mean"], step * (n_b / (n_a + n_b))),
            "depth": np.asarray(np.maximum(a["depth"], b["depth"]) + 1.0),
            "triangle": add_rows(stack_triangles(a["triangle"], b["triangle"]), row),
        }

    def weighted(self, state: State, count: int) -> State:
        """State of the same rows, counted as so many: each has the weight of this count over theirs."""
        return {
            "count": np.array(count, dtype=np.int64),
            "mean": state["mean"].copy(),
            "depth": np.asarray(state["depth"] + 1.0),
            "triangle": np.sqrt(count / int(state["count"])) * state["triangle"],
        }

    def result(self, state: State) -> CenteredTriangle:
        """Mean and R; of no rows, zeros."""
        return CenteredTriangle(
            count=state["count"].item(),
            center=state["mean"].copy(),
            triangle=positive_diagonal(state["triangle"]),
            error=2.0 * ROUNDOFF * (self.n_features + float(state["depth"]) + AROUND),
            mean_error=ROUNDOFF * (self.panel_rows + float(state["depth"]) + AROUND),
        )
