"""Recipes on rows and their covariates: both side by side, rows less what covariates explain, and products of the two.

All see the numbers of the rows, by which they find the covariates.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.design import Design
from spae_dask.passes.accumulators.base import Floats, Rows, State
from spae_dask.passes.accumulators.row_sketch import RowSketch
from spae_dask.passes.accumulators.shift import has_wide_integers
from spae_dask.passes.accumulators.sparse import SparseAccumulator, flops_per_sparse_row, update_csr, update_dense
from spae_dask.passes.accumulators.wrapped import Wrapped


@dataclass(frozen=True, eq=False)
class Beside(Wrapped):
    """Recipe ``inner`` on ``[Z X]``: the q columns of the covariates, then the d columns of the data.

    Parameters
    ----------
    inner : Accumulator
        Recipe for q + d columns.
    design : Design
        Covariates of all rows.
    n_features : int
        d.
    """

    recipe_kind: ClassVar[str] = "beside"

    design: Design
    n_features: int

    @property
    def _n_columns(self) -> int:
        return self.design.width + self.n_features

    @property
    def _making(self) -> float:
        """Operations of a row of covariates."""
        p, q = (int(each) for each in self.design.basis.shape)
        return 2.0 * p * q + p

    def work_nbytes(self, n_rows: int) -> int:
        """Rows of both, all covariates as given, and the work of ``inner``."""
        wide = self._n_columns + self.design.width + 2 * self.design.center.size
        return super().work_nbytes(n_rows) + 8 * n_rows * wide + self.design.nbytes

    @property
    def flops_per_row(self) -> float:
        """A row of covariates, a copy of the row, and the work of ``inner``."""
        return super().flops_per_row + self._making + self._n_columns

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Put the covariates in front, then update ``inner``."""
        refuse_wide_integers(rows)
        Z = self.design.rows(first_row, first_row + rows.shape[0])
        return super().update(state, np.hstack([Z, rows]), first_row)

    def sparse_flops_per_row(self, density: float) -> float:
        """The same for sparse rows, of which covariates are mostly stored."""
        d, q = self.n_features, self.design.width
        return flops_per_sparse_row(self.inner, min(1.0, (density * d + q) / (d + q))) + self._making + density * d

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """Rows of both, their covariates as given, and the work of ``inner`` if it takes sparse rows."""
        stored = n_stored + n_rows * self.design.width
        inner = self.inner.sparse_work_nbytes(n_rows, stored) if isinstance(self.inner, SparseAccumulator) else 0
        return inner + 32 * stored + 16 * n_rows * self.design.center.size + self.design.nbytes

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Put the covariates in front, then update ``inner``; the rows stay sparse."""
        refuse_wide_integers(rows.data)
        Z = sp.csr_array(self.design.rows(first_row, first_row + rows.shape[0]))
        return update_csr(self.inner, state, sp.csr_array(sp.hstack([Z, rows], format="csr")), first_row)


@dataclass(frozen=True, eq=False)
class Adjusted(Wrapped):
    """Recipe ``inner`` on X less what the covariates explain, ``X - Z B``. Sparse rows become dense.

    Parameters
    ----------
    inner : Accumulator
        Recipe for d columns.
    design : Design
        Covariates of all rows.
    effects : ndarray (q, d)
        B.
    """

    recipe_kind: ClassVar[str] = "adjusted"

    design: Design
    effects: Floats

    def work_nbytes(self, n_rows: int) -> int:
        """The adjusted rows, and the work of ``inner``."""
        rows = 16 * n_rows * int(self.effects.shape[1] + self.design.center.size)
        return super().work_nbytes(n_rows) + rows + self.design.nbytes

    @property
    def flops_per_row(self) -> float:
        """The part that covariates explain, and the work of ``inner``."""
        p, q = (int(each) for each in self.design.basis.shape)
        return super().flops_per_row + 2.0 * q * (p + int(self.effects.shape[1]))

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Subtract what the covariates explain, then update ``inner``."""
        refuse_wide_integers(rows)
        explained = self.design.rows(first_row, first_row + rows.shape[0]) @ self.effects
        return super().update(state, np.subtract(rows, explained), first_row)

    @property
    def sparse_up_to(self) -> float:
        """Rows are always made dense."""
        return -1.0

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Add sparse rows, made dense a panel at a time."""
        return update_dense(self, state, rows, first_row)


@dataclass(frozen=True, eq=False)
class CovariateProducts(RowSketch):
    """Recipe for Z'X: a row sketch whose matrix S is made of the covariates. ``size`` is their number q.

    Parameters
    ----------
    design : Design
        Covariates of all rows.
    """

    recipe_kind: ClassVar[str] = "covariate-products"

    design: Design | None = None

    @classmethod
    def of(cls, n_features: int, design: Design) -> "CovariateProducts":
        """The recipe for d columns."""
        return cls(n_features, design.width, design=design)

    def update(self, state: State, rows: Rows, first_row: int, roots: Floats | None = None) -> State:
        """Add the products with these rows, of which the covariates are weighted as well."""
        return super().update(state, rows, first_row, None if roots is None else roots**2)

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int, roots: Floats | None = None) -> State:
        """Add the products with sparse rows."""
        return super().update_sparse(state, rows, first_row, None if roots is None else roots**2)

    def _drawn(self, first_group: int, n_groups: int) -> Floats:
        assert self.design is not None
        return self.design.rows(first_group, first_group + n_groups)


def refuse_wide_integers(rows: Rows) -> None:
    """Raise ``InvalidInput`` for 64-bit integers that float64 would round beside covariates."""
    if has_wide_integers(rows):
        raise InvalidInput(
            "the data hold integers beyond 2**53, and beside covariates they would be rounded. Subtract a constant "
            "near their mean before you store them, or leave out the covariates."
        )
