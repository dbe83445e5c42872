"""A fitted grid encoder applied to labelled data: scores of samples, data from scores, and the share explained.

Labelled arrays become rows, and rows become arrays again: eager in memory, lazy elsewhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import dask
import dask.array
import numpy as np
import numpy.typing as npt
import xarray as xr

from spae_dask.blocks import ArrayBlocks, RowBlocks
from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.estimators.applying import decode_rows, encode_rows
from spae_dask.estimators.covariates import adjustment_of, columns_named, names_in
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.storage.grids.grid_layout import (
    GridLayout,
    checked_array,
    coordinate_of,
    coords_along,
    dim_labels,
    name_of,
)
from spae_dask.storage.grids.xarray_blocks import Cells, in_memory, rows_of


@dataclass(frozen=True, eq=False)
class FittedGrid:
    """A fitted encoder, with the grid that it was fitted on.

    Attributes
    ----------
    encoder : SparseEncoder
        Encoder of the matrix of the kept cells, weighted.
    layout : GridLayout
        Dimensions, coordinates and attributes of the data.
    cells : Cells
        Cells that are columns, and the factors that multiply them.
    """

    encoder: SparseEncoder
    layout: GridLayout
    cells: Cells

    def numbers(self) -> dict[str, Any]:
        """The coordinate of components, from 1."""
        return {self.layout.component_dim: np.arange(1, self.encoder.n_components_ + 1)}

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of an array in units of the data; of what a recipe makes of them, its name alone."""
        recipe = self.cells.recipe
        return dict(self.layout.attrs) if recipe is None else self.described(str(recipe))

    def described(self, what: str) -> dict[str, Any]:
        """Attributes of an array that is not in units of the data."""
        name = self.layout.attrs.get("long_name", self.layout.name)
        return {"long_name": what if name is None else f"{what} of {name}"}

    def on_grid(self, values: Any, name: str, attrs: dict[str, Any], fill: Any = np.nan) -> xr.DataArray:
        """Values (k, d) as an array (component, grid), with ``fill`` in cells that are no columns."""
        grid = self.layout.on_grid(values, self.cells.numbers, fill)
        return self.layout.labelled(grid, (self.layout.component_dim,), name, attrs).assign_coords(self.numbers())


@contextmanager
def naming_places(
    array: xr.DataArray, sample_dims: tuple[str, ...], layout: GridLayout, cells: Cells
) -> Iterator[None]:
    """Add the names of the sample and the cell to an error about an entry, if its position is known.

    Parameters
    ----------
    array : xarray.DataArray
    sample_dims : tuple of str
        Dimensions of the rows.
    layout : GridLayout
    cells : Cells
        Cells that are the columns.
    """
    try:
        yield
    except InvalidInput as error:
        if error.place is None:
            raise
        raise _named(error, error.place, array, sample_dims, layout, cells) from error


def _named(
    error: InvalidInput,
    place: tuple[int, int],
    array: xr.DataArray,
    sample_dims: tuple[str, ...],
    layout: GridLayout,
    cells: Cells,
) -> InvalidInput:
    row, column = place
    places = np.unravel_index(row, [array.sizes[dim] for dim in sample_dims]) if sample_dims else ()
    sample = ", ".join(
        f"{dim}={dim_labels(array.isel({dim: [i]}), dim, int(i) + 1)[-1]}"
        for dim, i in zip(sample_dims, places, strict=True)
    )
    (cell,) = layout.cell_names(cells.numbers[[column]])
    where = f"{sample}, {cell}" if sample else cell
    named = InvalidInput(f"{name_of(array)} at {where}: {error}")
    if isinstance(error, NonFiniteInput):
        value = "infinite" if "infinity" in str(error).partition(":")[0] else "NaN"
        named = NonFiniteInput(
            f"{name_of(array)} is {value} at {where}, in a cell that has data elsewhere. {error} Cells "
            "that are always NaN are left out automatically."
        )
    named.place = place
    return named


def covariates_along(given: Any, da: xr.DataArray, sample_dims: tuple[str, ...]) -> Any:
    """Covariates that are given by names of coordinates, as values of all samples by name; others as they are.

    Raises
    ------
    NotFound
        If there is no such coordinate.
    InvalidInput
        If it is not along dimensions of the samples alone.
    """
    if not columns_named(given):
        return given
    sizes = {dim: da.sizes[dim] for dim in sample_dims}
    values = {}
    for name, bare in zip(names_in(given), columns_named(given), strict=True):
        along = coordinate_of(da, bare, "the DataArray")
        if not set(along.dims) <= set(sample_dims):
            raise InvalidInput(
                f"the coordinate {bare!r} is along {along.dims}, and samples are along {sample_dims}. Give coordinates "
                "of the samples, or the values of all of them."
            )
        whole = along.variable.set_dims(sizes).transpose(*sample_dims)
        values[name] = np.asarray(whole).reshape(-1)
    return values


def scores_of(da: xr.DataArray, fitted: FittedGrid, covariates: Any = None) -> xr.DataArray:
    """Codes (samples..., component) of data on the same grid; errors are those of ``GridEncoder.scores``."""
    encoder, layout = fitted.encoder, fitted.layout
    da, sample_dims = layout.checked(da)
    if layout.component_dim in da.dims:
        raise InvalidInput(
            f"{name_of(da)} has a dimension {layout.component_dim!r}, but scores need that name for their "
            f"own. Rename it: da.rename({layout.component_dim}='pattern')."
        )
    selected = encoder.selected_features_
    cells = fitted.cells.taken(selected)
    with naming_places(da, sample_dims, layout, cells):
        source = picked_rows(da, sample_dims, layout.feature_dims, cells)
    inner = encoder.row_encoder(adjustment_of(encoder, da, source, _covariates_of(da, sample_dims, fitted, covariates)))
    names = tuple(encoder.feature_names_in_[selected])
    on_picked = replace(inner, columns=np.arange(selected.size), names=names)
    with naming_places(da, sample_dims, layout, cells):
        codes = encode_rows(source, on_picked)
    coords = coords_along(da, sample_dims)
    found = xr.DataArray(
        folded(codes, tuple(da.sizes[dim] for dim in sample_dims)),
        dims=(*sample_dims, layout.component_dim),
        coords=coords.coords,
        name="scores",
        attrs=fitted.described("scores of sparse components"),
    )
    return found.assign_coords(fitted.numbers())


def data_of(scores: xr.DataArray, fitted: FittedGrid) -> xr.DataArray:
    """Data (samples..., grid) from scores, in units of the data; errors are those of ``GridEncoder.reconstruct``."""
    encoder, layout = fitted.encoder, fitted.layout
    dim = layout.component_dim
    scores = _checked_scores(scores, fitted)
    sample_dims = tuple(str(each) for each in scores.dims if each != dim)
    codes = as_source(scores, sample_dims, (dim,), Cells(encoder.n_components_))
    rows = decode_rows(codes, encoder.decoder_, encoder.mean_, encoder.scale_)
    grid = grid_of_rows(rows, tuple(scores.sizes[each] for each in sample_dims), layout, fitted.cells)
    coords = coords_along(scores.drop_vars(dim, errors="ignore"), sample_dims)
    found = layout.labelled(grid, sample_dims, layout.name, fitted.attrs)
    found = found.assign_coords(coords.drop_vars(list(layout.coords.variables), errors="ignore").coords)
    order = layout.dims if set(layout.dims) == set(found.dims) else found.dims
    return found.transpose(*order)


def _covariates_of(da: xr.DataArray, sample_dims: tuple[str, ...], fitted: FittedGrid, given: Any) -> Any:
    """Covariates of samples, by those that are given or else by the names of the fit."""
    by_name = getattr(fitted.encoder, "covariates", None) if hasattr(fitted.encoder, "covariates_") else None
    if given is None and not columns_named(by_name):
        return None
    return covariates_along(by_name if given is None else given, da, sample_dims)


def share_explained(da: xr.DataArray, fitted: FittedGrid, covariates: Any = None) -> float:
    """Share of the weighted variance of data on the same grid that is explained. One pass."""
    layout = fitted.layout
    da, sample_dims = with_samples(*layout.checked(da))
    source = rows_of(da, sample_dims, layout.feature_dims, fitted.cells)
    with naming_places(da, sample_dims, layout, fitted.cells):
        return float(fitted.encoder.score(source, covariates=_covariates_of(da, sample_dims, fitted, covariates)))


def _checked_scores(scores: xr.DataArray, fitted: FittedGrid) -> xr.DataArray:
    scores, dim, k = checked_array(scores), fitted.layout.component_dim, fitted.encoder.n_components_
    if dim not in scores.dims or scores.sizes[dim] != k:
        raise InvalidInput(
            f"{name_of(scores)} has sizes {dict(scores.sizes)}, but scores are along {dim!r}, of {k} "
            "components. Give the output of scores()."
        )
    if dim in scores.indexes and not np.array_equal(scores[dim].values, np.arange(1, k + 1)):
        given = scores[dim].values.tolist()
        raise InvalidInput(
            f"the components of the scores are {given}, not 1 to {k} in order. Give the output of scores()."
        )
    if set(scores.dims) & set(fitted.layout.feature_dims):
        raise InvalidInput(
            f"{name_of(scores)} has dimensions of the grid, {scores.dims}, but scores have none. Give the "
            "output of scores()."
        )
    return scores


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
    if not isinstance(lazy, dask.array.Array):
        return as_source(array, sample_dims, feature_dims, cells)
    lazy = array.variable.transpose(*sample_dims, *feature_dims).data
    places = np.unravel_index(cells.numbers, lazy.shape[len(sample_dims) :])
    # the picked cells come first
    picked = dask.array.moveaxis(lazy.vindex[(*(slice(None),) * len(sample_dims), *places)], 0, -1)
    few = xr.DataArray(picked, dims=(*sample_dims, "picked_cell"))
    return rows_of(few, sample_dims, ("picked_cell",), replace(cells, n_cells=cells.d, kept=None))


def with_samples(array: xr.DataArray, sample_dims: Dims) -> tuple[xr.DataArray, Dims]:
    """A dimension of one sample for an array that has none."""
    if sample_dims:
        return array, sample_dims
    return array.expand_dims("single_sample"), ("single_sample",)


def folded(rows: Any, sizes: tuple[int, ...]) -> Any:
    """Rows (n, k) as (*sizes, k), where n is the product of the sizes."""
    if not isinstance(rows, dask.array.Array):
        return rows.reshape(*sizes, rows.shape[1])
    return _folded_blocks(rows, sizes, (rows.shape[1],), _Fold())


def grid_of_rows(rows: Any, sizes: tuple[int, ...], layout: GridLayout, cells: Cells) -> Any:
    """Rows (n, d) of cells, weights divided out, as (*sizes, *shape) with NaN where there are no data."""
    fold = _Fold(_GridShape(layout.shape, cells.numbers), cells.factor)
    if not isinstance(rows, dask.array.Array):
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


def _folded_blocks(
    rows: dask.array.Array, sizes: tuple[int, ...], tail: tuple[int, ...], fold: _Fold
) -> dask.array.Array:
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
