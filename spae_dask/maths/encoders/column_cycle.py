"""Search over the supports of all columns of H on a reduced core: one column at a time, given all the others.

A sweep replaces every column by the best found given the rest. Sweeps end in a point no single column improves; from
there a few columns are rebuilt at once, or supports are kicked at random, and the sweeps begin again. A state is never
changed, and a new one is kept only if its loss, computed from the codes themselves, is lower.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spae_dask.maths.encoders.pursuit import power_pursuit, pursue
from spae_dask.maths.encoders.reduced_core import ReducedCore
from spae_dask.maths.encoders.single_column import ColumnProblem, ColumnSolution, best_on_support, coefficients_of
from spae_dask.maths.encoders.support_exchange import exchange, kick
from spae_dask.maths.linalg.scaling import FloatArray, unit_columns
from spae_dask.maths.linalg.spectral import column_signs
from spae_dask.maths.selection.problem import TIE, first_of_best, ranked

# The search ends when a cycle lowers the loss by a smaller share than this.
_SWEEP_GAIN = 1e-5
_SETTLED = 1e-15
_MOST_SWEEPS = 100
# Number of supports from which exchange starts at each visit of a column.
_CLIMBS = 2


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
    """Columns of H so far, None for one that is missing, and the loss of those there are."""

    columns: tuple[Column | None, ...]
    loss: float

    @property
    def supports(self) -> list[list[int]]:
        """Supports of the columns there are, in order whatever the order of the columns."""
        return sorted(sorted(column.selected) for column in self.made())

    def preferred_to(self, other: "State") -> bool:
        """True if this state loses less, or as much to ``TIE`` on lower indices."""
        if abs(self.loss - other.loss) > TIE * other.loss:
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
        Nonzeros allowed in each column.
    rng : Generator
        Generator that draws the supports to rebuild and to kick.
    visited : callable, optional
        Called with the state after every column that a climb visits.

    Attributes
    ----------
    sweeps : int
        Sweeps made so far.
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
        self._rng = rng
        self._visited = visited

    @property
    def k(self) -> int:
        """Number of columns."""
        return len(self.budgets)

    def empty(self) -> State:
        """No columns yet."""
        return State((None,) * self.k, self.reduced.loss([]))

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

    def _made(self, problem: ColumnProblem, solution: ColumnSolution, code: FloatArray) -> Column | None:
        return self._column(solution.selected, coefficients_of(solution, code, problem))

    def _state(self, columns: Sequence[Column | None]) -> State:
        made = [c for c in columns if c is not None]
        return State(tuple(columns), self.reduced.loss([c.code for c in made], [c.spread for c in made]))

    def _with(self, state: State, j: int, column: Column | None) -> State:
        """The state with column j replaced if that lowers the loss, else the same state."""
        if column is None:
            return state
        trial = self._state([*state.columns[:j], column, *state.columns[j + 1 :]])
        return trial if trial.preferred_to(state) else state

    def climb(self, state: State, *, kicks: int = 0) -> State:
        """Sweep until a sweep gains next to nothing.

        Parameters
        ----------
        state : State
            State to start from; missing columns are built first.
        kicks : int
            Random kicks of every support that has been improved.
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
                solution = self._best(problem, support, self.budgets[j])
                for _ in range(kicks):
                    solution = solution and kick(problem, solution, self.budgets[j], self._rng)
                idle[j] = True
                if solution is None:
                    continue
                improved = self._with(state, j, self._made(problem, solution, solution.code))
                if improved is not state and set(solution.selected) != set(support):
                    idle = [i == j for i in range(self.k)]
                state = improved
                self._visited(state)
            if all(idle) or before.loss - state.loss <= _SWEEP_GAIN * state.loss:
                break
        return state

    def _best(self, problem: ColumnProblem, support: tuple[int, ...], r: int) -> ColumnSolution | None:
        """Best column found by exchange from the two most promising of the pursued supports."""
        if not np.any(problem.live):
            return None
        starts = list({frozenset(start.selected): start for start in self._pursued(problem, support, r)}.values())
        most = ranked(np.array([start.gain for start in starts]))[:_CLIMBS]
        ends = [exchange(problem, starts[i]) for i in most]
        if not ends:
            return None
        return ends[first_of_best([end.gain for end in ends], [end.selected for end in ends])]

    def _pursued(self, problem: ColumnProblem, support: tuple[int, ...], r: int) -> Iterator[ColumnSolution]:
        """The current support and a pursuit of the best code, each also after power-pursuit."""
        target = problem.best_codes(1)[:, 0]
        for selected in (support, pursue(problem, problem.products(target), r)):
            solution = best_on_support(problem, selected)
            if solution is None:
                continue
            if len(solution.selected) < r:  # columns lost to dependence, or never chosen
                filled = pursue(problem, solution.powered_products, r, kept=solution.selected)
                solution = best_on_support(problem, filled) or solution
            yield solution
            yield power_pursuit(problem, solution, r)

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
            solution = best_on_support(problem, pursue(problem, problem.products(target), self.budgets[j]))
            if solution is not None:
                columns[j] = self._made(problem, solution, target)
        return self._state(columns)

    def settled(self, state: State) -> State:
        """Optimise the coefficients on the supports as they are."""
        for _ in range(_MOST_SWEEPS):
            before = state.loss
            for j, column in enumerate(state.columns):
                if column is not None:
                    state = self._with(state, j, self._refit(state, j, column))
            if before - state.loss <= _SETTLED * state.loss:
                break
        return state

    def _refit(self, state: State, j: int, column: Column) -> Column | None:
        problem = self.problem(state.made(without=j), column.selected)
        solution = best_on_support(problem, range(len(column.selected)))
        if solution is None:
            return None
        selected = [column.selected[i] for i in solution.selected]
        return self._column(selected, coefficients_of(solution, solution.code, problem))

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
