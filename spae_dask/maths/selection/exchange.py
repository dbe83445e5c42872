"""Exchange: the best shared support that swaps of columns can find.

Climbs from targeted greedy, dual-set and full greedy by replacing one column at a time (two at a time where that is
cheap), keeping what k codes on the columns explain as the height, and returns the best summit: whatever the starts
guarantee still holds. Where all supports can be listed, the optimum is.
"""

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np

from spae_dask.maths.linalg.project import DEPENDENT, RankTol
from spae_dask.maths.linalg.scaling import FloatArray, IntArray
from spae_dask.maths.selection.dual_set import dual_set_start
from spae_dask.maths.selection.full_greedy import FullGain
from spae_dask.maths.selection.growing import GrowingBasis, grow
from spae_dask.maths.selection.pool import promising
from spae_dask.maths.selection.problem import Problem, first_of_best, lowest_best, pose
from spae_dask.maths.selection.supports import Supports
from spae_dask.maths.selection.targeted_greedy import fill, greedy_order

# List all supports up to this many.
ENUMERATE = 5000
# Exchange pairs if that takes at most this many rankings of all additions.
PAIR_RANKINGS = 600
# Largest number of columns that may enter a support.
POOL = 2048
# Smallest relative gain of a swap; a smaller one is rounding.
_GAIN = 1e-12


def exchange(
    core: FloatArray,
    k: int,
    r: int,
    rng: np.random.Generator | None = None,  # noqa: ARG001  (a selection is handed one; this one needs none)
    *,
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
) -> IntArray:
    """Choose r columns by exchange from several starts; optimal where all supports can be listed.

    Never explains less than targeted greedy, dual-set or full greedy.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Rank to approximate; the rank of X if that is smaller.
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
        Distinct indices, in the order targeted greedy would take them; fewer only if X has fewer nonzero columns.
    """
    problem = pose(core, k, r, rank_tol, leading)
    available = np.flatnonzero(problem.nonzero)
    if problem.r == available.size:
        return fill(problem.core, problem.V_k, [], problem.r, rank_tol=rank_tol)
    supports = Supports(problem.core, problem.k, rank_tol)
    if comb(available.size, problem.r) <= ENUMERATE:
        listed = list(combinations(available.tolist(), problem.r))
        best = list(listed[lowest_best(np.array([supports.explained(each) for each in listed]))])
    else:
        best = search(problem, supports)
    columns = np.sort(np.array(best, dtype=np.intp))
    return greedy_order(problem.core, problem.V_k, columns, rank_tol=rank_tol)


def search(problem: Problem, supports: Supports) -> list[int]:
    """Best support found by climbing from all starts.

    Parameters
    ----------
    problem : Problem
        Problem on a core with more than r nonzero columns.
    supports : Supports
        Supports of the same core.
    """
    starts = list(_starts(problem))
    candidates = promising(problem.core, problem.V_k, np.flatnonzero(problem.nonzero), POOL, starts)
    pairs = comb(problem.r, 2) * candidates.size <= PAIR_RANKINGS
    summits = [_climb(supports, start.tolist(), candidates, pairs) for start in starts]
    return summits[first_of_best([supports.explained(summit) for summit in summits], summits)]


def _starts(problem: Problem) -> Iterator[IntArray]:
    core, V_k, r, rank_tol = problem.core, problem.V_k, problem.r, problem.rank_tol
    yield fill(core, V_k, [], r, rank_tol=rank_tol)
    yield fill(core, V_k, dual_set_start(problem, r), r, rank_tol=rank_tol)
    basis = GrowingBasis(core, rank_tol)
    yield grow(basis, FullGain(core, basis.unit), r)


def _climb(supports: Supports, chosen: list[int], candidates: IntArray, pairs: bool) -> list[int]:
    """Swap columns while that explains more; every swap strictly improves, so this ends."""
    value = supports.explained(chosen)
    idle = slot = 0
    while idle < len(chosen):
        rest = chosen[:slot] + chosen[slot + 1 :]
        j, trial = supports.best_addition(rest, candidates)
        idle += 1
        if trial > value * (1.0 + _GAIN):
            chosen, value, idle = [*chosen[:slot], j, *chosen[slot + 1 :]], trial, 0
        elif pairs and idle == len(chosen):
            better = _better_pair(supports, chosen, value, candidates)
            if better is not None:
                (chosen, value), idle = better, 0
        slot = (slot + 1) % len(chosen)
    return chosen


def _better_pair(
    supports: Supports, chosen: list[int], value: float, candidates: IntArray
) -> tuple[list[int], float] | None:
    """First exchange of two columns that explains more, if any."""
    for out in combinations(chosen, 2):
        rest = [j for j in chosen if j not in out]
        for first in np.setdiff1d(candidates, chosen).tolist():
            second, trial = supports.best_addition([*rest, first], candidates)
            if trial > value * (1.0 + _GAIN):
                return [*rest, first, second], trial
    return None
