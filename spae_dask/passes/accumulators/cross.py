"""Cross products of chosen columns with all of X, about a known mean: C'C, C'X and, on request, X'XZ.

They decide the loss of any encoder supported on those columns. The mean is
subtracted from the rows, not from the products: ``C'X - n mean_S mean'`` would cancel. Of sparse rows it is subtracted
from the products of those columns alone that are mostly zero, where it cannot (``linalg/sparse_rows.py``).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg.blas import dgemm, dger

from spae_dask.maths.linalg.compiled import cross_of
from spae_dask.maths.linalg.sparse_rows import STRIP, ShiftedRows, column_sums, shifted_nbytes, shifted_rows
from spae_dask.passes.accumulators.base import Floats, Rows, State, panel_rows_for, total_of, weighed
from spae_dask.passes.accumulators.roundings import largest_error, lengthened, merged, no_chain, usual_error
from spae_dask.passes.accumulators.shift import Point, deviations, in_two_floats
from spae_dask.passes.accumulators.single import single_deviations, single_panel_rows
from spae_dask.passes.accumulators.sparse import PRODUCTS_UP_TO

Counted = npt.NDArray[np.float64] | npt.NDArray[np.float32]
"""Rows as they are multiplied."""


@dataclass(frozen=True, eq=False)
class Products:
    """Products of X about ``mean`` with C = X[:, columns] and with the directions Z.

    Attributes
    ----------
    count : float
        Rows seen, or the sum of their weights.
    gram : ndarray (r, r)
        C'C.
    cross : ndarray (r, d)
        C'X.
    directions : ndarray (d, k)
        X'XZ; ``k = 0`` if no directions were given.
    column_norms : ndarray (d,)
        Squared norms of the columns of X.
    error : float
        No entry of ``gram`` and ``cross`` errs by more than ``error`` times the lengths of both columns, and no column
        norm by more than ``error`` of itself.
    noise : float
        The size of error to expect, in the same units.
    """

    count: float
    gram: Floats
    cross: Floats
    directions: Floats
    column_norms: Floats
    error: float = 0.0
    noise: float = 0.0


@dataclass(frozen=True, eq=False)
class CrossProducts:
    """Recipe for the cross products. One pass; 2 d (r + 2k) operations a row.

    Parameters
    ----------
    columns : ndarray (r,) of int
        Chosen columns, distinct.
    mean : ndarray (d,) or (2, d)
        Subtracted from every row; ``(2, d)`` in two floats.
    scale : ndarray (d,) or None
        Divides every centered row.
    Z : ndarray (d, k) or None
        Directions.
    single : bool
        Multiply in float32, see :mod:`spae_dask.passes.accumulators.single`; sums are in float64 all the same.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.cross.CrossProducts"
    takes_weights: ClassVar[bool] = True

    columns: npt.NDArray[np.intp]
    mean: Point
    scale: Floats | None = None
    Z: Floats | None = None
    single: bool = False

    @cached_property
    def _directions(self) -> Floats:
        """Directions (d, k) as they multiply rows."""
        if self.Z is None:
            return np.zeros((self.mean.shape[-1], 0))
        return self.Z / self.scale[:, None] if self.single and self.scale is not None else self.Z

    @property
    def _row_scale(self) -> Floats | None:
        """Divisor of the rows; None in float32, where ``result`` divides once instead."""
        return None if self.single else self.scale

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.columns.size, self.mean.shape[-1], 0 if self.Z is None else self.Z.shape[1]

    @property
    def state_nbytes(self) -> int:
        """r x d, d x k, a d-vector and three numbers."""
        r, d, k = self._shape
        return 8 * (r * d + d * k + d) + 24

    @property
    def panel_rows(self) -> int:
        """Number of rows that stay in cache, but enough for a matrix product."""
        rows = panel_rows_for(self.mean.shape[-1], at_least=64)
        return single_panel_rows(rows) if self.single else rows

    def work_nbytes(self, n_rows: int) -> int:
        """The counted rows, the chosen columns among them twice, and a product."""
        r, d, k = self._shape
        counted = 3 * d // 2 if self.single else d  # in float32, beside float64 if rows are of a wider type
        return 8 * (n_rows * (counted + 2 * r + k) + d * k + (r * d if self.single else 0))

    @property
    def flops_per_row(self) -> float:
        """Two products; in float32 for half the price."""
        r, d, k = self._shape
        products = 2.0 * d * (r + 2 * k)
        return (products / 2 if self.single else products) + 4.0 * d

    def zero(self) -> State:
        """No rows."""
        r, d, k = self._shape
        return {
            "count": np.zeros((), dtype=np.int64),
            "cross": np.zeros((r, d)),
            "directions": np.zeros((d, k)),
            "norms": np.zeros(d),
            "chain": no_chain(),
        }

    def update(
        self,
        state: State,
        rows: Rows,
        first_row: int,  # noqa: ARG002 - rows are exchangeable
        roots: Floats | None = None,
    ) -> State:
        """Add the products of these rows."""
        if rows.shape[0] == 0:
            return state
        counted = self.counted(rows, roots)
        codes = None if self.Z is None else self.codes_of(counted)
        return self.add(state, counted, counted[:, self.columns], codes, roots)

    def counted(self, rows: Rows, roots: Floats | None = None) -> Counted:
        """Rows as they are multiplied: about the mean, weighed, and scaled unless that is left to ``result``."""
        narrow = single_deviations(rows, self.mean) if self.single else None
        return weighed(deviations(rows, self.mean, self._row_scale), roots) if narrow is None else narrow

    def codes_of(self, counted: Counted) -> Counted:
        """Products of such rows with the directions."""
        codes: Counted = counted @ self._directions.astype(counted.dtype)
        return codes

    def add(
        self, state: State, counted: Counted, chosen: Counted, codes: Counted | None, roots: Floats | None = None
    ) -> State:
        """Add the products of such rows with their chosen columns and with their codes."""
        m = counted.shape[0]
        if chosen.shape[1] and counted.dtype == chosen.dtype == np.float64:
            # in place, unless the state was stored and came back read-only
            cross = dgemm(1.0, counted.T, chosen.T, beta=1.0, c=state["cross"].T, trans_b=1, overwrite_c=1)
            state["cross"] = cross.T
        else:
            state["cross"] += chosen.T @ counted
        if codes is not None:
            state["directions"] += counted.T @ codes
        state["norms"] += np.einsum("ij,ij->j", counted, counted)
        state["chain"] = lengthened(state["chain"], m, single=counted.dtype == np.float32)
        state["count"] += total_of(m, roots)
        return state

    @property
    def sparse_up_to(self) -> float:
        """Largest density at which products of sparse rows are faster than of dense rows."""
        return PRODUCTS_UP_TO

    def sparse_flops_per_row(self, density: float) -> float:
        """The stored entries of all columns with those of the chosen ones, and with the directions."""
        r, d, k = self._shape
        return density * d * (2.0 * density * r + 4.0 * k + 4.0)

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """The counted rows, the same by columns, the chosen ones among them thrice, and a strip of a product."""
        r, d, k = self._shape
        dense = n_rows * r + 2 * k * (n_rows + d) + 3 * min(r * d, max(STRIP, d)) + 4 * d
        return shifted_nbytes(n_rows, n_stored, d) + 48 * n_stored + 8 * dense

    def update_sparse(
        self,
        state: State,
        rows: sp.csr_array,
        first_row: int,  # noqa: ARG002
        roots: Floats | None = None,
    ) -> State:
        """Add the products of sparse rows."""
        about = shifted_rows(rows, in_two_floats(self.mean), self._row_scale).weighed(roots)
        state["cross"] = _crossed(about, self.columns, state["cross"])
        if self.Z is not None:
            state["directions"] += about.transposed_times(about.times(self._directions))
        state["norms"] += about.squared_norms
        # twice, because the subtracted terms are a few times the result
        state["chain"] = lengthened(state["chain"], 2 * rows.shape[0])
        state["count"] += about.total
        return state

    def merge(self, a: State, b: State) -> State:
        """Sums add."""
        # asarray: the sum of two 0-d arrays is a numpy scalar, which cannot be updated in place
        sums = {name: np.asarray(a[name] + b[name]) for name in a}
        return sums | {"chain": merged(a["chain"], b["chain"])}

    def result(self, state: State) -> Products:
        """The products about the mean, scaled; C'C is read out of C'X.

        Products that need no more scaling are the arrays of the state, because a copy of C'X would double the memory.
        """
        cross, directions, norms = state["cross"], state["directions"], state["norms"]
        if self.single and self.scale is not None:
            cross = cross / self.scale
            cross /= self.scale[self.columns, None]
            directions = directions / self.scale[:, None]
            norms = norms / self.scale**2
        gram = cross[:, self.columns]
        return Products(
            count=state["count"].item(),
            gram=(gram + gram.T) / 2,
            cross=cross,
            directions=directions,
            column_norms=norms,
            error=largest_error(state["chain"]),
            noise=usual_error(state["chain"]),
        )


def _crossed(about: ShiftedRows, columns: npt.NDArray[np.intp], cross: Floats) -> Floats:
    """Add the products of chosen columns with all columns; zeros of both are passed over.

    ``(C - 1 c')'(Y - 1 y') = C'Y - c (Y'1)' - (C'1 - m c) y'`` for sparse C and Y, with ``m = 1'1``.
    """
    chosen = about.rows[:, columns]
    if not cross_of(chosen, about.rows, cross):
        transposed, width = chosen.T.tocsr(), max(1, STRIP // cross.shape[1])
        for start in range(0, columns.size, width):
            cross[start : start + width] += (transposed[start : start + width] @ about.rows).toarray()
    apart, m = about.rest[columns], about.total
    if apart.any():
        cross = dger(-1.0, column_sums(about.rows, about.ones), apart, a=cross.T, overwrite_a=1).T
    if about.rest.any():
        cross = dger(-1.0, about.rest, column_sums(chosen, about.ones) - m * apart, a=cross.T, overwrite_a=1).T
    return cross
