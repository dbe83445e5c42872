"""One grid in many files, such as one for each year: their rows one after another."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import asked_of, remember
from spae_dask.errors import InvalidInput
from spae_dask.recipes import Recipe
from spae_dask.storage.grids.grid_layout import GridLayout
from spae_dask.storage.grids.xarray_blocks import Cells, GridRows, OfGrid
from spae_dask.storage.sources.checked_store import ArrayChange


@dataclass(frozen=True, eq=False)
class GridFiles(OfGrid):
    """The rows of one variable of several files. Few files are open at once, by xarray's ``file_cache_maxsize``.

    Parameters
    ----------
    parts : tuple of GridRows
        The files in the order of their rows, all with the same cells.
    name : str
        Name in messages: the pattern or the folder.
    cells, feature_names, layout
        As those of `GridRows`, and of each part.
    in_process : bool
        False: the rows are read from files.
    """

    parts: tuple[GridRows, ...]
    name: str
    cells: Cells
    feature_names: tuple[str, ...] | None = None
    layout: GridLayout | None = None
    in_process: bool = False

    @property
    def passed_over(self) -> tuple[str, ...]:
        """Attributes that would decode the numbers, if they are read as they are stored."""
        return self.parts[0].passed_over

    @property
    def recipe(self) -> Recipe | None:
        """Recipe that the cells follow."""
        return self.cells.recipe

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        return self._first_rows[-1], self.cells.d

    @cached_property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries, which holds those of all files."""
        return np.result_type(*(part.dtype for part in self.parts))

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """Row bounds of the blocks: no block is of two files."""
        found = [0]
        for first, part in zip(self._first_rows, self.parts, strict=False):
            found += [first + bound for bound in part.bounds[1:]]
        return tuple(found)

    @cached_property
    def _first_rows(self) -> tuple[int, ...]:
        """Number of the first row of each file, and of rows in all."""
        return (0, *np.cumsum([part.shape[0] for part in self.parts]).tolist())

    @cached_property
    def _first_blocks(self) -> tuple[int, ...]:
        return (0, *np.cumsum([len(part.bounds) - 1 for part in self.parts]).tolist())

    @property
    def n_entries(self) -> int:
        """Entries of the variables, all cells."""
        return sum(part.n_entries for part in self.parts)

    def is_gap(self, fill_value: Any) -> bool:
        """As `GridRows.is_gap`."""
        return self.parts[0].is_gap(fill_value)

    @property
    def read_nbytes(self) -> int:
        """The most that a block of one file takes."""
        return max(part.read_nbytes for part in self.parts)

    @property
    def chunks_nbytes(self) -> int:
        """The most that chunks take that are decoded at once."""
        return max(part.chunks_nbytes for part in self.parts)

    @property
    def decodes_per_chunk(self) -> int:
        """Largest number of times that a pass decodes each chunk."""
        return max(part.decodes_per_chunk for part in self.parts)

    @property
    def files(self) -> tuple[str, ...]:
        """All files on a disk."""
        return tuple(file for part in self.parts for file in part.files)

    def with_arrays(self, change: ArrayChange) -> "GridFiles":
        """The same with other arrays of Zarr beneath, if there are some."""
        return replace(self, parts=tuple(part.with_arrays(change) for part in self.parts))

    def changed(self, **fields: Any) -> "GridFiles":
        """The same with other fields, and parts with them."""
        parts = tuple(replace(part, **fields) for part in self.parts)
        own = {name: value for name, value in fields.items() if name in ("cells", "feature_names", "layout")}
        same = replace(self, parts=parts, **own)
        remember(same, **asked_of(self))
        return same

    def read(self, i: int) -> npt.NDArray[Any]:
        """Rows of block ``i``.

        Raises
        ------
        StorageError, InvalidInput
            As `GridRows.read`; ``place`` has the row among those of all files.
        """
        number = bisect_right(self._first_blocks, i) - 1
        try:
            rows = self.parts[number].read(i - self._first_blocks[number])
        except InvalidInput as error:
            if error.place is not None:
                error.place = error.place[0] + self._first_rows[number], error.place[1]
            raise
        return rows.astype(self.dtype, copy=False)

    def describe(self) -> str:
        """Name for messages."""
        return self.name


def as_one(parts: Sequence[GridRows], name: str) -> GridRows | GridFiles:
    """The rows of the files as one source."""
    first = parts[0]
    return first if len(parts) == 1 else GridFiles(tuple(parts), name, first.cells, first.feature_names, first.layout)
