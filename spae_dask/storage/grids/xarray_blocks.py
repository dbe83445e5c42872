"""Row blocks of arrays with named dimensions, in memory, of dask blocks, or still in a file."""

import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
import xarray as xr

from spae_dask.blocks import ArrayBlocks, RowBlocks, asked_of, check_unmasked, remember, uniform_bounds
from spae_dask.errors import InvalidInput, SpaeError, StorageError
from spae_dask.recipes import Recipe
from spae_dask.storage.grids.grid_layout import GridLayout, checked_array, layout_of, name_of
from spae_dask.storage.sources.checked_store import ArrayChange
from spae_dask.storage.sources.dask_blocks import DaskBlocks, change_within, file_beneath, refuse_unknown_chunks
from spae_dask.storage.sources.recipe_blocks import CannotFollow, follow, followed_dtype, panels_nbytes, wrong_in
from spae_dask.storage.sources.sentinel import MissingValue, holding_nan, mark_missing

TARGET_BLOCK_NBYTES = 16 << 20
"""Bytes of a row block where the chunks leave the choice."""

MAX_BLOCK_NBYTES = 256 << 20
"""Chunks of more rows than take this are read in parts, and decoded once for each part."""

GROUP_NBYTES = 64 << 20
"""Bytes of a group of cells, in one row of chunks: where chunks are too tall for rows, groups are read in turn."""

MOST_GROUPS = 1000
"""Groups of cells, at most."""

AT_ONCE = 10
"""Chunks that a reader decodes at once, at most."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Columns of the matrix: which cells of the flat grid, each times what.

    Parameters
    ----------
    n_cells : int
        Cells of the grid.
    kept : ndarray (d,) of int, or None
        Cells that are columns, ascending; None for all.
    factor : ndarray (d,) or None
        Factor that each cell is multiplied by; None for 1.
    missing_value : float or sequence of float, optional
        A number that stands for NaN, or several.
    recipe : Recipe, optional
        Steps that change each entry, before it is multiplied.
    """

    n_cells: int
    kept: npt.NDArray[np.intp] | None = None
    factor: npt.NDArray[np.float64] | None = None
    missing_value: MissingValue = None
    recipe: Recipe | None = None

    @property
    def d(self) -> int:
        """Columns."""
        return self.n_cells if self.kept is None else int(self.kept.size)

    @property
    def numbers(self) -> npt.NDArray[np.intp]:
        """Cells that are columns (d,), by their numbers in the flat grid."""
        return np.arange(self.n_cells) if self.kept is None else self.kept

    def unweighted(self, values: Any) -> Any:
        """Values (..., d) with the weights of the cells divided out."""
        return values if self.factor is None else values / self.factor

    def taken(self, columns: npt.NDArray[np.intp]) -> "Cells":
        """Some of the columns."""
        factor = None if self.factor is None else self.factor[columns]
        return replace(self, kept=self.numbers[columns], factor=factor)

    @property
    def all_as_is(self) -> bool:
        """True if rows are those of the grid, unchanged."""
        return self.kept is None and self.factor is None and self.missing_value is None and self.recipe is None

    def dtype(self, stored: np.dtype[Any]) -> np.dtype[Any]:
        """Type of the rows; weighted float32 stays float32."""
        if self.missing_value is not None:
            stored = holding_nan(stored)
        if self.recipe is not None:
            stored = followed_dtype(stored)
        return stored if self.factor is None else holding_nan(stored)

    def recipe_nbytes(self, n_raw: int) -> int:
        """Bytes that the recipe takes for a block, beside it and its ``n_raw`` bytes before."""
        return 0 if self.recipe is None else n_raw + panels_nbytes(self.d)

    def rows(self, block: Any, first_row: int = 0) -> npt.NDArray[Any]:
        """Rows (m, d) of a block (..., grid) of samples, the first of which is row ``first_row``.

        Raises
        ------
        InvalidInput
            If an entry is negative where the recipe allows none; ``place`` has row and column.
        """
        check_unmasked(block)
        rows = np.asarray(block).reshape(-1, self.n_cells)
        if self.kept is not None:
            rows = rows[:, self.kept]
        if self.missing_value is not None:
            rows = mark_missing(rows, self.missing_value)
        if self.recipe is not None:
            try:
                rows = follow(self.recipe, rows, followed_dtype(rows.dtype))
            except CannotFollow:
                raise _negative(self.recipe, rows, first_row) from None
        if self.factor is not None:
            dtype = self.dtype(rows.dtype)
            rows = rows.astype(dtype, copy=False) * self.factor.astype(dtype)
        return rows


@dataclass(frozen=True, eq=False)
class GridCells:
    """Cells that are the columns of an encoder, and the grid they are of.

    Attributes
    ----------
    layout : GridLayout
    cells : Cells
        Without what the encoder does to rows itself, such as a recipe.
    """

    layout: GridLayout
    cells: Cells

    @property
    def before_encoder(self) -> "GridCells":
        """The same, as of a stored record."""
        return self


def _negative(recipe: Recipe, rows: npt.NDArray[Any], first_row: int) -> InvalidInput:
    wrong = wrong_in(recipe, rows)
    error = InvalidInput(
        f"{recipe.non_negative} takes numbers of at least 0, and {wrong.value:g} is among the data. They may be "
        "anomalies already. Give raw data, or leave out the recipe."
    )
    error.place = None if wrong.column is None else (first_row + wrong.row, wrong.column)
    return error


def refuse_of_rows(recipe: Recipe) -> None:
    """Refuse a recipe that adds up the cells of a sample.

    Raises
    ------
    InvalidInput
        If it does.
    """
    if recipe.of_rows:
        raise InvalidInput(
            f"recipe='{recipe}' is for the rows of a matrix: {recipe.steps[0].name} divides by the sum of a row, and "
            "cells of a grid have different areas. Leave out that step, or give the array that xarray makes, lazily "
            "for dask arrays: da / da.weighted(area).sum(dims)."
        )


class OfGrid:
    """A source whose columns are cells of a grid: steps for its entries, which come before weights."""

    cells: Cells
    layout: GridLayout | None
    feature_names: tuple[str, ...] | None

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the layout."""
        return {**vars(self), "layout": None}

    def changed(self, **fields: Any) -> Any:
        """The same with other fields."""
        raise NotImplementedError

    def taken(self, columns: npt.NDArray[np.intp]) -> Any:
        """Some of the columns, ascending."""
        names = None if self.feature_names is None else tuple(self.feature_names[column] for column in columns)
        return self.changed(cells=self.cells.taken(columns), feature_names=names)

    def marked(self, missing_value: MissingValue) -> Any:
        """The same with NaN in place of numbers that stand for it."""
        return self.changed(cells=replace(self.cells, missing_value=missing_value))

    def followed(self, recipe: Recipe) -> Any:
        """The same with a recipe followed.

        Raises
        ------
        InvalidInput
            If the recipe adds up the cells of a sample.
        """
        refuse_of_rows(recipe)
        return self.changed(cells=replace(self.cells, recipe=recipe))

    @property
    def grid_cells(self) -> GridCells | None:
        """Its cells as an encoder keeps them, which marks missing values and follows the recipe itself."""
        plain = replace(self.cells, missing_value=None, recipe=None)
        return None if self.layout is None else GridCells(self.layout, plain)


@dataclass(frozen=True, eq=False)
class GridRows(OfGrid):
    """An array read in blocks along its first sample dimension.

    Parameters
    ----------
    variable : xarray.Variable
        Variable in memory, or lazily indexed in a file; not of dask blocks. Its dimensions are in any order: blocks are
        transposed when they are read, since a transposed lazy variable is read entry by entry.
    sample_dims, feature_dims : tuple of str
        Dimensions that make the rows, and those that make the cells, the last ones fastest.
    cells : Cells
        Cells that are columns.
    name : str
        Name of the array in messages.
    target_nbytes : int
        Bytes of a block where the chunks leave the choice.
    max_nbytes : int
        Most bytes of a block, whatever the chunks, unless a single place along the first dimension takes more.
    feature_names : tuple of str, optional
        Names of the columns.
    columns : ndarray of int, optional
        Numbers of its columns in errors, if they are some of more.
    left_out : ndarray of int, optional
        Cells that were taken to be NaN throughout; a block in which one is not is refused.
    passed_over : tuple of str
        Attributes that would decode the numbers, if they are read as they are stored.
    layout : GridLayout, optional
        Dimensions and coordinates, for the artifact of an encoder. Workers do not get them.
    """

    variable: xr.Variable
    sample_dims: tuple[str, ...]
    feature_dims: tuple[str, ...]
    cells: Cells
    name: str
    target_nbytes: int = TARGET_BLOCK_NBYTES
    max_nbytes: int = MAX_BLOCK_NBYTES
    feature_names: tuple[str, ...] | None = None
    columns: npt.NDArray[np.intp] | None = None
    left_out: npt.NDArray[np.intp] | None = None
    passed_over: tuple[str, ...] = ()
    layout: GridLayout | None = None

    @property
    def recipe(self) -> Recipe | None:
        """Recipe that the cells follow."""
        return self.cells.recipe

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        return math.prod(self.variable.sizes[dim] for dim in self.sample_dims), self.cells.d

    @property
    def n_entries(self) -> int:
        """Entries of the variable, all cells."""
        return int(self.variable.size)

    def is_gap(self, fill_value: Any) -> bool:
        """Return True if a chunk that is not stored reads as NaN: it may be a tile of land."""
        stored = self.variable.encoding.get("_FillValue")
        return bool(fill_value != fill_value or (stored is not None and fill_value == stored))

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries."""
        return self.cells.dtype(self.variable.dtype)

    @property
    def in_process(self) -> bool:
        """True if the array is in this process's memory."""
        return in_memory(self.variable)

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """Sizes of a stored chunk along sample, then feature dimensions; whole ones where they are not known."""
        stored = self.variable.encoding.get("preferred_chunks") or {}
        first = self.sample_dims[0]
        sizes = {dim: self.variable.sizes[dim] for dim in (*self.sample_dims, *self.feature_dims)}
        return tuple(min(n, _largest(stored.get(dim, 1 if dim == first else n))) for dim, n in sizes.items())

    @property
    def _others(self) -> tuple[int, ...]:
        """Sizes of all dimensions but the first."""
        return tuple(self.variable.sizes[dim] for dim in (*self.sample_dims[1:], *self.feature_dims))

    @property
    def place_nbytes(self) -> int:
        """Bytes of one place along the first dimension, whole grid."""
        itemsize: int = max(self.variable.dtype.itemsize, self.dtype.itemsize)
        return math.prod(self._others) * itemsize

    @cached_property
    def places_per_block(self) -> int:
        """Places along the first dimension in a block: whole chunks, or an even part of one that is too tall."""
        size, chunk = self.variable.sizes[self.sample_dims[0]], self.chunks[0]
        most = max(1, self.max_nbytes // self.place_nbytes)
        if chunk > most:
            return -(-chunk // -(-chunk // most))
        return int(min(size, chunk * max(1, min(self.target_nbytes, self.max_nbytes) // (chunk * self.place_nbytes))))

    @property
    def bounds(self) -> range | tuple[int, ...]:
        """Row bounds of the blocks."""
        inner = math.prod(self.variable.sizes[dim] for dim in self.sample_dims[1:])
        return uniform_bounds(self.shape[0], self.places_per_block * inner)

    @property
    def decodes_per_chunk(self) -> int:
        """Largest number of times that a pass decodes each chunk."""
        chunk, step = self.chunks[0], self.places_per_block
        return 1 if step % chunk == 0 else -(-(chunk - 1) // step) + 1

    @cached_property
    def column_groups(self) -> tuple[npt.NDArray[np.intp], ...] | None:
        """Columns of whole tiles of chunks, of about ``GROUP_NBYTES``; None if whole rows are decoded once.

        None also if cells were left out by the first block: tiles without columns would never be looked at.
        """
        if self.in_process or self.left_out is not None or self.decodes_per_chunk == 1:
            return None
        sizes, steps = self._grid, list(self.chunks[len(self.sample_dims) :])
        nbytes = math.prod(self.chunks) * max(self.variable.dtype.itemsize, self.dtype.itemsize)
        n_tiles = math.prod(-(-size // step) for size, step in zip(sizes, steps, strict=True))
        most = max(GROUP_NBYTES, nbytes * -(-n_tiles // MOST_GROUPS))
        for axis in reversed(range(len(sizes))):  # neighbours along the last dimensions are put together
            factor = min(-(-sizes[axis] // steps[axis]), max(1, most // nbytes))
            steps[axis], nbytes = steps[axis] * factor, nbytes * factor
        starts = product(*(range(0, size, step) for size, step in zip(sizes, steps, strict=True)))
        cells = np.arange(self.cells.n_cells).reshape(sizes)
        place = np.full(self.cells.n_cells, -1)
        place[self.cells.numbers] = np.arange(self.cells.d)
        boxes = (
            place[cells[tuple(slice(at, at + step) for at, step in zip(start, steps, strict=True))].ravel()]
            for start in starts
        )
        found = tuple(columns[columns >= 0] for columns in boxes)
        return None if len(found) == 1 else tuple(columns for columns in found if columns.size)

    def of_columns(self, columns: npt.NDArray[np.intp]) -> "GridRows | None":
        """Some columns alone, from the box of the grid around them; None if rows are read whole, or the box is all."""
        if self.column_groups is None:
            return None
        cells = self.cells.taken(columns)
        places = np.unravel_index(cells.numbers, self._grid)
        box = [(int(place.min()), int(place.max()) + 1) for place in places]
        if all(stop - start == size for (start, stop), size in zip(box, self._grid, strict=True)):
            return None
        lengths = tuple(stop - start for start, stop in box)
        kept = np.ravel_multi_index([place - start for place, (start, _) in zip(places, box, strict=True)], lengths)
        within = {dim: slice(*ends) for dim, ends in zip(self.feature_dims, box, strict=True)}
        inside = replace(
            self,
            variable=self.variable.isel(within),
            cells=replace(cells, n_cells=math.prod(lengths), kept=None if kept.size == math.prod(lengths) else kept),
            feature_names=None,
            columns=columns,
        )
        return replace(inside, max_nbytes=max(self.max_nbytes, inside.chunks[0] * inside.place_nbytes))

    @property
    def _grid(self) -> tuple[int, ...]:
        """Sizes of the dimensions that make the cells."""
        return tuple(self.variable.sizes[dim] for dim in self.feature_dims)

    @property
    def read_nbytes(self) -> int:
        """The block before cells are chosen, and of files chunks in flight, encoded and decoded."""
        whole = self.places_per_block * self.place_nbytes
        following = self.cells.recipe_nbytes(whole)
        if self.in_process:
            return 0 if self.cells.all_as_is else whole + following
        return 2 * whole + 2 * self.chunks_nbytes + following

    @property
    def chunks_nbytes(self) -> int:
        """Bytes of the chunks of a file that are decoded at once to read a block."""
        chunk = math.prod(self.chunks) * self.variable.dtype.itemsize
        across = math.prod(-(-size // c) for size, c in zip(self._others, self.chunks[1:], strict=True))
        at_once = 1 if "chunksizes" in self.variable.encoding else AT_ONCE  # HDF5 decodes them one by one
        return int(chunk) * min(at_once, across * -(-self.places_per_block // self.chunks[0]))

    @property
    def files(self) -> tuple[str, ...]:
        """The file that the variable is read from, if it is one on a disk."""
        source = str(self.variable.encoding.get("source", ""))
        found = source if os.path.isfile(source) else file_beneath(self.variable._data)
        return () if found is None else (found,)

    def with_arrays(self, change: ArrayChange) -> "GridRows":
        """The same with another array of Zarr beneath the variable, if there is one."""
        lazy = self.variable._data
        changed = change_within(lazy, change)
        if changed is lazy:
            return self
        dims, attrs, encoding = self.variable.dims, self.variable.attrs, self.variable.encoding
        return replace(self, variable=xr.Variable(dims, changed, attrs, encoding, fastpath=True))

    def read(self, i: int) -> npt.NDArray[Any]:
        """Rows of block ``i``.

        Raises
        ------
        StorageError
            If the file cannot be read.
        InvalidInput
            As `Cells.rows`.
        """
        start, first = i * self.places_per_block, self.sample_dims[0]
        try:
            block = self.variable.isel({first: slice(start, start + self.places_per_block)}).load()
        except (SpaeError, MemoryError):
            raise
        except Exception as error:  # readers raise exceptions of any type
            raise StorageError(
                f"{self.describe()} cannot be read at {first} {start} to "
                f"{start + self.places_per_block - 1}: {type(error).__name__}: {error}. Check the file, or restore it."
            ) from error
        values = block.transpose(*self.sample_dims, *self.feature_dims).values
        if self.left_out is not None:
            self._refuse_data_in(self.left_out, values.reshape(-1, self.cells.n_cells), self.bounds[i])
        try:
            return self.cells.rows(values, self.bounds[i])
        except InvalidInput as error:
            if error.place is not None and self.columns is not None:
                error.place = error.place[0], int(self.columns[error.place[1]])
            raise

    def _refuse_data_in(self, left_out: npt.NDArray[np.intp], rows: npt.NDArray[Any], first_row: int) -> None:
        """Refuse numbers in cells that were left out because they held none in the first block."""
        step = max(1, (1 << 16) // left_out.size)
        for start in range(0, len(rows), step):
            lacking = np.isnan(rows[start : start + step, left_out])
            if lacking.all():
                continue
            found = np.argwhere(~lacking)[0]
            row, cell = first_row + start + int(found[0]), int(left_out[found[1]])
            at = ", ".join(
                f"{dim}[{place}]"
                for dim, place in zip(self.feature_dims, np.unravel_index(cell, self._grid), strict=True)
            )
            raise InvalidInput(
                f"{self.describe()} holds a number in row {row} of the cell {at}, which was left out because it held "
                "none in the first row block. Name a variable that is 1 in the cells to take (--mask NAME, mask=NAME). "
                "Or take all of them, and fill the gaps: --mask none --missing mean."
            )

    def changed(self, **fields: Any) -> "GridRows":
        """The same with other fields."""
        same = replace(self, **fields)
        remember(same, **asked_of(self))
        return same

    def describe(self) -> str:
        """Name for messages."""
        return self.name


def _largest(chunk: Any) -> int:
    """Return the largest size: of one size, or of all the sizes along a dimension."""
    return max(chunk) if isinstance(chunk, tuple | list) else int(chunk)


def in_memory(variable: xr.Variable) -> bool:
    """Return True if the entries are in this process, not in a file or a task graph."""
    return variable.chunks is None and bool(variable._in_memory)  # xarray says it nowhere else


def rows_of(
    array: xr.DataArray, sample_dims: tuple[str, ...], feature_dims: tuple[str, ...], cells: Cells
) -> GridRows | DaskBlocks:
    """Row blocks of an array with dimensions in any order; nothing is read.

    Dask arrays keep their chunks along the first sample dimension and give one block for each; chunks of the other
    dimensions are put together row chunk by row chunk, within the task graph.
    """
    variable = array.variable
    if variable.chunks is None:
        return GridRows(variable, sample_dims, feature_dims, cells, place_of(array))
    lazy = variable.transpose(*sample_dims, *feature_dims).data
    if not isinstance(lazy, da.Array):
        raise InvalidInput(
            f"{name_of(array)} is made of {type(lazy).__name__}, but only numpy and dask arrays are "
            "supported. Convert it first."
        )
    n_blocks, inner = lazy.numblocks, math.prod(lazy.shape[1 : len(sample_dims)])
    refuse_unknown_chunks(lazy)
    whole = lazy.rechunk(dict.fromkeys(range(1, lazy.ndim), -1))
    if lazy.ndim == 2 and cells.all_as_is:
        return DaskBlocks(lazy)
    rows = whole.map_blocks(
        _prepared,
        cells=dask.delayed(cells, pure=True),  # one object of the graph, not one a block
        samples_per_place=inner,
        drop_axis=list(range(2, lazy.ndim)),
        chunks=(tuple(size * inner for size in whole.chunks[0]), (cells.d,)),
        dtype=cells.dtype(lazy.dtype),
        meta=np.empty((0, 0), dtype=cells.dtype(lazy.dtype)),
    )
    largest = max(whole.chunks[0]) * int(np.prod(lazy.shape[1:])) * lazy.dtype.itemsize
    beside = largest * (1 if max(n_blocks[1:], default=1) == 1 else 2) + cells.recipe_nbytes(largest)
    return DaskBlocks(rows, beside_nbytes=beside, recipe=cells.recipe)


def _prepared(block: Any, cells: Cells, samples_per_place: int, block_info: Any = None) -> npt.NDArray[Any]:
    first_place = block_info[0]["array-location"][0][0] if block_info else 0
    return cells.rows(block, int(first_place) * samples_per_place)


def open_data_array(array: object) -> RowBlocks:
    """Row blocks of a DataArray of two dimensions, the first of which are the rows; nothing is read.

    Raises
    ------
    InvalidInput
        If it has not two dimensions; the message says how to fit such arrays.
    """
    given = checked_array(array)
    if given.ndim != 2:
        dims = ", ".join(f"{dim}: {size}" for dim, size in given.sizes.items())
        raise InvalidInput(
            f"{name_of(given)} has {given.ndim} dimension(s) ({dims}). Expected 2D array: rows are "
            "samples, columns are features. For a grid, name the dimension of the samples: "
            "spae_dask.xarray.GridEncoder(...).fit(da, sample_dim='time')."
        )
    if 0 in given.shape:  # open_matrix says so
        return ArrayBlocks(given.values, 1)
    layout = layout_of(given, str(given.dims[0]))
    names = None
    if layout.feature_dims[0] in layout.coords.coords:
        names = layout.cell_names(np.arange(layout.n_cells))
    blocks = rows_of(given, layout.sample_dims, layout.feature_dims, Cells(layout.n_cells))
    if isinstance(blocks, DaskBlocks):
        return DaskBlocks(blocks.array, feature_names=names)
    if blocks.in_process:
        return ArrayBlocks(given.values, rows_per_block=blocks.places_per_block, feature_names=names)
    return replace(blocks, feature_names=names)


def place_of(array: xr.DataArray) -> str:
    """Return the origin of an array, if it is known, and its name."""
    source = array.encoding.get("source")
    if source is None or in_memory(array.variable):
        return name_of(array)
    return f"{source}/{array.name}" if array.name is not None else str(source)
