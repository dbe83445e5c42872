"""Recipes that can be fed some columns at a time: the rows of one group of columns, then those of the next.

A store whose chunks are tall and narrow is decoded once if it is read so. A recipe takes part by two methods:
``of_columns`` gives the recipe of some columns, and ``joined`` puts the states of such parts together. The joined state
is that of a read of whole rows, up to rounding.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from spae_dask.passes.accumulators.base import Accumulator, Rows, State, has_exact_sums, merge_scratch_nbytes

Columns = npt.NDArray[np.intp]

Parts = Sequence[tuple[Columns, State]]
"""Groups of columns, and the state of each."""

MARK = "|"
"""Stands between the number of a group and the name of an array."""


class Separable(Protocol):
    """Members that a recipe has beside those of an accumulator if it can be fed some columns at a time."""

    def of_columns(self, columns: Columns) -> Accumulator[Any] | None:
        """Recipe of some columns; None if one of its parts needs whole rows."""
        ...

    def joined(self, parts: Parts) -> State:
        """State of all columns. ``parts`` cover each column once."""
        ...


def separated(recipe: Accumulator[Any], columns: Columns) -> Accumulator[Any] | None:
    """Recipe of some columns, or None if the recipe needs whole rows."""
    of_columns = getattr(recipe, "of_columns", None)
    part: Accumulator[Any] | None = None if of_columns is None else of_columns(columns)
    return part


def join_arrays(whole: State, parts: Parts) -> State:
    """Arrays of all columns from those of parts.

    An array that is as wide as the data is put together column by column. Any other one is the same in all parts but
    for ``far`` and ``chain``, which are the largest.

    Parameters
    ----------
    whole : dict of arrays
        State of no rows, of all columns. It is filled.
    parts : sequence of (ndarray, dict of arrays)
        Columns and states.
    """
    for name, array in whole.items():
        first = parts[0][1][name]
        wide = [axis for axis in range(array.ndim) if array.shape[axis] != first.shape[axis]]
        if wide:
            for columns, part in parts:
                np.moveaxis(array, wide[0], 0)[columns] = np.moveaxis(part[name], wide[0], 0)
        elif name in ("far", "chain"):
            whole[name] = np.max([part[name] for _, part in parts], axis=0)
        else:
            whole[name] = first.copy()
    return whole


@dataclass(frozen=True, eq=False)
class ByColumns:
    """Recipe ``whole``, fed the rows of one group of columns after another.

    Row ``i`` of group ``g`` is number ``g n + i``. A state holds those of the groups whose rows it has seen, under
    names such as ``3|moments/sum``.

    Parameters
    ----------
    whole : Accumulator
        Recipe of all columns; it has parts of the groups.
    groups : tuple of ndarray of int
        Columns of each group, ascending.
    n_rows : int
        n.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.by_columns.ByColumns"

    whole: Any
    groups: tuple[Columns, ...]
    n_rows: int

    @cached_property
    def _parts(self) -> dict[int, Accumulator[Any]]:
        return {}

    def part(self, group: int) -> Accumulator[Any]:
        """Recipe of one group."""
        if group not in self._parts:
            made = separated(self.whole, self.groups[group])
            assert made is not None, "it was looked for before"
            self._parts[group] = made
        return self._parts[group]

    @cached_property
    def _of_each_width(self) -> tuple[Accumulator[Any], ...]:
        return tuple(self.part(g) for g in {group.size: g for g, group in enumerate(self.groups)}.values())

    @property
    def is_shared(self) -> bool:
        """True if all groups add to one state, which is not a matter of columns."""
        return bool(getattr(self.whole, "is_shared", False))

    @property
    def state_nbytes(self) -> int:
        """Bytes of the states of all groups."""
        return self.nbytes_of_groups(0, len(self.groups))

    def nbytes_of_rows(self, first_row: int, last_row: int) -> int:
        """Bytes of the state of rows ``first_row`` to ``last_row - 1``."""
        return self.nbytes_of_groups(first_row // self.n_rows, -(-last_row // self.n_rows))

    def nbytes_of_groups(self, first: int, last: int) -> int:
        """Bytes of the states of groups ``first`` to ``last - 1``."""
        if self.is_shared:
            return int(self.whole.state_nbytes)
        return sum(self._nbytes_by_width[group.size] for group in self.groups[first:last])

    @cached_property
    def _nbytes_by_width(self) -> dict[int, int]:
        widths = {group.size: g for g, group in enumerate(self.groups)}
        return {width: self.part(g).state_nbytes for width, g in widths.items()}

    @property
    def panel_rows(self) -> int:
        """The fewest that the part of any group asks for."""
        return min(part.panel_rows for part in self._of_each_width)

    def work_nbytes(self, n_rows: int) -> int:
        """The most that the part of any group takes."""
        return max(part.work_nbytes(n_rows) for part in self._of_each_width)

    @property
    def merge_scratch_nbytes(self) -> int:
        """The most that the part of any group takes."""
        return max(merge_scratch_nbytes(part) for part in self._of_each_width)

    @property
    def flops_per_row(self) -> float:
        """Those of a whole row, shared among its pieces."""
        return float(self.whole.flops_per_row) / len(self.groups)

    @property
    def exact_sums(self) -> bool:
        """Those of the recipe of all columns."""
        return has_exact_sums(self.whole)

    def zero(self) -> State:
        """No rows of any group."""
        return {}

    def zero_of(self, names: Iterable[str]) -> State:
        """No rows of the groups that hold arrays of these names."""
        numbers = {int(name.partition(MARK)[0]) for name in names}
        if not numbers.issubset(range(len(self.groups))):
            raise ValueError(f"there are groups 0 to {len(self.groups) - 1} only")
        return _marked({number: self.part(number).zero() for number in sorted(numbers)})

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Add rows of one group to its state."""
        group, row = divmod(first_row, self.n_rows)
        part, number = self.part(group), 0 if self.is_shared else group
        start = f"{number}{MARK}"
        own = {name[len(start) :]: array for name, array in state.items() if name.startswith(start)}
        state.update(_marked({number: part.update(own or part.zero(), rows, row)}))
        return state

    def merge(self, a: State, b: State) -> State:
        """Merge group by group; a group that only one of them has stays as it is."""
        ours, theirs = _by_group(a), _by_group(b)
        merged = ours | theirs
        for group in ours.keys() & theirs.keys():
            merged[group] = self.part(group).merge(ours[group], theirs[group])
        return _marked(dict(sorted(merged.items())))

    def joined(self, state: State) -> State:
        """State of ``whole`` after all rows of all groups."""
        found = _by_group(state)
        if self.is_shared:
            return found[0]
        joined: State = self.whole.joined([(self.groups[group], part) for group, part in sorted(found.items())])
        return joined

    def result(self, state: State) -> Any:
        """That of ``whole``."""
        return self.whole.result(self.joined(state))


def _marked(states: dict[int, State]) -> State:
    return {f"{group}{MARK}{name}": array for group, state in states.items() for name, array in state.items()}


def _by_group(state: State) -> dict[int, State]:
    found: dict[int, State] = {}
    for key, array in state.items():
        number, _, name = key.partition(MARK)
        found.setdefault(int(number), {})[name] = array
    return found
