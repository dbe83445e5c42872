"""A grid encoder with covariates is that of the anomalies; months are looked up in the times."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from spae_dask import load_encoder
from spae_dask.errors import InvalidInput, NotFound
from spae_dask.xarray import GridEncoder

MONTHS = "C(time.month)"


def field(n: int = 400) -> xr.DataArray:
    rng = np.random.default_rng(4)
    times = pd.date_range("2000-01-01", periods=n, freq="4D")
    cycle = np.cos(2 * np.pi * (times.day_of_year.to_numpy()[:, None] / 365.25 + rng.random(12)))
    values = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 12)) + 20 * cycle + 0.2 * rng.normal(size=(n, 12))
    coords = {"time": times, "lat": [0.0, 20, 40], "height": ("time", rng.normal(size=n))}
    return xr.DataArray(values.reshape(n, 3, 4), dims=("time", "lat", "lon"), coords=coords)


@pytest.mark.parametrize("weights", [None, "coslat"])
@pytest.mark.parametrize("lazy", [False, True])
def test_the_annual_cycle_is_removed(weights: Any, lazy: bool, tmp_path: Path) -> None:
    da = field().transpose("lat", "time", "lon")
    anomalies = da.groupby("time.month") - da.groupby("time.month").mean()
    data = da.chunk({"time": 90}) if lazy else da
    options: dict[str, Any] = {"n_nonzero": 3, "weights": weights, "strategy": "gram", "method": "batch"}
    wanted = GridEncoder(2, **options).fit(anomalies, sample_dim="time")
    found = GridEncoder(2, covariates=MONTHS, **options).fit(data, sample_dim="time")
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    scores = wanted.scores(anomalies).transpose("time", "component")
    np.testing.assert_allclose(found.scores(data).transpose("time", "component"), scores, atol=1e-9)
    assert found.score(data) == pytest.approx(found.certificate_.explained, rel=1e-9)
    january = found.scores(da.isel(time=[0, 1, 2]))
    np.testing.assert_allclose(january.transpose("time", "component"), scores[:3], atol=1e-9)
    found.save(tmp_path / "e.zarr")
    loaded = GridEncoder.load(tmp_path / "e.zarr")
    assert loaded.covariates == [MONTHS]
    np.testing.assert_allclose(loaded.scores(da).transpose("time", "component"), scores, atol=1e-9)
    assert load_encoder(tmp_path / "e.zarr").covariates_.levels[0][:2] == ("1", "10")


def test_coordinates_and_values_are_covariates_too() -> None:
    da = field()
    by_name = GridEncoder(2, n_nonzero=3, effort=0, covariates="height,time.dayofyear").fit(da, sample_dim="time")
    values = {"height": da["height"].values, "day": da["time.dayofyear"].values}
    given = GridEncoder(2, n_nonzero=3, effort=0, covariates=values).fit(da, sample_dim="time")
    assert given.certificate_.loss == pytest.approx(by_name.certificate_.loss, rel=1e-12)
    np.testing.assert_allclose(given.scores(da, covariates=values), by_name.scores(da), atol=1e-9)
    with pytest.raises(InvalidInput, match="Give those of these rows"):
        given.scores(da)


def test_what_no_coordinate_of_the_samples_is_is_refused() -> None:
    for name, error, words in (
        ("heigth", NotFound, "no coordinate 'heigth'. It has time, lat, height"),
        ("time.fortnight", NotFound, "no coordinate 'time.fortnight'"),
        ("lat", InvalidInput, r"'lat' is along \('lat',\), and samples are along \('time',\)"),
    ):
        with pytest.raises(error, match=words):
            GridEncoder(2, n_nonzero=3, effort=0, covariates=name).fit(field(), sample_dim="time")
    with pytest.raises(InvalidInput, match="cannot be combined"):
        GridEncoder(2, n_nonzero=3, covariates=MONTHS, weights="coslat", scale=True).fit(field(), sample_dim="time")


def test_a_grid_encoder_without_covariates_stores_none(tmp_path: Path) -> None:
    GridEncoder(2, n_nonzero=3).fit(field(), sample_dim="time").save(tmp_path / "e.zarr")
    assert not [each for each in (tmp_path / "e.zarr").rglob("*.json") if "covariate" in each.read_text()]


def test_groups_of_folds_are_coordinates_of_the_samples(tmp_path: Path) -> None:
    da = field()
    by_name = GridEncoder(2, n_nonzero=3, method="batch", folds=2, fold_groups="time.month").fit(da, sample_dim="time")
    months = da["time.month"].values
    given = GridEncoder(2, n_nonzero=3, method="batch", folds=2, fold_groups=months).fit(da, sample_dim="time")
    assert by_name.certificate_.held_out.losses == given.certificate_.held_out.losses
    by_name.save(tmp_path / "e.zarr")
    loaded = GridEncoder.load(tmp_path / "e.zarr")
    assert loaded.fold_groups == ["time.month"]
    assert loaded.certificate_.held_out == by_name.certificate_.held_out
    chosen = GridEncoder("cv", n_nonzero="cv", method="batch", folds=2, fold_groups="time.month").fit(
        da, sample_dim="time"
    )
    assert chosen.components().sizes["component"] == chosen.encoder_.n_components_
