"""One state for each part of the rows, such as tenths of them, batches or years, in one pass."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.passes.accumulators.base import Accumulator, Rows, State
from spae_dask.passes.accumulators.by_columns import Columns, Parts, separated
from spae_dask.passes.accumulators.clipped_squares import ClippedSquares
from spae_dask.passes.accumulators.sparse import SparseAccumulator, update_csr
from spae_dask.passes.accumulators.wrapped import Wrapped

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cut:
    """Parts of the rows of a matrix, by runs of rows that belong to the same part.

    Parameters
    ----------
    starts : ndarray (m,) of int64
        First row of each run; the first is 0.
    parts : ndarray (m,) of int64
        Number of its part, from 0.
    n_rows, n_parts : int
        Rows and parts in all.
    """

    recipe_kind: ClassVar[str] = "cut"

    starts: Integers
    parts: Integers
    n_rows: int
    n_parts: int

    @classmethod
    def equal(cls, n_rows: int, n_parts: int) -> "Cut":
        """Consecutive parts of as many rows, up to one."""
        numbers = np.arange(n_parts, dtype=np.int64)
        return cls(n_rows * numbers // n_parts, numbers, n_rows, n_parts)

    @classmethod
    def by_codes(cls, codes: npt.NDArray[np.integer[Any]], n_parts: int) -> "Cut":
        """Parts by a number for each row."""
        starts = np.flatnonzero(np.diff(codes, prepend=-1)).astype(np.int64)
        return cls(starts, codes[starts].astype(np.int64), len(codes), n_parts)

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.starts.nbytes + self.parts.nbytes

    @property
    def counts(self) -> Integers:
        """Rows of each part (n_parts,)."""
        found = np.zeros(self.n_parts, dtype=np.int64)
        np.add.at(found, self.parts, np.diff(self.starts, append=self.n_rows))
        return found

    def of_rows(self, first: int, last: int) -> Integers:
        """Part of each row from ``first`` to ``last``."""
        begin = int(np.searchsorted(self.starts, first, side="right")) - 1
        end = int(np.searchsorted(self.starts, last, side="left"))
        edges = np.clip(np.append(self.starts[begin:end], last), first, last)
        return np.repeat(self.parts[begin:end], np.diff(edges))


@dataclass(frozen=True, eq=False)
class PartedResult:
    """Results of a recipe on all rows, and on each part of them, made when they are asked for.

    Parameters
    ----------
    inner : Accumulator
        The recipe.
    states : tuple of dict
        State of each part.
    """

    inner: Accumulator[Any]
    states: tuple[State, ...]

    @property
    def whole(self) -> Any:
        """Result on all rows."""
        return self.inner.result(reduce(self.inner.merge, self.states))

    def __iter__(self) -> Iterator[Any]:
        """Results on the parts, one after the other."""
        return map(self.inner.result, self.states)


@dataclass(frozen=True, eq=False)
class Parted(Wrapped):
    """Recipe ``inner`` on each part of the rows.

    The rows of a part need not be consecutive, so ``inner`` must not depend on their numbers.

    Parameters
    ----------
    cut : Cut
        The parts.
    """

    recipe_kind: ClassVar[str] = "parted"
    takes_weights: ClassVar[bool] = False

    cut: Cut

    def recipe_of(self, part: int) -> Accumulator[Any]:  # noqa: ARG002 - the same for all
        """Recipe of a part."""
        return self.inner

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(self.inner.zero())

    @property
    def state_nbytes(self) -> int:
        """A state for each part."""
        return self.cut.n_parts * super().state_nbytes

    def work_nbytes(self, n_rows: int) -> int:
        """A copy of rows of a part, the parts of the rows, and the work of ``inner``."""
        n_columns = int(getattr(self.inner, "n_features", 0))
        return super().work_nbytes(n_rows) + n_rows * (8 * n_columns + 16) + self.cut.nbytes

    def zero(self) -> State:
        """No rows in any part."""
        return self._joined([self.inner.zero() for _ in range(self.cut.n_parts)])

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Add each row to the state of its part."""
        parts = self.cut.of_rows(first_row, first_row + rows.shape[0])
        for part in np.unique(parts):
            mine = parts == part
            chosen = rows if mine.all() else rows[mine]
            updated = self.recipe_of(part).update(self._of(state, part), chosen, first_row)
            self._put(state, part, updated)
        return state

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """A copy of rows of a part, and the work of ``inner`` if it takes sparse rows."""
        inner = self.inner.sparse_work_nbytes(n_rows, n_stored) if isinstance(self.inner, SparseAccumulator) else 0
        return inner + 16 * n_stored + 24 * n_rows

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Add each row to the state of its part."""
        parts = self.cut.of_rows(first_row, first_row + rows.shape[0])
        for part in np.unique(parts):
            mine = parts == part
            chosen = rows if mine.all() else rows[np.flatnonzero(mine)]
            self._put(state, part, update_csr(self.recipe_of(part), self._of(state, part), chosen, first_row))
        return state

    def merge(self, a: State, b: State) -> State:
        """Merge part by part."""
        return self._joined(
            [self.inner.merge(self._of(a, part), self._of(b, part)) for part in range(self.cut.n_parts)]
        )

    def of_columns(self, columns: Columns) -> "Parted | None":
        """Recipe of some columns; None if ``inner`` needs whole rows."""
        inner = separated(self.inner, columns)
        return None if inner is None else replace(self, inner=inner)

    def joined(self, parts: Parts) -> State:
        """State of all columns, part by part."""
        recipes: list[Any] = [self.recipe_of(part) for part in range(self.cut.n_parts)]
        return self._joined(
            [
                recipe.joined([(columns, self._of(state, part)) for columns, state in parts])
                for part, recipe in enumerate(recipes)
            ]
        )

    def result(self, state: State) -> PartedResult:
        """Results on the parts."""
        return PartedResult(self.inner, tuple(self._of(state, part) for part in range(self.cut.n_parts)))

    def _of(self, state: State, part: int) -> State:
        return {name: state[f"{part}/{name}"] for name in self._names}

    @staticmethod
    def _put(state: State, part: int, new: State) -> None:
        state.update({f"{part}/{name}": array for name, array in new.items()})

    def _joined(self, states: list[State]) -> State:
        joined: State = {}
        for part, state in enumerate(states):
            self._put(joined, part, state)
        return joined


@dataclass(frozen=True, eq=False)
class PartedSquares(Parted):
    """Sums of clipped squares on each part of the rows, about centers and with limits of its own.

    Parameters
    ----------
    inner : ClippedSquares
        Recipe of the first part.
    others : tuple of ClippedSquares
        Recipes of all other parts.
    """

    recipe_kind: ClassVar[str] = "parted-squares"

    inner: ClippedSquares
    others: tuple[ClippedSquares, ...] = ()

    def recipe_of(self, part: int) -> Accumulator[Any]:
        """Recipe of a part."""
        return self.others[part - 1] if part else self.inner

    def work_nbytes(self, n_rows: int) -> int:
        """The same, and the centers and limits of all parts."""
        return super().work_nbytes(n_rows) + 16 * sum(each.n_features for each in (self.inner, *self.others))

    def of_columns(self, columns: Columns) -> "PartedSquares":
        """Recipe of some columns."""
        others = tuple(each.of_columns(columns) for each in self.others)
        return replace(self, inner=self.inner.of_columns(columns), others=others)
