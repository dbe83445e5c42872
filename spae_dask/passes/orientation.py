"""Orientation of a pass: whole rows, or one group of columns after another where chunks are too tall for rows. Pure.

A source tells its groups of columns (see ``blocks.column_groups``). A recipe that can be fed some columns at a time
then reads each chunk once, and holds a few chunks and not a row of them. All other recipes read whole rows in parts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import Block, RowBlocks, column_groups, columns_alone
from spae_dask.passes.accumulators.base import Accumulator, State
from spae_dask.passes.accumulators.by_columns import ByColumns, separated
from spae_dask.passes.accumulators.codes import codes_before, unknown_codes, with_codes

MOST_CODES_NBYTES = 1 << 30
"""Bytes kept of all rows between two reads by columns, at most. Beyond that, the second read is of whole rows."""

CODES = "codes"
"""Name of the read that keeps them."""


@dataclass(frozen=True, eq=False)
class ColumnGroups:
    """Groups of columns of a source, one below the other: row ``i`` of group ``g`` is row ``g n + i``.

    Parameters
    ----------
    source : RowBlocks
        The matrix; some of its columns can be read alone.
    groups : tuple of ndarray of int
        Columns of each group.
    """

    source: RowBlocks
    groups: tuple[npt.NDArray[np.intp], ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of all groups, and columns of the widest one."""
        return len(self.groups) * self.source.shape[0], max(group.size for group in self.groups)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """That of the source."""
        return self.source.dtype

    @property
    def all_nbytes(self) -> int:
        """Bytes of all blocks."""
        n, d = self.source.shape
        return n * d * self.dtype.itemsize

    @cached_property
    def _alone(self) -> dict[int, RowBlocks]:
        return {}

    def alone(self, group: int) -> RowBlocks:
        """One group as a source of its own."""
        if group not in self._alone:
            found = columns_alone(self.source, self.groups[group])
            assert found is not None, "a source with groups of columns reads them"
            self._alone[group] = found
        return self._alone[group]

    @cached_property
    def _first_blocks(self) -> npt.NDArray[np.int64]:
        """Number of the first block of each group, and of all blocks."""
        counts = [len(self.alone(group).bounds) - 1 for group in range(len(self.groups))]
        return np.concatenate([[0], np.cumsum(counts)])

    @cached_property
    def bounds(self) -> Sequence[int]:
        """Row bounds of the blocks."""
        n = self.source.shape[0]
        bounds = (np.asarray(self.alone(group).bounds)[1:] + group * n for group in range(len(self.groups)))
        return (0, *chain.from_iterable(each.tolist() for each in bounds))

    @cached_property
    def read_nbytes(self) -> int:
        """The most of any group."""
        return max(self.alone(group).read_nbytes for group in range(len(self.groups)))

    @property
    def in_process(self) -> bool:
        """That of the source."""
        return self.source.in_process

    def _place(self, i: int) -> tuple[int, int]:
        group = int(np.searchsorted(self._first_blocks, i, side="right")) - 1
        return group, i - int(self._first_blocks[group])

    def block_shape(self, i: int) -> tuple[int, int]:
        """Rows and columns of a block."""
        return self.bounds[i + 1] - self.bounds[i], int(self.groups[self._place(i)[0]].size)

    def read(self, i: int) -> Block:
        """Block ``i``: some rows of one group."""
        group, number = self._place(i)
        return self.alone(group).read(number)

    def describe(self) -> str:
        """Name of the source."""
        return self.source.describe()

    def __reduce__(self) -> tuple[type["ColumnGroups"], tuple[Any, ...]]:
        """Without the sources of single groups."""
        return type(self), (self.source, self.groups)


def oriented(source: RowBlocks, recipe: Accumulator[Any]) -> tuple[RowBlocks, Accumulator[Any]]:
    """Source and recipe as a pass is made: by groups of columns if the source asks for it and the recipe can."""
    groups = column_groups(source)
    if groups is None or separated(recipe, groups[0]) is None:
        return source, recipe
    return by_groups(source), ByColumns(recipe, groups, source.shape[0])


def by_groups(source: RowBlocks) -> ColumnGroups:
    """A source that has groups of columns as these. Remembered, because its bounds take long to find."""
    known: Any = source  # a protocol does not say that it has a hash
    found: ColumnGroups = _by_groups(known)
    return found


@lru_cache(maxsize=4)
def _by_groups(source: Any) -> ColumnGroups:
    groups = column_groups(source)
    assert groups is not None, "it was looked for before"
    return ColumnGroups(source, groups)


def joined(recipe: Accumulator[Any], state: State) -> State:
    """State of whole rows, whichever way they were read."""
    return recipe.joined(state) if isinstance(recipe, ByColumns) else state


def read_before(source: RowBlocks, recipe: Accumulator[Any]) -> Accumulator[Any] | None:
    """Recipe of a read that has to come before this one, if the source is read by columns.

    Its result goes into ``with_codes``.
    """
    if column_groups(source) is None:
        return None
    codes = codes_before(recipe, source.shape[0], np.dtype(source.dtype))
    return None if codes is None or codes.state_nbytes > MOST_CODES_NBYTES else codes


class RowCount:
    """Count of whole rows, told of pieces of rows.

    Parameters
    ----------
    pieces : int
        Pieces of a row.
    """

    def __init__(self, pieces: int) -> None:
        self._pieces = pieces
        self._seen = 0

    def more(self, n_pieces: int) -> int:
        """Rows that so many more pieces complete."""
        before = self._seen // self._pieces
        self._seen += n_pieces
        return self._seen // self._pieces - before


def as_read(source: RowBlocks, passes: Iterable[tuple[str, Accumulator[Any]]]) -> list[tuple[str, Accumulator[Any]]]:
    """Names and recipes of all reads that passes take, for planning."""
    found = []
    for name, recipe in passes:
        codes = read_before(source, recipe)
        if codes is None:
            found.append((name, recipe))
        else:
            found += [(CODES, codes), (name, with_codes(recipe, unknown_codes(codes)))]
    return found
