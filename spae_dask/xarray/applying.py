"""A fitted grid encoder applied to labelled data: scores of samples, data from scores, and the share explained."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.estimators.applying import decode_rows, encode_rows
from spae_dask.estimators.covariates import adjustment_of, columns_named, names_in
from spae_dask.storage.grids.grid_layout import (
    GridLayout,
    checked_array,
    coordinate_of,
    coords_along,
    dim_labels,
    name_of,
)
from spae_dask.storage.grids.xarray_blocks import Cells, rows_of
from spae_dask.xarray.arrays import as_source, folded, grid_of_rows, picked_rows, with_samples
from spae_dask.xarray.fitted_grid import FittedGrid


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
