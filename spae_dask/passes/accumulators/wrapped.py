"""Base class of accumulators that wrap another accumulator."""

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from spae_dask.passes.accumulators.base import Accumulator, Rows, State
from spae_dask.passes.accumulators.sparse import SparseAccumulator, flops_per_sparse_row, update_csr


@dataclass(frozen=True, eq=False)
class Wrapped:
    """Recipe that delegates to ``inner``; its subclasses change the rows or the state.

    Parameters
    ----------
    inner : Accumulator
        Recipe that the rows are handed to.
    """

    inner: Accumulator[Any]

    @property
    def state_nbytes(self) -> int:
        """That of ``inner``."""
        return self.inner.state_nbytes

    @property
    def panel_rows(self) -> int:
        """That of ``inner``."""
        return self.inner.panel_rows

    @property
    def work_nbytes(self) -> int:
        """That of ``inner``."""
        return self.inner.work_nbytes

    @property
    def flops_per_row(self) -> float:
        """That of ``inner``."""
        return self.inner.flops_per_row

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
