"""Projection on the span of columns: orthonormal basis, residual, residual norms, best decoder.

The basis comes from Householder QR with column pivoting of the *unit-scaled* columns, so that a column counts as
dependent when it is so relative to its own length, whatever the units it is measured in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dormqr

from spae_dask.maths.linalg.scaling import PANEL_COLUMNS, FloatArray, IntArray, squared_columns, unit_columns
from spae_dask.maths.linalg.triangular import inverse

# A unit column depends on the others if its part outside their span is shorter than this.
DEPENDENT = 1e-12
RankTol = float | FloatArray
"""Relative length below which a column counts as dependent on others: one for all columns, or one for each."""
# Squared residuals below this share of the squared column are rounding errors of zero.
RESIDUAL_FLOOR = 1e-12


@dataclass(frozen=True, eq=False)
class ColumnBasis:
    """Orthonormal basis of the span of the columns of C, with the way back to coefficients.

    Attributes
    ----------
    Q : ndarray (m, q)
        Orthonormal columns spanning C; ``q`` is the numerical rank of the unit-scaled C.
    kept : ndarray (q,)
        Columns of C that carry the basis, in pivot order; the others depend on them.
    R : ndarray (q, q)
        Upper triangle with ``C[:, kept] / norms[kept] = Q R``.
    norms : ndarray (r,)
        Lengths of the columns of C.
    """

    Q: FloatArray
    kept: IntArray
    R: FloatArray
    norms: FloatArray

    def coefficients(self, U: FloatArray) -> FloatArray:
        """Coefficients ``T (r, p)`` with ``C T = Q U`` for ``U (q, p)``; zero rows for columns not kept.

        A coefficient that would move a vector of ``Q U`` by less than rounding does is set to 0: on a column of size
        1e-100 beside others of size 1 it is noise, and it would be the largest number in T.
        """
        T = np.zeros((self.norms.size, U.shape[1]))
        if self.kept.size:
            solved = scipy.linalg.solve_triangular(self.R, U, check_finite=False)
            rounding = 2.0 * self.kept.size * np.finfo(np.float64).eps * np.sqrt(squared_columns(U))
            solved[np.abs(solved) <= rounding] = 0.0
            T[self.kept] = solved / self.norms[self.kept][:, None]
        return T


def column_basis(C: FloatArray, *, rank_tol: RankTol = DEPENDENT) -> ColumnBasis:
    """Factor the columns of C by column-pivoted Householder QR.

    Parameters
    ----------
    C : ndarray (m, r)
        Any finite columns: dependent, zero and wildly scaled ones included.
    rank_tol : float or ndarray (r,)
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them. With one tolerance a column, for example of residuals whose noise is that of longer columns, the columns
        that stand furthest above their tolerances are kept.

    Returns
    -------
    ColumnBasis
        With as many basis vectors as there are columns independent to the tolerance.
    """
    unit, norms = unit_columns(C)
    Q, R, kept = _pivots(unit, float(np.min(rank_tol, initial=1.0)))
    if isinstance(rank_tol, np.ndarray) and np.any(apart(R) < rank_tol[kept]):
        clear = np.sort(_pivots(unit / rank_tol, 1.0)[2])
        Q, R, pivots = _pivots(unit[:, clear], DEPENDENT)
        kept = clear[pivots]
    return ColumnBasis(Q, kept, R, norms)


def apart(R: FloatArray) -> FloatArray:
    """Length of each column's part outside the span of all the others, from the triangle ``R (q, q)`` of their QR."""
    lengths: FloatArray = 1.0 / np.sqrt(squared_columns(inverse(R).T))
    return lengths


def tolerance_of(rank_tol: RankTol, columns: Sequence[int] | IntArray) -> RankTol:
    """Rank tolerance of some of the columns."""
    return rank_tol[np.asarray(columns, dtype=np.intp)] if isinstance(rank_tol, np.ndarray) else rank_tol


def _pivots(C: FloatArray, shortest: float) -> tuple[FloatArray, FloatArray, IntArray]:
    """Pivoted QR of the columns whose part outside those before them is longer than a length."""
    if C.size == 0:
        return np.zeros((C.shape[0], 0)), np.zeros((0, 0)), np.zeros(0, dtype=np.intp)
    Q, R, pivots = scipy.linalg.qr(C, mode="economic", pivoting=True, check_finite=False)
    q = int(np.count_nonzero(np.abs(np.diagonal(R)) > shortest))
    return Q[:, :q], R[:q, :q], pivots[:q].astype(np.intp)


def orthonormal_basis(C: FloatArray, *, rank_tol: RankTol = DEPENDENT) -> FloatArray:
    """Orthonormal basis ``(m, q)`` of the span of the columns of ``C (m, r)``; see :func:`column_basis`."""
    return column_basis(C, rank_tol=rank_tol).Q


def split(core: FloatArray, C: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Part of a core in the span of columns C, and the part outside it, in one orthonormal basis of all.

    Parameters
    ----------
    core : ndarray (m, d)
        Any matrix.
    C : ndarray (m, r)
        Unit or zero columns; dependent ones do no harm.

    Returns
    -------
    inside : ndarray (q, d)
        ``Q'core`` for an orthonormal basis Q of the span, of q vectors.
    outside : ndarray (m - q, d)
        The same for a basis of its complement: as long, column by column, as the residual.
    """
    if C.size == 0:
        return core[:0], core
    (reflectors, tau), R, *_ = scipy.linalg.qr(C, mode="raw", pivoting=True, check_finite=False)
    q = int(np.count_nonzero(np.abs(np.diagonal(R)) > DEPENDENT))
    turned = dormqr("L", "T", reflectors[:, : tau.size], tau, core, 64 * max(1, core.shape[1]))[0]
    return turned[:q], turned[q:]


def residual(core: FloatArray, Q: FloatArray) -> FloatArray:
    """Part of the core outside the span of Q, ``(I - QQ') core``.

    Parameters
    ----------
    core : ndarray (m, d)
        Any matrix.
    Q : ndarray (m, q)
        Orthonormal columns.

    Returns
    -------
    B : ndarray (m, d)
        Projected twice, so that ``Q.T @ B`` is zero to rounding of the columns of B and not only of the core's.
    """
    if Q.shape[1] == 0:
        return core.copy()
    B = np.empty(core.shape)
    for start in range(0, core.shape[1], PANEL_COLUMNS):  # so that only B is held for a wide core
        panel = core[:, start : start + PANEL_COLUMNS]
        outside = panel - Q @ (Q.T @ panel)
        outside -= Q @ (Q.T @ outside)
        B[:, start : start + PANEL_COLUMNS] = outside
    return B


def residual_floor(rank_tol: RankTol) -> RankTol:
    """Share of a squared column below which its squared residual, found by projection, is zero to the tolerance."""
    floor: RankTol = np.maximum(RESIDUAL_FLOOR, np.square(rank_tol))
    return floor


def residual_norms(core: FloatArray, Q: FloatArray, *, rank_tol: RankTol = DEPENDENT) -> FloatArray:
    """Squared lengths of the residual's columns, exactly 0 where only rounding is left.

    Parameters
    ----------
    core : ndarray (m, d)
        Any matrix whose squares neither overflow nor vanish, see :func:`~spae_dask.maths.linalg.scaling.unit_scaled`.
    Q : ndarray (m, q)
        Orthonormal columns.
    rank_tol : float or ndarray (d,)
        Relative length below which a residual is noise.

    Returns
    -------
    ndarray (d,)
        ``||b_j||^2``; values below ``1e-12 ||l_j||^2`` or ``(rank_tol ||l_j||)^2`` are returned as 0.
    """
    norms = squared_columns(residual(core, Q))
    return np.where(norms > residual_floor(rank_tol) * squared_columns(core), norms, 0.0)


def optimal_decoder(core: FloatArray, H: FloatArray) -> FloatArray:
    """Decoder that minimises ``||X - X H G||^2`` for a given encoder, ``G = (XH)^+ X``.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    H : ndarray (d, k)
        Any encoder; columns whose codes are zero or depend on other codes get zero rows in G.

    Returns
    -------
    G : ndarray (k, d)
        The decoder.
    """
    basis = column_basis(core @ H)
    return basis.coefficients(basis.Q.T @ core)
