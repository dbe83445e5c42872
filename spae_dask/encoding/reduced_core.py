"""A core reduced to the columns an encoder may use, so that a search on it costs nothing that depends on d.

With Q an orthonormal basis of the candidate columns, every code is ``Q`` times a short vector, and what it explains
depends on the core only through ``Q'L`` up to a rotation from the right: unit candidate columns in the basis Q and a
square F with ``FF' = Q'LL'Q`` say everything. What lies outside Q no encoder on the candidates explains.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spae_dask.encoding.single_column import ColumnProblem, column_problem
from spae_dask.linalg.project import DEPENDENT, column_basis, orthonormal_basis, residual
from spae_dask.linalg.scaling import FloatArray, IntArray, unit_columns


@dataclass(frozen=True, eq=False)
class ReducedCore:
    """Candidate columns of a core, in a basis of their span.

    Attributes
    ----------
    candidates : ndarray (c,)
        Their indices, ascending.
    lengths : ndarray (c,)
        Their lengths in the core.
    columns : ndarray (m, c)
        The candidates at unit length, in the basis Q; m is their rank.
    factor : ndarray (m, p)
        F with ``FF' = Q'LL'Q``, ``p <= m``.
    remainder : float
        ``||L - QQ'L||^2``.
    rank_tol : float
        Length of the part of a unit candidate, outside others, below which it gets no weight.
    """

    candidates: IntArray
    lengths: FloatArray
    columns: FloatArray
    factor: FloatArray
    remainder: float
    rank_tol: float = DEPENDENT

    def loss(self, codes: Sequence[FloatArray], spreads: Sequence[float] | None = None) -> float:
        """Loss left by these codes; ``spreads`` are the lengths of their coefficients of unit columns."""
        left = residual(self.factor, self._basis(codes, spreads))
        return float(np.vdot(left, left)) + self.remainder

    def problem(
        self,
        codes: Sequence[FloatArray],
        selected: Sequence[int] | None = None,
        *,
        spreads: Sequence[float] | None = None,
    ) -> ColumnProblem:
        """Problem of one more column beside these codes, made of some candidates only or of all."""
        columns = self.columns if selected is None else self.columns[:, selected]
        return column_problem(columns, self._basis(codes, spreads), self.factor, rank_tol=self.rank_tol)

    def _basis(self, codes: Sequence[FloatArray], spreads: Sequence[float] | None) -> FloatArray:
        # the noise of a code is that of the unit columns, as many times as its coefficients hold them
        tolerances = self.rank_tol * np.maximum(1.0, np.ones(len(codes)) if spreads is None else np.array(spreads))
        return orthonormal_basis(np.column_stack([self.factor[:, :0], *codes]), rank_tol=tolerances)


def reduce_core(scaled: FloatArray, candidates: IntArray, *, rank_tol: float = DEPENDENT) -> ReducedCore:
    """Reduce a core to candidate columns.

    Parameters
    ----------
    scaled : ndarray (m, d)
        Core, scaled so that squares are harmless.
    candidates : ndarray (c,)
        Ascending indices of nonzero columns.
    rank_tol : float, optional
        See :class:`ReducedCore`.
    """
    unit, lengths = unit_columns(scaled[:, candidates])
    Q = column_basis(unit).Q
    inside = Q.T @ scaled
    outside = residual(scaled, Q)
    R = np.asarray(np.linalg.qr(inside.T, mode="r"))
    return ReducedCore(candidates, lengths, Q.T @ unit, R.T, float(np.vdot(outside, outside)), rank_tol)
