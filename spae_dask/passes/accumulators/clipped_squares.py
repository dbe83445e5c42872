"""Sums of squared deviations of every column, of which those above a limit count as the limit."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from spae_dask.passes.accumulators.base import Floats, Rows, State, panel_rows_for, weighed
from spae_dask.passes.accumulators.by_columns import Columns, Parts, join_arrays
from spae_dask.passes.accumulators.shift import deviations
from spae_dask.passes.accumulators.sparse import weights_of


@dataclass(frozen=True, eq=False)
class ClippedSquares:
    """Recipe for the sums over rows of ``min(x - center, limit)^2``, column by column. One pass.

    Parameters
    ----------
    center : ndarray (d,)
        Points that rows are counted from.
    limit : ndarray (d,)
        Largest deviation from them that counts.
    """

    recipe_kind: ClassVar[str] = "clipped-squares"
    takes_weights: ClassVar[bool] = True

    center: Floats
    limit: Floats

    @property
    def n_features(self) -> int:
        """d."""
        return int(self.center.size)

    @property
    def state_nbytes(self) -> int:
        """One vector."""
        return 8 * self.n_features

    @property
    def panel_rows(self) -> int:
        """Number of rows that stay in cache."""
        return panel_rows_for(self.n_features, at_least=16)

    def work_nbytes(self, n_rows: int) -> int:
        """Deviations of the rows, and those of wide integers by halves."""
        return 25 * self.n_features * n_rows

    @property
    def flops_per_row(self) -> float:
        """Deviation, comparison, square, sum."""
        return 4.0 * self.n_features

    def zero(self) -> State:
        """No rows."""
        return {"squares": np.zeros(self.n_features)}

    def update(
        self,
        state: State,
        rows: Rows,
        first_row: int,  # noqa: ARG002 - rows are exchangeable
        roots: Floats | None = None,
    ) -> State:
        """Add dense rows."""
        counted = deviations(rows, self.center)
        np.minimum(counted, self.limit, out=counted)
        counted = weighed(counted, roots)
        state["squares"] += np.einsum("ij,ij->j", counted, counted)
        return state

    @property
    def sparse_up_to(self) -> float:
        """Gathering by column costs a few times what a pass over a dense panel does."""
        return 0.25

    def sparse_flops_per_row(self, density: float) -> float:
        """Operations of a dense row, for each stored entry."""
        return 4.0 * density * self.n_features

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:  # noqa: ARG002 - rows are not gone through
        """Deviations, limits and weights of the stored entries; vectors."""
        return 48 * n_stored + 64 * self.n_features

    def update_sparse(
        self,
        state: State,
        rows: sp.csr_array,
        first_row: int,  # noqa: ARG002
        roots: Floats | None = None,
    ) -> State:
        """Add the stored entries, and as many zeros as are not stored."""
        columns = rows.indices
        weights, _, weight_of_zeros = weights_of(rows, roots)
        squares = rows.data.astype(np.float64)
        squares -= self.center[columns]
        np.minimum(squares, self.limit[columns], out=squares)
        squares *= squares
        if weights is not None:
            squares *= weights
        of_zeros = weight_of_zeros * np.minimum(-self.center, self.limit) ** 2
        state["squares"] += np.bincount(columns, weights=squares, minlength=self.n_features) + of_zeros
        return state

    def merge(self, a: State, b: State) -> State:
        """Add the sums."""
        return {"squares": a["squares"] + b["squares"]}

    def of_columns(self, columns: Columns) -> "ClippedSquares":
        """Recipe of some columns."""
        return replace(self, center=self.center[columns], limit=self.limit[columns])

    def joined(self, parts: Parts) -> State:
        """Sums of all columns."""
        return join_arrays(self.zero(), parts)

    def result(self, state: State) -> Floats:
        """The sums (d,)."""
        squares: Floats = state["squares"].copy()
        return squares
