"""Count, mean, variance and range of every column, of its finite entries.

As in ``Gram``, every state counts from a shift near its mean, and states are merged about the mean of both.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.passes.accumulators.base import Floats, Rows, State, ones_of, panel_rows_for, total_of, weighed
from spae_dask.passes.accumulators.by_columns import Columns, Parts, join_arrays
from spae_dask.passes.accumulators.nonfinite import all_finite
from spae_dask.passes.accumulators.roundings import largest_error, lengthened, merged, no_chain
from spae_dask.passes.accumulators.shift import (
    deviations,
    in_two_floats,
    moved,
    shift_for,
    step_between,
    value_in_two_floats,
)
from spae_dask.passes.accumulators.sparse import weights_of


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """First two moments and range of each column's finite entries.

    Attributes
    ----------
    count : ndarray (d,)
        Number of finite entries, or the sum of the weights of their rows.
    center : ndarray (2, d)
        Their mean, in two floats; 0 where there are none.
    squared_deviations : ndarray (d,)
        Sum of squared deviations from the mean.
    minimum, maximum : ndarray (d,)
        Range; ``inf`` and ``-inf`` where there are no finite entries.
    error : float
        Largest error of a sum of squares, over itself; and of a mean, over the root of the mean square.
    """

    count: npt.NDArray[Any]
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
        """Root mean squared deviation by `degrees_of_freedom`; 0 for constant columns."""
        variance = self.squared_deviations / degrees_of_freedom(self.count)
        return np.where(self.constant, 0.0, np.sqrt(variance))


def degrees_of_freedom(count: npt.ArrayLike) -> Floats:
    """Divisors of sums of squared deviations: ``count - 1``, but no less than half the count, which may be of weights.

    Of no rows it is 1.
    """
    n = np.asarray(count, dtype=np.float64)
    return np.where(n > 0, np.maximum(n - 1, n / 2), 1.0)


@dataclass(frozen=True)
class Moments:
    """Recipe for column moments. One pass, about five operations an entry.

    Parameters
    ----------
    n_features : int
        d.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.moments.Moments"
    takes_weights: ClassVar[bool] = True

    n_features: int

    @property
    def state_nbytes(self) -> int:
        """Eight vectors and the roundings."""
        return 64 * self.n_features + 16

    @property
    def panel_rows(self) -> int:
        """Number of rows that stay in cache."""
        return panel_rows_for(self.n_features, at_least=16)

    def work_nbytes(self, n_rows: int) -> int:
        """Deviations of the rows, twice where some are not finite, and a mask."""
        return 25 * self.n_features * n_rows

    @property
    def flops_per_row(self) -> float:
        """Sum, deviation, square, two comparisons."""
        return 5.0 * self.n_features

    def zero(self) -> State:
        """No rows."""
        d = self.n_features
        return {
            "count": np.zeros(d, dtype=np.int64),
            "shift": np.zeros((2, d)),
            "sum": np.zeros(d),
            "squares": np.zeros(d),
            # sums of squares that moving to a mean subtracted
            "moved": np.zeros(d),
            "min": np.full(d, np.inf),
            "max": np.full(d, -np.inf),
            "chain": no_chain(),
        }

    def update(
        self,
        state: State,
        rows: Rows,
        first_row: int,  # noqa: ARG002 - rows are exchangeable
        roots: Floats | None = None,
    ) -> State:
        """Add the finite entries of these rows, counted from the shift of their column."""
        m = rows.shape[0]
        if m == 0:
            return state
        finite = None if all_finite(rows) else np.isfinite(rows)
        if not state["count"].all():
            start = shift_for(rows, roots) if finite is None else _first_finite(rows, finite)
            state["shift"] = np.where(state["count"] == 0, start, state["shift"])
        counted = deviations(rows, state["shift"])
        if finite is None:
            state["count"] += total_of(m, roots)
            minimum, maximum = rows.min(axis=0), rows.max(axis=0)
        else:
            counted = np.where(finite, counted, 0.0)
            state["count"] += finite.sum(axis=0) if roots is None else roots**2 @ finite
            minimum = rows.min(axis=0, initial=np.inf, where=finite)
            maximum = rows.max(axis=0, initial=-np.inf, where=finite)
        counted = weighed(counted, roots)
        state["sum"] += ones_of(m, roots) @ counted
        state["squares"] += np.einsum("ij,ij->j", counted, counted)
        return self._seen(state, minimum, maximum, m)

    @staticmethod
    def _seen(state: State, minimum: Rows, maximum: Rows, n_rows: int) -> State:
        state["min"] = np.minimum(state["min"], minimum.astype(np.float64))
        state["max"] = np.maximum(state["max"], maximum.astype(np.float64))
        state["chain"] = lengthened(state["chain"], n_rows)
        return state

    @property
    def sparse_up_to(self) -> float:
        """Gathering by column costs a few times what a pass over a dense panel does."""
        return 0.25

    def sparse_flops_per_row(self, density: float) -> float:
        """Operations of a dense row, for each stored entry."""
        return 5.0 * density * self.n_features

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:  # noqa: ARG002 - rows are not gone through
        """Values, deviations and columns of the stored entries, masked and not; vectors."""
        return 56 * n_stored + 120 * self.n_features

    def update_sparse(
        self,
        state: State,
        rows: sp.csr_array,
        first_row: int,  # noqa: ARG002
        roots: Floats | None = None,
    ) -> State:
        """Add the stored entries, and as many zeros as are not stored.

        A column that is all stored at first counts from about its mean, any other one from 0, which is among its
        entries.
        """
        m, d = rows.shape
        if m == 0:
            return state
        values, columns = rows.data.astype(np.float64), rows.indices
        weights, zeros, weight_of_zeros = weights_of(rows, roots)
        if not all_finite(rows.data):
            finite = np.isfinite(values)
            values, columns = values[finite], columns[finite]
            weights = None if weights is None else weights[finite]
        minimum, maximum = np.where(zeros > 0, 0.0, np.inf), np.where(zeros > 0, 0.0, -np.inf)
        np.minimum.at(minimum, columns, values)
        np.maximum.at(maximum, columns, values)
        first = np.zeros(d)
        first[columns[::-1]] = values[::-1]
        begun = (state["count"] > 0) | (zeros > 0)
        state["shift"] = np.where(begun, state["shift"], in_two_floats(first))
        shift = state["shift"].sum(axis=0)
        values -= state["shift"][0][columns]
        values -= state["shift"][1][columns]
        state["count"] += weight_of_zeros + np.bincount(columns, weights=weights, minlength=d)
        sums = values if weights is None else values * weights
        state["sum"] += np.bincount(columns, weights=sums, minlength=d) - weight_of_zeros * shift
        state["squares"] += np.bincount(columns, weights=sums * values, minlength=d) + weight_of_zeros * shift**2
        return self._seen(state, minimum, maximum, m)

    def merge(self, a: State, b: State) -> State:
        """Move the sums of both to the mean of all entries, column by column, then add them."""
        n = a["count"] + b["count"]
        first = np.where(a["count"] == 0, b["shift"], a["shift"])
        between = np.where(b["count"] == 0, 0.0, step_between(first, b["shift"]))
        shift = moved(first, (a["sum"] + b["sum"] + b["count"] * between) / np.where(n > 0, n, 1))
        sums, squares, left = np.zeros((3, self.n_features))
        for state in (a, b):
            offset = np.where(state["count"] == 0, 0.0, step_between(shift, state["shift"]))
            change = 2.0 * offset * (state["sum"] + state["count"] / 2 * offset)
            sums += state["sum"] + state["count"] * offset
            squares += state["squares"] + change
            left += state["moved"] + np.clip(-change, 0.0, None)
        return {
            "count": n,
            "shift": shift,
            "sum": sums,
            "squares": squares,
            "moved": left,
            "min": np.minimum(a["min"], b["min"]),
            "max": np.maximum(a["max"], b["max"]),
            "chain": merged(a["chain"], b["chain"], roundings=3),
        }

    def of_columns(self, columns: Columns) -> "Moments":
        """Recipe of some columns."""
        return replace(self, n_features=columns.size)

    def joined(self, parts: Parts) -> State:
        """Moments of all columns."""
        return join_arrays(self.zero(), parts)

    def result(self, state: State) -> ColumnMoments:
        """The moments."""
        n = state["count"]
        offset = state["sum"] / np.where(n > 0, n, 1)
        seen = np.clip(state["squares"], 0.0, None) + state["moved"]
        left = np.clip(state["squares"] - n * offset**2, 0.0, None)
        # errors are relative to the squares about the shifts, of which those about the mean are a part
        part = np.divide(left, seen, out=np.ones_like(left), where=left > 0.0)
        return ColumnMoments(
            count=n.copy(),
            center=np.where(n > 0, moved(state["shift"], offset), 0.0),
            squared_deviations=left,
            minimum=state["min"].copy(),
            maximum=state["max"].copy(),
            error=3.0 * largest_error(state["chain"]) / float(np.min(part, initial=1.0)),
        )


def _first_finite(rows: Rows, finite: npt.NDArray[np.bool_]) -> Floats:
    """First finite entry of each column as a shift (2, d); 0 where there is none."""
    entries = rows[np.argmax(finite, axis=0), np.arange(rows.shape[1])]
    return value_in_two_floats(np.where(finite.any(axis=0), entries, 0))
