"""Weights of the cells of a grid: by the cosine of their latitude, or as given."""

from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from spae_dask.errors import InvalidInput
from spae_dask.storage.grids.earth import BEYOND_POLE, LATITUDE, found_as
from spae_dask.storage.grids.grid_layout import GridLayout
from spae_dask.storage.grids.xarray_blocks import Cells

Floats = npt.NDArray[np.float64]

COSLAT = "coslat"
"""Word for weights by the square root of the cosine of the latitude."""


def weights_on(layout: GridLayout, weights: Any, lat_dim: str | None) -> Floats | None:
    """Weights of all cells of the flat grid; None if all are 1.

    Parameters
    ----------
    layout : GridLayout
    weights : None, "coslat" or xarray.DataArray
        As for ``GridEncoder``.
    lat_dim : str, optional
        Name of the coordinate of latitude.

    Raises
    ------
    InvalidInput
        If there is no latitude, or the weights do not fit the grid or are negative or infinite.
    """
    if isinstance(weights, xr.DataArray):
        if lat_dim is not None:
            raise InvalidInput(f"lat_dim={lat_dim!r} is for weights='coslat', but weights were given. Leave it out.")
        return _checked(_spread(layout, weights), "the weights")
    if weights is None and lat_dim is None:
        return None
    if weights != COSLAT:
        raise InvalidInput(
            f"weights={weights!r}{'' if lat_dim is None else f' with lat_dim={lat_dim!r}'} is not allowed: give "
            "'coslat', a DataArray over dimensions of the grid, or None (without lat_dim)."
        )
    latitude = latitude_of(layout, lat_dim, "weights='coslat'")
    cosine = np.cos(np.deg2rad(_spread(layout, checked_latitude(latitude))))
    return _checked(np.sqrt(np.clip(cosine, 0.0, None)), f"weights by {latitude.name}")


def factor_of(weights: Floats, layout: GridLayout, kept: npt.NDArray[np.intp], dtype: np.dtype[Any]) -> Floats:
    """Factors of the cells that are columns (d,), as rows of a type are multiplied by them, and decoded ones divided.

    Raises
    ------
    InvalidInput
        If one of them is not finite.
    """
    factor = weights[kept]
    if not np.isfinite(factor).all():
        cell = layout.cell_names(kept[~np.isfinite(factor)][:1])[0]
        raise InvalidInput(
            f"the weight of the cell {cell} is not finite, but the cell has data. Give 0 to leave it out."
        )
    rounded: Floats = factor.astype(Cells(1, factor=factor).dtype(dtype)).astype(np.float64)
    return rounded


def latitude_of(layout: GridLayout, lat_dim: str | None, wanted_by: str) -> xr.DataArray:
    """The coordinate of latitude of the cells.

    Raises
    ------
    InvalidInput
        If there is none, or more than one that may be it.
    """
    coords = layout.coords.coords
    listed = ", ".join(str(name) for name in coords) or "none"
    if lat_dim is not None:
        if lat_dim not in coords:
            raise InvalidInput(f"lat_dim={lat_dim!r} is not a coordinate of the cells; they have {listed}.")
        return coords[lat_dim]
    found = found_as(layout, *LATITUDE)
    if len(found) == 1:
        return found[0]
    if found:
        both = " and ".join(str(coord.name) for coord in found)
        raise InvalidInput(f"{both} may both be the latitude. Name it: lat_dim=NAME.")
    raise InvalidInput(
        f"{wanted_by} needs latitudes, but no coordinate of the cells ({listed}) has the standard "
        "name, units or name of a latitude. Name one, in degrees: lat_dim=NAME. Or give weights as a "
        "DataArray."
    )


def checked_latitude(latitude: xr.DataArray) -> xr.DataArray:
    """The latitude, which is refused if it is not in degrees.

    Raises
    ------
    InvalidInput
        If it is not.
    """
    if latitude.dtype.kind not in "fiu":
        raise InvalidInput(f"the latitude {latitude.name!r} is {latitude.dtype}, not numbers of degrees.")
    largest = float(np.abs(latitude).max())
    if not largest <= 90 + BEYOND_POLE or str(latitude.attrs.get("units", "")).lower() in ("radians", "radian", "rad"):
        raise InvalidInput(
            f"the latitude {latitude.name!r} has values up to {largest:g} and units "
            f"{latitude.attrs.get('units', 'not given')!r}, but must be in degrees, from -90 to 90. Convert "
            "it, or give weights as a DataArray."
        )
    return latitude


def _spread(layout: GridLayout, values: xr.DataArray) -> Floats:
    """Values over some of the feature dimensions, one a cell of the flat grid."""
    if not set(values.dims) <= set(layout.feature_dims):
        raise InvalidInput(
            f"weights have the dimensions ({', '.join(map(str, values.dims))}), but the cells are along "
            f"({', '.join(layout.feature_dims)}). Give weights over some or all of these."
        )
    for dim in values.dims:
        size = layout.shape[layout.feature_dims.index(str(dim))]
        if values.sizes[dim] != size:
            raise InvalidInput(
                f"weights have {values.sizes[dim]} values along {dim!r}, but the grid has {size}. Give one weight "
                "for each."
            )
        both = dim in values.indexes and dim in layout.coords.indexes
        if both and not np.array_equal(values[dim].values, layout.coords[dim].values):
            raise InvalidInput(f"weights are at other places along {dim!r} than the data. Reindex them first.")
    if values.dtype.kind not in "fiub":
        raise InvalidInput(f"weights are {values.dtype}, not numbers.")
    absent = {dim: size for dim, size in zip(layout.feature_dims, layout.shape, strict=True) if dim not in values.dims}
    spread = values.reset_coords(drop=True).expand_dims(absent).transpose(*layout.feature_dims)
    flat: Floats = np.asarray(spread.values, dtype=np.float64).reshape(-1)
    return flat


def _checked(weights: Floats, name: str) -> Floats:
    bad = np.isinf(weights) | (weights < 0)
    if bad.any():
        raise InvalidInput(
            f"{name} contain {weights[bad][0]:g}. They must be finite and at least 0; a cell of weight 0 is left out."
        )
    return weights
