"""Exchange: the best shared support that swaps of columns can find.

Climbs from targeted greedy, dual-set and full greedy by replacing one column at a time (two at a time where that is
cheap), keeping what k codes on the columns explain as the height, and returns the best summit: whatever the starts
guarantee still holds. Where all supports can be listed, the optimum is.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb

import numpy as np

from spae_dask.maths.linalg.project import DEPENDENT, RankTol
from spae_dask.maths.linalg.scaling import FloatArray, IntArray
from spae_dask.maths.selection.by_rules import choose_by_rules
from spae_dask.maths.selection.dual_set import dual_set_start
from spae_dask.maths.selection.feasible import Feasible
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
    start: Sequence[int] | IntArray = (),
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
    allowed: IntArray | None = None,
    rules: Feasible | None = None,
) -> IntArray:
    """Choose r columns by exchange from several starts; optimal where all supports can be listed.

    Never explains less than targeted greedy, dual-set or full greedy; dual-set, which chooses among all columns, is no
    start if there are others to keep or to leave out.

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
    start : sequence of int, optional
        Distinct columns that are chosen in any case.
    rank_tol : float or ndarray (d,), optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them; one for all columns, or one for each.
    leading : ndarray (d, k'), optional
        Top k right singular vectors of the core, if they are known.
    allowed : ndarray of int, optional
        The only columns to choose from; they hold the start. All if None.
    rules : Feasible, optional
        Rules that the choice keeps to; its kept columns are the start, or constant.

    Returns
    -------
    selected : ndarray (r,)
        Distinct indices, in the order targeted greedy would take them; fewer only if X has fewer nonzero columns, or
        the rules allow fewer.
    """
    problem = pose(core, k, r, rank_tol, leading, allowed)
    kept = [int(j) for j in start]
    if rules is not None:
        rules = rules.of(r - len(kept), kept, problem.nonzero)
        if not rules.allowed.any():
            return np.array(kept, dtype=np.intp)
        supports = Supports(problem.core, problem.k, rank_tol)
        chosen = choose_by_rules(problem, supports, rules, enumerate_to=ENUMERATE, pool=POOL)
        columns = np.sort(np.array(chosen, dtype=np.intp))
        return greedy_order(problem.core, problem.V_k, columns, rank_tol=rank_tol)
    available = np.flatnonzero(problem.nonzero)
    if problem.r == available.size:
        return fill(problem.core, problem.V_k, kept, problem.r, rank_tol=rank_tol, allowed=allowed)
    supports = Supports(problem.core, problem.k, rank_tol)
    others = np.setdiff1d(available, kept)
    if comb(others.size, problem.r - len(kept)) <= ENUMERATE:
        listed = [(*kept, *each) for each in combinations(others.tolist(), problem.r - len(kept))]
        best = list(listed[lowest_best(np.array([supports.explained(each) for each in listed]))])
    else:
        best = search(problem, supports, kept)
    columns = np.sort(np.array(best, dtype=np.intp))
    return greedy_order(problem.core, problem.V_k, columns, rank_tol=rank_tol)


def search(problem: Problem, supports: Supports, kept: Sequence[int] = ()) -> list[int]:
    """Best support found by climbing from all starts.

    Parameters
    ----------
    problem : Problem
        Problem on a core with more than r nonzero columns.
    supports : Supports
        Supports of the same core.
    kept : sequence of int
        Columns that are chosen in any case.
    """
    starts = list(_starts(problem, kept))
    candidates = promising(problem.core, problem.V_k, np.flatnonzero(problem.nonzero), POOL, starts)
    pairs = comb(problem.r, 2) * candidates.size <= PAIR_RANKINGS
    summits = [_climb(supports, start.tolist(), candidates, pairs, kept) for start in starts]
    return summits[first_of_best([supports.explained(summit) for summit in summits], summits)]


def _starts(problem: Problem, kept: Sequence[int] = ()) -> Iterator[IntArray]:
    core, V_k, r, rank_tol = problem.core, problem.V_k, problem.r, problem.rank_tol
    allowed = np.flatnonzero(problem.nonzero)
    yield fill(core, V_k, kept, r, rank_tol=rank_tol, allowed=allowed)
    if not kept and np.array_equal(problem.nonzero, core.any(axis=0)):  # dual-set chooses among all columns
        yield fill(core, V_k, dual_set_start(problem, r), r, rank_tol=rank_tol)
    basis = GrowingBasis(core, rank_tol, allowed)
    yield grow(basis, FullGain(core, basis.unit), r, kept)


def _climb(
    supports: Supports, start: list[int], candidates: IntArray, pairs: bool, kept: Sequence[int] = ()
) -> list[int]:
    """Swap columns, but for those kept, while that explains more; every swap strictly improves, so this ends."""
    staying, chosen = list(kept), [j for j in start if j not in kept]
    value = supports.explained([*staying, *chosen])
    idle = slot = 0
    while idle < len(chosen):
        rest = staying + chosen[:slot] + chosen[slot + 1 :]
        j, trial = supports.best_addition(rest, candidates)
        idle += 1
        if trial > value * (1.0 + _GAIN):
            chosen, value, idle = [*chosen[:slot], j, *chosen[slot + 1 :]], trial, 0
        elif pairs and idle == len(chosen):
            better = _better_pair(supports, staying, chosen, value, candidates)
            if better is not None:
                (chosen, value), idle = better, 0
        slot = (slot + 1) % len(chosen)
    return staying + chosen


def _better_pair(
    supports: Supports, staying: list[int], chosen: list[int], value: float, candidates: IntArray
) -> tuple[list[int], float] | None:
    """First exchange of two columns that explains more, if any."""
    for out in combinations(chosen, 2):
        rest = [j for j in chosen if j not in out]
        for first in np.setdiff1d(candidates, staying + chosen).tolist():
            second, trial = supports.best_addition([*staying, *rest, first], candidates)
            if trial > value * (1.0 + _GAIN):
                return [*rest, first, second], trial
    return None
