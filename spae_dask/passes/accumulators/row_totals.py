"""Sums of rows, and the nature of the entries: whole numbers, negative ones, and the share that is not zero."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.passes.accumulators.base import Floats, Rows, State, panel_rows_for
from spae_dask.passes.accumulators.nonfinite import all_finite

PER_DOUBLING = 64
"""Buckets of sums between a number and its double: the median is known to 1 %."""

FIRST_POWER, LAST_POWER = -64, 128
"""Powers of two between which sums have buckets of their own."""


N_MAGNITUDES = (LAST_POWER - FIRST_POWER) * PER_DOUBLING
"""Buckets of sums of one sign."""


@dataclass(frozen=True, eq=False)
class RowSummary:
    """Row sums and the nature of entries, of finite entries alone.

    Attributes
    ----------
    least, median, most : float
        Of the sums of rows; the median to about 1 %.
    whole : bool
        True if all entries are whole numbers.
    n_negative : int
        Negative entries.
    first_negative : tuple of int, optional
        Row and column of the first one.
    n_filled : int
        Entries other than 0.
    """

    least: float
    median: float
    most: float
    whole: bool
    n_negative: int
    first_negative: tuple[int, int] | None
    n_filled: int


@dataclass(frozen=True)
class RowTotals:
    """Recipe for sums of rows and the nature of entries. One pass.

    Parameters
    ----------
    n_features : int
        d.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.row_totals.RowTotals"

    n_features: int

    @property
    def n_buckets(self) -> int:
        """Negative and positive sums by the logarithms of their magnitudes, and tiny ones between them."""
        return 2 * N_MAGNITUDES + 1

    @property
    def state_nbytes(self) -> int:
        """Counts of buckets and a few numbers."""
        return 8 * (self.n_buckets + 7)

    @property
    def panel_rows(self) -> int:
        """Number of rows that stay in cache."""
        return panel_rows_for(self.n_features, at_least=16)

    def work_nbytes(self, n_rows: int) -> int:
        """Two float64 copies and masks."""
        return 20 * self.n_features * n_rows

    @property
    def flops_per_row(self) -> float:
        """Sum, remainder, two comparisons."""
        return 5.0 * self.n_features

    def zero(self) -> State:
        """No rows."""
        return {
            "buckets": np.zeros(self.n_buckets, dtype=np.int64),
            "range": np.array([np.inf, -np.inf]),
            "counts": np.zeros(3, dtype=np.int64),  # not whole, negative, not zero
            "first": np.full(2, -1, dtype=np.int64),
        }

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Add dense rows."""
        values = _finite(rows)
        self._add(state, values.sum(axis=1), values)
        if state["first"][0] < 0 and state["counts"][1]:
            row, column = np.argwhere(values < 0)[0]
            state["first"] = np.array([first_row + row, column], dtype=np.int64)
        return state

    @property
    def sparse_up_to(self) -> float:
        """Never slower."""
        return 1.0

    def sparse_flops_per_row(self, density: float) -> float:
        """Operations of a dense row, for each stored entry."""
        return 5.0 * density * self.n_features

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """Copies and masks of the stored entries, and sums."""
        return 28 * n_stored + 24 * n_rows

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Add the stored entries of rows."""
        values = _finite(rows.data)
        numbers, sums = _sparse_sums(rows, values)
        self._add(state, sums, values)
        if state["first"][0] < 0 and state["counts"][1]:
            at = int(np.flatnonzero(values < 0)[0])
            state["first"] = np.array([first_row + numbers[at], rows.indices[at]], dtype=np.int64)
        return state

    def _add(self, state: State, sums: Floats, values: Floats) -> None:
        if not sums.size:
            return
        state["range"] = np.array([min(state["range"][0], sums.min()), max(state["range"][1], sums.max())])
        state["counts"] += [
            np.count_nonzero(values != np.rint(values)),
            np.count_nonzero(values < 0),
            np.count_nonzero(values),
        ]
        with np.errstate(divide="ignore"):
            magnitudes = np.floor((np.log2(np.abs(sums)) - FIRST_POWER) * PER_DOUBLING)
        places = np.sign(sums) * np.clip(magnitudes + 1, 0, N_MAGNITUDES) + N_MAGNITUDES
        state["buckets"] += np.bincount(places.astype(np.int64), minlength=self.n_buckets)

    def merge(self, a: State, b: State) -> State:
        """Add counts; the first position is that of the earlier rows."""
        return {
            "buckets": a["buckets"] + b["buckets"],
            "range": np.array([min(a["range"][0], b["range"][0]), max(a["range"][1], b["range"][1])]),
            "counts": a["counts"] + b["counts"],
            "first": (a if a["first"][0] >= 0 else b)["first"],
        }

    def result(self, state: State) -> RowSummary:
        """The summary."""
        least, most = (float(each) for each in state["range"])
        not_whole, n_negative, n_filled = (int(each) for each in state["counts"])
        row, column = (int(each) for each in state["first"])
        return RowSummary(
            least, self._median(state), most, not not_whole, n_negative, (row, column) if row >= 0 else None, n_filled
        )

    def _median(self, state: State) -> float:
        """Middle of the bucket of the median, within the range."""
        counts: npt.NDArray[np.int64] = state["buckets"]
        n, (least, most) = int(counts.sum()), state["range"]
        if not n:
            return 0.0
        place = int(np.searchsorted(np.cumsum(counts), (n + 1) // 2)) - N_MAGNITUDES
        middle = np.sign(place) * 2.0 ** (FIRST_POWER + (abs(place) - 0.5) / PER_DOUBLING)
        return float(np.clip(middle, least, most))


def _finite(entries: Rows) -> Floats:
    """A float64 copy, with 0 in place of entries that are not finite."""
    values: Floats = entries.astype(np.float64)
    if not all_finite(values):
        np.nan_to_num(values, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    return values


def _sparse_sums(rows: sp.csr_array, values: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
    """The row of each stored entry, and the sums of rows."""
    numbers = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    return numbers, np.bincount(numbers, weights=values, minlength=rows.shape[0]).astype(np.float64)


@dataclass(frozen=True)
class MedianSum:
    """Recipe for the median of the sums of rows that are not 0, of entries that are finite and positive. One pass.

    The state has each sum that occurs once, with the number of its rows: rows of counts have few different sums.

    Parameters
    ----------
    n_features, n_rows : int
        d, and the most rows that there are.
    """

    recipe_kind: ClassVar[str] = "median-sum"

    n_features: int
    n_rows: int

    @property
    def state_nbytes(self) -> int:
        """A sum and a count for each row, at most."""
        return 16 * self.n_rows

    @property
    def panel_rows(self) -> int:
        """Number of rows that stay in cache."""
        return panel_rows_for(self.n_features, at_least=16)

    def work_nbytes(self, n_rows: int) -> int:
        """Two float64 copies, and sums, which are sorted."""
        return 17 * self.n_features * n_rows + 3 * self.state_nbytes

    @property
    def flops_per_row(self) -> float:
        """A sum."""
        return float(self.n_features)

    def zero(self) -> State:
        """No rows."""
        return {"sums": np.zeros(0), "counts": np.zeros(0, dtype=np.int64)}

    def update(self, state: State, rows: Rows, first_row: int) -> State:  # noqa: ARG002 - the order makes no difference
        """Add dense rows."""
        return self._added(state, np.maximum(_finite(rows), 0.0).sum(axis=1))

    @property
    def sparse_up_to(self) -> float:
        """Never slower."""
        return 1.0

    def sparse_flops_per_row(self, density: float) -> float:
        """A sum of the stored entries."""
        return 2.0 * density * self.n_features

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """Copies of the stored entries, and sums."""
        return 25 * n_stored + 24 * n_rows + 3 * self.state_nbytes

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:  # noqa: ARG002 - as `update`
        """Add the stored entries of rows."""
        return self._added(state, _sparse_sums(rows, np.maximum(_finite(rows.data), 0.0))[1])

    def _added(self, state: State, sums: Floats) -> State:
        found, counts = np.unique(sums[sums > 0], return_counts=True)
        return self.merge(state, {"sums": found, "counts": counts.astype(np.int64)})

    def merge(self, a: State, b: State) -> State:
        """Put the sums together."""
        sums, places = np.unique(np.concatenate([a["sums"], b["sums"]]), return_inverse=True)
        counts = np.zeros(sums.size, dtype=np.int64)
        np.add.at(counts, places, np.concatenate([a["counts"], b["counts"]]))
        return {"sums": sums, "counts": counts}

    def result(self, state: State) -> float:
        """The median; 0 if no sum is positive."""
        if not state["sums"].size:
            return 0.0
        upto, n = np.cumsum(state["counts"]), int(state["counts"].sum())
        low, high = (state["sums"][np.searchsorted(upto, place, side="right")] for place in ((n - 1) // 2, n // 2))
        return float(low + (high - low) / 2)
