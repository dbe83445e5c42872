"""Ingest of netCDF files and Zarr datasets: the right variable, without empty cells, within the budget, with names."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, NotFound, StorageError
from spae_dask.storage.ingesting.ingest import ingest
from tests.xarray.grids import SAMPLES, field

MIB = 1 << 20


def dataset(**more: xr.DataArray) -> xr.Dataset:
    bounds = xr.DataArray(np.zeros((60, 2)), dims=("time", "bnds"))
    air = field(dtype="f4")
    air["time"].attrs["bounds"] = "time_bnds"
    air["time"].encoding["units"] = "days since 1900-01-01"
    return xr.Dataset({"air": air, "crs": 0, "time_bnds": bounds, **more})


def written(path: Path, made: xr.Dataset, kind: str) -> Path:
    if kind == "zarr":
        made.to_zarr(path, zarr_format=2)
    else:
        made.to_netcdf(path, engine=kind)
    return path


@pytest.mark.parametrize(("kind", "name"), [("h5netcdf", "a.nc"), ("scipy", "a.nc"), ("zarr", "a.zarr")])
def test_one_variable_becomes_a_matrix_of_named_columns(tmp_path: Path, kind: str, name: str) -> None:
    made = dataset()
    made["air"] = made["air"].where(made["lat"] > -50)
    source = written(tmp_path / name, made, kind)
    report = ingest(source, tmp_path / "x.zarr")
    array = zarr.open_array(tmp_path / "x.zarr", mode="r")
    np.testing.assert_array_equal(array[...], made["air"].values.reshape(60, 20)[:, 5:])
    assert array.attrs["feature_names"][0] == "lat=-20.0, lon=0.0"
    assert "5 of 20 cells are NaN throughout and were left out" in report.describe()


def test_real_sea_surface_temperatures_lose_their_land(tmp_path: Path) -> None:
    ingest(SAMPLES / "ostia_monthly.nc", tmp_path / "x.zarr")
    with xr.open_dataset(SAMPLES / "ostia_monthly.nc", engine="h5netcdf", decode_times=False) as opened:
        sea = opened["surface_temperature"].values.reshape(54, -1)
    sea = sea[:, ~np.isnan(sea).all(axis=0)]
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x.zarr", mode="r")[...], sea)
    assert sea.shape == (54, 5721)


def test_packed_values_are_unpacked(tmp_path: Path) -> None:
    made = dataset()
    packing = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 10.0, "_FillValue": -32768}
    made.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding={"air": packing})
    ingest(tmp_path / "a.nc", tmp_path / "x.zarr")
    found = zarr.open_array(tmp_path / "x.zarr", mode="r")[...]
    np.testing.assert_allclose(found, made["air"].values.reshape(60, 20), atol=0.006)


@pytest.mark.parametrize("kind", ["h5netcdf", "zarr"])
def test_stored_values_are_had_on_request(tmp_path: Path, kind: str) -> None:
    made = dataset()
    packing = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 10.0, "_FillValue": -32768}
    made["air"].encoding.update(packing)
    source = written(tmp_path / "a.nc", made, kind)
    ingest(source, tmp_path / "x.zarr", variable="air", decode=False)
    found = zarr.open_array(tmp_path / "x.zarr", mode="r")[...]
    assert found.dtype == "int16"
    np.testing.assert_allclose(found * 0.01 + 10, made["air"].values.reshape(60, 20), atol=0.006)


def test_variable_and_several_sample_dimensions_may_be_named(tmp_path: Path) -> None:
    made = dataset(rain=field(seed=1))
    source = written(tmp_path / "a.nc", made, "h5netcdf")
    with pytest.raises(InvalidInput, match=r"several variables.*air \(time, lat, lon\).*--array NAME"):
        ingest(source, tmp_path / "x.zarr")
    ingest(source, tmp_path / "x.zarr", variable="rain", sample_dim=("lat", "time"))
    expected = made["rain"].transpose("lat", "time", "lon").values.reshape(240, 5)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x.zarr", mode="r")[...], expected)


def test_the_budget_is_kept(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(2000, 50, 60)).astype("f4")
    values[:, :5] = np.nan
    made = xr.Dataset({"air": (("time", "lat", "lon"), values)})
    chunks = {"air": {"chunksizes": (20, 25, 60)}}
    made.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding=chunks)
    ingest(tmp_path / "a.nc", tmp_path / "warm.zarr")
    tracemalloc.start()
    ingest(tmp_path / "a.nc", tmp_path / "x.zarr", budget=8 * MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * MIB < values.nbytes / 2
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x.zarr", mode="r")[...], values[:, 5:].reshape(2000, -1))


def test_chunks_that_do_not_fit_are_refused_and_the_budget_told_would_do(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(2000, 20, 30)).astype("f4")
    made = xr.Dataset({"air": (("time", "lat", "lon"), values)})
    made.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding={"air": {"chunksizes": (2000, 20, 30)}})
    with pytest.raises(MemoryBudgetExceeded, match=r"Give a budget of at least 21\.0 MiB"):
        ingest(tmp_path / "a.nc", tmp_path / "x.zarr", budget=8 * MIB)
    report = ingest(tmp_path / "a.nc", tmp_path / "x.zarr", budget=21 * MIB)
    assert report.decodes_per_chunk > 1
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x.zarr", mode="r")[...], values.reshape(2000, -1))


def test_groups_with_one_matrix_are_read_as_before(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("x", data=np.ones((4, 3)))
    group.create_array("cube", data=np.ones((4, 3, 2)), dimension_names=("a", "b", "c"))
    assert ingest(tmp_path / "g.zarr", tmp_path / "x.zarr").shape == (4, 3)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"variable": "rain"}, NotFound, r"no variable 'rain'; it has air \(time, lat, lon\)"),
        ({"variable": "crs"}, InvalidInput, "none of its dimensions"),
        ({"sample_dim": "month"}, InvalidInput, "'month' is not a dimension"),
        ({"array": "air", "variable": "air"}, InvalidInput, "Name its variable once"),
        ({"header": True}, InvalidInput, "leave header out"),
        ({"dtype": "i4"}, InvalidInput, "i"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(tmp_path: Path, options: dict, error, message: str) -> None:
    source = written(tmp_path / "a.nc", dataset(), "h5netcdf")
    with pytest.raises(error, match=message):
        ingest(source, tmp_path / "x.zarr", **options)
    assert not (tmp_path / "x.zarr").exists()


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.nc").write_text("hello")
    whole = written(tmp_path / "a.nc", dataset(), "h5netcdf").read_bytes()
    (tmp_path / "cut.nc").write_bytes(whole[: len(whole) // 2])
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    ingest(tmp_path / "x.npy", tmp_path / "array.zarr")
    for name, error, message in (
        ("none.nc", NotFound, "nothing at"),
        ("text.nc", InvalidInput, "not a netCDF file: it begins with b'hello'"),
        ("cut.nc", StorageError, "cannot be opened as a netCDF dataset"),
        ("array.zarr", InvalidInput, "single Zarr array"),
    ):
        with pytest.raises(error, match=message):
            ingest(tmp_path / name, tmp_path / "out.zarr", variable="air")
    with pytest.raises(InvalidInput, match="a ndarray was given"):
        ingest(np.ones((3, 2)), tmp_path / "out.zarr", variable="air")
