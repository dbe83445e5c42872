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
from spae_dask.accumulators.roundings import largest_error, lengthened, merged, no_chain
from spae_dask.accumulators.shift import (
    about_their_mean,
    deviations,
    has_wide_integers,
    in_two_floats,
    moved,
    step_between,
    value_in_two_floats,
)


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """First two moments and range of each column's finite entries.

    Attributes
    ----------
    count : ndarray (d,) of int64
        Finite entries.
    center : ndarray (2, d)
        Their mean, in two floats; 0 where there are none.
    squared_deviations : ndarray (d,)
        Sum of squared deviations from the mean.
    minimum, maximum : ndarray (d,)
        Range; ``inf`` and ``-inf`` where there are no finite entries.
    error : float
        Largest error of a sum of squares, over itself; and of a mean, over the root of the mean square.
    """

    count: npt.NDArray[np.int64]
    center: Floats
    squared_deviations: Floats
    minimum: Floats
    maximum: Floats
    error: float

    @property
    def mean(self) -> Floats:
        """Their mean ``(d,)``, the nearest float64 number; within the range of a constant column to the last bit."""
        mean: Floats = self.center[0]
        return mean

    @property
    def constant(self) -> npt.NDArray[np.bool_]:
        """Columns whose finite entries are all the same, or that have none."""
        # 64-bit integers beyond 2^53 may differ where their float64 numbers do not
        same: npt.NDArray[np.bool_] = (self.minimum >= self.maximum) & (self.squared_deviations == 0.0)
        return same

    @property
    def standard_deviation(self) -> Floats:
        """Root mean squared deviation with divisor ``count - 1``; 0 for constant columns."""
        variance = self.squared_deviations / np.maximum(self.count - 1, 1)
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
        """Six vectors and the roundings."""
        return 48 * self.n_features + 16

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
            "mean": np.zeros((2, d)),
            "m2": np.zeros(d),
            "min": np.full(d, np.inf),
            "max": np.full(d, -np.inf),
            "chain": no_chain(),
        }

    def update(self, state: State, rows: Rows, first_row: int) -> State:  # noqa: ARG002 - rows are exchangeable
        """Moments of the rows by two looks at them, then merged into the state."""
        if rows.shape[0] == 0:
            return state
        if all_finite(rows):
            count = np.full(self.n_features, rows.shape[0], dtype=np.int64)
            minimum, maximum = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
            values, mean = about_their_mean(rows)
        else:
            finite = np.isfinite(rows)
            count = finite.sum(axis=0)
            # about the first finite entry of each column; what is not finite counts as that one
            first = value_in_two_floats(np.where(count > 0, rows[np.argmax(finite, axis=0), np.arange(count.size)], 0))
            values = np.where(finite, deviations(rows, first), 0.0)
            minimum = rows.min(axis=0, initial=np.inf, where=finite).astype(np.float64)
            maximum = rows.max(axis=0, initial=-np.inf, where=finite).astype(np.float64)
            offset = values.sum(axis=0) / np.maximum(count, 1)
            values = np.where(finite, values - offset, 0.0)
            mean = moved(first, offset)
        new = {
            "count": count,
            "mean": mean,
            "m2": np.einsum("ij,ij->j", values, values),
            "min": minimum,
            "max": maximum,
            "chain": lengthened(no_chain(), rows.shape[0]),
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

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Moments of the stored entries and of as many zeros as are not: deviations are from the mean of both."""
        m, d = rows.shape
        if m == 0:
            return state
        if has_wide_integers(rows.data):
            return self.update(state, rows.toarray(), first_row)
        values, columns = rows.data.astype(np.float64), rows.indices
        zeros = m - np.bincount(columns, minlength=d)
        if not all_finite(rows.data):
            finite = np.isfinite(values)
            values, columns = values[finite], columns[finite]
        count = zeros + np.bincount(columns, minlength=d)
        # about the first value of a column that is all stored, else about 0, which is among its entries
        first = np.zeros(d)
        first[columns[::-1]] = values[::-1]
        first[zeros > 0] = 0.0
        values -= first[columns]
        offset = np.bincount(columns, weights=values, minlength=d) / np.maximum(count, 1)
        minimum, maximum = np.where(zeros > 0, 0.0, np.inf), np.where(zeros > 0, 0.0, -np.inf)
        np.minimum.at(minimum, columns, values + first[columns])
        np.maximum.at(maximum, columns, values + first[columns])
        values -= offset[columns]
        squares = np.bincount(columns, weights=values * values, minlength=d) + zeros * offset**2
        mean = moved(in_two_floats(first), offset)
        new = {"count": count, "mean": mean, "m2": squares, "min": minimum, "max": maximum}
        return self._add(state, new | {"chain": lengthened(no_chain(), m)})

    def _add(self, state: State, new: State) -> State:
        for name, array in self.merge(state, new).items():
            state[name][...] = array
        return state

    def merge(self, a: State, b: State) -> State:
        """Pairwise formula, column by column."""
        count = a["count"] + b["count"]
        share = b["count"] / np.maximum(count, 1)
        step = np.where(a["count"] == 0, 0.0, step_between(a["mean"], b["mean"]))
        return {
            "count": count,
            "mean": np.where(a["count"] == 0, b["mean"], moved(a["mean"], step * share)),
            "m2": a["m2"] + b["m2"] + step * step * (a["count"] * share),
            "min": np.minimum(a["min"], b["min"]),
            "max": np.maximum(a["max"], b["max"]),
            "chain": merged(a["chain"], b["chain"]),
        }

    def result(self, state: State) -> ColumnMoments:
        """The moments."""
        return ColumnMoments(
            count=state["count"].copy(),
            center=np.where(state["count"] > 0, state["mean"], 0.0),
            squared_deviations=state["m2"].copy(),
            minimum=state["min"].copy(),
            maximum=state["max"].copy(),
            error=largest_error(state["chain"]),
        )
