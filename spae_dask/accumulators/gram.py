"""Centered Gram matrix (scatter) about a shift, accumulated in float64.

Every state counts from its own shift, the mean of the first rows it sees, so that neither a large mean nor float32
input cancels; states are merged by the pairwise formula of Chan, Golub & LeVeque (1983), whose corrections are as
small as the distance of a state's mean from its shift.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import dsyr2, dsyrk, ssyrk

from spae_dask.accumulators.base import Floats, Rows, State, panel_rows_for
from spae_dask.accumulators.single import single_deviations, single_origin, single_panel_rows
from spae_dask.linalg.sparse_rows import counted_from, counted_nbytes, mean_of_stored_columns

STRIP = 1 << 20
"""Entries of the product of sparse rows that are made at once."""


@dataclass(frozen=True, eq=False)
class Scatter:
    """Second-order summary of the rows of X.

    Attributes
    ----------
    count : int
        Number of rows.
    mean : ndarray (d,)
        Column means.
    scatter : ndarray (d, d)
        ``(X - mean)'(X - mean)``.
    """

    count: int
    mean: Floats
    scatter: Floats

    def about(self, origin: Floats) -> Floats:
        """``(X - origin)'(X - origin)`` (d, d): the scatter plus a rank-one term, so nothing cancels."""
        offset = np.sqrt(self.count) * (self.mean - origin)
        gram: Floats = self.scatter + np.outer(offset, offset)
        return gram


@dataclass(frozen=True)
class Gram:
    """Recipe for the scatter of X.

    One pass; d^2 multiply-adds per row (only a triangle is computed).

    Parameters
    ----------
    n_features : int
        d.
    single : bool
        Multiply in float32, see :mod:`spae_dask.accumulators.single`; sums are in float64 all the same.
    """

    n_features: int
    single: bool = False

    @property
    def state_nbytes(self) -> int:
        """A d x d matrix and two d-vectors."""
        return 8 * self.n_features * (self.n_features + 2) + 8

    @property
    def panel_rows(self) -> int:
        """Enough rows that touching the d x d matrix is paid for."""
        rows = panel_rows_for(self.n_features)
        return single_panel_rows(rows) if self.single else rows

    @property
    def work_nbytes(self) -> int:
        """The shifted copy of the rows, and a one for each of them; in float32 two, and a product as well."""
        exact = 8 * (self.n_features + 1) * self.panel_rows
        return exact + 8 * self.n_features**2 if self.single else exact

    @property
    def flops_per_row(self) -> float:
        """Half of a full product, both counted as multiply and add; in float32 for half the price."""
        product = float(self.n_features) * (self.n_features + 1)
        return (product / 2 if self.single else product) + 3.0 * self.n_features

    def zero(self) -> State:
        """No rows."""
        d = self.n_features
        return {
            "count": np.zeros((), dtype=np.int64),
            "shift": np.zeros(d),
            "sum": np.zeros(d),
            # column-major, so that BLAS adds to it in place; the upper triangle alone is kept up
            "gram": np.zeros((d, d), order="F"),
        }

    def update(self, state: State, rows: Rows, first_row: int) -> State:  # noqa: ARG002 - rows are exchangeable
        """Add rows to the sums, all counted from the state's shift."""
        if rows.shape[0] == 0:
            return state
        if state["count"] == 0:
            mean = rows.mean(axis=0, dtype=np.float64)
            state["shift"][...] = single_origin(mean) if self.single else mean
        if self.single and self._add_singles(state, rows):
            return state
        # row-major whatever the rows are, so that its transpose is what BLAS takes without a copy; converting first
        # and subtracting in place, and summing by BLAS, took a tenth off the whole update at d = 128
        shifted = rows.astype(np.float64, order="C")
        shifted -= state["shift"]
        state["sum"] += np.ones(rows.shape[0]) @ shifted
        # in place, unless the state was stored and came back row-major: then BLAS returns a column-major copy
        state["gram"] = dsyrk(1.0, shifted.T, beta=1.0, c=state["gram"], overwrite_c=1)
        state["count"] += rows.shape[0]
        return state

    def _add_singles(self, state: State, rows: Rows) -> bool:
        """Add rows by float32 products; False, and nothing done, where float32 is too narrow."""
        deviations = single_deviations(rows, state["shift"])
        if deviations is None:
            return False
        state["sum"] += np.ones(rows.shape[0], dtype=np.float32) @ deviations
        state["gram"] += ssyrk(1.0, deviations.T)
        state["count"] += rows.shape[0]
        return True

    @property
    def sparse_up_to(self) -> float:
        """A sparse product is twice as fast as BLAS at this density, and as fast at one and a half times it."""
        return 0.06

    def sparse_flops_per_row(self, density: float) -> float:
        """Every pair of stored entries, both ways round."""
        stored = density * self.n_features
        return 2.0 * stored * stored + 3.0 * stored

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """The counted rows and their transpose, and a strip of the product, sparse and dense."""
        d = self.n_features
        return counted_nbytes(n_rows, n_stored, d) + 16 * n_stored + 24 * min(d * d, max(STRIP, d))

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:  # noqa: ARG002
        """Add sparse rows; a first one counts from the mean of its mostly stored columns, and from 0 in all others."""
        m, d = rows.shape
        if m == 0:
            return state
        if state["count"] == 0:
            state["shift"][...] = mean_of_stored_columns(rows)
        about = counted_from(rows, state["shift"])
        transposed, width = about.rows.T.tocsr(), max(1, STRIP // d)
        for start in range(0, d, width):
            _add_columns(state["gram"], transposed[start : start + width] @ about.rows, start)
        sums = about.sums
        if about.rest.any():  # the state was begun by dense rows, or by others of this column
            # (Y - 1 c')'(Y - 1 c') = Y'Y - c w' - w c' with w = Y'1 - m c / 2, and Y'1 = sums + m c
            w = sums + (m / 2) * about.rest
            state["gram"] = dsyr2(-1.0, about.rest, w, a=state["gram"], overwrite_a=1)
        state["sum"] += sums
        state["count"] += m
        return state

    def merge(self, a: State, b: State) -> State:
        """Pairwise update of Chan, Golub & LeVeque, eq. (2.1), in matrix form."""
        if a["count"] == 0 or b["count"] == 0:
            only = b if a["count"] == 0 else a
            return {name: array.copy(order="F") for name, array in only.items()}
        n_a, mean_a = int(a["count"]), a["shift"] + a["sum"] / a["count"]
        n_b, mean_b = int(b["count"]), b["shift"] + b["sum"] / b["count"]
        n = n_a + n_b
        gram = np.add(a["gram"], b["gram"], order="F")
        for sign, weight, offset in (
            (-1.0, n_a, a["sum"] / n_a),
            (-1.0, n_b, b["sum"] / n_b),
            (1.0, n_a * n_b / n, mean_a - mean_b),
        ):
            dsyrk(sign * weight, offset[:, None], beta=1.0, c=gram, overwrite_c=1)
        return {
            "count": np.array(n, dtype=np.int64),
            "shift": mean_a + (mean_b - mean_a) * (n_b / n),
            "sum": np.zeros(self.n_features),
            "gram": gram,
        }

    def result(self, state: State) -> Scatter:
        """Mean and full symmetric scatter; of no rows, zeros."""
        n = int(state["count"])
        offset = state["sum"] / max(n, 1)
        upper = np.triu(state["gram"] - n * np.outer(offset, offset))
        scatter = upper + np.triu(upper, 1).T
        return Scatter(count=n, mean=state["shift"] + offset, scatter=scatter)


def _add_columns(gram: Floats, product: sp.csr_array, start: int) -> None:
    """Add rows ``start``, ... of a sparse symmetric matrix, as columns, to the upper triangle of ``gram``."""
    columns = slice(start, start + product.shape[0])
    if 8 * product.nnz > product.shape[0] * product.shape[1]:
        gram[: columns.stop, columns] += product.toarray()[:, : columns.stop].T
    else:
        entries = product.tocoo()
        gram[entries.col, start + entries.row] += entries.data
