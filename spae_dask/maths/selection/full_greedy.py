"""Full greedy: columns that explain the most of all of X, one by one (Farahat, Ghodsi & Kamel, ICDM 2011).

It minimises ``||X - P_C X||^2``, the loss with as many codes as columns, *not* that of rank k: for k well below r it is
visibly worse than the targeted greedy, and k does not enter at all. Continued from a start of ratio rho it comes within
1 + eps of the best k columns after a data-dependent number of steps (Boutsidis, Liberty & Sviridenko 2015).
"""

from collections.abc import Sequence

import numpy as np

from spae_dask.maths.linalg.project import DEPENDENT, RankTol
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, squared_columns
from spae_dask.maths.selection.growing import GrowingBasis, grow
from spae_dask.maths.selection.problem import pose


class FullGain:
    """Gain of each column: the part of the whole residual that the column's residual explains.

    Keeps ``f_j = ||B'b_j||^2`` for the residual B and its unit-scaled columns b_j.

    Parameters
    ----------
    core : ndarray (m, d)
        Scaled core.
    unit : ndarray (m, d)
        Its columns at unit length.
    """

    def __init__(self, core: FloatArray, unit: FloatArray) -> None:
        # R'R = LL', so ||L'b|| = ||Rb|| at the cost of an m x m product and with no squared condition number
        self._R = np.linalg.qr(core.T, mode="r")
        self._core = core
        self._gains = squared_columns(self._R @ unit)

    def scores(self, basis: GrowingBasis) -> FloatArray:
        """``||B'b_j||^2 / ||b_j||^2``."""
        gains = np.clip(self._gains, 0.0, None)
        return np.divide(gains, basis.left, out=np.zeros_like(gains), where=basis.independent)

    def update(self, basis: GrowingBasis, direction: FloatArray, along: FloatArray) -> None:  # noqa: ARG002
        """Downdate: with ``c = q'X`` and ``y = B c'``, f_j loses ``2 c_j y'x_j`` and ``||c||^2 c_j^2``."""
        c = along * basis.norms
        y = self._core @ c
        Q = basis.Q
        y -= Q @ (Q.T @ y)
        y -= Q @ (Q.T @ y)
        self._gains -= 2.0 * along * (y @ basis.unit) + float(c @ c) * along**2

    def refresh(self, columns: IntArray, outside: FloatArray) -> None:
        """Gains of exactly known residuals."""
        self._gains[columns] = squared_columns(self._R @ outside)


def full_greedy(
    core: FloatArray,
    k: int,
    r: int,
    rng: np.random.Generator | None = None,  # noqa: ARG001  (a selection is handed one; this one needs none)
    *,
    start: Sequence[int] = (),
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
) -> IntArray:
    """Choose r columns that greedily explain the most of X.

    Paths are nested. Cost ``O(m d)`` a column after ``O(m d min(m, d))`` for the start.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Only checked: the objective is that of the full projection.
    r : int
        Columns to choose.
    rng : Generator, optional
        Not used: the selection is deterministic.
    start : sequence of int, optional
        Continue from these distinct columns.
    rank_tol : float or ndarray (d,), optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them; one for all columns, or one for each.
    leading : ndarray (d, k'), optional
        Top k right singular vectors of the core, if they are known.

    Returns
    -------
    selected : ndarray (r,)
        Distinct indices in order chosen; fewer only if X has fewer nonzero columns.
    """
    problem = pose(core, k, r, rank_tol, leading)
    basis = GrowingBasis(problem.core, rank_tol)
    return grow(basis, FullGain(problem.core, basis.unit), problem.r, start)
