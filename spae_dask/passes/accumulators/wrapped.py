"""Base class of accumulators that wrap another accumulator."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from spae_dask.passes.accumulators.base import Accumulator, Floats, Rows, State, has_exact_sums, merge_scratch_nbytes
from spae_dask.passes.accumulators.by_columns import Columns, Parts, separated
from spae_dask.passes.accumulators.nonfinite import all_finite
from spae_dask.passes.accumulators.sparse import SparseAccumulator, flops_per_sparse_row, update_csr


@dataclass(frozen=True, eq=False)
class Wrapped:
    """Recipe that delegates to ``inner``; its subclasses change the rows or the state.

    Parameters
    ----------
    inner : Accumulator
        Recipe that the rows are handed to.
    """

    takes_weights: ClassVar[bool] = True
    """False if ``inner`` is not told the numbers of its rows, by which weights are looked up."""

    inner: Accumulator[Any]

    @property
    def state_nbytes(self) -> int:
        """That of ``inner``."""
        return self.inner.state_nbytes

    @property
    def panel_rows(self) -> int:
        """That of ``inner``."""
        return self.inner.panel_rows

    def work_nbytes(self, n_rows: int) -> int:
        """That of ``inner``."""
        return self.inner.work_nbytes(n_rows)

    @property
    def merge_scratch_nbytes(self) -> int:
        """That of ``inner``."""
        return merge_scratch_nbytes(self.inner)

    @property
    def flops_per_row(self) -> float:
        """That of ``inner``."""
        return self.inner.flops_per_row

    @property
    def exact_sums(self) -> bool:
        """That of ``inner``."""
        return has_exact_sums(self.inner)

    @property
    def is_shared(self) -> bool:
        """That of ``inner``, see `by_columns.ByColumns`."""
        return bool(getattr(self.inner, "is_shared", False))

    def zero(self) -> State:
        """That of ``inner``."""
        return self.inner.zero()

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """That of ``inner``."""
        return self.inner.update(state, rows, first_row)

    @property
    def sparse_up_to(self) -> float:
        """Sparse rows are always taken: ``inner`` has them as it likes."""
        return 1.0

    def sparse_flops_per_row(self, density: float) -> float:
        """That of ``inner``."""
        return flops_per_sparse_row(self.inner, density)

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """That of ``inner``, if it takes sparse rows."""
        return self.inner.sparse_work_nbytes(n_rows, n_stored) if isinstance(self.inner, SparseAccumulator) else 0

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """That of ``inner``."""
        return update_csr(self.inner, state, rows, first_row)

    def merge(self, a: State, b: State) -> State:
        """That of ``inner``."""
        return self.inner.merge(a, b)

    def result(self, state: State) -> Any:
        """That of ``inner``."""
        return self.inner.result(state)


@dataclass(frozen=True, eq=False)
class Kept(Wrapped):
    """Recipe ``inner``, whose result is its state; ``inner.merge`` and ``inner.result`` take it from there."""

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.kept.Kept"

    def result(self, state: State) -> State:
        """A copy of the state."""
        return {name: array.copy(order="K") for name, array in state.items()}


def fill_missing(rows: Rows, fill: Floats) -> Rows:
    """Rows (m, d) with NaN replaced by the column's entry of ``fill`` (d,); untouched if there is none."""
    if all_finite(rows):
        return rows
    return np.where(np.isnan(rows), fill, rows)


@dataclass(frozen=True, eq=False)
class Imputed(Wrapped):
    """Recipe ``inner`` on X with NaN replaced by ``fill``; infinite entries are left for ``inner`` to meet.

    Parameters
    ----------
    inner : Accumulator
        Recipe that is fed the rows with their gaps filled.
    fill : ndarray (d,)
        Value for the missing entries of each column.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.imputed.Imputed"

    fill: Floats

    def work_nbytes(self, n_rows: int) -> int:
        """A filled float64 copy and a mask beside the work of ``inner``."""
        return super().work_nbytes(n_rows) + 9 * self.fill.size * n_rows

    @property
    def flops_per_row(self) -> float:
        """One look at each entry beside the work of ``inner``."""
        return super().flops_per_row + self.fill.size

    def of_columns(self, columns: Columns) -> "Imputed | None":
        """Recipe of some columns; None if ``inner`` needs whole rows."""
        inner = separated(self.inner, columns)
        return None if inner is None else Imputed(inner, self.fill[columns])

    def joined(self, parts: Parts) -> State:
        """That of ``inner``."""
        separable: Any = self.inner
        state: State = separable.joined(parts)
        return state

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Fill, then update ``inner``."""
        return super().update(state, fill_missing(rows, self.fill), first_row)

    def sparse_flops_per_row(self, density: float) -> float:
        """One look at each stored entry beside the work of ``inner``."""
        return super().sparse_flops_per_row(density) + density * self.fill.size

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """The filled values, as they are made, beside the work of ``inner`` if it takes sparse rows."""
        return super().sparse_work_nbytes(n_rows, n_stored) + 24 * n_stored

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Fill stored entries, then update ``inner``: an entry that is not stored is a zero, and never missing."""
        if not all_finite(rows.data):
            values = np.where(np.isnan(rows.data), self.fill[rows.indices], rows.data)
            rows = sp.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
        return super().update_sparse(state, rows, first_row)
