"""One state for each part of the rows, such as tenths of them, batches or years, in one pass."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.passes.accumulators.base import Accumulator, Rows, State
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

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(self.inner.zero())

    @property
    def state_nbytes(self) -> int:
        """A state for each part."""
        return self.cut.n_parts * super().state_nbytes

    @property
    def work_nbytes(self) -> int:
        """A copy of rows of a part, the parts of the rows, and the work of ``inner``."""
        n_columns = int(getattr(self.inner, "n_features", 0))
        return super().work_nbytes + self.panel_rows * (8 * n_columns + 16) + self.cut.nbytes

    def zero(self) -> State:
        """No rows in any part."""
        return self._joined([self.inner.zero() for _ in range(self.cut.n_parts)])

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Add each row to the state of its part."""
        parts = self.cut.of_rows(first_row, first_row + rows.shape[0])
        for part in np.unique(parts):
            mine = parts == part
            updated = self.inner.update(self._of(state, part), rows if mine.all() else rows[mine], first_row)
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
            self._put(state, part, update_csr(self.inner, self._of(state, part), chosen, first_row))
        return state

    def merge(self, a: State, b: State) -> State:
        """Merge part by part."""
        return self._joined(
            [self.inner.merge(self._of(a, part), self._of(b, part)) for part in range(self.cut.n_parts)]
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
