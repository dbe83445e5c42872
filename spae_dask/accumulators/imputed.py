"""Another accumulator, fed with X whose missing entries are filled in."""

from dataclasses import dataclass
from typing import Generic

import numpy as np

from spae_dask.accumulators.base import Accumulator, Floats, Result_co, Rows, State
from spae_dask.accumulators.nonfinite import all_finite


def fill_missing(rows: Rows, fill: Floats) -> Rows:
    """Rows (m, d) with NaN replaced by the column's entry of ``fill`` (d,); untouched if there is none."""
    if all_finite(rows):
        return rows
    return np.where(np.isnan(rows), fill, rows)


@dataclass(frozen=True, eq=False)
class Imputed(Generic[Result_co]):
    """Recipe ``inner`` on X with NaN replaced by ``fill``; infinite entries are left for ``inner`` to meet.

    Parameters
    ----------
    inner : Accumulator
        What to compute.
    fill : ndarray (d,)
        Value for the missing entries of each column.
    """

    inner: Accumulator[Result_co]
    fill: Floats

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
        """A filled float64 copy and a mask beside the work of ``inner``."""
        return self.inner.work_nbytes + 9 * self.fill.size * self.panel_rows

    @property
    def flops_per_row(self) -> float:
        """One look at each entry beside the work of ``inner``."""
        return self.inner.flops_per_row + self.fill.size

    def zero(self) -> State:
        """That of ``inner``."""
        return self.inner.zero()

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Fill, then update ``inner``."""
        return self.inner.update(state, fill_missing(rows, self.fill), first_row)

    def merge(self, a: State, b: State) -> State:
        """That of ``inner``."""
        return self.inner.merge(a, b)

    def result(self, state: State) -> Result_co:
        """That of ``inner``."""
        return self.inner.result(state)
