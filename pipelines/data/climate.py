"""Sea surface temperature of the tropics as netCDF: 54 months from April 2006 on 18 x 432 cells, land without data.

The file is part of the package iris-sample-data: monthly means of OSTIA, the Met Office's analysis of satellite and
in-situ measurements, from 5 degrees south to 4.4 degrees north. Each calendar month's mean is taken off, so that what
is left are anomalies, and these are averaged over 2 x 4 cells. The last 12 months are held out; the means are those of
the first 42.

    python pipelines/data/climate.py            # writes made/sst.nc and made/sst_new.nc beside this file

C. J. Donlon et al., *The Operational Sea Surface Temperature and Sea Ice Analysis (OSTIA) system*, Remote Sensing of
Environment 116 (2012), 140-158.
"""

from importlib.util import find_spec
from pathlib import Path

import xarray as xr

MADE = Path(__file__).parent / "made"

FITTED = 42
"""Months that are not held out."""


def load_anomalies() -> xr.DataArray:
    """Anomalies (54, 9, 108) in kelvin over time, latitude and longitude; NaN where all of a cell is land."""
    spec = find_spec("iris_sample_data")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    if not folders:
        raise SystemExit(
            "the temperatures are part of the package iris-sample-data, which is not installed. Run "
            "`pip install iris-sample-data`."
        )
    file = Path(folders[0]) / "sample_data" / "ostia_monthly.nc"
    with xr.open_dataset(file, engine="h5netcdf", decode_timedelta=False) as dataset:
        stored = dataset["surface_temperature"].load()
    coarse = stored.coarsen(latitude=2, longitude=4).mean()
    month = coarse["time"].dt.month
    usual = coarse[:FITTED].groupby(month[:FITTED]).mean()
    found: xr.DataArray = (coarse.groupby(month) - usual).rename(latitude="lat", longitude="lon")
    found = found.drop_vars(["month", "forecast_reference_time", "forecast_period"]).rename("sst").astype("float32")
    found.attrs = {"long_name": "anomaly of sea surface temperature", "units": "K"}
    # cells are named by their coordinates
    return found.assign_coords({name: found[name].astype("float64").round(1) for name in ("lat", "lon")})


def make(folder: Path = MADE) -> None:
    """Write the months to fit and those held out."""
    anomalies = load_anomalies()
    folder.mkdir(parents=True, exist_ok=True)
    for name, months in (("sst.nc", anomalies[:FITTED]), ("sst_new.nc", anomalies[FITTED:])):
        months.to_netcdf(folder / name, engine="h5netcdf")


if __name__ == "__main__":
    make()
