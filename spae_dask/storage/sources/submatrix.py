"""Some rows and columns of another source, as masks and views choose them, cut out block by block."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import (
    Block,
    LazyRowBlocks,
    RowBlocks,
    StoredEntries,
    asked_of,
    column_groups,
    columns_alone,
    in_smaller_blocks,
    largest_block_nbytes,
    remember,
    stored_entries,
)
from spae_dask.storage.sources.checked_store import ArrayChange, ReadsZarr
from spae_dask.storage.sources.dask_blocks import DaskBlocks

DECLARED = ("decoded", "decoding", "missing_told", "passed_over", "valid_range", "missing_value", "recipe", "raw")
"""Attributes in which some sources describe where their numbers come from."""

OF_GRID, STEPS = ("layout", "grid_cells"), ("marked", "followed")
"""Attributes of grids, and methods that take a step within a grid, before its cells are weighted."""

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Submatrix:
    """Rows and columns of a source that is read in blocks; blocks without a chosen row are not read.

    Parameters
    ----------
    source : RowBlocks
        Source to read. It has no lazy blocks.
    kept_rows : ndarray of int, optional
        Rows, ascending, each once; all if not given.
    kept_columns : ndarray of int, optional
        Columns, in any order; all if not given.
    beneath : bool
        True if the rows of the source, with all their columns, are the data that columns were chosen of.
    """

    source: RowBlocks
    kept_rows: Indices | None = None
    kept_columns: Indices | None = None
    beneath: bool = False

    def __post_init__(self) -> None:
        assert not isinstance(self.source, LazyRowBlocks), "a lazy source is cut in its own graph"
        assert self.kept_rows is None or bool((np.diff(self.kept_rows) > 0).all()), "rows are identified by their order"

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        n, d = self.source.shape
        return n if self.kept_rows is None else len(self.kept_rows), d if self.kept_columns is None else len(
            self.kept_columns
        )

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """That of the source."""
        return self.source.dtype

    @property
    def in_process(self) -> bool:
        """That of the source."""
        return self.source.in_process

    @property
    def read_nbytes(self) -> int:
        """A whole block of the source, beside what reading it takes."""
        return self.source.read_nbytes + largest_block_nbytes(self.source)

    @property
    def bounds(self) -> tuple[int, ...]:
        """Row bounds of the blocks."""
        return self._kept[1]

    @cached_property
    def stored(self) -> StoredEntries | None:
        """Upper bound on the stored entries of sparse rows: the sizes of the blocks they are cut from."""
        stored = stored_entries(self.source)
        if stored is None:
            return None
        held = [stored.offsets[block + 1] - stored.offsets[block] for block in self._kept[0]]
        return StoredEntries((0, *np.cumsum(held).tolist()), stored.density)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of its columns, if the source has names."""
        names: tuple[str, ...] | None = getattr(self.source, "feature_names", None)
        if names is None or self.kept_columns is None:
            return names
        return tuple(names[column] for column in self.kept_columns)

    @cached_property
    def _kept(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Blocks of the source that hold chosen rows, and the bounds of those rows."""
        ends = (
            np.asarray(self.source.bounds)
            if self.kept_rows is None
            else np.searchsorted(self.kept_rows, self.source.bounds)
        )
        blocks = [number for number, (start, stop) in enumerate(pairwise(ends)) if stop > start]
        return tuple(blocks), (0, *(int(ends[number + 1]) for number in blocks))

    def __getattr__(self, name: str) -> Any:
        """Return the source's declaration about its numbers, and of some rows of a grid what is known of its cells."""
        of_cells = name in (*OF_GRID, *STEPS) and self.kept_columns is None
        if name not in DECLARED and not of_cells:
            raise AttributeError(name)
        found = getattr(self.source, name)
        if name not in STEPS:
            return found
        return lambda given: remember(replace(self, source=found(given)), **asked_of(self))

    def read(self, i: int) -> Block:
        """Block ``i``: an array, or CSR rows."""
        number = self._kept[0][i]
        block: Block = self.source.read(number)
        if self.kept_rows is not None:
            start, stop = self.bounds[i : i + 2]
            block = block[self.kept_rows[start:stop] - self.source.bounds[number]]
        return block if self.kept_columns is None else block[:, self.kept_columns]

    @property
    def files(self) -> tuple[str, ...]:
        """Those of the source."""
        return tuple(getattr(self.source, "files", ()))

    def with_arrays(self, change: ArrayChange) -> RowBlocks:
        """The same with other arrays beneath."""
        if not isinstance(self.source, ReadsZarr):
            return self
        return remember(replace(self, source=self.source.with_arrays(change)), **asked_of(self))

    def in_smaller_blocks(self, most_chunks: int) -> RowBlocks:
        """The same in smaller blocks, if the source has any."""
        smaller = in_smaller_blocks(self.source, most_chunks)
        return self if smaller is self.source else replace(self, source=smaller)

    def of_columns(self, columns: npt.NDArray[np.intp]) -> RowBlocks | None:
        """Some of its columns, if the source can read them alone."""
        inner = columns if self.kept_columns is None else self.kept_columns[columns]
        alone = columns_alone(self.source, inner) if bool((np.diff(inner) > 0).all()) else None
        return None if alone is None else Submatrix(alone, self.kept_rows)

    @cached_property
    def column_groups(self) -> tuple[npt.NDArray[np.intp], ...] | None:
        """Those of the source, as far as columns are kept; None if they are in another order."""
        groups, kept = column_groups(self.source), self.kept_columns
        if groups is None or kept is None:
            return groups
        if not bool((np.diff(kept) > 0).all()):
            return None
        found = (np.flatnonzero(np.isin(kept, group, assume_unique=True)) for group in groups)
        return tuple(each for each in found if each.size)

    def describe(self) -> str:
        """Name of the source."""
        return self.source.describe()


def chosen_columns(source: RowBlocks, columns: Indices) -> RowBlocks:
    """Some columns of any source, in any order; a dask array stays one. Of columns chosen before, some of those."""
    if isinstance(source, Submatrix) and source.beneath and source.kept_columns is not None:
        return Submatrix(source.source, kept_columns=source.kept_columns[columns], beneath=True)
    taken: Callable[[Indices], RowBlocks] | None = getattr(source, "taken", None)
    if taken is not None and bool((np.diff(columns) > 0).all()):
        return taken(columns)
    if not isinstance(source, DaskBlocks):
        return Submatrix(source, kept_columns=columns, beneath=True)
    if source.cut_from is not None:
        whole, before = source.cut_from
        return chosen_columns(whole, before[columns])
    names = source.feature_names
    kept = None if names is None else tuple(names[column] for column in columns)
    return replace(
        source,
        array=source.array[:, columns],
        feature_names=kept,
        beside_nbytes=source.beside_nbytes + (largest_block_nbytes(source) if source.n_chunk_columns == 1 else 0),
        cut_from=(source, columns),
    )


def chosen_rows(source: RowBlocks, rows: Indices) -> RowBlocks:
    """Some rows of any source, ascending; a dask array stays one."""
    if not isinstance(source, DaskBlocks):
        return remember(Submatrix(source, kept_rows=rows), **asked_of(source))
    return remember(replace(source, array=source.array[rows]), **asked_of(source))


def beneath_choice(source: RowBlocks, change: Callable[[RowBlocks], RowBlocks]) -> RowBlocks:
    """A source changed where it has all columns, beneath `chosen_columns` if those were called."""
    if isinstance(source, Submatrix) and source.beneath and source.kept_columns is not None:
        whole, columns = source.source, source.kept_columns
    elif isinstance(source, DaskBlocks) and source.cut_from is not None:
        whole, columns = source.cut_from
    else:
        return change(source)
    return remember(chosen_columns(change(whole), columns), **asked_of(source))
