"""A core reduced to the columns an encoder may use, so that a search on it costs nothing that depends on d.

With Q an orthonormal basis of the candidate columns, every code is ``Q`` times a short vector, and what it explains
depends on the core only through ``Q'L`` up to a rotation from the right. With ``Q'L = W diag(sigma) V'`` and the basis
``Q W`` that is sigma alone: a unit code u explains ``||diag(sigma) u||^2``. What lies outside Q no encoder on the
candidates explains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf

from spae_dask.maths.encoders.single_column import ColumnProblem, column_problem
from spae_dask.maths.linalg.project import DEPENDENT, orthonormal_basis, residual, split
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, squared_columns, unit_columns
from spae_dask.maths.linalg.spectral import SMALL

# All products of candidates are made at once up to this number, and beyond it up to twice the rank.
_ALL_PRODUCTS = 1024
# Smallest share of the total at which a loss computed as a difference keeps its digits.
BY_DIFFERENCE = 1e-4
# A loss of this share of the total is zero to rounding.
EXACT = 1e-28
# Cholesky's factor makes unit codes orthonormal if the part of each outside those before it is at least this long.
_FAR_APART = 0.03
# Smallest residual of the other codes, as a share of the total, at which differences of products suffice for a search.
_BY_PRODUCTS = 1e-6


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
        The candidates at unit length, in the basis; m is their rank.
    sigma : ndarray (m,)
        Strengths of the basis directions: a unit code u explains ``||sigma * u||^2``.
    remainder : float
        ``||L - QQ'L||^2``.
    rank_tol : float
        Length of the part of a unit candidate, outside others, below which it gets no weight.
    free : tuple of int
        Candidates that are in every support, beside those that are counted.
    """

    candidates: IntArray
    lengths: FloatArray
    columns: FloatArray
    sigma: FloatArray
    remainder: float
    rank_tol: float = DEPENDENT
    free: tuple[int, ...] = ()

    @cached_property
    def squares(self) -> FloatArray:
        """``sigma**2``."""
        return self.sigma**2

    @cached_property
    def _total(self) -> float:
        return float(np.sum(self.squares)) or 1.0

    @cached_property
    def _all_products(self) -> tuple[FloatArray, FloatArray] | None:
        m, c = self.columns.shape
        if c > max(_ALL_PRODUCTS, 2 * m):
            return None
        return self.columns.T @ self.columns, self.columns.T @ (self.squares[:, None] * self.columns)

    def products(self, selected: Sequence[int]) -> FloatArray:
        """Products of selected candidates with all, ``(s, c)``."""
        if self._all_products is not None:
            return self._all_products[0][selected]
        return self.columns[:, selected].T @ self.columns

    def weighted_products(self, selected: Sequence[int]) -> FloatArray:
        """The same products weighted by ``squares``."""
        if self._all_products is not None:
            return self._all_products[1][selected]
        return (self.squares[:, None] * self.columns[:, selected]).T @ self.columns

    def products_among(self, selected: IntArray) -> tuple[FloatArray, FloatArray]:
        """Products of selected candidates among themselves, plain and weighted."""
        if self._all_products is not None:
            plain, weighted = self._all_products
            return plain[np.ix_(selected, selected)], weighted[np.ix_(selected, selected)]
        chosen = self.columns[:, selected]
        strong = self.sigma[:, None] * chosen
        return chosen.T @ chosen, strong.T @ strong

    @cached_property
    def squared_lengths(self) -> FloatArray:
        """Squared lengths of the columns, ``(c,)``: 1, unless other codes were taken out of them."""
        return squared_columns(self.columns)

    @cached_property
    def energies(self) -> FloatArray:
        """Sums of squares that the unit candidates explain, ``(c,)``."""
        energies: FloatArray = np.einsum("ij,ij,i->j", self.columns, self.columns, self.squares)
        return energies

    def only(self, selected: Sequence[int]) -> "ReducedCore":
        """The same core with selected candidates alone."""
        rows = list(selected)
        candidates, lengths, columns = self.candidates[rows], self.lengths[rows], self.columns[:, rows]
        return replace(self, candidates=candidates, lengths=lengths, columns=columns, free=())

    def loss(self, codes: Sequence[FloatArray], spreads: Sequence[float] | None = None) -> float:
        """Loss left by these codes, 0 to rounding; ``spreads`` are their coefficients' lengths on unit columns."""
        share = self._outside(codes, spreads)[1]
        if share >= BY_DIFFERENCE:
            return share * self._total + self.remainder
        left = residual(np.diag(self.sigma), self._basis(codes, spreads))
        loss = float(np.vdot(left, left)) + self.remainder
        return loss if loss > EXACT * (self._total + self.remainder) else 0.0

    def problem(self, codes: Sequence[FloatArray], *, spreads: Sequence[float] | None = None) -> ColumnProblem:
        """Problem of one more column beside these codes."""
        U, share = self._outside(codes, spreads)
        if share >= _BY_PRODUCTS:
            return column_problem(self, U)
        return column_problem(self._without(self._basis(codes, spreads)), U[:, :0])

    def _without(self, U: FloatArray) -> "ReducedCore":
        """The core less all that codes with orthonormal basis U explain; to the digits of what is left."""
        W, sigma = _left_singular(residual(np.diag(self.sigma), U))
        return replace(self, columns=W.T @ residual(self.columns, U), sigma=sigma)

    def _outside(self, codes: Sequence[FloatArray], spreads: Sequence[float] | None) -> tuple[FloatArray, float]:
        """Orthonormal basis of the codes, made fast if they are far apart, and the share of the total it leaves."""
        if not codes:
            return np.zeros((self.sigma.size, 0)), 1.0
        C = np.array(codes).T
        R, not_positive = dpotrf(C.T @ C)
        if not not_positive and np.min(np.diagonal(R)) > _FAR_APART > self.rank_tol * max(spreads or [1.0]):
            U: FloatArray = dtrsm(1.0, R, C, side=1)
        else:
            U = self._basis(codes, spreads)
        return U, float(self.squares @ (1.0 - np.sum(U**2, axis=1))) / self._total

    def _basis(self, codes: Sequence[FloatArray], spreads: Sequence[float] | None) -> FloatArray:
        """The same basis by Householder's method, orthonormal to the last digit."""
        # the noise of a code is that of the unit columns, as many times as its coefficients hold them
        tolerances = self.rank_tol * np.maximum(1.0, np.ones(len(codes)) if spreads is None else np.array(spreads))
        return orthonormal_basis(np.array(codes).T, rank_tol=tolerances)


def reduce_core(
    scaled: FloatArray,
    candidates: IntArray,
    *,
    rank_tol: float = DEPENDENT,
    k: int | None = None,
    free: IntArray | None = None,
) -> ReducedCore:
    """Reduce a core to candidate columns.

    Parameters
    ----------
    scaled : ndarray (m, d)
        Core, scaled so that squares are harmless.
    candidates : ndarray (c,)
        Ascending indices of nonzero columns.
    rank_tol : float, optional
        See :class:`ReducedCore`.
    k : int, optional
        Most codes that will be asked about. If even the best ones leave a share of the total that differences of
        products keep, the basis comes from products, which is faster.
    free : ndarray of int, optional
        Columns that are in every support, beside those that are counted.
    """
    unit, lengths = unit_columns(scaled[:, candidates])
    places = () if free is None else tuple(np.flatnonzero(np.isin(candidates, free)).tolist())
    basis = None if k is None or min(unit.shape) <= SMALL else _far_apart(scaled, unit)
    if k is not None and basis is not None:
        found = _by_products(basis[0], basis[1], k)
        if found is not None:
            return ReducedCore(candidates, lengths, found[0].T @ basis[2], found[1], basis[1], rank_tol, places)
        k = None  # so few digits are left in any basis
    inside, outside = split(scaled, unit)
    remainder = _squared_length(outside)
    W, sigma = (None if k is None else _by_products(inside, remainder, k)) or _left_singular(
        np.asarray(np.linalg.qr(inside.T, mode="r")).T  # as many columns as the smaller side has
    )
    columns = W.T @ (inside[:, candidates] / lengths)
    return ReducedCore(candidates, lengths, columns, sigma, remainder, rank_tol, places)


def _far_apart(scaled: FloatArray, unit: FloatArray) -> tuple[FloatArray, float, FloatArray] | None:
    """The core in a basis of columns that are far apart, what it leaves, and the columns; None if they are not.

    The basis comes from Cholesky's factor of their products, in a fraction of the time of a pivoted QR.
    """
    R, not_positive = dpotrf(unit.T @ unit)
    if not_positive or np.min(np.diagonal(R), initial=1.0) < _FAR_APART:
        return None
    inside = dtrsm(1.0, R, unit.T @ scaled, trans_a=1)
    return inside, _squared_length(scaled) - _squared_length(inside), R


def _squared_length(A: FloatArray) -> float:
    return float(np.vdot(A, A))


def _left_singular(A: FloatArray) -> tuple[FloatArray, FloatArray]:
    """All left singular vectors of A ``(m, p)`` as columns, and a singular value for each of them."""
    try:
        W, sigma, _ = scipy.linalg.svd(A, check_finite=False)
    except np.linalg.LinAlgError:  # rare, and slower
        W, sigma, _ = scipy.linalg.svd(A, check_finite=False, lapack_driver="gesvd")
    return W, np.pad(sigma, (0, A.shape[0] - sigma.size))


def _by_products(inside: FloatArray, remainder: float, k: int) -> tuple[FloatArray, FloatArray] | None:
    """The same from the products of the rows; None if k codes may leave less than products keep."""
    squares, W = scipy.linalg.eigh(inside @ inside.T, driver="evd", check_finite=False)
    squares = np.clip(squares[::-1], 0.0, None)
    if not float(np.sum(squares[k:])) + remainder > BY_DIFFERENCE * (float(np.sum(squares)) + remainder):
        return None
    return W[:, ::-1], np.sqrt(squares)
