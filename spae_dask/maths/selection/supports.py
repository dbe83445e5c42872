"""Sum of squares that k codes on a set of columns explain, and the best column to add to the set.

The best rank-k encoder on columns S explains ``||(Q_S' X)_k||^2``, the total minus ``||X - X_{C,k}||^2``. Adding a
column borders the Gram matrix of ``Q_T' X`` by one row and column. Let lambda be its eigenvalues, and mu the smallest
eigenvalue of the arrowhead matrix on the k top ones and the new column. Then the sum explained is at least
``sum_{i<=k} lambda_i + alpha - mu`` (Cauchy's interlacing: a compression has no larger eigenvalues). These bounds rank
all additions at once; the few best are evaluated exactly.
"""

from collections.abc import Iterable

import numpy as np

from spae_dask.maths.linalg.project import DEPENDENT, RankTol, orthonormal_basis, residual, tolerance_of
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, squared_columns, unit_columns
from spae_dask.maths.linalg.spectral import thin_svd
from spae_dask.maths.selection.problem import lowest_best, ranked

# Additions with a smaller squared residual are too dependent to be ranked by differences of squares.
_DEPENDENT_SQUARED = 1e-10
_EXACT_TRIALS = 4
_BISECTIONS = 40


class Supports:
    """Explained variance of column sets of one core.

    The core is rotated so that its rows are orthogonal, and rows that hold nothing of any column are dropped; neither
    changes what a set explains.

    Parameters
    ----------
    core : ndarray (m, d)
        Core, scaled so that squares are harmless; not zero.
    k : int
        Number of codes.
    rank_tol : float or ndarray (d,), optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them; one for all columns, or one for each.
    """

    def __init__(self, core: FloatArray, k: int, rank_tol: RankTol = DEPENDENT) -> None:
        rotated = thin_svd(core)[0].T @ core
        tails = np.cumsum((rotated**2)[::-1], axis=0)[::-1]
        rotated = rotated[np.any(tails > 1e-24 * tails[0], axis=1)]
        self.k = k
        self._rank_tol = rank_tol
        self.unit = unit_columns(rotated)[0]
        # LL' is diagonal after the rotation
        self._energy = np.einsum("ij,ij->i", rotated, rotated)[:, None]
        self._alone = squared_columns(np.sqrt(self._energy) * self.unit)

    def explained(self, columns: Iterable[int]) -> float:
        """``||(Q_S' X)_k||^2``."""
        Q = self._basis(list(columns))
        return self._top(Q.T @ (self._energy * Q))

    def _basis(self, columns: list[int]) -> FloatArray:
        return orthonormal_basis(self.unit[:, columns], rank_tol=tolerance_of(self._rank_tol, columns))

    def _top(self, gram: FloatArray) -> float:
        return float(np.sum(np.linalg.eigvalsh(gram)[-self.k :]))

    def best_addition(
        self, columns: list[int], candidates: IntArray, prices: FloatArray | None = None
    ) -> tuple[int, float]:
        """Candidate that explains most when added to some columns, and what they then explain together.

        Parameters
        ----------
        columns : list of int
            The set T.
        candidates : ndarray (p,)
            Columns that may enter; one that is in T or depends on it gains nothing.
        prices : ndarray (d,), optional
            Prices of the columns: the candidate is then the one that adds most for its price.
        """
        Q = self._basis(columns)
        weighted = self._energy * Q
        gram = Q.T @ weighted
        inside = Q.T @ self.unit[:, candidates]
        products = weighted.T @ self.unit[:, candidates]
        # squared residuals, and products of Q and of the residuals with LL' applied to the residuals
        left = 1.0 - squared_columns(inside)
        border = products - gram @ inside
        alpha = self._alone[candidates] - np.einsum("ij,ij->j", inside, products + border)
        free = left > np.maximum(_DEPENDENT_SQUARED, np.square(tolerance_of(self._rank_tol, candidates)))
        if not np.any(free):
            return int(candidates[0]), self._top(gram)
        eigenvalues, vectors = np.linalg.eigh(gram)
        top = vectors[:, ::-1][:, : self.k].T @ border[:, free] / np.sqrt(left[free])
        gains = _addition_bounds(eigenvalues[::-1][: self.k], top, np.clip(alpha[free] / left[free], 0.0, None), self.k)
        price = np.ones(1) if prices is None else prices[candidates[free]]
        trials = np.sort(candidates[free][ranked(gains / price)[:_EXACT_TRIALS]])
        values = np.array([self._with_one_more(Q, gram, int(j)) for j in trials])
        best = lowest_best(values if prices is None else (values - self._top(gram)) / prices[trials])
        return int(trials[best]), float(values[best])

    def _with_one_more(self, Q: FloatArray, gram: FloatArray, j: int) -> float:
        q = residual(self.unit[:, [j]], Q)
        q /= np.linalg.norm(q)
        weighted = self._energy * q
        border = Q.T @ weighted
        return self._top(np.block([[gram, border], [border.T, q.T @ weighted]]))


def _addition_bounds(top: FloatArray, border: FloatArray, alpha: FloatArray, k: int) -> FloatArray:
    """Lower bounds ``(p,)`` on the gain of each addition, from the arrowheads ``[[diag(top), b], [b', alpha]]``.

    The smallest eigenvalue mu is the root of ``alpha - mu - sum b_i^2 / (top_i - mu)`` in ``[0, min(top, alpha)]``,
    found by bisection for all additions at once; the gain is at least ``alpha - mu``. With fewer than k codes so far a
    column gains all of alpha.
    """
    if top.size < k:
        return alpha
    low = np.zeros_like(alpha)
    high = np.minimum(alpha, top[-1])
    squares = border**2
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        denominators = np.maximum(top[:, None] - middle, np.finfo(np.float64).tiny)
        with np.errstate(over="ignore"):  # the root of a vanishing denominator is on its left either way
            right_of_root = alpha - middle < np.sum(squares / denominators, axis=0)
        high = np.where(right_of_root, middle, high)
        low = np.where(right_of_root, low, middle)
    gains: FloatArray = alpha - high
    return gains
