"""Cross products of chosen columns with all of X, about a known mean: C'C, C'X and, on request, X'XZ.

They decide the loss of any encoder supported on those columns exactly (algorithm book: "finish"). The mean is
subtracted from the rows, not from the products: ``C'X - n mean_S mean'`` would cancel. Of sparse rows it is subtracted
from the products of those columns alone that are mostly zero, where it cannot (``linalg/sparse_rows.py``).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.accumulators.base import Floats, Rows, State, panel_rows_for
from spae_dask.accumulators.sparse import PRODUCTS_UP_TO
from spae_dask.linalg.sparse_rows import counted_from, counted_nbytes


@dataclass(frozen=True, eq=False)
class Products:
    """Products of X about ``mean`` with C = X[:, columns] and with the directions Z.

    Attributes
    ----------
    count : int
        Rows seen.
    gram : ndarray (r, r)
        C'C.
    cross : ndarray (r, d)
        C'X.
    directions : ndarray (d, k)
        X'XZ; ``k = 0`` if no directions were given.
    column_norms : ndarray (d,)
        Squared norms of the columns of X.
    """

    count: int
    gram: Floats
    cross: Floats
    directions: Floats
    column_norms: Floats


@dataclass(frozen=True, eq=False)
class CrossProducts:
    """Recipe for the cross products. One pass; 2 d (r + 2k) operations a row.

    Parameters
    ----------
    columns : ndarray (r,) of int
        Chosen columns, distinct.
    mean : ndarray (d,)
        Subtracted from every row.
    scale : ndarray (d,) or None
        Divides every centered row.
    Z : ndarray (d, k) or None
        Directions.
    """

    columns: npt.NDArray[np.intp]
    mean: Floats
    scale: Floats | None = None
    Z: Floats | None = None

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.columns.size, self.mean.size, 0 if self.Z is None else self.Z.shape[1]

    @property
    def state_nbytes(self) -> int:
        """r x d, d x k and a d-vector."""
        r, d, k = self._shape
        return 8 * (r * d + d * k + d) + 8

    @property
    def panel_rows(self) -> int:
        """Whatever stays in cache, but enough for a matrix product."""
        return panel_rows_for(self.mean.size, at_least=64)

    @property
    def work_nbytes(self) -> int:
        """The centered rows, the chosen columns among them, and one product."""
        r, d, k = self._shape
        return 8 * (self.panel_rows * (2 * d + r + k) + r * d + d * k)

    @property
    def flops_per_row(self) -> float:
        """Two products."""
        r, d, k = self._shape
        return 2.0 * d * (r + 2 * k) + 4.0 * d

    def zero(self) -> State:
        """No rows."""
        r, d, k = self._shape
        return {
            "count": np.zeros((), dtype=np.int64),
            "cross": np.zeros((r, d)),
            "directions": np.zeros((d, k)),
            "norms": np.zeros(d),
        }

    def update(self, state: State, rows: Rows, first_row: int) -> State:  # noqa: ARG002 - rows are exchangeable
        """Add the products of these rows."""
        centered = np.subtract(rows, self.mean, dtype=np.float64)
        if self.scale is not None:
            centered /= self.scale
        state["cross"] += centered[:, self.columns].T @ centered
        if self.Z is not None:
            state["directions"] += centered.T @ (centered @ self.Z)
        state["norms"] += np.einsum("ij,ij->j", centered, centered)
        state["count"] += rows.shape[0]
        return state

    @property
    def sparse_up_to(self) -> float:
        """As of any product."""
        return PRODUCTS_UP_TO

    def sparse_flops_per_row(self, density: float) -> float:
        """As dense, a stored entry."""
        return density * self.flops_per_row

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """The counted rows, the chosen columns among them twice and their directions, and two products."""
        r, d, k = self._shape
        dense = n_rows * (2 * r + 2 * k) + 2 * d * max(r, k)
        return counted_nbytes(n_rows, n_stored, d) + 16 * n_stored + 8 * dense

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:  # noqa: ARG002
        """Add the products of sparse rows."""
        about = counted_from(rows, self.mean, self.scale)
        state["cross"] += about.transposed_times(about.columns(self.columns)).T
        if self.Z is not None:
            state["directions"] += about.transposed_times(about.times(self.Z))
        state["norms"] += about.squared_norms
        state["count"] += rows.shape[0]
        return state

    def merge(self, a: State, b: State) -> State:
        """Sums add."""
        # asarray: the sum of two 0-d arrays is a numpy scalar, which cannot be updated in place
        return {name: np.asarray(a[name] + b[name]) for name in a}

    def result(self, state: State) -> Products:
        """The products; C'C is read out of C'X."""
        gram = state["cross"][:, self.columns]
        return Products(
            count=int(state["count"]),
            gram=(gram + gram.T) / 2,
            cross=state["cross"].copy(),
            directions=state["directions"].copy(),
            column_norms=state["norms"].copy(),
        )
