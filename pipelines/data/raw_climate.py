"""Air temperature as reanalyses store it: 20 simulated years of months on 8 x 12 cells, netCDF, packed into 16 bits.

Numbers are ``scale_factor * stored + add_offset``, as in files of ERA5. The annual cycle is far larger than the two
patterns beneath it. The last five years are held out. The same seed gives the same temperatures.

    python pipelines/data/raw_climate.py        # writes made/t2m.nc and made/t2m_new.nc beside this file
"""

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

MADE = Path(__file__).parent / "made"

PACKED = {"dtype": "int16", "scale_factor": 0.002, "add_offset": 280.0, "_FillValue": -32767}


def simulate(n_years: int = 20, seed: int = 0) -> xr.DataArray:
    """Temperatures (months, 8, 12) in kelvin."""
    rng = np.random.default_rng(seed)
    times = pd.date_range("2001-01-01", periods=12 * n_years, freq="MS")
    lat, lon = np.linspace(-70.0, 70.0, 8), np.arange(0.0, 360.0, 30.0)
    cycle = -np.cos(2 * np.pi * (times.month.to_numpy() - 1) / 12)[:, None, None] * (lat[:, None] / 5)
    patterns = rng.standard_normal((2, lat.size, lon.size))
    indices = 0.7 * rng.standard_normal((times.size, 2))
    noise = 0.2 * rng.standard_normal((times.size, lat.size, lon.size))
    values = 300 - np.abs(lat)[:, None] / 3 + cycle + np.einsum("tk,kij->tij", indices, patterns) + noise
    coords = {"time": times, "lat": ("lat", lat, {"units": "degrees_north"}), "lon": lon}
    return xr.DataArray(values, dims=("time", "lat", "lon"), coords=coords, name="t2m", attrs={"units": "K"})


def make(folder: Path = MADE) -> None:
    """Write the months to fit and those held out."""
    t2m = simulate()
    folder.mkdir(parents=True, exist_ok=True)
    for name, months in (("t2m.nc", t2m[:180]), ("t2m_new.nc", t2m[180:])):
        months.to_netcdf(folder / name, engine="h5netcdf", encoding={"t2m": PACKED})


if __name__ == "__main__":
    make()
