"""Leverage: the r columns with the longest rows of V_k (Drineas, Mahoney & Muthukrishnan 2008, without sampling).

Deterministic and cheap, with no guarantee: twins score the same and are both taken.
"""

import numpy as np

from spae_dask.maths.linalg.project import DEPENDENT, RankTol
from spae_dask.maths.linalg.scaling import FloatArray, IntArray
from spae_dask.maths.selection.problem import pose, ranked


def leverage_scores(V_k: FloatArray) -> FloatArray:
    """Squared row lengths ``(d,)`` of ``V_k (d, k)``; they sum to k."""
    scores: FloatArray = np.einsum("ij,ij->i", V_k, V_k)
    return scores


def leverage(
    core: FloatArray,
    k: int,
    r: int,
    rng: np.random.Generator | None = None,  # noqa: ARG001  (a selection is handed one; this one needs none)
    *,
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
) -> IntArray:
    """Choose the r columns of largest leverage.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Number of singular vectors; the rank if that is smaller.
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
        Distinct indices by descending leverage, ties by index; fewer than r only if X has fewer nonzero columns.
    """
    problem = pose(core, k, r, rank_tol, leading)
    scores = leverage_scores(problem.V_k)
    scores[~problem.nonzero] = -1.0
    return ranked(scores)[: problem.r]
