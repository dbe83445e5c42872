"""X seen through a few directions Q: a triangular factor of XQ, and X'XQ.

The factor is made by a running QR of the n x s matrix XQ, block by block (distributed TSQR), so the singular values of
XQ keep the digits that those of its Gram matrix would lose; XQ itself is never stored.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from spae_dask.maths.linalg.sparse_rows import shifted_nbytes, shifted_rows
from spae_dask.maths.linalg.triangular import add_rows, positive_diagonal, stack_triangles
from spae_dask.passes.accumulators.base import Floats, Rows, State, panel_rows_for
from spae_dask.passes.accumulators.shift import Point, deviations, in_two_floats
from spae_dask.passes.accumulators.sparse import PRODUCTS_UP_TO


@dataclass(frozen=True, eq=False)
class ProjectedRows:
    """Products of X (about a mean, scaled) with directions Q.

    Attributes
    ----------
    count : int
        Rows seen.
    triangle : ndarray (s, s)
        R with ``R'R = (XQ)'XQ``.
    cross : ndarray (d, s)
        ``X'XQ``.
    column_norms : ndarray (d,)
        Squared norms of the columns of X.
    """

    count: int
    triangle: Floats
    cross: Floats
    column_norms: Floats


@dataclass(frozen=True, eq=False)
class Projection:
    """Recipe for products with directions. One pass; 4 d s operations a row.

    Parameters
    ----------
    Q : ndarray (d, s)
        Directions.
    mean : ndarray (d,) or (2, d)
        Subtracted from every row; ``(2, d)`` in two floats.
    scale : ndarray (d,) or None
        Divides every centered row.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.projection.Projection"

    Q: Floats
    mean: Point
    scale: Floats | None = None

    @property
    def state_nbytes(self) -> int:
        """A triangle (stored square), d by s, a d-vector and the count."""
        d, s = self.Q.shape
        return int(8 * (s * s + d * s + d + 1))

    @property
    def panel_rows(self) -> int:
        """Number of rows that stay in cache, but enough for a matrix product."""
        return panel_rows_for(self.mean.shape[-1], at_least=64)

    def work_nbytes(self, n_rows: int) -> int:
        """The centered rows, their projection twice, and one product."""
        d, s = self.Q.shape
        return int(8 * (n_rows * (d + 2 * s) + d * s))

    @property
    def merge_scratch_nbytes(self) -> int:
        """A copy of the second triangle, which LAPACK overwrites."""
        return int(8 * self.Q.shape[1] ** 2)

    @property
    def flops_per_row(self) -> float:
        """Two products and a QR."""
        d, s = self.Q.shape
        return float(4 * d * s + 2 * s * s + 4 * d)

    def zero(self) -> State:
        """No rows."""
        d, s = self.Q.shape
        return {
            "count": np.zeros((), dtype=np.int64),
            "triangle": np.zeros((s, s), order="F"),
            "cross": np.zeros((d, s)),
            "norms": np.zeros(d),
        }

    def update(self, state: State, rows: Rows, first_row: int) -> State:  # noqa: ARG002 - rows are exchangeable
        """Add these rows."""
        if rows.shape[0] == 0:
            return state
        centered = deviations(rows, self.mean, self.scale)
        projected = centered @ self.Q
        state["cross"] += centered.T @ projected
        state["norms"] += np.einsum("ij,ij->j", centered, centered)
        state["triangle"] = add_rows(state["triangle"], np.array(projected, order="F"))
        state["count"] += rows.shape[0]
        return state

    @property
    def sparse_up_to(self) -> float:
        """Largest density at which products of sparse rows are faster than of dense rows."""
        return PRODUCTS_UP_TO

    def sparse_flops_per_row(self, density: float) -> float:
        """Products as dense, a stored entry, and a QR."""
        d, s = self.Q.shape
        return float(density * (4 * d * s + 4 * d) + 2 * s * s)

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """The counted rows, their projection twice, and two products."""
        d, s = self.Q.shape
        return int(shifted_nbytes(n_rows, n_stored, d) + 8 * (2 * n_rows * s + 2 * d * s))

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:  # noqa: ARG002
        """Add sparse rows."""
        if rows.shape[0] == 0:
            return state
        about = shifted_rows(rows, in_two_floats(self.mean), self.scale)
        projected = about.times(self.Q)
        state["cross"] += about.transposed_times(projected)
        state["norms"] += about.squared_norms
        state["triangle"] = add_rows(state["triangle"], np.array(projected, order="F"))
        state["count"] += rows.shape[0]
        return state

    def merge(self, a: State, b: State) -> State:
        """Sums add, triangles stack."""
        return {
            "count": np.asarray(a["count"] + b["count"]),
            "triangle": stack_triangles(a["triangle"], b["triangle"]),
            "cross": a["cross"] + b["cross"],
            "norms": a["norms"] + b["norms"],
        }

    def result(self, state: State) -> ProjectedRows:
        """The products."""
        return ProjectedRows(
            count=int(state["count"]),
            triangle=positive_diagonal(state["triangle"]),
            cross=state["cross"].copy(),
            column_norms=state["norms"].copy(),
        )
