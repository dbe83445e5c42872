"""Coefficients of all columns of H at once, on supports that stay as they are.

One column at a time converges slowly where codes nearly depend on each other. With codes ``Z = UR`` (QR) and the
squared strengths S of the basis, Z explains the trace of ``U'SU``. A quasi-Newton method climbs to where rounding hides
what a step gains. From there Newton's steps make the slope itself zero, which has more digits: near its top an
explained variance changes with the square of a step, and its slope with the step. Where codes depend on each other so
nearly that neither gets there, Newton's steps within a trust region do (Conn, Gould & Toint 2000, chapter 7).
To check a slope or a curvature: differences of what :func:`~spae_dask.maths.linalg.loss.encoder_loss` gives.
"""

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from spae_dask.maths.linalg.project import DEPENDENT
from spae_dask.maths.linalg.scaling import FloatArray

# Coefficients up to which their second derivatives are a small matrix.
_FEW = 1000
_CLIMB = {"maxiter": 1000, "maxfun": 2000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 20}
_MOST_STEPS = 50
_WITHIN_REGION = {"maxiter": 300, "gtol": 1e-12}
# Slopes, relative to the total, that are rounding.
_LEVEL = 1e-11
# The length of a code changes nothing: second derivatives so small beside the largest are such directions.
_FLAT = 1e-12


class Coefficients:
    """Explained share of the total as a function of the codes' coordinates, its slope and its curvature.

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

    def parts(self, y: FloatArray) -> list[FloatArray]:
        """Coordinates ``(s_j,)`` of each code."""
        return np.split(y, self._ends)

    def _codes(self, y: FloatArray) -> FloatArray:
        spread = np.zeros((y.size, self._ends.size + 1))
        spread[np.arange(y.size), self._owner] = y
        codes: FloatArray = self._Q @ spread
        return codes

    def unexplained(self, y: FloatArray) -> tuple[float, FloatArray]:
        """Explained share, negated, and its slope; infinity where codes depend on each other."""
        U, R = np.linalg.qr(self._codes(y))
        scales = np.abs(np.diagonal(R))
        if np.min(scales) <= DEPENDENT * np.max(scales):
            return np.inf, np.zeros_like(y)
        strong = self._squares * U
        explained = U.T @ strong
        slope = self._Q.T @ _divided(strong - U @ explained, R)
        return -float(np.trace(explained)), -2.0 * slope[np.arange(y.size), self._owner]

    def slope(self, y: FloatArray) -> FloatArray:
        """Slope of :meth:`unexplained`."""
        return self.unexplained(y)[1]

    def curvature(self, y: FloatArray) -> FloatArray:
        """Second derivatives of :meth:`unexplained`, ``(n, n)``.

        With ``W = (Z'Z)^-1``, ``T = ZW``, the projector ``P = TZ'``, ``M = W Z'SZ W`` and ``a = ST - ZM``, the part of
        codes i and j is ``W_ij (I - P) S (I - P) - M_ij (I - P)`` in their bases, but for two products of rank one,
        ``a_j T_i'`` and ``T_j a_i'``.
        """
        Q, owner = self._Q, self._owner
        U, R = np.linalg.qr(self._codes(y))
        strong = self._squares * U
        explained = U.T @ strong
        T, inverse = _divided(U, R), _divided(np.eye(len(R)), R)
        W, M = inverse.T @ inverse, inverse.T @ explained @ inverse
        outside = Q - U @ (U.T @ Q)
        a = (Q.T @ _divided(strong - U @ explained, R))[:, owner]
        b = (Q.T @ T)[:, owner]
        pairs = np.ix_(owner, owner)
        curved: FloatArray = W[pairs] * (outside.T @ (self._squares * outside)) - M[pairs] * (Q.T @ outside)
        curved -= a * b.T
        curved -= b * a.T
        curved *= -2.0
        return curved

    def best(self, start: FloatArray) -> FloatArray:
        """Coordinates of a top near a start, to the last digits."""
        y: FloatArray
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
        slope = self.slope(y)
        for _ in range(_MOST_STEPS):
            closer = y - np.linalg.lstsq(self.curvature(y), slope, rcond=_FLAT)[0]
            loss, after = self.unexplained(closer)
            if not (np.isfinite(loss) and np.linalg.norm(after) < np.linalg.norm(slope) / 2):
                break
            y, slope = closer, after
        return y, bool(np.linalg.norm(slope) <= _LEVEL)


def _divided(U: FloatArray, R: FloatArray) -> FloatArray:
    """``U R'^-1`` for an upper triangle R."""
    divided: FloatArray = scipy.linalg.solve_triangular(R, U.T).T
    return divided
