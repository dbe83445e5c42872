"""The one-column problem: the best column of H on a given support when all other columns are fixed.

Let U be an orthonormal basis of the other codes and ``D = (I - UU') L`` the residual of the core. One more column h
lowers the loss by ``||D'u||^2`` with ``u = Dh / ||Dh||``. So on a support with residual columns ``QR`` the best u is
``Q`` times the top eigenvector of ``Q'DD'Q``, and the gain is its eigenvalue. What is left is to search supports,
see :mod:`spae_dask.maths.encoders.pursuit` and :mod:`spae_dask.maths.encoders.support_exchange`.

Only the direction of a residual column matters, so all have unit length here: tolerances are relative to the column,
and columns of any magnitude are in play.

A search asks for the products of a few columns with all others, plain and through DD'. Those are rows of the products
of the reduced core, which are made once, less a part of rank k - 1: no step costs a product of whole matrices. Columns
of which the other codes leave little would lose digits in that difference; their residuals are made themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from spae_dask.maths.encoders.swap_table import SwapTable, swap_table
from spae_dask.maths.linalg.project import residual
from spae_dask.maths.linalg.scaling import BoolArray, FloatArray, IntArray, squared_columns
from spae_dask.maths.linalg.spectral import leading_eigenvectors
from spae_dask.maths.linalg.triangular import inverse
from spae_dask.maths.selection.problem import lowest_best

if TYPE_CHECKING:
    from spae_dask.maths.encoders.reduced_core import ReducedCore

# A residual column closer than this to the span of others depends on them. Its coefficients would be differences of
# large numbers, and squares of shorter lengths, found by subtraction, would be rounding noise.
DEPENDENT = 1e-6
# A column has no direction of its own if the other codes explain all but this part of its length.
EXHAUSTED = 1e-10
# Columns with less than this part of their length left are handled as residuals.
SHORT = 1e-2
# Distance of a column from the span of others down to which products with the span are differences of products.
_APART = 1e-3


@dataclass(frozen=True, eq=False)
class ColumnProblem:
    """Residual columns to combine, and what a code made of them explains.

    Attributes
    ----------
    reduced : ReducedCore
        Candidate columns, and what their basis explains.
    U : ndarray (m, q)
        Orthonormal basis of the other codes.
    along : ndarray (c, q)
        Products of the unit candidates with U.
    lengths : ndarray (c,)
        Lengths of the residuals of unit columns, at most 1.
    short : ndarray of int
        Live columns with residuals shorter than ``SHORT``.
    residuals : ndarray (m, n)
        Unit residuals of these.
    """

    reduced: "ReducedCore"
    U: FloatArray
    along: FloatArray
    lengths: FloatArray
    short: IntArray
    residuals: FloatArray

    @property
    def rank_tol(self) -> float:
        """Length of the part of a unit column, outside the other codes and the rest of a support, that gets weight."""
        return self.reduced.rank_tol

    @cached_property
    def live(self) -> BoolArray:
        """Columns that still have a direction, ``(c,)``."""
        return _live(self.lengths, self.rank_tol)

    @cached_property
    def _inverse_lengths(self) -> FloatArray:
        inverted = np.zeros_like(self.lengths)
        inverted[self.live] = 1.0 / self.lengths[self.live]
        return inverted

    @cached_property
    def dependent(self) -> FloatArray:
        """Squared length ``(c,)`` of a unit residual's part outside others at which it depends on them."""
        tolerances = np.divide(self.rank_tol, self.lengths, out=np.ones_like(self.lengths), where=self.live)
        squared: FloatArray = np.square(np.maximum(DEPENDENT, tolerances))
        return squared

    @cached_property
    def _weighted_along(self) -> tuple[FloatArray, FloatArray]:
        """Products of the candidates with U through ``squares`` (c, q), and those of U with itself (q, q)."""
        weighted = self.reduced.squares[:, None] * self.U
        return self.reduced.columns.T @ weighted, self.U.T @ weighted

    @cached_property
    def energies(self) -> FloatArray:
        """Sum of squares that each unit residual explains, ``(c,)``."""
        weighted, inner = self._weighted_along
        taken = np.einsum("ij,ij->i", self.along @ inner - 2.0 * weighted, self.along)
        energies: FloatArray = self.reduced.energies + taken
        energies = np.maximum(energies, 0.0) * self._inverse_lengths**2
        energies[self.short] = np.einsum("ij,ij,i->j", self.residuals, self.residuals, self.reduced.squares)
        return energies

    @cached_property
    def total(self) -> float:
        """Loss without this column, but for a part no column can touch."""
        return float(self.reduced.squares @ np.maximum(1.0 - np.sum(self.U**2, axis=1), 0.0))

    def columns(self, selected: Sequence[int] | IntArray) -> FloatArray:
        """Unit residuals of selected columns, ``(m, s)``; zero for those that are exhausted."""
        chosen = residual(self.reduced.columns[:, list(selected)], self.U)
        lengths = np.sqrt(squared_columns(chosen))
        live = self.live[list(selected)] & (lengths > 0.0)
        columns: FloatArray = np.where(live, chosen / np.where(live, lengths, 1.0), 0.0)
        return columns

    def products(self, codes: FloatArray) -> FloatArray:
        """Products of all unit residuals with codes ``(m,)`` or ``(m, p)``: ``(c,)`` or ``(p, c)``."""
        found: FloatArray = codes.T @ self.reduced.columns - (codes.T @ self.U) @ self._codes_along
        found *= self._inverse_lengths
        found[..., self.short] = codes.T @ self.residuals
        return found

    def rows(self, selected: Sequence[int]) -> FloatArray:
        """Products of selected unit residuals with all, ``(s, c)``."""
        rows = list(selected)
        if self._any_short(rows):  # differences would lose their digits
            return self.products(self.columns(rows))
        found = self.reduced.products(rows) - self.along[rows] @ self._codes_along
        found *= self._inverse_lengths[rows, None]
        found *= self._inverse_lengths
        if self.short.size:
            found[:, self.short] = self.columns(rows).T @ self.residuals
        return found

    def weighted_rows(self, selected: Sequence[int]) -> FloatArray:
        """Products of selected unit residuals with all through ``DD'``, ``(s, c)``."""
        rows = list(selected)
        if self._any_short(rows):
            return self.products(self.powered(self.columns(rows)))
        pulled, inner = self._weighted_along
        along = self.along[rows]
        found = self.reduced.weighted_products(rows) - (pulled[rows] - along @ inner) @ self._codes_along
        found -= along @ pulled.T
        found *= self._inverse_lengths[rows, None]
        found *= self._inverse_lengths
        if self.short.size:
            found[:, self.short] = self.powered(self.columns(rows)).T @ self.residuals
        return found

    def products_among(self, selected: IntArray) -> tuple[FloatArray, FloatArray]:
        """Products of selected unit residuals among themselves: plain, and through ``DD'``."""
        if self._any_short(selected):
            columns = self.columns(selected)
            strong = self.reduced.sigma[:, None] * columns
            return columns.T @ columns, strong.T @ strong
        pulled, inner = self._weighted_along
        along, pulled, scale = self.along[selected], pulled[selected], self._inverse_lengths[selected]
        plain, weighted = self.reduced.products_among(selected)
        plain -= along @ along.T
        mixed = (pulled - 0.5 * along @ inner) @ along.T
        weighted -= mixed
        weighted -= mixed.T
        for each in (plain, weighted):
            each *= scale[:, None]
            each *= scale
        np.fill_diagonal(plain, 1.0)
        return plain, weighted

    def _any_short(self, columns: Sequence[int] | IntArray) -> bool:
        return bool(self.short.size and np.any(self._is_short[columns]))

    @cached_property
    def _is_short(self) -> BoolArray:
        mask = np.zeros(self.lengths.size, dtype=bool)
        mask[self.short] = True
        return mask

    @cached_property
    def _codes_along(self) -> FloatArray:
        """Transpose of ``along``, row-major: rows are made of it thousands of times."""
        return np.ascontiguousarray(self.along.T)

    def powered(self, codes: FloatArray) -> FloatArray:
        """``DD'u`` for codes ``(m, p)`` beside U: a power step, towards codes that gain more."""
        return residual(self.reduced.squares[:, None] * codes, self.U)

    def best_codes(self, count: int) -> FloatArray:
        """Top left singular vectors of D as columns, ``(m, min(count, m))``: the codes PCA would choose."""
        # starts from a vector that does not depend on a rotation of the core's rows
        start = residual((self.reduced.columns @ self._inverse_lengths)[:, None], self.U)[:, 0]
        return leading_eigenvectors(self._residual_times, count, start)

    def _residual_times(self, u: FloatArray) -> FloatArray:
        """``DD'u`` for any vector u ``(m,)``, or a matrix of vectors ``(m, p)``."""
        squares = self.reduced.squares if u.ndim == 1 else self.reduced.squares[:, None]
        weighted = squares * (u - self.U @ (self.U.T @ u))
        product: FloatArray = weighted - self.U @ (self.U.T @ weighted)
        return product


def _live(lengths: FloatArray, rank_tol: float) -> BoolArray:
    live: BoolArray = lengths > max(EXHAUSTED, rank_tol)
    return live


def column_problem(reduced: "ReducedCore", U: FloatArray) -> ColumnProblem:
    """Pose the problem of one more column beside codes.

    Parameters
    ----------
    reduced : ReducedCore
        Core to search.
    U : ndarray (m, q)
        Orthonormal basis of the codes, maybe of none.
    """
    along = reduced.columns.T @ U
    lengths = np.sqrt(np.maximum(reduced.squared_lengths - np.sum(along**2, axis=1), 0.0))
    short = np.flatnonzero(lengths < SHORT) if U.shape[1] else np.zeros(0, dtype=np.intp)
    residuals = residual(reduced.columns[:, short], U)
    lengths[short] = np.sqrt(squared_columns(residuals))
    live = _live(lengths[short], reduced.rank_tol)
    short, residuals = short[live], residuals[:, live]
    return ColumnProblem(reduced, U, along, lengths, short, residuals / lengths[short])


@dataclass(frozen=True, eq=False)
class ColumnSolution:
    """The best column on one support.

    Attributes
    ----------
    problem : ColumnProblem
        Problem that was solved.
    selected : tuple of int
        The support; its residual columns are independent.
    gain : float
        Decrease of the loss.
    code : ndarray (m,)
        The unit vector u.
    Q, R : ndarray (m, s), (s, s)
        QR factors of the unit residual columns of the support.
    leaving : ndarray (s, s)
        Row i: the unit direction, in the basis Q, that leaves the span with column i.
    inner : ndarray (s, s)
        ``Q'DD'Q``.
    """

    problem: ColumnProblem
    selected: tuple[int, ...]
    gain: float
    code: FloatArray
    Q: FloatArray
    R: FloatArray
    leaving: FloatArray
    inner: FloatArray

    @cached_property
    def swaps(self) -> SwapTable:
        """All swaps of one column of the support."""
        return swap_table(self)

    @cached_property
    def products(self) -> tuple[FloatArray, FloatArray]:
        """Products of Q with all unit residuals, plain and through ``DD'``, both ``(s, c)``."""
        if np.min(np.abs(np.diagonal(self.R))) < _APART:  # division by R would cost digits
            return self.problem.products(self.Q), self.problem.products(self.problem.powered(self.Q))
        inverted = inverse(self.R).T
        return inverted @ self.problem.rows(self.selected), inverted @ self.problem.weighted_rows(self.selected)

    @property
    def powered_products(self) -> FloatArray:
        """Products ``(c,)`` of all unit residuals with ``DD'u``."""
        through: FloatArray = (self.code @ self.Q) @ self.products[1]
        return through


def worthwhile(solution: ColumnSolution) -> float:
    """Gain at which a search goes on from a solution: the loss must fall by a millionth, and not by rounding."""
    return solution.gain + max(1e-6 * (solution.problem.total - solution.gain), 1e-13 * solution.gain)


def coefficients_of(solution: ColumnSolution, code: FloatArray) -> FloatArray:
    """Coefficients ``(s,)`` of unit columns (not residuals) whose combination has the given code as its residual.

    Parameters
    ----------
    solution : ColumnSolution
        The support.
    code : ndarray (m,)
        Vector whose projection on the span of the support is meant.
    """
    h: FloatArray = scipy.linalg.solve_triangular(solution.R, code @ solution.Q, check_finite=False)
    # on a column that is nearly exhausted, rounding errors would be the largest number
    h[np.abs(h) <= 2.0 * h.size * np.finfo(np.float64).eps * np.max(np.abs(h))] = 0.0
    return h / solution.problem.lengths[list(solution.selected)]


def independent_part(columns: FloatArray, shortest: float) -> list[int]:
    """Columns with the span of all, chosen by pivoting.

    The next column is that of the longest part outside the span of those before it; of equal ones the first. Rounding
    would choose among them, as it does in LAPACK's pivoting, and unit columns are equal at once.

    Parameters
    ----------
    columns : ndarray (m, s)
        Unit or zero columns.
    shortest : float
        Length of that part from which a column is independent.
    """
    left, kept = columns.copy(), list[int]()
    for _ in range(min(columns.shape)):
        place = lowest_best(np.sqrt(squared_columns(left)))
        length = float(np.linalg.norm(left[:, place]))
        if length <= shortest:
            break
        kept.append(place)
        q = left[:, place] / length
        for _ in range(2):  # so that what is left of near-copies is orthogonal to q as well
            left -= np.outer(q, q @ left)
        left[:, kept] = 0.0
    return sorted(kept)


def best_on_support(problem: ColumnProblem, selected: Sequence[int]) -> ColumnSolution | None:
    """Solve the one-column problem on a given support.

    Parameters
    ----------
    problem : ColumnProblem
        Problem that the other columns leave.
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
    columns = problem.columns(selected)
    Q, R = np.linalg.qr(columns)
    if R.shape[0] < len(selected) or np.min(np.abs(np.diagonal(R))) < DEPENDENT:
        ascending = np.argsort(selected)
        independent = independent_part(columns[:, ascending], 2.0 * DEPENDENT)
        return best_on_support(problem, [selected[i] for i in ascending[independent]])
    leaving = inverse(R)
    stretch = np.sqrt(squared_columns(leaving.T))
    apart = problem.lengths[list(selected)] / stretch
    if np.min(apart) < problem.rank_tol:
        nearest = int(np.argmin(apart))
        return best_on_support(problem, [*selected[:nearest], *selected[nearest + 1 :]])
    leaving /= stretch[:, None]
    images = problem.reduced.sigma[:, None] * Q
    inner = images.T @ images
    eigenvalues, vectors = np.linalg.eigh(inner)
    return ColumnSolution(problem, selected, float(eigenvalues[-1]), Q @ vectors[:, -1], Q, R, leaving, inner)
