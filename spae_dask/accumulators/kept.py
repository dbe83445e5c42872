"""Another accumulator whose state is wanted as it is, to be merged with states of other passes."""

from dataclasses import dataclass
from typing import Any

from spae_dask.accumulators.base import Accumulator, Rows, State


@dataclass(frozen=True, eq=False)
class Kept:
    """Recipe ``inner``, whose result is its state.

    Parameters
    ----------
    inner : Accumulator
        What to compute; ``inner.merge`` and ``inner.result`` take it from there.
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

    def merge(self, a: State, b: State) -> State:
        """That of ``inner``."""
        return self.inner.merge(a, b)

    def result(self, state: State) -> State:
        """A copy of the state."""
        return {name: array.copy(order="K") for name, array in state.items()}
