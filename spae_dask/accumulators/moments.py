"""Count, mean, variance and range of every column, of its finite entries.

Means and squared deviations are merged pairwise (Chan, Golub & LeVeque 1983): no sum of squares is ever
subtracted from another.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.accumulators.base import Floats, Rows, State, panel_rows_for
from spae_dask.accumulators.nonfinite import all_finite


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """First two moments and range of each column's finite entries.

    Attributes
    ----------
    count : ndarray (d,) of int64
        Finite entries.
    mean : ndarray (d,)
        Their mean; 0 where there are none.
    squared_deviations : ndarray (d,)
        Sum of squared deviations from the mean.
    minimum, maximum : ndarray (d,)
        Range; ``inf`` and ``-inf`` where there are no finite entries.
    """

    count: npt.NDArray[np.int64]
    mean: Floats
    squared_deviations: Floats
    minimum: Floats
    maximum: Floats

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Columns whose finite entries are all the same, or that have none."""
        return self.minimum >= self.maximum

    @property
    def standard_deviation(self) -> Floats:
        """Root mean squared deviation with divisor ``count - 1``; 0 for constant columns."""
        variance = self.squared_deviations / np.maximum(self.count - 1, 1)
        # the mean of a constant column is rounded, so its squared deviations are not quite zero
        return np.where(self.constant, 0.0, np.sqrt(variance))


@dataclass(frozen=True)
class Moments:
    """Recipe for column moments. One pass, about five operations an entry.

    Parameters
    ----------
    n_features : int
        d.
    """

    n_features: int

    @property
    def state_nbytes(self) -> int:
        """Five vectors."""
        return 40 * self.n_features

    @property
    def panel_rows(self) -> int:
        """Whatever stays in cache."""
        return panel_rows_for(self.n_features, at_least=16)

    @property
    def work_nbytes(self) -> int:
        """Float64 copies of the rows and of their deviations, and a mask."""
        return 25 * self.n_features * self.panel_rows

    @property
    def flops_per_row(self) -> float:
        """Sum, deviation, square, two comparisons."""
        return 5.0 * self.n_features

    def zero(self) -> State:
        """No rows."""
        d = self.n_features
        return {
            "count": np.zeros(d, dtype=np.int64),
            "mean": np.zeros(d),
            "m2": np.zeros(d),
            "min": np.full(d, np.inf),
            "max": np.full(d, -np.inf),
        }

    def update(self, state: State, rows: Rows, first_row: int) -> State:  # noqa: ARG002 - rows are exchangeable
        """Moments of the rows by two looks at them, then merged into the state."""
        if rows.shape[0] == 0:
            return state
        values = rows.astype(np.float64)
        if all_finite(rows):
            count = np.full(self.n_features, rows.shape[0], dtype=np.int64)
            minimum, maximum = values.min(axis=0), values.max(axis=0)
            mean = values.mean(axis=0)
            values -= mean
        else:
            finite = np.isfinite(values)
            count = finite.sum(axis=0)
            minimum = values.min(axis=0, initial=np.inf, where=finite)
            maximum = values.max(axis=0, initial=-np.inf, where=finite)
            mean = values.sum(axis=0, where=finite) / np.maximum(count, 1)
            values = np.where(finite, values, mean) - mean
        new = {
            "count": count,
            "mean": mean,
            "m2": np.einsum("ij,ij->j", values, values),
            "min": minimum,
            "max": maximum,
        }
        return self._add(state, new)

    @property
    def sparse_up_to(self) -> float:
        """Gathering by column costs a few times what a pass over a dense panel does."""
        return 0.25

    def sparse_flops_per_row(self, density: float) -> float:
        """As dense, a stored entry."""
        return 5.0 * density * self.n_features

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:  # noqa: ARG002 - rows are not gone through
        """Values, deviations and columns of the stored entries, masked and not; vectors."""
        return 56 * n_stored + 120 * self.n_features

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:  # noqa: ARG002
        """Moments of the stored entries and of as many zeros as are not: deviations are from the mean of both."""
        m, d = rows.shape
        if m == 0:
            return state
        values, columns = rows.data.astype(np.float64), rows.indices
        zeros = m - np.bincount(columns, minlength=d)
        if not all_finite(rows.data):
            finite = np.isfinite(values)
            values, columns = values[finite], columns[finite]
        count = zeros + np.bincount(columns, minlength=d)
        mean = np.bincount(columns, weights=values, minlength=d) / np.maximum(count, 1)
        minimum, maximum = np.where(zeros > 0, 0.0, np.inf), np.where(zeros > 0, 0.0, -np.inf)
        np.minimum.at(minimum, columns, values)
        np.maximum.at(maximum, columns, values)
        values -= mean[columns]
        squares = np.bincount(columns, weights=values * values, minlength=d) + zeros * mean**2
        return self._add(state, {"count": count, "mean": mean, "m2": squares, "min": minimum, "max": maximum})

    def _add(self, state: State, new: State) -> State:
        for name, array in self.merge(state, new).items():
            state[name][...] = array
        return state

    def merge(self, a: State, b: State) -> State:
        """Pairwise formula, column by column."""
        count = a["count"] + b["count"]
        share = b["count"] / np.maximum(count, 1)
        step = b["mean"] - a["mean"]
        return {
            "count": count,
            "mean": np.where(a["count"] == 0, b["mean"], a["mean"] + step * share),
            "m2": a["m2"] + b["m2"] + step * step * (a["count"] * share),
            "min": np.minimum(a["min"], b["min"]),
            "max": np.maximum(a["max"], b["max"]),
        }

    def result(self, state: State) -> ColumnMoments:
        """The moments."""
        # a mean lies within the range, whatever rounding did to it: that of a constant column is the constant
        mean = np.clip(state["mean"], state["min"], state["max"])
        return ColumnMoments(
            count=state["count"].copy(),
            mean=np.where(state["count"] > 0, mean, 0.0),
            squared_deviations=state["m2"].copy(),
            minimum=state["min"].copy(),
            maximum=state["max"].copy(),
        )
