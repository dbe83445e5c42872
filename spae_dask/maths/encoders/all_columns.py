"""Coefficients of all columns of H at once, on supports that stay as they are.

One column at a time converges slowly where codes nearly depend on each other. With codes ``Z = UR`` (QR) and the
squared strengths S of the basis, Z explains the trace of ``U'SU``. A quasi-Newton method climbs to where rounding hides
what a step gains. From there Newton's steps make the slope itself zero, which has more digits: near its top an
explained variance changes with the square of a step, and its slope with the step. Where codes depend on each other so
nearly that neither gets there, Newton's steps within a trust region do (Conn, Gould & Toint 2000, chapter 7).

Codes that share a column may explain the most in the limit of equal codes: their differences then tell apart what each
cannot, and decoders grow without bound. So the variance inflation factors of the codes count as well, as little as if
codes were known to six digits. The best coefficients then exist, and are those of codes that stay apart.
To check a slope or a curvature: differences of what :func:`~spae_dask.maths.linalg.loss.encoder_loss` gives.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from spae_dask.maths.linalg.project import DEPENDENT
from spae_dask.maths.linalg.scaling import FloatArray

# Coefficients up to which their second derivatives are a small matrix.
_FEW = 1000
_CLIMB = {"maxiter": 1000, "maxfun": 2000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 20}
_MOST_STEPS = 50
_WITHIN_REGION = {"maxiter": 100, "gtol": 1e-12}
# Slopes, relative to the total, that are rounding.
_LEVEL = 1e-11
# The length of a code changes nothing: second derivatives so small beside the largest are such directions.
_FLAT = 1e-12
# Share of the total that a variance inflation factor counts: the square of an error of codes, relative to their size.
_INFLATION = 1e-12


class Coefficients:
    """Unexplained share of the total, with the inflation of codes, as a function of their coordinates.

    Parameters
    ----------
    bases : sequence of ndarray (m, s_j)
        Orthonormal basis of the columns in each support.
    squares : ndarray (m,)
        Squared strengths of the basis directions of the core.
    """

    def __init__(self, bases: Sequence[FloatArray], squares: FloatArray) -> None:
        sizes = [Q.shape[1] for Q in bases]
        self._ends = np.cumsum(sizes)[:-1]
        self._owner = np.repeat(np.arange(len(sizes)), sizes)
        self._Q = np.column_stack(bases)
        self._squares = squares[:, None] / (float(np.sum(squares)) or 1.0)

    @cached_property
    def _products(self) -> FloatArray:
        products: FloatArray = self._Q.T @ self._Q
        return products

    @cached_property
    def _strong_products(self) -> FloatArray:
        products: FloatArray = self._Q.T @ (self._squares * self._Q)
        return products

    def parts(self, y: FloatArray) -> list[FloatArray]:
        """Coordinates ``(s_j,)`` of each code."""
        return np.split(y, self._ends)

    def _unit(self, y: FloatArray) -> FloatArray:
        """Coordinates of the same codes with unit lengths."""
        lengths = np.sqrt(np.bincount(self._owner, weights=y**2))
        unit: FloatArray = y / lengths[self._owner]
        return unit

    def _codes(self, y: FloatArray) -> FloatArray:
        spread = np.zeros((y.size, self._ends.size + 1))
        spread[np.arange(y.size), self._owner] = y
        codes: FloatArray = self._Q @ spread
        return codes

    def unexplained(self, y: FloatArray) -> tuple[float, FloatArray]:
        """Explained share, negated, with what inflation counts; and its slope. Infinity where codes are dependent."""
        Z = self._codes(y)
        U, R = np.linalg.qr(Z)
        scales = np.abs(np.diagonal(R))
        if np.min(scales) <= DEPENDENT * np.max(scales):
            return np.inf, np.zeros_like(y)
        strong = self._squares * U
        explained = U.T @ strong
        inverse, squares = _divided(np.eye(len(R)), R), np.sum(R**2, axis=0)
        factors = squares * np.sum(inverse**2, axis=0)
        inflated = Z * (factors / squares) - U @ (inverse * squares) @ (inverse.T @ inverse)
        slope = self._Q.T @ (_INFLATION * inflated - _divided(strong - U @ explained, R))
        value = _INFLATION * float(np.sum(factors)) - float(np.trace(explained))
        return value, 2.0 * slope[np.arange(y.size), self._owner]

    def curvature(self, y: FloatArray) -> FloatArray:
        """Second derivatives of :meth:`unexplained`, ``(n, n)``.

        With ``W = (Z'Z)^-1``, ``T = ZW``, the projector ``P = TZ'``, ``M = W Z'SZ W`` and ``a = ST - ZM``, the part of
        codes i and j is ``W_ij (I - P) S (I - P) - M_ij (I - P)`` in their bases, but for two products of rank one,
        ``a_j T_i'`` and ``T_j a_i'``. Inflation is the sum of ``|z_i|^2 W_ii``.
        """
        Q, owner = self._Q, self._owner
        U, R = np.linalg.qr(self._codes(y))
        strong = self._squares * U
        explained = U.T @ strong
        inverse = _divided(np.eye(len(R)), R)
        W, M = inverse.T @ inverse, inverse.T @ explained @ inverse
        inside, mixed = Q.T @ U, Q.T @ strong
        outside = self._products - inside @ inside.T
        strong_outside = self._strong_products + (inside @ explained - mixed) @ inside.T - inside @ mixed.T
        along = _divided(inside, R)  # Q'T
        a, b = _divided(mixed - inside @ explained, R)[:, owner], along[:, owner]
        pairs = np.ix_(owner, owner)
        curved: FloatArray = W[pairs] * strong_outside - M[pairs] * outside - a * b.T - b * a.T
        # with N of the squared lengths of codes: the slope of inflation is z_i W_ii - (TNW)_i
        squares = np.sum(R**2, axis=0)
        inflated = (along * squares @ W)[:, owner]
        bends = W[pairs] * (along * squares @ along.T) - (W * squares @ W)[pairs] * outside
        bends += b * (inflated.T - 2.0 * W[pairs] * y) + b.T * (inflated - 2.0 * W[pairs] * y[:, None])
        bends[np.diag_indices_from(bends)] += np.diagonal(W)[owner]
        curved = _INFLATION * bends - curved
        curved *= 2.0
        return curved

    def best(self, start: FloatArray) -> FloatArray:
        """Coordinates of a top near a start, to the last digits; of dependent codes, the start."""
        y: FloatArray
        if not np.isfinite(self.unexplained(start)[0]):
            return start
        y = minimize(self.unexplained, start, jac=True, method="L-BFGS-B", options=_CLIMB).x
        if start.size > _FEW:
            return y
        y, level = self._level(y)
        if not level:
            climb = minimize(
                self.unexplained, y, jac=True, hess=self.curvature, method="trust-exact", options=_WITHIN_REGION
            )
            y = self._level(climb.x)[0]
        return y

    def _level(self, y: FloatArray) -> tuple[FloatArray, bool]:
        """Coordinates after Newton's steps, and whether these made the slope zero to rounding."""
        y = self._unit(y)  # the longer codes are, the smaller is the slope of the same share
        value, slope = self.unexplained(y)
        for _ in range(_MOST_STEPS):
            bends, axes = np.linalg.eigh(self.curvature(y))
            axes, bends = (each[..., np.abs(bends) > _FLAT * np.abs(bends).max()] for each in (axes, bends))
            closer = self._unit(y - axes @ ((axes.T @ slope) / bends))
            nearer, after = self.unexplained(closer)
            if nearer > value + _LEVEL or np.linalg.norm(after) >= np.linalg.norm(slope) / 2:
                break  # at a saddle, slopes vanish as well
            y, value, slope = closer, nearer, after
        return y, bool(np.linalg.norm(slope) <= _LEVEL)


def _divided(U: FloatArray, R: FloatArray) -> FloatArray:
    """``U R'^-1`` for an upper triangle R."""
    divided: FloatArray = scipy.linalg.solve_triangular(R, U.T).T
    return divided
