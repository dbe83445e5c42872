"""Conversion of labelled arrays to rows and of rows back to arrays: eager in memory, lazy elsewhere."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
import xarray as xr

from spae_dask.blocks import ArrayBlocks, RowBlocks
from spae_dask.storage.grids.grid_layout import GridLayout
from spae_dask.storage.grids.xarray_blocks import Cells, in_memory, rows_of

Dims = tuple[str, ...]


def as_source(array: xr.DataArray, sample_dims: Dims, feature_dims: Dims, cells: Cells) -> RowBlocks:
    """Rows of an array with dimensions in any order: in memory a matrix, which is made; else lazy blocks."""
    array, sample_dims = with_samples(array, sample_dims)
    source = rows_of(array, sample_dims, feature_dims, cells)
    if not in_memory(array.variable):
        return source
    whole = array.variable.transpose(*sample_dims, *feature_dims).values
    return ArrayBlocks(cells.rows(whole), rows_per_block=source.shape[0])


def picked_rows(array: xr.DataArray, sample_dims: Dims, feature_dims: Dims, cells: Cells) -> RowBlocks:
    """Rows of a few cells; of a dask array the chunks without any of them are not computed."""
    array, sample_dims = with_samples(array, sample_dims)
    lazy = array.variable.data if array.variable.chunks is not None else None
    if not isinstance(lazy, da.Array):
        return as_source(array, sample_dims, feature_dims, cells)
    lazy = array.variable.transpose(*sample_dims, *feature_dims).data
    places = np.unravel_index(cells.numbers, lazy.shape[len(sample_dims) :])
    # the picked cells come first
    picked = da.moveaxis(lazy.vindex[(*(slice(None),) * len(sample_dims), *places)], 0, -1)
    few = xr.DataArray(picked, dims=(*sample_dims, "picked_cell"))
    return rows_of(few, sample_dims, ("picked_cell",), replace(cells, n_cells=cells.d, kept=None))


def with_samples(array: xr.DataArray, sample_dims: Dims) -> tuple[xr.DataArray, Dims]:
    """A dimension of one sample for an array that has none."""
    if sample_dims:
        return array, sample_dims
    return array.expand_dims("single_sample"), ("single_sample",)


def folded(rows: Any, sizes: tuple[int, ...]) -> Any:
    """Rows (n, k) as (*sizes, k), where n is the product of the sizes."""
    if not isinstance(rows, da.Array):
        return rows.reshape(*sizes, rows.shape[1])
    return _folded_blocks(rows, sizes, (rows.shape[1],), _Fold())


def grid_of_rows(rows: Any, sizes: tuple[int, ...], layout: GridLayout, cells: Cells) -> Any:
    """Rows (n, d) of cells, weights divided out, as (*sizes, *shape) with NaN where there are no data."""
    fold = _Fold(_GridShape(layout.shape, cells.numbers), cells.factor)
    if not isinstance(rows, da.Array):
        return fold(np.asarray(rows), sizes)
    return _folded_blocks(rows, sizes, layout.shape, fold)


@dataclass(frozen=True)
class _GridShape:
    shape: tuple[int, ...]
    numbers: npt.NDArray[np.intp]


@dataclass(frozen=True)
class _Fold:
    """Map from a block of rows to a block of an array."""

    grid: _GridShape | None = None
    factor: npt.NDArray[np.float64] | None = None

    def __call__(self, rows: npt.NDArray[Any], sizes: tuple[int, ...]) -> npt.NDArray[Any]:
        values = rows if self.factor is None else rows / self.factor
        if self.grid is None:
            return values.reshape(*sizes, rows.shape[1])
        full = np.full((len(rows), int(np.prod(self.grid.shape))), np.nan)
        full[:, self.grid.numbers] = values
        return full.reshape(*sizes, *self.grid.shape)


def _folded_blocks(rows: da.Array, sizes: tuple[int, ...], tail: tuple[int, ...], fold: _Fold) -> da.Array:
    first, others = (sizes[0], sizes[1:]) if sizes else (1, ())
    inner = int(np.prod(others))
    rows = rows.rechunk({1: -1})
    if any(size % inner for size in rows.chunks[0]):  # a block holds whole places along the first dimension
        ends = sorted({0, *(-(-int(end) // inner) for end in np.cumsum(rows.chunks[0]))})
        rows = rows.rechunk({0: tuple((stop - start) * inner for start, stop in pairwise(ends))})
    places = tuple(size // inner for size in rows.chunks[0])
    assert sum(places) == first, f"{rows.chunks[0]} rows for {sizes}; please report this"
    made = rows.map_blocks(
        _fold_block,
        others=others,
        fold=dask.delayed(fold, pure=True),  # one object of the graph, not one a block
        drop_axis=[1],
        new_axis=list(range(1, 1 + len(others) + len(tail))),
        chunks=(places, *((size,) for size in (*others, *tail))),
        dtype=rows.dtype,
        meta=np.empty((0,) * (1 + len(others) + len(tail)), dtype=rows.dtype),
    )
    return made if sizes else made[0]


def _fold_block(rows: Any, others: tuple[int, ...], fold: _Fold) -> npt.NDArray[Any]:
    return fold(rows, (len(rows) // int(np.prod(others)), *others))
