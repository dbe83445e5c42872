"""A fitted grid encoder applied: numpy's codes and data on any samples, lazily, and nothing but the same grid."""

import dask
import numpy as np
import pytest
import xarray as xr

from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.xarray import GridEncoder
from tests.xarray.grids import climate_run, field, flat


def no_computing(*_: object, **__: object) -> None:
    raise AssertionError("something was computed")


def test_scores_and_reconstruction_agree_with_numpy() -> None:
    run = climate_run().load()
    encoder = GridEncoder(3, n_nonzero=8, weights="coslat", effort=0).fit(run, "time")
    weights = np.sqrt(np.cos(np.deg2rad(run["latitude"].values.astype(float))))[:, None]
    x = (run.values * weights).reshape(240, -1)
    H = flat(encoder.components(), "latitude", "longitude").T
    codes = (x - x.mean(axis=0)) @ H
    scores = encoder.scores(run)
    np.testing.assert_allclose(scores, codes, atol=2e-3)
    # the best decoder of these codes, by least squares on anomalies
    G = np.linalg.lstsq(codes, x - x.mean(axis=0), rcond=None)[0]
    expected = (codes @ G + x.mean(axis=0)).reshape(run.shape) / weights
    np.testing.assert_allclose(encoder.reconstruct(scores), expected, atol=5e-3)


def test_several_sample_dimensions_come_back_unstacked() -> None:
    da_ = field()
    members = xr.DataArray(
        da_.values.reshape(20, 3, 4, 5), dims=("year", "member", "lat", "lon"), coords={"lat": da_["lat"]}
    )
    plain = GridEncoder(2, n_nonzero=3, method="batch").fit(da_, "time")
    for each in (
        members,
        members.transpose("lat", "member", "lon", "year"),
        members.chunk(year=7, member=2, lat=3),
    ):
        encoder = GridEncoder(2, n_nonzero=3, method="batch").fit(each, ("year", "member"))
        np.testing.assert_allclose(encoder.encoder_.components_, plain.encoder_.components_, atol=1e-4)
        scores = encoder.scores(each)
        np.testing.assert_allclose(
            scores.transpose("year", "member", "component").values.reshape(60, 2), plain.scores(da_), atol=1e-4
        )
        np.testing.assert_allclose(
            encoder.reconstruct(scores).transpose(*members.dims).values.reshape(60, 4, 5),
            plain.reconstruct(plain.scores(da_)),
            atol=1e-4,
        )


def test_a_single_field_has_scores_too() -> None:
    da_ = field()
    encoder = GridEncoder(2, n_nonzero=3, method="batch").fit(da_, "time")
    all_scores = encoder.scores(da_)
    for each in (da_, da_.chunk(lat=2)):
        one = encoder.scores(each.isel(time=7))
        assert one.dims == ("component",)
        np.testing.assert_allclose(one, all_scores.isel(time=7))
        assert encoder.reconstruct(one).dims == ("lat", "lon")
        np.testing.assert_allclose(encoder.reconstruct(one), encoder.reconstruct(all_scores).isel(time=7))
        assert encoder.score(each.isel(time=7)) <= 1


def test_a_nan_in_a_selected_cell_is_named_when_scored() -> None:
    da_ = field()
    encoder = GridEncoder(1, n_nonzero=1, method="batch").fit(da_, "time")
    used = encoder.selected().isel(component=0)
    broken = da_.where(~(used & (da_["time"] == da_["time"][4])))
    cell = str(encoder.table().cell.values[0])
    with pytest.raises(NonFiniteInput, match=f"time=2001-01-05, {cell}"):
        encoder.scores(broken)
    with pytest.raises(NonFiniteInput, match=cell):
        encoder.scores(broken.chunk(time=20)).compute()
    elsewhere = da_.where(used | (da_["time"] != da_["time"][4]))
    xr.testing.assert_allclose(encoder.scores(elsewhere), encoder.scores(da_))


def test_scores_and_reconstruction_of_dask_data_are_lazy() -> None:
    da_ = field().chunk(time=16, lat=2)
    encoder = GridEncoder(2, n_nonzero=3, method="batch", weights="coslat").fit(da_, "time")
    with dask.config.set(scheduler=no_computing):
        scores = encoder.scores(da_)
        decoded = encoder.reconstruct(scores)
    assert scores.chunks[0] == (16, 16, 16, 12)
    assert decoded.chunks[decoded.dims.index("time")] == (16, 16, 16, 12)
    eager = encoder.scores(da_.compute())
    xr.testing.assert_allclose(scores.compute(), eager)


def test_scores_compute_only_chunks_with_selected_cells() -> None:
    da_ = field()
    encoder = GridEncoder(1, n_nonzero=1, method="batch").fit(da_, "time")
    used = encoder.selected().isel(component=0).values
    read = []

    def seen(block: np.ndarray, block_info: dict | None = None) -> np.ndarray:
        read.append(block_info[0]["chunk-location"][1:])
        return block

    lazy = da_.chunk(time=20, lat=1, lon=1)
    watched = lazy.copy(data=lazy.data.map_blocks(seen, dtype=float, meta=np.empty((0, 0, 0))))
    scores = encoder.scores(watched).compute()
    assert set(read) == {tuple(place) for place in np.argwhere(used)}
    xr.testing.assert_allclose(scores, encoder.scores(da_))


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda e: e.scores(field().isel(lat=slice(None, None, -1))), "same backwards"),
        (lambda e: e.scores(field().isel(lat=[0, 1])), "2 values of lat"),
        (lambda e: e.scores(field().isel(lat=0)), "lacks the dimension 'lat'"),
        (lambda e: e.reconstruct(field()), "scores are along 'component', of 2"),
        (lambda e: e.reconstruct(e.scores(field())[:, ::-1]), r"are \[2, 1\], not 1 to 2"),
    ],
)
def test_what_the_encoder_does_not_fit_is_refused_with_what_to_do(apply, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        apply(GridEncoder(2, n_nonzero=3, method="batch").fit(field(), "time"))
