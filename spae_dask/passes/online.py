"""A pass whose rows are handed in as they come, a few or many at a time, and never seen again. Pure.

Rows wait until there are as many as one update takes, so the state depends on the sequence of rows alone: the same bits
however the rows were cut into batches. One running state is enough for that, where a tree of states would hold as
many as the logarithm of a length that is not known; the engine's own tree gives the same up to rounding, and for
Frequent Directions other bounds, as good.
"""

from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from spae_dask.blocks import Block
from spae_dask.passes.accumulators.base import Accumulator, Rows, State
from spae_dask.passes.sweep import unchecked
from spae_dask.passes.threads import one_blas_thread

Result = TypeVar("Result")


class OnlinePass:
    """The state of all rows so far.

    Parameters
    ----------
    recipe : Accumulator
        Recipe of the state.
    state : dict of arrays, optional
        Of rows that were summarized before; it is copied.
    n_rows : int
        Number of rows so far.

    Attributes
    ----------
    n_rows : int
        Rows so far.
    """

    def __init__(self, recipe: Accumulator[Any], state: State | None = None, n_rows: int = 0) -> None:
        self.recipe = recipe
        self.n_rows = n_rows
        self._state = recipe.zero() if state is None else _copy(state)
        self._waiting: list[Rows] = []
        self._n_waiting = 0

    def add(self, block: Block) -> None:
        """Add rows (m, d), dense or CSR; nothing is kept of the block but copies of rows that wait."""
        start, n_rows = 0, block.shape[0]
        while start < n_rows:
            stop = min(n_rows, start + self.recipe.panel_rows - self._n_waiting)
            rows: Any = block[start:stop].astype(np.float64)
            self._waiting.append(rows.toarray() if sp.issparse(rows) else rows)
            self._n_waiting += stop - start
            self.n_rows += stop - start
            start = stop
            if self._n_waiting == self.recipe.panel_rows:
                self._state = self._updated(self._state)
                self._waiting, self._n_waiting = [], 0

    @property
    def state(self) -> State:
        """State of all rows so far, with those that wait."""
        return self._updated(_copy(self._state)) if self._waiting else self._state

    def followed_by(self, state: State, n_rows: int) -> "OnlinePass":
        """The pass after more rows, of which a state of the same recipe is known."""
        with one_blas_thread(), unchecked():
            merged = self.recipe.merge(self.state, state)
        return OnlinePass(self.recipe, merged, self.n_rows + n_rows)

    def run_pass(self, accumulator: Accumulator[Result], name: str = "online") -> Result:  # noqa: ARG002 - as runners do
        """Result of all rows so far. ``accumulator`` is the pass's own recipe, or one of equal results."""
        with one_blas_thread(), unchecked():
            result: Result = self.recipe.result(self.state)
            return result

    def _updated(self, state: State) -> State:
        with one_blas_thread(), unchecked():
            return self.recipe.update(state, np.concatenate(self._waiting), self.n_rows - self._n_waiting)


def _copy(state: State) -> State:
    return {name: array.copy() for name, array in state.items()}
