"""Exactly k columns within a factor k + 1 of PCA, and QR with column pivoting.

``pivot_columns`` is Osinsky's deterministic choice (*Close to optimal column approximations with a single SVD*,
arXiv:2308.09068), the derandomised form of adaptive randomised pivoting (Cortinovis & Kressner, arXiv:2412.13992).
Step t multiplies ``||E||^2`` by at most ``1 + 1/(k - t + 1)``; the product telescopes to k + 1, which no choice of k
columns can beat in general (Deshpande, Rademacher, Vempala & Wang 2006).
"""

import numpy as np
import scipy.linalg

from spae_dask.maths.linalg.project import DEPENDENT, RankTol
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, squared_columns
from spae_dask.maths.selection.growing import GrowingBasis, LongestResidual, grow
from spae_dask.maths.selection.problem import lowest_best, pose

# A row of V_k with a smaller squared length cannot be a pivot.
_NEGLIGIBLE = 1e-14


def pivot_columns(V_k: FloatArray, E: FloatArray) -> tuple[IntArray, float]:
    """Choose k columns by pivoting on the singular vectors against the residual of PCA.

    Parameters
    ----------
    V_k : ndarray (d, k)
        Orthonormal columns.
    E : ndarray (m, d)
        ``L - L V_k V_k'``; scaled so that squares are harmless.

    Returns
    -------
    columns : ndarray (k,)
        Distinct indices in order chosen.
    bound : float
        ``||X - X_{C,k}||^2`` is at most this, and this is at most ``(k + 1) ||E||^2``.
    """
    d, k = V_k.shape
    V, E = V_k.copy(), E.copy()
    noise = 1e-28 * float(np.vdot(E, E))
    unused = np.ones(d, dtype=np.bool_)
    columns: list[int] = []
    for t in range(k):
        leverage = np.einsum("ij,ij->i", V[:, t:], V[:, t:])
        error = squared_columns(E)
        error[error <= noise] = 0.0
        allowed = unused & (leverage > _NEGLIGIBLE)
        ratio = np.divide(error, leverage, out=np.full(d, np.inf), where=allowed)
        # among columns that cost nothing the one of most leverage keeps the triangle well conditioned
        free = allowed & (ratio == 0.0)
        j = lowest_best(leverage, free) if np.any(free) else lowest_best(-ratio, allowed)
        row = V[j, t:]
        reflector = row.copy()
        reflector[0] += np.copysign(np.linalg.norm(row), row[0])
        reflector /= np.linalg.norm(reflector)
        V[:, t:] -= np.outer(V[:, t:] @ (2.0 * reflector), reflector)
        E -= np.outer(E[:, j] / V[j, t], V[:, t])
        E[:, j] = 0.0
        V[j, t + 1 :] = 0.0
        unused[j] = False
        columns.append(j)
    return np.array(columns, dtype=np.intp), float(np.vdot(E, E))


def independent_rows(V_k: FloatArray) -> IntArray:
    """Choose k well-conditioned rows of ``V_k (d, k)``: by pivoted QR of its transpose.

    If X has rank k, the columns so chosen span all of X, so they are exact.
    """
    k = V_k.shape[1]
    pivots = scipy.linalg.qr(V_k.T, mode="r", pivoting=True, check_finite=False)[1]
    return np.asarray(pivots[:k], dtype=np.intp)


def pivoted_qr(
    core: FloatArray,
    k: int,
    r: int,
    rng: np.random.Generator | None = None,  # noqa: ARG001  (a selection is handed one; this one needs none)
    *,
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
) -> IntArray:
    """Choose the r columns QR with column pivoting takes first: each has the longest residual.

    The cheapest selection; its guarantee is exponential in r, and k plays no part.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Only checked.
    r : int
        Columns to choose.
    rng : Generator, optional
        Not used: the selection is deterministic.
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
    return grow(GrowingBasis(problem.core, rank_tol), LongestResidual(), problem.r)
