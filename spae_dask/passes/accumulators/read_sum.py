"""Checksum of the rows beside another accumulator: two passes over the same rows give the same checksum.

If a program writes to the rows between two passes, the fit would mix two versions of the data. The checksum detects
this. It is a sum of 64-bit words modulo 2^64, times an odd number for each group of rows. So it also detects rows that
change places, except within one group, where the order changes no result. It costs a few per cent of the cheapest pass.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.maths.linalg.sketch import group_bounds
from spae_dask.passes.accumulators.base import Rows, State
from spae_dask.passes.accumulators.by_columns import Columns, Parts, separated
from spae_dask.passes.accumulators.wrapped import Wrapped

Words = npt.NDArray[np.uint64]

SUM, MAGNITUDE = "read:bits", "read:magnitude"
"""Names in the state, beside those of the other accumulator."""

SUMMED_ROWS = 1024
"""Rows that are summed at once."""

GROUP = 64
"""Rows of a group."""

SAME_MAGNITUDE = 1e-6
"""Relative difference of the sums of absolute values up to which computed rows are the same."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class ReadSum(Wrapped):
    """Recipe ``inner``, and a sum by which two passes over the same rows are compared.

    Parameters
    ----------
    inner : Accumulator
        Recipe whose result is returned beside the sum.
    stored : bool
        True for rows that are stored, and so the same to the last bit whenever they are read. Rows that a task graph
        computes may differ by rounding between machines, and are compared by the sum of their absolute values.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.read_sum.ReadSum"

    by_entries: ClassVar[bool] = False

    stored: bool = True

    @property
    def state_nbytes(self) -> int:
        """That of ``inner``, and two numbers."""
        return super().state_nbytes + 16

    @property
    def panel_rows(self) -> int:
        """Many, to sum at once; ``inner`` gets them in its own panels."""
        return max(super().panel_rows, SUMMED_ROWS)

    def zero(self) -> State:
        """No rows."""
        return super().zero() | {SUM: np.zeros(1, dtype=np.uint64), MAGNITUDE: np.zeros(1)}

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Update ``inner``, and add the rows' bits."""
        sums = _sums(rows, first_row, by_entries=self.by_entries) if self.stored and rows.size else None
        own = self._with(state, sums, rows, first_row)
        inner, step = without_sum(state), self.inner.panel_rows
        for start in range(0, rows.shape[0], step):
            inner = self.inner.update(inner, rows[start : start + step], first_row + start)
        return inner | own

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """That of ``inner``, or of the sum if it needs more; they work one after the other."""
        return max(super().sparse_work_nbytes(n_rows, n_stored), sparse_sum_nbytes(n_stored))

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Update ``inner``, and add the bits of the stored entries and their columns."""
        own = self._with(
            state, _sums_of_csr(rows, first_row) if self.stored and rows.nnz else None, rows.data, first_row
        )
        return super().update_sparse(without_sum(state), rows, first_row) | own

    def _with(self, state: State, sums: Words | None, values: Rows, first_row: int) -> State:
        if sums is None:
            magnitude = float(np.nansum(np.abs(values, dtype=np.float64))) if values.size else 0.0
            return {SUM: state[SUM], MAGNITUDE: state[MAGNITUDE] + magnitude}
        first = first_row // GROUP
        weights = (np.arange(first, first + sums.size, dtype=np.uint64) * _ODD) | np.uint64(1)
        return {SUM: state[SUM] + np.sum(sums * weights, dtype=np.uint64), MAGNITUDE: state[MAGNITUDE]}

    def merge(self, a: State, b: State) -> State:
        """Sums add, modulo 2^64."""
        own = {name: a[name] + b[name] for name in (SUM, MAGNITUDE)}
        return super().merge(without_sum(a), without_sum(b)) | own

    def result(self, state: State) -> Any:
        """That of ``inner``."""
        return super().result(without_sum(state))

    @staticmethod
    def agree(a: State, b: State) -> bool:
        """True if two passes read the same rows."""
        close = bool(np.isclose(a[MAGNITUDE], b[MAGNITUDE], rtol=SAME_MAGNITUDE, atol=0.0, equal_nan=True)[0])
        return close and bool(a[SUM][0] == b[SUM][0])


class ReadEntries(ReadSum):
    """The same with a word for each entry, so that the sum does not depend on how columns are cut either."""

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.read_sum.ReadEntries"
    by_entries: ClassVar[bool] = True

    def of_columns(self, columns: Columns) -> "ReadEntries | None":
        """Recipe of some columns; None if ``inner`` needs whole rows."""
        inner = separated(self.inner, columns)
        return None if inner is None else ReadEntries(inner, self.stored)

    def joined(self, parts: Parts) -> State:
        """State of ``inner`` for all columns; sums add."""
        separable: Any = self.inner
        own = {name: np.sum([state[name] for _, state in parts], axis=0) for name in (SUM, MAGNITUDE)}
        joined: State = separable.joined([(columns, without_sum(state)) for columns, state in parts])
        return joined | own


def without_sum(state: State) -> State:
    """The state of the other accumulator alone."""
    return {name: array for name, array in state.items() if name not in (SUM, MAGNITUDE)}


def sparse_sum_nbytes(n_stored: int) -> int:
    """Scratch of the sum over rows with so many stored entries: four words for each."""
    return 32 * n_stored


def _sums(rows: Rows, first_row: int, *, by_entries: bool = False) -> Words:
    """Sum of the words of each group of rows, modulo 2^64."""
    # decided by shape and type alone, so that all passes take the same words
    words_per_row, rest = divmod(rows.shape[1] * rows.dtype.itemsize, 8)
    bounds = group_bounds(first_row, rows.shape[0], GROUP)
    if rest == 0 and not by_entries and rows.flags.c_contiguous and rows.dtype.itemsize <= 8:
        words = rows.view(np.uint64).reshape(-1)
        sums: Words = np.add.reduceat(words, bounds[:-1] * words_per_row)
        return sums
    copied = [_sum_of_copy(rows[start:stop], by_entries or rest != 0) for start, stop in pairwise(bounds)]
    return np.array(copied, dtype=np.uint64)


def _sum_of_copy(group: Rows, by_entries: bool) -> np.uint64:
    """Sum of the words of one group; the copy is small enough to be in no plan."""
    if group.dtype.itemsize > 8:  # extended precision has bytes of padding
        group = group.astype(np.float64)
    words = np.ascontiguousarray(group).view(f"u{group.dtype.itemsize}" if by_entries else np.uint64)
    return np.sum(words, dtype=np.uint64)


def _sums_of_csr(rows: sp.csr_array, first_row: int) -> Words:
    values = rows.data if rows.data.dtype.itemsize <= 8 else rows.data.astype(np.float64)
    words = values.view(f"u{values.dtype.itemsize}").astype(np.uint64)
    words += (rows.indices.astype(np.uint64) + np.uint64(1)) * _ODD
    ends = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(words, dtype=np.uint64)])
    bounds = group_bounds(first_row, rows.shape[0], GROUP)
    sums: Words = np.diff(ends[rows.indptr[bounds]])
    return sums
