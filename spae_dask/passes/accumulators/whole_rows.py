"""All rows about their mean: the core of data with fewer rows than columns.

With L = X - mean, ``L'L`` is the scatter of X, so X itself is a core, and one of n rows instead of d.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spae_dask.passes.accumulators.base import Floats, Rows, State, panel_rows_for, total_of, weighed
from spae_dask.passes.accumulators.roundings import AROUND, ROUNDOFF
from spae_dask.passes.accumulators.shift import deviations, moved, shift_for, step_between
from spae_dask.passes.accumulators.triangular import CenteredTriangle


@dataclass(frozen=True)
class WholeRows:
    """Recipe for the centered rows of X. One pass; d operations a row.

    Parameters
    ----------
    n_features : int
        d.
    n_rows : int
        n, the most rows that there are.
    """

    recipe_kind: ClassVar[str] = "whole-rows"
    takes_weights: ClassVar[bool] = True

    n_features: int
    n_rows: int

    @property
    def state_nbytes(self) -> int:
        """Room for all rows, in float64, their shift and their number."""
        return 8 * self.n_features * (self.n_rows + 2) + 8

    @property
    def panel_rows(self) -> int:
        """As many as stay in cache, or as there are."""
        return min(self.n_rows, panel_rows_for(self.n_features))

    def work_nbytes(self, n_rows: int) -> int:
        """The rows that are added, counted from the shift."""
        return 8 * self.n_features * (n_rows + 2)

    @property
    def flops_per_row(self) -> float:
        """Two subtractions and a copy of each entry."""
        return 3.0 * self.n_features

    def zero(self) -> State:
        """No rows."""
        return {
            "count": np.zeros((), dtype=np.int64),
            "shift": np.zeros((2, self.n_features)),
            "rows": np.zeros((self.n_rows, self.n_features)),
        }

    def update(self, state: State, rows: Rows, first_row: int) -> State:  # noqa: ARG002 - rows come in order
        """Add rows, counted from the mean of the first ones."""
        if rows.shape[0] == 0:
            return state
        n, m = int(state["count"]), rows.shape[0]
        if n == 0:
            state["shift"][...] = shift_for(rows)
        state["rows"][n : n + m] = deviations(rows, state["shift"])
        state["count"] += m
        return state

    def merge(self, a: State, b: State) -> State:
        """Put the rows of ``b`` below those of ``a``, counted from where those are."""
        if a["count"] == 0 or b["count"] == 0:
            return {name: array.copy() for name, array in (b if a["count"] == 0 else a).items()}
        n, m, merged = int(a["count"]), int(b["count"]), self.zero()
        merged["shift"][...] = a["shift"]
        merged["rows"][:n] = a["rows"][:n]
        np.add(b["rows"][:m], step_between(a["shift"], b["shift"]), out=merged["rows"][n : n + m])
        merged["count"] += n + m
        return merged

    def result(self, state: State, roots: Floats | None = None) -> CenteredTriangle:
        """Mean and centered rows; of no rows, zeros. ``roots (n,)`` are those of the weights of all rows."""
        n = int(state["count"])
        roots = None if roots is None else roots[:n]
        rows, total = state["rows"][:n], total_of(n, roots)
        offset = (rows if roots is None else (roots**2)[:, None] * rows).sum(axis=0) / (total or 1)
        centered = weighed(rows - offset, roots)
        # rows shifted by a distant point lose digits of the result
        lengths = np.linalg.norm(centered, axis=0)
        before = np.linalg.norm(rows if roots is None else roots[:, None] * rows, axis=0)
        far = np.divide(before, lengths, out=np.ones_like(lengths), where=lengths > 0.0)
        return CenteredTriangle(
            count=total,
            center=moved(state["shift"], offset),
            triangle=centered,
            error=AROUND * ROUNDOFF * float(np.max(far, initial=1.0)),
            mean_error=ROUNDOFF * (n + AROUND),
        )
