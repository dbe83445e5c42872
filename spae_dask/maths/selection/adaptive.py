"""Adaptive selection: a deterministic start, then columns sampled by their residuals from the start.

Boutsidis, Drineas & Magdon-Ismail (2014), Theorem 5, as used by Magdon-Ismail & Boutsidis (2015), Theorem 2 (ii): r_1
columns within a factor c of PCA, then s = r - r_1 columns drawn with probability proportional to the squared length of
their residual give ``E ||X - X_{C,k}||^2 <= (1 + c k / s) ||X - X_k||^2`` (Deshpande, Rademacher, Vempala & Wang 2006).
The papers take r_1 = 5k by dual-set, hence ``1 + 5k/(r - 5k)`` for r > 5k: that is :func:`adaptive_paper`. In
:func:`adaptive` r_1 is the one of smallest bound for the given k and r, so the bound is never worse and exists for
every r > k.
"""

import math
from typing import NamedTuple

import numpy as np

from spae_dask.maths.linalg.project import DEPENDENT, RankTol, orthonormal_basis, residual_norms, tolerance_of
from spae_dask.maths.linalg.scaling import FloatArray, IntArray
from spae_dask.maths.selection.dual_set import barrier, barrier_start, dual_set_factor, dual_set_start
from spae_dask.maths.selection.problem import Problem, distinct, pose
from spae_dask.maths.selection.targeted_greedy import fill


class Split(NamedTuple):
    """Columns of the start, and the factor on the loss of PCA this start and the sampled rest guarantee."""

    start: int
    bound: float


def best_split(k: int, r: int) -> Split:
    """Choose the number of columns, of r in all, for the deterministic start.

    Parameters
    ----------
    k : int
        Rank to approximate.
    r : int
        Columns in all, more than k.

    Returns
    -------
    Split
        Pivoting with k columns (factor k + 1) or dual-set with more, whichever bounds the expected loss best.
    """
    best = Split(k, 1.0 + (k + 1.0) * k / (r - k))
    if k > 1:
        starts = np.arange(k + 1, r)
        factors = 1.0 + 1.0 / (1.0 - np.sqrt(k / starts)) ** 2
        bounds = 1.0 + factors * k / (r - starts)
        if starts.size and np.min(bounds) < best.bound:
            at = int(np.argmin(bounds))
            best = Split(int(starts[at]), float(bounds[at]))
    return best


def paper_split(k: int, r: int) -> Split:
    """The papers' split of r > 5k columns: 5k by dual-set, the rest sampled."""
    return Split(5 * k, 1.0 + dual_set_factor(k, 5 * k) * k / (r - 5 * k))


def sufficient_columns(k: int, eps: float, *, sharp: bool) -> int:
    """Fewest columns for which the theorem promises ``1 + eps`` times the loss of PCA, in expectation.

    Parameters
    ----------
    k : int
        Rank to approximate, ``k >= 1``.
    eps : float
        Wanted excess, positive.
    sharp : bool
        With the start that needs the fewest, as :func:`best_split` chooses it; else the papers' ``5k + 5k/eps``.
    """
    if not sharp:
        return 5 * k + math.ceil(5 * k / eps)

    def columns(start: int) -> float:
        return start + (1.0 + 1.0 / (1.0 - math.sqrt(k / start)) ** 2) * k / eps

    # convex in the start: bisect for the first that is not improved on by the next
    low, high = k + 1, 2 * k + 2
    while columns(high + 1) < columns(high):
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if columns(middle + 1) < columns(middle) else (low, middle)
    return math.ceil(min(columns(low), k + (k + 1) * k / eps))


def start_columns(problem: Problem, r: int) -> IntArray:
    """Start of at most r distinct columns: pivoting for r <= k, else dual-set; none if X is zero."""
    if problem.k == 0:
        return np.zeros(0, dtype=np.intp)
    return dual_set_start(problem, r)


def adaptive(
    core: FloatArray,
    k: int,
    r: int,
    rng: np.random.Generator,
    *,
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
) -> IntArray:
    """Choose r columns: a deterministic start, one adaptive round, the rest by targeted greedy.

    The round draws with replacement, which is what the theorem covers; draws that repeat leave room for the fill, which
    can only lower the loss. For r <= k there is no round and nothing is random.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Rank to approximate; the rank of X if that is smaller.
    r : int
        Columns to choose.
    rng : Generator
        Source of the draws.
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
    if problem.k == 0 or problem.r <= problem.k:
        start = start_columns(problem, problem.r)
        return fill(problem.core, problem.V_k, start, problem.r, rank_tol=rank_tol)
    size = best_split(problem.k, problem.r).start
    return _sampled(problem, start_columns(problem, size), problem.r - size, rng)


def adaptive_paper(
    core: FloatArray,
    k: int,
    r: int,
    rng: np.random.Generator,
    *,
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
) -> IntArray:
    """Choose r columns by the papers' own split: 5k by the barrier recursion, r - 5k in one adaptive round.

    For r <= 5k, where the papers' theorem says nothing, all columns are those of the recursion.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Rank to approximate; the rank of X if that is smaller.
    r : int
        Columns to choose.
    rng : Generator
        Source of the draws.
    rank_tol : float or ndarray (d,), optional
        See :class:`spae_dask.maths.selection.Selection`.
    leading : ndarray (d, k'), optional
        Top k right singular vectors of the core, if they are known.

    Returns
    -------
    selected : ndarray (r,)
        Distinct indices in order chosen; fewer only if X has fewer nonzero columns.
    """
    problem = pose(core, k, r, rank_tol, leading)
    if problem.k == 0 or problem.r <= 5 * problem.k:
        return barrier(core, k, r, rank_tol=rank_tol, leading=leading)
    return _sampled(problem, barrier_start(problem, 5 * problem.k), problem.r - 5 * problem.k, rng)


def _sampled(problem: Problem, start: IntArray, s: int, rng: np.random.Generator) -> IntArray:
    """A start, s draws with probability proportional to what it leaves of each column, and the fill."""
    rank_tol = problem.rank_tol
    Q = orthonormal_basis(problem.core[:, start], rank_tol=tolerance_of(rank_tol, start))
    left = residual_norms(problem.core, Q, rank_tol=rank_tol)
    left[start] = 0.0
    total = float(np.sum(left))
    drawn = np.zeros(0, dtype=np.intp)
    if total > 0.0:
        drawn = rng.choice(left.size, size=s, replace=True, p=left / total).astype(np.intp)
    return fill(problem.core, problem.V_k, distinct(np.concatenate([start, drawn])), problem.r, rank_tol=rank_tol)
