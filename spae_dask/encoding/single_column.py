"""The one-column problem: the best column of H on a given support when all other columns are fixed.

Let U be an orthonormal basis of the other codes and ``D = (I - UU') L`` the residual of the core. One more column h
lowers the loss by ``||D'u||^2`` with ``u = Dh / ||Dh||``. So on a support with residual columns ``QR`` the best u is
``Q`` times the top eigenvector of ``Q'DD'Q``, and the gain is its eigenvalue. What is left is to search supports,
see :mod:`spae_dask.encoding.pursuit` and :mod:`spae_dask.encoding.support_exchange`.

Only the direction of a residual column matters, so all have unit length here: tolerances are relative to the column,
and columns of any magnitude are in play.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from spae_dask.linalg.project import DEPENDENT as RANK_TOL
from spae_dask.linalg.project import residual
from spae_dask.linalg.scaling import BoolArray, FloatArray, squared_columns
from spae_dask.linalg.spectral import leading_left_singular
from spae_dask.linalg.triangular import inverse

# A residual column nearer than this to the span of others depends on them: coefficients on it would be differences of
# large numbers, and squares of shorter lengths, found by subtraction, would be rounding noise.
DEPENDENT = 1e-6
# A column that the other codes explain but for this part of its length points nowhere.
EXHAUSTED = 1e-10


@dataclass(frozen=True, eq=False)
class ColumnProblem:
    """Residual columns to combine, and what a code made of them explains.

    Attributes
    ----------
    columns : ndarray (m, c)
        Unit residuals of the columns that may be used; zero for those exhausted.
    lengths : ndarray (c,)
        Lengths of the residuals of unit columns, at most 1.
    factor : ndarray (m, p)
        Any F with ``FF' = DD'``: a unit code u gains ``||F'u||^2``.
    rank_tol : float
        Length of the part of a unit column, outside the other codes and the rest of a support, below which the column
        gets no weight.
    """

    columns: FloatArray
    lengths: FloatArray
    factor: FloatArray
    rank_tol: float = RANK_TOL

    @cached_property
    def live(self) -> BoolArray:
        """Columns that still have a direction, ``(c,)``."""
        return _live(self.lengths, self.rank_tol)

    @cached_property
    def dependent(self) -> FloatArray:
        """Squared length ``(c,)`` of a unit residual's part outside others at which it depends on them."""
        tolerances = np.divide(self.rank_tol, self.lengths, out=np.ones_like(self.lengths), where=self.live)
        squared: FloatArray = np.square(np.maximum(DEPENDENT, tolerances))
        return squared

    @cached_property
    def images(self) -> FloatArray:
        """``F'`` applied to the columns, ``(p, c)``."""
        return self.factor.T @ self.columns

    @cached_property
    def energies(self) -> FloatArray:
        """Squared lengths of the images, ``(c,)``."""
        return squared_columns(self.images)

    @cached_property
    def total(self) -> float:
        """Loss without this column, ``||D||^2``, but for a part no column can touch."""
        return float(np.vdot(self.factor, self.factor))

    def powered(self, code: FloatArray) -> FloatArray:
        """``DD'u``: a power step, towards codes that gain more."""
        return self.factor @ (code @ self.factor)

    def best_codes(self, count: int) -> FloatArray:
        """Top left singular vectors of D as columns, ``(m, min(count, m))``: the codes PCA would choose."""
        # begun with what does not turn with the rows of the core
        return leading_left_singular(self.factor, count, np.sum(self.columns, axis=1))


def _live(lengths: FloatArray, rank_tol: float) -> BoolArray:
    live: BoolArray = lengths > max(EXHAUSTED, rank_tol)
    return live


def column_problem(unit: FloatArray, U: FloatArray, factor: FloatArray, *, rank_tol: float = RANK_TOL) -> ColumnProblem:
    """Pose the problem of one more column beside codes with orthonormal basis U.

    Parameters
    ----------
    unit : ndarray (m, c)
        Unit columns that may be used.
    U : ndarray (m, p)
        Orthonormal columns, maybe none.
    factor : ndarray (m, q)
        F with ``FF' = LL'``.
    rank_tol : float, optional
        See :class:`ColumnProblem`.
    """
    residuals = residual(unit, U)
    lengths = np.sqrt(squared_columns(residuals))
    live = _live(lengths, rank_tol)
    columns = np.where(live, residuals / np.where(live, lengths, 1.0), 0.0)
    return ColumnProblem(columns, lengths, residual(factor, U), rank_tol)


@dataclass(frozen=True, eq=False)
class ColumnSolution:
    """The best column on one support.

    Attributes
    ----------
    selected : tuple of int
        The support; its residual columns are independent.
    gain : float
        By how much the loss falls.
    code : ndarray (m,)
        The unit vector u.
    Q, R : ndarray (m, s), (s, s)
        QR factors of the unit residual columns of the support.
    leaving : ndarray (s, s)
        Row i: the unit direction, in the basis Q, that leaves the span with column i.
    images : ndarray (p, s)
        ``F'Q``.
    inner : ndarray (s, s)
        ``Q'DD'Q``, the Gram matrix of the images.
    """

    selected: tuple[int, ...]
    gain: float
    code: FloatArray
    Q: FloatArray
    R: FloatArray
    leaving: FloatArray
    images: FloatArray
    inner: FloatArray


def worthwhile(problem: ColumnProblem, solution: ColumnSolution) -> float:
    """Gain at which a search goes on from a solution: the loss must fall by a millionth, and not by rounding."""
    return solution.gain + max(1e-6 * (problem.total - solution.gain), 1e-13 * solution.gain)


def coefficients_of(solution: ColumnSolution, code: FloatArray, problem: ColumnProblem) -> FloatArray:
    """Coefficients ``(s,)`` of unit columns (not residuals) whose combination has the given code as its residual.

    Parameters
    ----------
    solution : ColumnSolution
        The support.
    code : ndarray (m,)
        Vector whose projection on the span of the support is meant.
    problem : ColumnProblem
        The problem solved.
    """
    h: FloatArray = scipy.linalg.solve_triangular(solution.R, code @ solution.Q, check_finite=False)
    # what rounding alone could have made would be the largest number on a column that is nearly exhausted
    h[np.abs(h) <= 2.0 * h.size * np.finfo(np.float64).eps * np.max(np.abs(h))] = 0.0
    return h / problem.lengths[list(solution.selected)]


def best_on_support(problem: ColumnProblem, selected: Sequence[int]) -> ColumnSolution | None:
    """Solve the one-column problem on a given support.

    Parameters
    ----------
    problem : ColumnProblem
        What the other columns leave.
    selected : sequence of int
        Distinct columns. Of dependent ones an independent part with the same span is kept.

    Returns
    -------
    ColumnSolution or None
        None if no column of the support has a direction left.
    """
    selected = tuple(selected)
    if not selected:
        return None
    Q, R = np.linalg.qr(problem.columns[:, selected])
    if R.shape[0] < len(selected) or np.min(np.abs(np.diagonal(R))) < DEPENDENT:
        _, R, pivots = scipy.linalg.qr(problem.columns[:, selected], mode="economic", pivoting=True, check_finite=False)
        independent = int(np.count_nonzero(np.abs(np.diagonal(R)) > 2.0 * DEPENDENT))
        return best_on_support(problem, [selected[i] for i in pivots[:independent]])
    leaving = inverse(R)
    stretch = np.sqrt(squared_columns(leaving.T))
    apart = problem.lengths[list(selected)] / stretch
    if np.min(apart) < problem.rank_tol:
        nearest = int(np.argmin(apart))
        return best_on_support(problem, [*selected[:nearest], *selected[nearest + 1 :]])
    leaving /= stretch[:, None]
    images = problem.factor.T @ Q
    inner = images.T @ images
    eigenvalues, vectors = np.linalg.eigh(inner)
    return ColumnSolution(selected, float(eigenvalues[-1]), Q @ vectors[:, -1], Q, R, leaving, images, inner)
