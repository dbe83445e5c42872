"""Choice of columns under rules: greedy by gain and by gain per cost, then swaps that the rules allow.

A budget makes a knapsack of the choice. Each move takes out one column, or two, and fills up with what then gains most,
or gains most for its cost: swaps of one for one, one for two, and two for one. Every move explains more, so this ends.
Where all sets can be listed, the best is found.
"""

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np

from spae_dask.maths.linalg.scaling import FloatArray, IntArray
from spae_dask.maths.selection.feasible import Feasible
from spae_dask.maths.selection.full_greedy import FullGain
from spae_dask.maths.selection.growing import GrowingBasis, Rule, grow
from spae_dask.maths.selection.pool import promising
from spae_dask.maths.selection.problem import Problem, first_of_best, lowest_best
from spae_dask.maths.selection.supports import Supports
from spae_dask.maths.selection.targeted_greedy import TargetGain

# Smallest relative gain of a move; a smaller one is rounding.
_GAIN = 1e-12
# Pairs are taken out of a set if there are at most this many, times the columns that may enter.
_PAIR_RANKINGS = 50_000


def choose_by_rules(
    problem: Problem, supports: Supports, rules: Feasible, *, enumerate_to: int, pool: int
) -> list[int]:
    """Best set of columns found that keeps to rules, the kept ones first.

    Parameters
    ----------
    problem : Problem
        Problem on a core.
    supports : Supports
        Supports of the same core.
    rules : Feasible
        Rules for columns of the core that can be chosen.
    enumerate_to : int
        List all sets up to this many.
    pool : int
        Largest number of columns that may enter.
    """
    kept = [int(j) for j in rules.kept if problem.nonzero[j]]
    available = np.flatnonzero(rules.allowed)
    most = _most(rules)
    if sum(comb(available.size, size) for size in range(most + 1)) <= enumerate_to:
        listed = [[*kept, *each] for size in range(most + 1) for each in combinations(available.tolist(), size)]
        listed = [each for each in listed if each and rules.keeps(each)]
        if listed:
            return listed[lowest_best(np.array([supports.explained(each) for each in listed]))]
    starts = [[int(j) for j in start] for start in _starts(problem, rules, kept)]
    known = [np.array(start, dtype=np.intp) for start in starts]
    entering = promising(problem.core, problem.V_k, available, pool, known)
    entering = np.union1d(entering, np.flatnonzero(rules.allowed & rules.lacking([])))
    climb = _Climb(supports, rules, entering, len(kept))
    summits = [climb.climbed(start) for start in starts]
    best = summits[first_of_best([supports.explained(each) if each else 0.0 for each in summits], summits)]
    return climb.climbed(best, most_pairs=_PAIR_RANKINGS // max(1, entering.size))


def _most(rules: Feasible) -> int:
    """The most columns that the number and the budget allow."""
    costs = np.sort(rules.costs[rules.allowed])
    return min(rules.size, int(np.count_nonzero(np.cumsum(costs) <= rules.budget * (1 + 1e-9))))


def _starts(problem: Problem, rules: Feasible, kept: list[int]) -> Iterator[IntArray]:
    """Greedy choices: of two gains, each alone and per cost."""
    core, choosable = problem.core, np.union1d(np.flatnonzero(rules.allowed), kept).astype(np.intp)
    for per_cost in (False, True) if rules.has_costs else (False,):
        for made in (_targeted, _full):
            basis = GrowingBasis(core, problem.rank_tol, choosable)
            yield grow(basis, made(problem, basis), len(kept) + rules.size, kept, rules=rules, per_cost=per_cost)


def _targeted(problem: Problem, basis: GrowingBasis) -> Rule:
    return TargetGain(problem.core @ problem.V_k, basis.unit)


def _full(problem: Problem, basis: GrowingBasis) -> Rule:
    return FullGain(problem.core, basis.unit)


class _Climb:
    """Moves of a set; the first ``staying`` of its columns are never taken out."""

    def __init__(self, supports: Supports, rules: Feasible, entering: IntArray, staying: int) -> None:
        self.supports, self.rules, self.staying = supports, rules, staying
        self._entering = np.zeros_like(rules.allowed)
        self._entering[entering] = True
        # where all costs are alike, gain per cost is gain
        self._ways = (None, rules.costs) if rules.has_costs else (None,)

    def climbed(self, start: list[int], *, most_pairs: int = 0) -> list[int]:
        """The end of a climb from a set; pairs are taken out if there are at most so many."""
        columns, value = self._best_filled(start)
        idle = place = 0
        while idle < (count := len(columns) - self.staying):
            place = self.staying + (place - self.staying) % count
            moved = self._without(columns, value, (columns[place],))
            idle += 1
            if moved is None:
                place += 1  # else those that came in are last, and the next column is here
                if idle == count and comb(count, 2) <= most_pairs:
                    found = (self._without(columns, value, out) for out in combinations(columns[self.staying :], 2))
                    moved = next((each for each in found if each is not None), None)
            if moved is not None:
                (columns, value), idle = moved, 0
        return columns

    def _without(self, columns: list[int], value: float, out: tuple[int, ...]) -> tuple[list[int], float] | None:
        """The set with columns taken out and others taken in, if it explains more."""
        filled, trial = self._best_filled([j for j in columns if j not in out])
        return (filled, trial) if trial > value * (1.0 + _GAIN) else None

    def _best_filled(self, columns: list[int]) -> tuple[list[int], float]:
        """The better of a set that is filled up by gain and by gain per cost."""
        found = [self._filled(columns, prices) for prices in self._ways]
        return max(found, key=lambda each: each[1])

    def _filled(self, columns: list[int], prices: FloatArray | None) -> tuple[list[int], float]:
        """The set with more columns, until the rules allow no more or none gains, and with those that rules need."""
        columns, value = list(columns), self.supports.explained(columns) if columns else 0.0
        while True:
            open_ = self.rules.addable(columns)
            choice = np.flatnonzero(open_ & self._entering)
            if choice.size:
                j, trial = self.supports.best_addition(columns, choice, prices)
                if trial > value * (1.0 + _GAIN):
                    columns.append(j)
                    value = trial
                    continue
            needed = np.flatnonzero(open_ & self.rules.lacking(columns))
            if needed.size == 0:
                return columns, value
            columns.append(int(needed[np.argmin(self.rules.costs[needed])]))
