"""Positions of the cells of a grid, for a least distance between those that are chosen."""

import math
from typing import Any

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.storage.grids.earth import LONGITUDE, found_as
from spae_dask.storage.grids.grid_layout import GridLayout
from spae_dask.storage.grids.weights import checked_latitude, latitude_of

RADIUS = 6371.0088
"""Mean radius of the Earth in km."""


def positions_on(layout: GridLayout, lat_dim: str | None, distance: float) -> tuple[Any, ...]:
    """Positions of all cells: on the sphere for latitudes and longitudes, else the only coordinate.

    Parameters
    ----------
    layout : GridLayout
    lat_dim : str, optional
        Name of the coordinate of latitude.
    distance : float
        Least distance: in km on the sphere, in units of the coordinate else. Chords are scaled so that those of this
        great-circle distance have its length.

    Raises
    ------
    InvalidInput
        If the cells have no such coordinates, or no two places are so far apart.
    """
    longitudes = found_as(layout, *LONGITUDE)
    if len(longitudes) == 1:
        latitude = checked_latitude(latitude_of(layout, lat_dim, "min_distance"))
        if not 0 < distance < math.pi * RADIUS:
            raise InvalidInput(
                f"min_distance={distance:g} is not allowed: give km along great circles, less than half of the "
                f"circumference of the Earth, {math.pi * RADIUS:.0f}."
            )
        cells = layout.places(np.arange(layout.n_cells), "cell")
        lat, lon = (np.deg2rad(cells[str(each.name)].values.astype(np.float64)) for each in (latitude, longitudes[0]))
        unit = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
        return tuple(map(tuple, (unit * distance / (2 * math.sin(distance / (2 * RADIUS)))).tolist()))
    (dim, *others) = layout.feature_dims
    if others or dim not in layout.coords.coords or layout.coords.coords[dim].dtype.kind not in "fiu":
        raise InvalidInput(
            "min_distance needs positions of the cells: coordinates of latitude and longitude, numbers along an only "
            "dimension, or positions=DataArray over the grid."
        )
    return tuple(layout.coords.coords[dim].values.astype(np.float64).tolist())
