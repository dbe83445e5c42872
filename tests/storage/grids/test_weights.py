"""Weights: which coordinate is the latitude, and what else may be given."""

import numpy as np
import pytest
import xarray as xr

from spae_dask.errors import InvalidInput
from spae_dask.storage.grids.grid_layout import layout_of
from spae_dask.storage.grids.weights import weights_on
from spae_dask.xarray import GridEncoder
from tests.xarray.grids import field, flat

COSLAT = np.repeat(np.sqrt(np.cos(np.deg2rad(np.linspace(-60.0, 60.0, 4)))), 5)


@pytest.mark.parametrize(
    ("attrs", "name"),
    [({"standard_name": "latitude"}, "y"), ({"units": "degrees_north"}, "y"), ({}, "lat"), ({}, "Latitude")],
)
def test_latitude_is_known_by_cf_or_by_name(attrs: dict, name: str) -> None:
    given = field()
    given["lat"].attrs = attrs
    layout = layout_of(given.rename(lat=name, lon="zzz"), "time")
    np.testing.assert_allclose(weights_on(layout, "coslat", None), COSLAT)


def test_latitude_of_two_dimensions_weights_each_cell() -> None:
    given = field().drop_vars("lat")
    latitude = np.random.default_rng(0).uniform(-90, 90, size=(4, 5))
    layout = layout_of(given.assign_coords(nav_lat=(("lat", "lon"), latitude)), "time")
    np.testing.assert_allclose(weights_on(layout, "coslat", None), np.sqrt(np.cos(np.deg2rad(latitude))).reshape(-1))


def test_a_named_latitude_is_taken() -> None:
    layout = layout_of(field(), "time")
    np.testing.assert_allclose(
        weights_on(layout, "coslat", "lon")[:5], np.sqrt(np.cos(np.deg2rad([0, 10, 20, 30, 40])))
    )


def test_poles_come_back_from_their_tiny_weights() -> None:
    given = field().assign_coords(lat=[-90.0, -30.0, 30.0, 90.0])
    encoder = GridEncoder(20, n_nonzero=20, weights="coslat", strategy="tsqr", effort=0).fit(given, "time")
    np.testing.assert_allclose(encoder.reconstruct(encoder.scores(given)), given, rtol=1e-5, atol=1e-4)


def test_given_weights_are_spread_over_the_grid_and_divided_out() -> None:
    given = field()
    weights = xr.DataArray([1.0, 2.0, 0.5, 3.0, 1.0], dims="lon")
    encoder = GridEncoder(2, n_nonzero=3, effort=0, weights=weights).fit(given, "time")
    x = flat(given, "lat", "lon") * np.tile(weights.values, 4)
    assert encoder.certificate_.total == pytest.approx(((x - x.mean(axis=0)) ** 2).sum())
    np.testing.assert_allclose(encoder.mean(), given.mean("time"))


def test_cells_of_weight_zero_are_left_out() -> None:
    weights = xr.DataArray(np.arange(20).reshape(4, 5) % 2.0, dims=("lat", "lon"))
    encoder = GridEncoder(2, n_nonzero=3, effort=0, weights=weights).fit(field(), "time")
    assert (encoder.mean().isnull() == (weights == 0)).all()


@pytest.mark.parametrize(
    ("weights", "lat_dim", "message"),
    [
        ("cos", None, "give 'coslat', a DataArray"),
        (None, "lat", "without lat_dim"),
        ("coslat", "season", "they have lat, lon"),
        (xr.DataArray([1.0, 2.0], dims="lat"), None, "2 values along 'lat', but the grid has 4"),
        (xr.DataArray([1.0, 2.0], dims="depth"), None, r"\(depth\)"),
        (xr.DataArray([1.0, 2.0, -1.0, 1.0], dims="lat"), None, "contain -1"),
        (xr.DataArray([1.0, 2.0, np.inf, 1.0], dims="lat"), None, "contain inf"),
        (xr.DataArray([1.0, 2.0, np.nan, 1.0], dims="lat"), None, "cell lat=20.0, lon=0.0 is not finite"),
        (xr.DataArray([1.0] * 4, dims="lat", coords={"lat": [1, 2, 3, 4]}), None, "other places along 'lat'"),
        (xr.DataArray(list("abcd"), dims="lat"), None, "not numbers"),
        (xr.DataArray([1.0] * 4, dims="lat"), "lat", "Leave it out"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights, lat_dim, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        GridEncoder(2, n_nonzero=3, effort=0, weights=weights, lat_dim=lat_dim).fit(field(), "time")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.rename(lat="y").drop_vars("y"), "needs latitudes"),
        (lambda x: x.assign_coords(lat=[0.0, 1.0, 2.0, 100.0]), "values up to 100"),
        (
            lambda x: x.assign_coords(lat=("lat", [0.0, 0.1, 0.2, 1.0], {"units": "radians"})).rename(lat="latitude"),
            "degrees",
        ),
        (
            lambda x: x.assign_coords(latitude=("lon", np.zeros(5), {"units": "degrees_north"})),
            "lat and latitude may both",
        ),
    ],
)
def test_latitudes_that_cannot_be_are_refused(change, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        GridEncoder(2, n_nonzero=3, effort=0, weights="coslat").fit(change(field()), "time")
