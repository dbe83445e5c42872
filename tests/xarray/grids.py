"""Fields on grids for the tests of this room."""

from pathlib import Path
from typing import Any

import iris_sample_data
import numpy as np
import xarray as xr

SAMPLES = Path(iris_sample_data.path)


def field(n: int = 60, shape: tuple[int, int] = (4, 5), *, seed: int = 0, dtype: str = "f8") -> xr.DataArray:
    """Three planted patterns with a little noise on (time, lat, lon), with coordinates and attributes."""
    rng = np.random.default_rng(seed)
    d = shape[0] * shape[1]
    values = rng.normal(size=(n, 3)) * [3.0, 2.0, 1.0] @ rng.normal(size=(3, d)) + 0.1 * rng.normal(size=(n, d)) + 10
    return xr.DataArray(
        values.reshape(n, *shape).astype(dtype),
        dims=("time", "lat", "lon"),
        coords={
            "time": np.datetime64("2001-01-01") + np.arange(n),
            "lat": ("lat", np.linspace(-60.0, 60.0, shape[0]), {"units": "degrees_north"}),
            "lon": np.linspace(0.0, 40.0, shape[1]),
            "area": (("lat", "lon"), np.arange(d).reshape(shape)),
            "season": ("time", np.arange(n) % 4),
            "height": 2.0,
        },
        name="air",
        attrs={"units": "K", "standard_name": "air_temperature"},
    )


def climate_run() -> xr.DataArray:
    """240 years of air temperature over North America, from a model run, every other cell, still in its file."""
    dataset = xr.open_dataset(
        SAMPLES / "E1_north_america.nc", engine="h5netcdf", decode_times=False, decode_timedelta=False
    )
    every_other = slice(None, None, 2)
    return dataset["air_temperature"].isel(latitude=every_other, longitude=every_other)


def flat(array: xr.DataArray, *feature_dims: str) -> np.ndarray[Any, Any]:
    """The array as rows of samples, by numpy."""
    values = array.transpose(..., *feature_dims).values
    return values.reshape(-1, int(np.prod(values.shape[-len(feature_dims) :])))
