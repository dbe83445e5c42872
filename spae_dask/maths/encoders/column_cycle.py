"""Search over the supports of all columns of H on a reduced core: one column at a time, given all the others.

A sweep replaces every column by the best found given the rest. Sweeps end in a point no single column improves; from
there a few columns are rebuilt at once, or supports are kicked at random, and the sweeps begin again. A state is never
changed, and a new one is kept only if its loss, computed from the codes themselves, is lower.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from spae_dask.maths.encoders.all_columns import Coefficients
from spae_dask.maths.encoders.pool import Supports, kicked, pool_of
from spae_dask.maths.encoders.pursuit import pursue
from spae_dask.maths.encoders.reduced_core import BY_DIFFERENCE, ReducedCore
from spae_dask.maths.encoders.single_column import (
    ColumnProblem,
    ColumnSolution,
    best_on_support,
    coefficients_of,
    worthwhile,
)
from spae_dask.maths.encoders.support_exchange import exchange
from spae_dask.maths.linalg.loss import rounding_error
from spae_dask.maths.linalg.project import DEPENDENT
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, unit_columns
from spae_dask.maths.linalg.spectral import column_signs, thin_svd
from spae_dask.maths.selection.problem import TIE, first_of_best, ranked

# Sweeps end when one gains less than this of what is left to gain.
_SWEEP_GAIN = 1e-3
# Coefficients are settled when no code moves by more than this in a sweep.
_SETTLED = 1e-10
_ROUNDING = 1e-13
# Number of sweeps over single columns after which all columns are optimised together.
_SLOW = 10
_MOST_SWEEPS = 100
# A climb continues against a rival only if this many sweeps like the last one would reach the loss of the rival.
_HOPE = 2.0
# Columns among which supports are exchanged and kicked.
_POOL, _POOL_TIMES_R = 256, 4
# Numbers in an array of a batch: of many nonzeros fewer supports are kicked at once.
_BATCH = 2**20
# Kicked supports that are exchanged, the best of all.
_EXCHANGED = 4


@dataclass(frozen=True, eq=False)
class Column:
    """One column of H on a reduced core: its code, support, and coefficients of the unit candidate columns."""

    code: FloatArray
    selected: tuple[int, ...]
    coefficients: FloatArray

    @cached_property
    def spread(self) -> float:
        """Length of the coefficients of the unit code."""
        return float(np.linalg.norm(self.coefficients))


@dataclass(frozen=True, eq=False)
class State:
    """Columns of H so far, None for one that is missing, the loss of those there are, and its rounding."""

    columns: tuple[Column | None, ...]
    loss: float
    rounding: float

    @property
    def supports(self) -> list[list[int]]:
        """Supports of the columns there are, in order whatever the order of the columns."""
        return sorted(sorted(column.selected) for column in self.made())

    def preferred_to(self, other: "State") -> bool:
        """True if this state loses less, or as much, to ``TIE`` or to rounding, on lower indices."""
        if abs(self.loss - other.loss) > max(TIE * other.loss, other.rounding):
            return self.loss < other.loss
        return (self.supports, self.loss) < (other.supports, other.loss)

    def made(self, *, without: int | None = None) -> list[Column]:
        """The columns there are, but for one."""
        return [c for j, c in enumerate(self.columns) if c is not None and j != without]


class ColumnCycle:
    """The search for one reduced core.

    Parameters
    ----------
    reduced : ReducedCore
        Core to search.
    budgets : sequence of int
        Nonzeros allowed in each column, beside the free columns of the core.
    rng : Generator
        Generator that draws the supports to rebuild and to kick.
    visited : callable, optional
        Called with the state after every column that a climb visits.

    Attributes
    ----------
    sweeps : int
        Sweeps made so far.
    pca_loss : float
        Least loss of any k codes of the candidates.
    """

    def __init__(
        self,
        reduced: ReducedCore,
        budgets: Sequence[int],
        rng: np.random.Generator,
        visited: Callable[[State], None] = lambda _: None,
    ) -> None:
        self.reduced = reduced
        self.budgets = tuple(budgets)
        self.sweeps = 0
        self.pca_loss = float(np.sum(np.sort(reduced.squares)[::-1][self.k :])) + reduced.remainder
        self._rng = rng
        self._visited = visited
        self._total = reduced.loss([])

    @property
    def k(self) -> int:
        """Number of columns."""
        return len(self.budgets)

    def empty(self) -> State:
        """No columns yet."""
        return self._state((None,) * self.k)

    def state_of(self, H: FloatArray) -> State:
        """Columns of a given encoder; a column whose code vanishes is missing.

        Parameters
        ----------
        H : ndarray (d, k)
            Nonzero only in candidate rows.
        """
        on_unit = unit_columns(H[self.reduced.candidates] * self.reduced.lengths[:, None])[0]
        columns = (self._column(np.flatnonzero(h).tolist(), h[h != 0.0]) for h in on_unit.T)
        return self._state(list(columns))

    def taken_over(self, state: State, reduced: ReducedCore) -> State:
        """A state of the same core reduced to other candidates, of which these hold all that it uses."""
        columns: list[Column | None] = []
        for column in state.columns:
            if column is not None:
                places = np.searchsorted(self.reduced.candidates, reduced.candidates[list(column.selected)])
                column = self._column(places.tolist(), column.coefficients)
            columns.append(column)
        return self._state(columns)

    def _column(self, selected: Sequence[int], coefficients: FloatArray) -> Column | None:
        code = self.reduced.columns[:, selected] @ coefficients
        length = float(np.linalg.norm(code))
        if length <= self.reduced.rank_tol * float(np.sum(np.abs(coefficients))):
            return None
        return Column(code / length, tuple(selected), coefficients / length)

    def problem(self, made: Sequence[Column], selected: Sequence[int] | None = None) -> ColumnProblem:
        """Problem of one more column of H beside others, made of some candidates only or of all."""
        reduced = self.reduced if selected is None else self.reduced.only(selected)
        return reduced.problem([c.code for c in made], spreads=[c.spread for c in made])

    def _made(self, solution: ColumnSolution, code: FloatArray) -> Column | None:
        return self._column(solution.selected, coefficients_of(solution, code))

    def _state(self, columns: Sequence[Column | None]) -> State:
        made = [c for c in columns if c is not None]
        loss = self.reduced.loss([c.code for c in made], [c.spread for c in made])
        return State(tuple(columns), loss, rounding_error(loss, self._total))

    def _replaced(self, state: State, j: int, column: Column) -> State:
        return self._state([*state.columns[:j], column, *state.columns[j + 1 :]])

    def _with(self, state: State, j: int, column: Column | None) -> State:
        """The state with column j replaced if that lowers the loss, else the same state."""
        if column is None:
            return state
        trial = self._replaced(state, j, column)
        return trial if trial.preferred_to(state) else state

    def climb(self, state: State, *, kicks: int = 0, rival: State | None = None) -> State:
        """Sweep until a sweep gains next to nothing.

        Parameters
        ----------
        state : State
            State to start from; missing columns are built first.
        kicks : int
            Random kicks of every support that is visited.
        rival : State, optional
            Give up when a sweep gains so little that a few more would not reach the loss of this state.
        """
        idle = [False] * self.k
        for _ in range(_MOST_SWEEPS):
            self.sweeps += 1
            before = state
            for j in sorted(range(self.k), key=lambda j: before.columns[j] is not None):
                if idle[j]:
                    continue
                problem = self.problem(state.made(without=j))
                current = state.columns[j]
                support = () if current is None else current.selected
                solution = self._best(problem, support, self.budgets[j], kicks)
                idle[j] = True
                if solution is None:
                    continue
                improved = self._with(state, j, self._made(solution, solution.code))
                if improved is not state and set(solution.selected) != set(support):
                    idle = [i == j for i in range(self.k)]
                state = improved
                self._visited(state)
            gained = before.loss - state.loss
            if all(idle) or gained <= _SWEEP_GAIN * max(state.loss - self.pca_loss, 0.0):
                break
            if rival is not None and state.loss - _HOPE * gained > rival.loss:
                break
        return state

    def _best(self, problem: ColumnProblem, support: tuple[int, ...], r: int, kicks: int) -> ColumnSolution | None:
        """Best column found by exchange: from the current support, kicked ones, and a pursuit of the best code."""
        random = self._rng.random((kicks, r + len(self.reduced.free) + 1))  # the same number of draws for any support
        if not np.any(problem.live):
            return None
        current = best_on_support(problem, tuple(dict.fromkeys([*support, *self.reduced.free])))
        if current is not None and len(current.selected) < self._room(current.selected, r):
            # columns lost to dependence, or never chosen
            room = self._room(current.selected, r)
            filled = pursue(problem, current.powered_products, room, kept=current.selected)
            current = best_on_support(problem, filled) or current
        if current is None:
            current = self._pursued(problem, problem.products(problem.best_codes(1)[:, 0]), r)
            if current is None:
                return None
        if kicks:
            trial = self._kicked(problem, current, r, random)
            if trial is not None and trial.gain > worthwhile(current):
                current = trial
        return exchange(current)

    def _room(self, selected: Sequence[int], r: int) -> int:
        """Columns that a support may have: r, and the free ones among those selected."""
        return r + len(set(self.reduced.free).intersection(selected))

    def _pursued(self, problem: ColumnProblem, products: FloatArray, r: int) -> ColumnSolution | None:
        """The best column on the free columns and r others, pursued."""
        begun = best_on_support(problem, self.reduced.free)
        kept = () if begun is None else begun.selected
        return best_on_support(problem, pursue(problem, products, r + len(kept), kept=kept))

    def _kicked(
        self, problem: ColumnProblem, current: ColumnSolution, r: int, random: FloatArray
    ) -> ColumnSolution | None:
        """The best end of kicks of a support, of power-pursuit, and of a pursuit of the best code, in a pool."""
        target = problem.products(problem.best_codes(1)[:, 0])
        places = self._places(problem, current, self._room(current.selected, r), target)
        clear = set(places.tolist())
        kept = [j for j in current.selected if j in clear]
        if not kept:
            return None
        free = [j for j in kept if j in self.reduced.free]
        pool, s = pool_of(problem, places), min(r + len(free), places.size)
        kicks = min(random.shape[0], max(1, _BATCH // (s * places.size)))
        base = pool.solved(pool.supports([kept], s))
        again = kicked(random[:kicks, [*range(s), -1]], base.supports, pool.staying(base.supports))
        whole = pool.supports([free, free], s)
        barred = np.zeros((kicks + 2, places.size), dtype=bool)
        for row, filled in zip(barred, again.filled, strict=False):
            row[base.places[0][~filled & base.filled[0]]] = True
        trials = Supports(np.vstack([again.places, whole.places]), np.vstack([again.filled, whole.filled]))
        targets = np.vstack([np.tile(base.powered, (kicks + 1, 1)), target[places]])
        trials = pool.refilled(trials, targets, barred)
        trials, gains = pool.exchanged(trials.only(ranked(pool.gains(trials))[:_EXCHANGED]))
        supports = trials.rows()
        return best_on_support(problem, places[supports[first_of_best(gains.tolist(), supports)]].tolist())

    def _places(self, problem: ColumnProblem, current: ColumnSolution, r: int, target: FloatArray) -> IntArray:
        """Columns for a pool, ascending: all, or those that promise most of a swap or a code."""
        places, size = np.flatnonzero(problem.live), max(_POOL, _POOL_TIMES_R * r)
        if places.size <= size:
            return places
        by_target = ranked(np.abs(target))[: size * 2 // 5].tolist()
        by_swap = ranked(current.swaps.ritz.max(axis=0)).tolist()
        order = dict.fromkeys([*current.selected, *by_target, *by_swap])
        return np.array(sorted([j for j in order if problem.live[j]][:size]))

    def rotated(self) -> State:
        """Pursuits of the principal components, rotated so that each is made of few columns; some may be missing."""
        problem = self.problem([])
        codes = problem.best_codes(self.k)
        if not codes.size or not self.reduced.candidates.size:
            return self.empty()
        # any basis of the same codes must give the same answer: the rotation begins at columns of the largest loadings
        loadings = problem.products(codes).T
        pivots = scipy.linalg.qr(loadings.T, mode="r", pivoting=True)[1][: codes.shape[1]]
        begun = np.linalg.qr(loadings[pivots].T)[0]
        targets = codes @ begun @ varimax(loadings @ begun)
        columns: list[Column | None] = [None] * self.k
        for j, target in enumerate(targets.T):
            solution = self._pursued(problem, problem.products(target), self.budgets[j])
            columns[j] = None if solution is None else self._made(solution, target)
        return self._state(columns)

    def rebuilt(self, state: State) -> State:
        """Replace two or three columns, drawn at random, by pursuits of rotated principal components of the rest.

        The loss may rise; climb from here and compare.
        """
        count = min(self.k, int(self._rng.integers(2, 4)))
        dropped = self._rng.choice(self.k, count, replace=False).tolist()
        columns = [None if j in dropped else column for j, column in enumerate(state.columns)]
        problem = self.problem([c for c in columns if c is not None])
        targets = problem.best_codes(count)
        # up to sign of the core's rows and of the vectors: by what they have in common with columns of X
        targets = targets * column_signs(problem.products(targets).T)
        rotation = np.linalg.qr(self._rng.standard_normal((targets.shape[1], targets.shape[1])))[0]
        for j, target in zip(dropped, (targets @ rotation).T, strict=False):
            solution = self._pursued(problem, problem.products(target), self.budgets[j])
            if solution is not None:
                columns[j] = self._made(solution, target)
        return self._state(columns)

    def settled(self, state: State) -> State:
        """Optimise the coefficients on the supports as they are: one by one, and of all columns if that is slow."""
        for n_done in range(_MOST_SWEEPS):
            if n_done == _SLOW:
                together = self._together(state)
                if together is not state:
                    return together
            moved = 0.0
            for j, column in enumerate(state.columns):
                better = None if column is None else self._refit(state, j, column)
                if column is None or better is None:
                    continue
                trial = self._replaced(state, j, better)
                if trial.loss <= state.loss * (1.0 + _ROUNDING):  # near the minimum, losses differ by rounding only
                    state = trial
                    moved = max(moved, _between(column.code, better.code))
            if moved <= _SETTLED:
                break
        return state

    def _together(self, state: State) -> State:
        """The state with the best coefficients of all columns at once, of codes that stay apart."""
        places = [j for j, column in enumerate(state.columns) if column is not None]
        made = state.made()
        bases = [np.linalg.qr(self.reduced.columns[:, column.selected]) for column in made]
        if not bases or any(R.shape[0] < R.shape[1] or np.abs(np.diagonal(R)).min() < DEPENDENT for _, R in bases):
            return state
        if state.loss - self.reduced.remainder < BY_DIFFERENCE * float(np.sum(self.reduced.squares)):
            return state  # what is explained holds no digit of the loss
        together = Coefficients([Q for Q, _ in bases], self.reduced.squares)
        start = np.concatenate([Q.T @ column.code for (Q, _), column in zip(bases, made, strict=True)])
        columns = list(state.columns)
        for j, column, (_, R), part in zip(places, made, bases, together.parts(together.best(start)), strict=True):
            columns[j] = self._column(column.selected, scipy.linalg.solve_triangular(R, part)) or column
        return self._state(columns)

    def _refit(self, state: State, j: int, column: Column) -> Column | None:
        problem = self.problem(state.made(without=j), column.selected)
        solution = best_on_support(problem, range(len(column.selected)))
        if solution is None:
            return None
        selected = [column.selected[i] for i in solution.selected]
        return self._column(selected, coefficients_of(solution, solution.code))

    def encoder(self, state: State, d: int) -> FloatArray:
        """H of a state, ``(d, k)`` with unit columns; zero columns where one is missing."""
        H = np.zeros((d, self.k))
        for j, column in enumerate(state.columns):
            if column is not None:
                rows = list(column.selected)
                lengths = self.reduced.lengths[rows]
                # ratios of lengths, since a coefficient itself may be too large to hold
                H[self.reduced.candidates[rows], j] = column.coefficients * (np.min(lengths) / lengths)
        return unit_columns(H)[0]


def _between(code: FloatArray, other: FloatArray) -> float:
    """Distance of two unit codes, whatever their signs."""
    return float(min(np.linalg.norm(code - other), np.linalg.norm(code + other)))


def varimax(loadings: FloatArray) -> FloatArray:
    """Rotation ``(k, k)`` of loadings ``(c, k)`` that makes their squares vary most (Kaiser 1958)."""
    rotation = np.eye(loadings.shape[1])
    for _ in range(100):
        turned = loadings @ rotation
        U, _, Vt = thin_svd(loadings.T @ (turned**3 - turned * np.mean(turned**2, axis=0)))
        after = U @ Vt
        if np.allclose(after, rotation, atol=1e-6):
            break
        rotation = after
    return rotation
