"""Folders of many small netCDF files, as xarray opens them."""

import gc
from pathlib import Path

import numpy as np
import psutil
import pytest
import xarray as xr

from spae_dask.xarray import GridEncoder

DAYS = 3

BESIDE = 16
"""Files that a fit may open beside those of xarray's cache."""


@pytest.mark.parametrize(
    ("n_files", "kept_open"), [(60, 16), pytest.param(200, 128, marks=pytest.mark.slow)]
)  # the latter is xarray's default
def test_many_files_are_one_grid_and_few_are_open(n_files: int, kept_open: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((n_files * DAYS, 4, 5)) * np.linspace(1, 3, 20).reshape(4, 5)
    grid = xr.DataArray(
        values,
        dims=("time", "lat", "lon"),
        coords={"time": np.arange(n_files * DAYS), "lat": [0.0, 10, 20, 30], "lon": np.arange(5.0)},
        name="air",
    )
    for i in range(n_files):
        grid[i * DAYS : (i + 1) * DAYS].to_netcdf(tmp_path / f"day-{i:03}.nc", engine="h5netcdf")

    gc.collect()  # files that other tests left open
    process, most = psutil.Process(), 0
    before = process.num_fds()

    def watched(block: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        nonlocal most
        most = max(most, process.num_fds() - before)
        return block

    with (
        xr.set_options(file_cache_maxsize=kept_open),
        xr.open_mfdataset(str(tmp_path / "*.nc"), chunks={"time": DAYS}, engine="h5netcdf") as dataset,
    ):
        lazy = dataset["air"]
        lazy = lazy.copy(data=lazy.data.map_blocks(watched, dtype=lazy.dtype))
        found = GridEncoder(n_components=2, n_nonzero=4, effort=0, random_state=0).fit(lazy, sample_dim="time")
        scores = found.scores(lazy)
        np.testing.assert_allclose(scores, found.scores(grid), rtol=1e-10, atol=1e-10)
    one = GridEncoder(n_components=2, n_nonzero=4, effort=0, random_state=0).fit(grid, sample_dim="time")
    assert found.certificate_.loss == pytest.approx(one.certificate_.loss, rel=1e-12)
    np.testing.assert_allclose(found.components(), one.components(), atol=1e-6)
    assert 0 < most <= kept_open + BESIDE < n_files, most
