"""Folds of the rows: one pass keeps a state for each fold, and their merge is the state of all rows.

So the state of all folds but one costs no read, and neither does what an encoder of it loses on the fold left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.passes.accumulators.base import Accumulator, Floats, Rows, State
from spae_dask.passes.accumulators.sparse import update_csr
from spae_dask.passes.accumulators.together import Together, joined, part_of
from spae_dask.passes.accumulators.weighted import Weighted
from spae_dask.passes.accumulators.wrapped import Wrapped

RUNS_OF_A_FOLD = 40
"""Runs of consecutive rows in each fold: many, so that folds are of one kind; long ones, because rows that follow each
other are often similar."""

SHORTEST_RUN = 64
"""Rows of a run from which an update with it alone is worth its overhead."""


@dataclass(frozen=True, eq=False)
class RowFolds:
    """Fold of every row of a matrix.

    Parameters
    ----------
    n_rows, n_folds : int
        n, and the number of folds.
    run : int
        Length of the runs of consecutive rows that share a fold.
    numbers : ndarray of int
        Fold of each run.
    """

    recipe_kind: ClassVar[str] = "row-folds"

    n_rows: int
    n_folds: int
    run: int
    numbers: npt.NDArray[np.uint8]

    @classmethod
    def of_runs(cls, n_rows: int, n_folds: int, seed: int) -> "RowFolds":
        """Deal runs of rows to folds at random: of each ``n_folds`` runs that follow each other, one to each fold."""
        run = max(1, n_rows // (RUNS_OF_A_FOLD * n_folds))
        rounds = -(-n_rows // (run * n_folds))
        dealt = np.tile(np.arange(n_folds, dtype=np.uint8), (rounds, 1))
        numbers = np.random.default_rng(seed).permuted(dealt, axis=1).ravel()
        return cls(n_rows, n_folds, run, numbers[: -(-n_rows // run)])

    @classmethod
    def of_groups(cls, groups: npt.NDArray[np.integer[Any]], n_folds: int) -> "RowFolds":
        """Deal whole groups to folds: the largest first, each to the fold of fewest rows.

        Parameters
        ----------
        groups : ndarray (n,) of int
            Group of each row, numbered from 0 without gaps.
        n_folds : int
            Number of folds, at most that of groups.
        """
        sizes = np.bincount(groups)
        fold_of, rows = np.zeros(sizes.size, dtype=np.uint8), np.zeros(n_folds, dtype=np.int64)
        for group in np.argsort(-sizes, kind="stable"):
            fold = int(np.argmin(rows))
            fold_of[group] = fold
            rows[fold] += sizes[group]
        return cls(groups.size, n_folds, 1, fold_of[groups])

    @property
    def nbytes(self) -> int:
        """Bytes of the folds of all runs."""
        return int(self.numbers.nbytes)

    def of(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """Folds of the rows ``start`` to ``stop``."""
        if self.run == 1:
            return self.numbers[start:stop]
        return self.numbers[np.arange(start, stop) // self.run]

    def sizes(self) -> npt.NDArray[np.int64]:
        """Number of rows of each fold."""
        lengths = np.full(self.numbers.size, self.run, dtype=np.int64)
        lengths[-1] = self.n_rows - self.run * (self.numbers.size - 1)
        return np.bincount(self.numbers, weights=lengths, minlength=self.n_folds).astype(np.int64)


@dataclass(frozen=True, eq=False)
class FoldStates:
    """States of all folds.

    Attributes
    ----------
    recipe : Accumulator
        Recipe of each of them.
    states : sequence of dict of arrays
        One a fold.
    """

    recipe: Accumulator[Any]
    states: Sequence[State]

    def whole(self) -> Any:
        """Statistic of all rows."""
        return self._of(self.states)

    def only(self, fold: int) -> Any:
        """Statistic of the rows of one fold."""
        return self.recipe.result(self.states[fold])

    def without(self, fold: int) -> Any:
        """Statistic of the rows of all other folds."""
        return self._of([state for number, state in enumerate(self.states) if number != fold])

    def resampled(self, counts: Sequence[int]) -> Any:
        """Statistic of the rows of all folds, each of which counts so many times."""
        return self._of([state for state, count in zip(self.states, counts, strict=True) for _ in range(count)])

    def _of(self, states: Sequence[State]) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):  # infinities are refused by who takes the result
            return self.recipe.result(reduce(self.recipe.merge, states))


@dataclass(frozen=True, eq=False)
class Folded(Wrapped):
    """Recipe ``inner`` for each fold by itself. Its rows must be exchangeable: it sees no row numbers.

    Parameters
    ----------
    inner : Accumulator
        Recipe that the rows of each fold are handed to.
    folds : RowFolds
        Fold of every row.
    n_features : int
        d.
    """

    recipe_kind: ClassVar[str] = "folded"
    takes_weights: ClassVar[bool] = False

    folds: RowFolds
    n_features: int

    @cached_property
    def _apart(self) -> Together:
        return Together({str(fold): self.inner for fold in range(self.folds.n_folds)})

    @property
    def state_nbytes(self) -> int:
        """One state of ``inner`` a fold."""
        return self._apart.state_nbytes

    @property
    def panel_rows(self) -> int:
        """Those of ``inner``; if folds alternate within them, as many for each fold."""
        rows = self.inner.panel_rows
        return rows if self.folds.run >= rows else rows * self.folds.n_folds

    def work_nbytes(self, n_rows: int) -> int:
        """A copy of the rows, the folds of all rows, and the work of ``inner``."""
        return super().work_nbytes(n_rows) + (8 * self.n_features + 24) * n_rows + self.folds.nbytes

    @property
    def flops_per_row(self) -> float:
        """A copy of the row, and the work of ``inner``."""
        return super().flops_per_row + self.n_features

    def zero(self) -> State:
        """No rows in any fold."""
        return self._apart.zero()

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Hand each fold its rows."""
        for name, mine in self._dealt(rows, first_row):
            state = state | joined({name: self._apart.update_part(name, part_of(state, name), mine, first_row)})
        return state

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """A copy of the rows, the folds of all rows, and the work of ``inner`` if it takes sparse rows."""
        return super().sparse_work_nbytes(n_rows, n_stored) + 16 * n_stored + 40 * n_rows + self.folds.nbytes

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Hand each fold its rows; they stay sparse if ``inner`` takes them so."""
        for name, mine in self._dealt(rows, first_row):
            state = state | joined({name: update_csr(self.inner, part_of(state, name), mine, first_row)})
        return state

    def merge(self, a: State, b: State) -> State:
        """Merge fold by fold."""
        return self._apart.merge(a, b)

    def result(self, state: State) -> FoldStates:
        """States of all folds."""
        return FoldStates(self.inner, [part_of(state, name) for name in self._apart.parts])

    def _dealt(self, rows: Any, first_row: int) -> list[tuple[str, Any]]:
        """Names of the folds that have some of the rows, and those rows."""
        numbers = self.folds.of(first_row, first_row + rows.shape[0])
        found = np.unique(numbers)
        if found.size == 1:
            return [(str(found[0]), rows)]
        return [(str(fold), rows[numbers == fold]) for fold in found]


@dataclass(frozen=True, eq=False)
class FoldedByNumber(Folded):
    """Recipe ``inner`` for each fold by itself, which is told the numbers of its rows, as a row sketch must be.

    The merge of all folds is then the state of all rows, to rounding. Long runs of a fold are handed on as they are.
    Where folds alternate, each is handed all rows, of which those of other folds weigh nothing.
    """

    recipe_kind: ClassVar[str] = "folded-by-number"

    @property
    def panel_rows(self) -> int:
        """Those of ``inner``."""
        return self.inner.panel_rows

    @property
    def _alternate(self) -> bool:
        return self.folds.run < SHORTEST_RUN

    @property
    def flops_per_row(self) -> float:
        """A copy of the row, and the work of ``inner``; for each fold if folds alternate."""
        inner = self.inner.flops_per_row
        return inner * (self.folds.n_folds if self._alternate else 1) + self.n_features

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Hand each fold its rows."""
        for name, recipe, start, stop in self._numbered(rows.shape[0], first_row):
            mine = recipe.update(part_of(state, name), rows[start:stop], first_row + start)
            state = state | joined({name: mine})
        return state

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Hand each fold its rows; they stay sparse if ``inner`` takes them so."""
        for name, recipe, start, stop in self._numbered(rows.shape[0], first_row):
            mine = update_csr(recipe, part_of(state, name), rows[start:stop], first_row + start)
            state = state | joined({name: mine})
        return state

    def _numbered(self, n_rows: int, first_row: int) -> Iterator[tuple[str, Accumulator[Any], int, int]]:
        """Names of folds, their recipes, and the consecutive rows to hand to them."""
        numbers = self.folds.of(first_row, first_row + n_rows)
        if self._alternate:
            for fold in np.unique(numbers).tolist():
                whole = bool(np.all(numbers == fold))
                yield str(fold), self.inner if whole else Weighted(self.inner, OneFold(self.folds, fold)), 0, n_rows
            return
        bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), n_rows]
        for start, stop in pairwise(bounds):
            yield str(numbers[start]), self.inner, start, stop


@dataclass(frozen=True, eq=False)
class OneFold:
    """Weights of the rows of one fold: 1, and 0 for all others.

    Parameters
    ----------
    folds : RowFolds
        Fold of every row.
    fold : int
        Number of the fold.
    """

    recipe_kind: ClassVar[str] = "one-fold"

    folds: RowFolds
    fold: int

    @property
    def nbytes(self) -> int:
        """None beside the folds."""
        return 0

    def of(self, first_row: int, n_rows: int) -> Floats:
        """Roots of the weights of some rows."""
        mine: npt.NDArray[np.bool_] = self.folds.of(first_row, first_row + n_rows) == self.fold
        return mine.astype(np.float64)
