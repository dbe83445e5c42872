"""Coordinates of a grid on the Earth: latitudes and longitudes, as CF tells them."""

import numpy as np
import xarray as xr

from spae_dask.storage.grids.grid_layout import GridLayout

LATITUDE = (
    "latitude",
    {"degrees_north", "degree_north", "degrees_n", "degree_n", "degreesn", "degreen"},
    {"lat", "latitude", "lats", "latitudes", "nav_lat", "xlat", "tlat", "geolat"},
)
"""Standard name of CF, units and names, both in small letters, of a latitude."""

LONGITUDE = (
    "longitude",
    {"degrees_east", "degree_east", "degrees_e", "degree_e", "degreese", "degreee"},
    {"lon", "longitude", "lons", "longitudes", "nav_lon", "xlong", "tlon", "geolon"},
)
"""The same of a longitude."""

BEYOND_POLE = 1e-3
"""Degrees by which a rounded latitude may lie beyond a pole."""

_DEGREES = {"", "degrees", "degree", "deg", "°"}


def found_as(layout: GridLayout, standard_name: str, units: set[str], names: set[str]) -> list[xr.DataArray]:
    """Coordinates of the cells that are told by their CF standard name, else by their units, else by their name."""
    for is_wanted in (
        lambda coord: coord.attrs.get("standard_name") == standard_name,
        lambda coord: _units(coord) in units,
        lambda coord: str(coord.name).lower() in names,
    ):
        found: list[xr.DataArray] = [
            coord for coord in layout.coords.coords.values() if coord.ndim and is_wanted(coord)
        ]
        if found:
            return found
    return []


def longitude_dim(layout: GridLayout) -> str | None:
    """The dimension of longitude, if the cells are along latitude and longitude in degrees; else None.

    Rotated poles, projections, radians and grids whose latitudes have two dimensions give None.
    """
    latitudes, longitudes = found_as(layout, *LATITUDE), found_as(layout, *LONGITUDE)
    if len(latitudes) != 1 or len(longitudes) != 1:
        return None
    latitude, longitude = latitudes[0], longitudes[0]
    if sorted((str(latitude.name), str(longitude.name))) != sorted(layout.feature_dims):
        return None
    both = ((latitude, LATITUDE, -90.0, 90.0), (longitude, LONGITUDE, -360.0, 720.0))
    return str(longitude.name) if all(_in_degrees(*each) for each in both) else None


def _in_degrees(coord: xr.DataArray, told: tuple[str, set[str], set[str]], lowest: float, highest: float) -> bool:
    standard_name, units, _ = told
    if coord.attrs.get("standard_name", standard_name) != standard_name or _units(coord) not in units | _DEGREES:
        return False
    if coord.dtype.kind not in "fiu":
        return False
    values = coord.to_numpy()
    return bool(np.all((values >= lowest - BEYOND_POLE) & (values <= highest + BEYOND_POLE)))


def _units(coord: xr.DataArray) -> str:
    return str(coord.attrs.get("units", "")).lower()
