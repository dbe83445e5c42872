"""Grids on the Earth are told from all others, so that no coast is drawn where it does not belong."""

from typing import Any

import numpy as np
import pytest
import xarray as xr

from spae_dask.storage.grids.earth import longitude_dim
from spae_dask.storage.grids.grid_layout import layout_of

LAT, LON = np.linspace(-60.0, 60.0, 4), np.linspace(0.0, 300.0, 5)


def grid(y: str, x: str, coords: dict[str, Any]) -> xr.DataArray:
    return xr.DataArray(np.zeros((3, 4, 5)), dims=("time", y, x), coords=coords)


@pytest.mark.parametrize(
    ("y", "x", "coords", "expected"),
    [
        ("lat", "lon", {"lat": LAT, "lon": LON}, "lon"),
        ("lat", "Longitude", {"lat": LAT, "Longitude": ("Longitude", LON, {"units": "degrees"})}, "Longitude"),
        ("y", "x", {"y": ("y", LAT, {"units": "degrees_north"}), "x": ("x", LON, {"units": "degrees_east"})}, "x"),
        ("y", "x", {"y": ("y", LAT, {"standard_name": "latitude"}),
                    "x": ("x", LON, {"standard_name": "longitude"})}, "x"),
        ("y", "x", {"y": LAT, "x": LON}, None),
        ("lat", "lon", {"lat": LAT}, None),
        ("lat", "lon", {"lat": ("lat", np.deg2rad(LAT), {"units": "radians"}), "lon": LON}, None),
        ("lat", "lon", {"lat": ("lat", LAT, {"units": "km"}), "lon": LON}, None),
        ("lat", "lon", {"lat": ("lat", LAT, {"standard_name": "grid_latitude"}), "lon": LON}, None),
        ("lat", "lon", {"lat": 1000.0 * LAT, "lon": LON}, None),
        ("lat", "lon", {"lat": LAT, "lon": 1000.0 * LON}, None),
        ("lat", "lon", {"lat": list("abcd"), "lon": LON}, None),
        ("rlat", "rlon", {"rlat": ("rlat", LAT, {"units": "degrees", "standard_name": "grid_latitude"}),
                          "rlon": ("rlon", LON, {"units": "degrees", "standard_name": "grid_longitude"})}, None),
        ("y", "x", {"lat": (("y", "x"), np.zeros((4, 5))), "lon": (("y", "x"), np.zeros((4, 5)))}, None),
        ("y", "x", {"y": LAT, "x": LON, "lat": ("y", LAT), "lon": ("x", LON)}, None),
        ("lat", "level", {"lat": LAT, "level": LON}, None),
        ("lat", "lon", {"lat": LAT, "lon": LON, "latitude": ("lat", LAT)}, None),
    ],
)  # fmt: skip
def test_the_longitude_of_a_grid_in_degrees(y: str, x: str, coords: dict[str, Any], expected: str | None) -> None:
    assert longitude_dim(layout_of(grid(y, x, coords), "time")) == expected
