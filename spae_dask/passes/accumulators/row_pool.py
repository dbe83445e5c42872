"""A weighted sample of whole rows, the same whatever cuts the rows into blocks.

Row i is drawn with chance proportional to its weight, without replacement, by giving it the key ``E_i / w_i`` with E_i
a standard exponential number that depends on the seed and on i alone, and keeping the smallest keys (Efraimidis &
Spirakis 2006). The weight is the row leverage ``||(C T)_i||^2``: rows for C Phi R decompositions are sampled by it
(Drineas, Mahoney & Muthukrishnan 2008; Boutsidis & Woodruff 2014).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.maths.linalg.sketch import exponential_draws
from spae_dask.passes.accumulators.base import Floats, Rows, State, panel_rows_for
from spae_dask.passes.accumulators.shift import Point, deviations, in_two_floats


@dataclass(frozen=True, eq=False)
class PooledRows:
    """Sampled rows.

    Attributes
    ----------
    numbers : ndarray (p,) of int64
        Row numbers, by key: the first of them are a sample of that many.
    rows : ndarray (p, d)
        The rows, centered and scaled.
    """

    numbers: npt.NDArray[np.int64]
    rows: Floats


@dataclass(frozen=True, eq=False)
class RowPool:
    """Recipe for a sample of at most ``size`` rows by leverage. One pass; 2 r k operations a row.

    Parameters
    ----------
    size : int
        p, rows kept.
    columns : ndarray (r,) of int
        Columns C.
    T : ndarray (r, k)
        Coefficients with C T orthonormal; the weight of a row is the squared length of its row of C T.
    mean : ndarray (d,) or (2, d)
        Subtracted from every row; ``(2, d)`` in two floats.
    scale : ndarray (d,) or None
        Divides every centered row.
    seed : int
        Seed of the draws.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.row_pool.RowPool"

    size: int
    columns: npt.NDArray[np.intp]
    T: Floats
    mean: Point
    scale: Floats | None = None
    seed: int = 0

    @property
    def state_nbytes(self) -> int:
        """Rows with their keys and numbers."""
        return int(8 * self.size * (self.mean.shape[-1] + 2))

    @property
    def panel_rows(self) -> int:
        """Number of rows that stay in cache."""
        return panel_rows_for(self.mean.shape[-1], at_least=64)

    def work_nbytes(self, n_rows: int) -> int:
        """The chosen columns of the rows with the draws, and the pool put together with the rows that may enter."""
        r, k = self.T.shape
        return int(8 * (n_rows * (2 * r + k + 8) + 3 * self.size * (self.mean.shape[-1] + 2)))

    @property
    def merge_scratch_nbytes(self) -> int:
        """The rows of both pools."""
        return int(16 * self.size * (self.mean.shape[-1] + 2))

    @property
    def flops_per_row(self) -> float:
        """One small product, and one random number."""
        return float(2 * self.T.size + 50)

    def zero(self) -> State:
        """No rows."""
        return {
            "keys": np.zeros(0),
            "numbers": np.zeros(0, dtype=np.int64),
            "rows": np.zeros((0, self.mean.shape[-1])),
        }

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Let in the rows whose keys are small enough."""
        return self._let_in(state, rows, rows[:, self.columns], first_row)

    @property
    def sparse_up_to(self) -> float:
        """Few entries are looked at either way."""
        return 1.0

    def sparse_flops_per_row(self, density: float) -> float:  # noqa: ARG002 - the chosen columns are made dense
        """Operations of a dense row."""
        return self.flops_per_row

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """Bytes of dense rows, and of the chosen columns and the entering rows as they are made dense."""
        r, k = self.T.shape
        return int(8 * (n_rows * (2 * r + k + 8) + 5 * self.size * (self.mean.shape[-1] + 2)) + 16 * n_stored)

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Let in the sparse rows whose keys are small enough."""
        return self._let_in(state, rows, rows[:, self.columns].toarray(), first_row)

    def _let_in(self, state: State, rows: Rows | sp.csr_array, columns: Rows, first_row: int) -> State:
        scale = None if self.scale is None else self.scale[self.columns]
        chosen = deviations(columns, in_two_floats(self.mean)[:, self.columns], scale)
        weights = np.sum((chosen @ self.T) ** 2, axis=1)
        draws = exponential_draws(self.seed, first_row, rows.shape[0])
        keys = np.divide(draws, weights, out=np.full(len(draws), np.inf), where=weights > 0)
        bar = state["keys"][-1] if len(state["keys"]) == self.size else np.inf
        entering = np.flatnonzero(keys < bar)
        # only as many rows as the pool holds can stay
        entering = entering[np.argsort(keys[entering], kind="stable")[: self.size]]
        taken: Any = rows[entering]
        values = deviations(taken.toarray() if sp.issparse(taken) else taken, self.mean, self.scale)
        new: State = {"keys": keys[entering], "numbers": first_row + entering, "rows": values}
        state.update(self.merge(state, new))
        return state

    def merge(self, a: State, b: State) -> State:
        """The smallest keys of both."""
        keys = np.concatenate([a["keys"], b["keys"]])
        order = np.argsort(keys, kind="stable")[: self.size]
        return {
            "keys": keys[order],
            "numbers": np.concatenate([a["numbers"], b["numbers"]])[order],
            "rows": np.concatenate([a["rows"], b["rows"]])[order],
        }

    def result(self, state: State) -> PooledRows:
        """The sample."""
        return PooledRows(state["numbers"].copy(), state["rows"].copy())
