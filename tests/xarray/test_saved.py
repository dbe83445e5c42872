"""Grid encoders on disk: everything comes back, in both Zarr formats; damage is noticed; no pickle."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

from spae_dask import load_encoder
from spae_dask.errors import InvalidInput, NotFound, OutputExists, StorageError
from spae_dask.xarray import GridEncoder
from tests.estimators.sources import batch_encoder
from tests.xarray.grids import climate_run, field

ARRAYS = ("components", "decoder", "mean", "selected", "explained_variance_ratio", "table")


def odd_field() -> xr.DataArray:
    """Times, texts, booleans and attributes of all kinds along the grid."""
    odd = field().where(field()["lat"] > -50)
    return odd.assign_coords(
        lon=list("vwxyz"),
        started=("lat", np.datetime64("1999-12-31T12:30:15", "ns") + np.arange(4) * np.timedelta64(36, "h")),
        waited=("lat", np.arange(4) * np.timedelta64(90, "m")),
        is_sea=(("lat", "lon"), np.arange(20).reshape(4, 5) % 2 == 0),
    ).assign_attrs(valid_range=np.array([0.0, np.inf]), version=np.int32(3), what={"a": [1, "b"]})


def copied_to_format_2(path: Path, copy: Path) -> Path:
    """The same arrays and attributes, written as Zarr format 2."""

    def copy_group(source: zarr.Group, target: zarr.Group) -> None:
        target.attrs.update(dict(source.attrs))
        for name, array in source.arrays():
            target.create_array(name, shape=array.shape, dtype=array.dtype, chunks=array.chunks)[...] = array[...]
        for name, group in source.groups():
            copy_group(group, target.create_group(name))

    copy_group(zarr.open_group(path, mode="r"), zarr.open_group(copy, mode="w", zarr_format=2))
    return copy


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("weights", [None, "coslat", xr.DataArray([1.0, 2.0, 3.0, 4.0], dims="lat")])
def test_a_loaded_encoder_gives_the_same(tmp_path: Path, zarr_format: int, weights) -> None:
    given = odd_field()
    encoder = GridEncoder(2, n_nonzero=3, method="batch", weights=weights, scale=True).fit(given, "time")
    path = tmp_path / "e.zarr"
    encoder.save(path)
    if zarr_format == 2:
        path = copied_to_format_2(path, tmp_path / "two.zarr")
    loaded = GridEncoder.load(path)
    for name in ARRAYS:
        xr.testing.assert_identical(getattr(loaded, name)(), getattr(encoder, name)())
    scores = encoder.scores(given)
    xr.testing.assert_identical(loaded.scores(given), scores)
    xr.testing.assert_identical(loaded.reconstruct(scores), encoder.reconstruct(scores))
    assert loaded.certificate_ == encoder.certificate_
    assert loaded.n_nonzero == 3
    assert loaded.scale
    assert isinstance(loaded.weights, xr.DataArray) == isinstance(weights, xr.DataArray)
    again = tmp_path / "again.zarr"
    loaded.save(again)
    xr.testing.assert_identical(GridEncoder.load(again).decoder(), encoder.decoder())


def test_parameters_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    encoder = GridEncoder(2, n_nonzero=3, method="batch").fit(field(), "time")
    encoder.save(tmp_path / "e.zarr")
    grid = zarr.open_group(tmp_path / "e.zarr", mode="a")["grid"]
    grid.attrs.update(parameters=grid.attrs["parameters"] | {"later": 1}, later=2)
    loaded = GridEncoder.load(tmp_path / "e.zarr")
    assert (loaded.n_nonzero, loaded.method) == (3, "batch")
    xr.testing.assert_identical(loaded.components(), encoder.components())


def test_times_that_are_numbers_stay_numbers(tmp_path: Path) -> None:
    encoder = GridEncoder(2, n_nonzero=3, method="batch").fit(climate_run(), "time")
    encoder.save(tmp_path / "e.zarr")
    xr.testing.assert_identical(GridEncoder.load(tmp_path / "e.zarr").mean(), encoder.mean())


def test_a_multi_index_becomes_its_levels(tmp_path: Path) -> None:
    index = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=("station", "level"))
    values = field().values[:, :, 0]
    given = xr.DataArray(values, dims=("time", "place"), coords=xr.Coordinates.from_pandas_multiindex(index, "place"))
    encoder = GridEncoder(2, n_nonzero=2, method="batch").fit(given, "time")
    encoder.save(tmp_path / "e.zarr")
    loaded = GridEncoder.load(tmp_path / "e.zarr")
    assert not isinstance(loaded.components().indexes.get("place"), pd.MultiIndex)
    np.testing.assert_array_equal(loaded.components()["station"], ["a", "a", "b", "b"])
    np.testing.assert_array_equal(loaded.components(), encoder.components())
    assert loaded.scores(given).dims == ("time", "component")


def test_the_file_is_an_encoder_of_named_columns_for_all_else(tmp_path: Path) -> None:
    encoder = GridEncoder(2, n_nonzero=3, method="batch", weights="coslat").fit(field(), "time")
    encoder.save(tmp_path / "e.zarr")
    plain = load_encoder(tmp_path / "e.zarr")
    np.testing.assert_array_equal(plain.components_, encoder.encoder_.components_)
    assert plain.feature_names_in_[0] == "lat=-60.0, lon=0.0"


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    encoder = GridEncoder(2, n_nonzero=3, method="batch").fit(field(), "time")
    encoder.save(tmp_path / "e.zarr")
    with pytest.raises(OutputExists):
        encoder.save(tmp_path / "e.zarr")
    encoder.save(tmp_path / "e.zarr", overwrite=True)


def test_what_is_no_grid_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        GridEncoder.load(tmp_path / "none.zarr")
    from spae_dask.estimators.saved import save_encoder

    save_encoder(batch_encoder(2, n_nonzero=3).fit(field().values.reshape(60, 20)), tmp_path / "plain.zarr")
    with pytest.raises(InvalidInput, match="without a grid"):
        GridEncoder.load(tmp_path / "plain.zarr")


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda grid: grid["0"].__setitem__(0, 7), StorageError),
        (lambda grid: grid.__delitem__("1"), StorageError),
        (lambda grid: grid.attrs.update(variables=[]), InvalidInput),
        (lambda grid: grid.attrs.update(shape=None), InvalidInput),
        (lambda grid: grid.attrs.update(format_version=99), InvalidInput),
    ],
)
def test_damage_is_noticed(tmp_path: Path, damage, error) -> None:
    sea = field()["lat"] > -50
    GridEncoder(2, n_nonzero=3, method="batch", weights="coslat").fit(field().where(sea), "time").save(
        tmp_path / "e.zarr"
    )
    damage(zarr.open_group(tmp_path / "e.zarr", mode="a")["grid"])
    with pytest.raises(error):
        GridEncoder.load(tmp_path / "e.zarr")
