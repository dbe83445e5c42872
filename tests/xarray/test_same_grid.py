"""Data on another grid are refused, however near its numbers are; rounding to float32 makes no other grid."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.errors import InvalidInput
from spae_dask.xarray import GridEncoder

CELLS = 6


def field(places, *, dim="x", name=None, seed=0):
    values = np.random.default_rng(seed).normal(size=(40, CELLS)) * np.arange(1, CELLS + 1)
    return xr.DataArray(values, dims=("time", dim), coords={name or dim: (dim, places)})


GRIDS = {
    "gauge numbers": np.arange(10_000_001, 10_000_001 + CELLS),
    "UTM of 1 m": 5_800_000.0 + np.arange(CELLS),
    "degrees": 47.125 + 0.25 * np.arange(CELLS),
    "irregular": np.array([0.0, 1.0, 1.5, 4.0, 4.25, 9.0]),
    "texts": np.array(list("abcdef")),
    "days": np.arange("2020-01-01", "2020-01-07", dtype="datetime64[D]").astype("datetime64[ns]"),
}


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("grid", GRIDS)
def test_the_same_places_in_another_order_are_refused(grid, index):
    da = field(GRIDS[grid], name=None if index else "place")
    fitted = GridEncoder(1, n_nonzero=2, method="batch").fit(da, sample_dim="time")
    fitted.scores(da)
    for other in (da.isel(x=slice(None, None, -1)), da.isel(x=[1, 0, 2, 3, 4, 5])):
        with pytest.raises(InvalidInput, match="on another grid than the encoder"):
            fitted.scores(other)


@pytest.mark.parametrize("grid", ["UTM of 1 m", "degrees", "irregular"])
@given(share=st.floats(0.3, 1.0), sign=st.sampled_from([-1, 1]))
def test_a_grid_moved_by_a_third_of_its_spacing_is_another_one(grid, share, sign):
    places = GRIDS[grid]
    fitted = GridEncoder(1, n_nonzero=2, method="batch").fit(field(places), sample_dim="time")
    with pytest.raises(InvalidInput, match="on another grid"):
        fitted.scores(field(places + sign * share * np.diff(places).min()))


@given(start=st.floats(-180, 180), step=st.sampled_from([0.01, 0.1, 0.25, 1 / 3, 2.5]))
def test_coordinates_that_were_float32_once_are_the_same(start, step):
    places = start + step * np.arange(CELLS)
    fitted = GridEncoder(1, n_nonzero=2, method="batch").fit(field(places), sample_dim="time")
    fitted.scores(field(places.astype("f4")))
    fitted.scores(field(places.astype("f4").astype("f8")))


def test_coordinates_of_two_dimensions_are_compared_whatever_their_order():
    rng = np.random.default_rng(0)
    lat, lon = np.meshgrid([50.0, 50.5], [7.0, 8.0, 9.0], indexing="ij")
    lat = lat + 1e-3 * rng.normal(size=lat.shape)
    da = xr.DataArray(
        rng.normal(size=(40, 2, 3)),
        dims=("time", "y", "x"),
        coords={"lat": (("y", "x"), lat), "lon": (("y", "x"), lon)},
    )
    fitted = GridEncoder(1, n_nonzero=2, method="batch").fit(da, sample_dim="time")
    fitted.scores(da.assign_coords(lat=da.lat.T))
    for dim in ("x", "y"):
        with pytest.raises(InvalidInput, match="on another grid"):
            fitted.scores(da.isel({dim: slice(None, None, -1)}))


def test_a_coordinate_that_only_one_of_them_has_is_not_compared():
    da = field(GRIDS["degrees"])
    fitted = GridEncoder(1, n_nonzero=2, method="batch").fit(da, sample_dim="time")
    np.testing.assert_array_equal(fitted.scores(da.drop_vars("x")).values, fitted.scores(da).values)


def test_a_dimension_with_the_name_of_the_scores_own_is_refused():
    da = field(GRIDS["degrees"])
    fitted = GridEncoder(2, n_nonzero=2, method="batch").fit(da, sample_dim="time")
    with pytest.raises(InvalidInput, match="has a dimension 'component', but scores need that name"):
        fitted.scores(fitted.components())
    assert fitted.scores(fitted.components().rename(component="pattern")).dims == ("pattern", "component")
