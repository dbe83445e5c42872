"""Coefficients of all columns of H at once, on supports that stay as they are.

One column at a time converges slowly where codes nearly depend on each other. With codes Z and the squared strengths S
of the basis, Z explains the trace of ``(Z'Z)^-1 Z'SZ``. A quasi-Newton method climbs to where rounding hides what a
step gains. From there Newton's steps make the slope itself zero, which has more digits: near its top an explained
variance changes with the square of a step, and its slope with the step.
To check a slope or a curvature: differences of what :func:`~spae_dask.maths.linalg.loss.encoder_loss` gives.
"""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from spae_dask.maths.linalg.scaling import FloatArray

# Coefficients up to which their second derivatives are a small matrix.
_FEW = 1000
_CLIMB = {"maxiter": 1000, "maxfun": 2000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 20}
_MOST_STEPS = 50
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
        Z = self._codes(y)
        strong = self._squares * Z
        try:
            inverse = np.linalg.inv(Z.T @ Z)
        except np.linalg.LinAlgError:
            return np.inf, np.zeros_like(y)
        explained = inverse @ (Z.T @ strong)
        slope = self._Q.T @ (strong @ inverse - Z @ (explained @ inverse))
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
        Z, Q, owner = self._codes(y), self._Q, self._owner
        W = np.linalg.inv(Z.T @ Z)
        T = Z @ W
        M = T.T @ (self._squares * T)
        outside = Q - T @ (Z.T @ Q)
        a = (Q.T @ (self._squares * T) - (Q.T @ Z) @ M)[:, owner]
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
        for _ in range(_MOST_STEPS if start.size <= _FEW else 0):
            slope = self.slope(y)
            closer = y - np.linalg.lstsq(self.curvature(y), slope, rcond=_FLAT)[0]
            if not np.linalg.norm(self.slope(closer)) < np.linalg.norm(slope) / 2:
                break
            y = closer
        return y
