"""Whatever is done with a packed Zarr array gives what the decoded numbers give; raw, what the stored ones give."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

from spae_dask import ColumnSelector, evaluate, open_matrix, plan
from spae_dask.errors import NonFiniteInput, OtherCheckpoint
from spae_dask.estimators.checking import check
from spae_dask.storage.artifacts.fingerprint import fingerprint
from tests.estimators.sources import batch_encoder


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Temperatures as int16, some of them missing."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 9)) * 4 + 280
    values[rng.random(values.shape) < 0.05] = np.nan
    encoding = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768, "chunks": (40, 9)}
    attrs = {"valid_min": -3000, "valid_max": 3000}
    made = xr.Dataset({"t": (("time", "cell"), values, attrs)})
    made.to_zarr(tmp_path / "t.zarr", encoding={"t": encoding}, consolidated=False, zarr_format=3)
    return tmp_path / "t.zarr"


def decoded(path: Path) -> np.ndarray:
    return xr.open_zarr(path, consolidated=False, chunks=None)["t"].values


def stored(path: Path) -> np.ndarray:
    return zarr.open_array(path / "t", mode="r")[...]


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch"])
def test_a_fit_and_all_that_follows_are_those_of_the_decoded_numbers(packed: Path, strategy: str) -> None:
    X = decoded(packed)
    found, wanted = (batch_encoder(2, n_nonzero=3, missing="mean", strategy=strategy).fit(x) for x in (packed, X))
    assert np.array_equal(found.selected_features_, wanted.selected_features_)
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    np.testing.assert_allclose(np.asarray(found.transform(packed)), wanted.transform(X), atol=1e-9)
    assert evaluate(packed, found).loss == pytest.approx(wanted.certificate_.loss, rel=1e-6)
    assert found.score(packed) == pytest.approx(wanted.score(X))
    assert plan(packed, 2, n_nonzero=3, missing="mean").dtype == "float64"
    assert set(ColumnSelector(3, missing="mean").fit(packed).selected_idx_) == set(
        ColumnSelector(3, missing="mean").fit(X).selected_idx_
    )
    several = batch_encoder(2, n_nonzero=3, missing="zero").partial_fit(packed)
    np.testing.assert_allclose(several.mean_, np.nan_to_num(X).mean(0), rtol=1e-12)


def test_stored_numbers_are_had_on_request(packed: Path) -> None:
    raw = batch_encoder(2, n_nonzero=3).fit(open_matrix(packed, decode=False))
    np.testing.assert_allclose(raw.mean_, stored(packed).astype(float).mean(0), rtol=1e-12)


def test_check_says_what_is_decoded_and_what_is_not_applied(packed: Path) -> None:
    found, raw = check(packed), check(open_matrix(packed, decode=False))
    assert found.n_nan == np.isnan(decoded(packed)).sum() > 0
    assert found.decoded is not None
    assert found.decoded["attributes"] == {"_FillValue": -32768, "scale_factor": 0.01, "add_offset": 273.15}
    assert "packed: int16, scale 0.01, offset 273.15, missing -32768; read as float64" in str(found)
    assert (raw.n_nan, raw.decoded, raw.smallest) == (0, None, -32768.0)
    for each in (found, raw):
        assert each.valid_range == {"valid_min": -3000, "valid_max": 3000}
        assert "valid_max 3000), which is not applied" in str(each)


@pytest.mark.parametrize("strategy", ["gram", "sketch", "stream"])
def test_an_error_over_declared_missing_values_says_so(packed: Path, strategy: str) -> None:
    row, column = np.argwhere(np.isnan(decoded(packed)))[0]
    declared = r"declares its missing values \(_FillValue -32768\).*If they are not missing, --raw \(decode=False\)"
    told = rf"row {row}, column {column}.*{declared}"
    with pytest.raises(NonFiniteInput, match=told) as caught:
        batch_encoder(2, n_nonzero=3, strategy=strategy).fit(packed)
    assert caught.value.place == (row, column)
    encoder = batch_encoder(2, n_nonzero=3).fit(np.nan_to_num(decoded(packed)))
    for again in (lambda: evaluate(packed, encoder), lambda: encoder.score(packed)):
        with pytest.raises(NonFiniteInput, match="declares its missing values"):
            again()
    with pytest.raises(NonFiniteInput, match="declares its missing values"):
        batch_encoder(2, n_nonzero=3).partial_fit(packed)


def test_nan_that_nobody_declared_is_not_blamed_on_the_store(tmp_path: Path) -> None:
    X = np.ones((5, 3), dtype="f4")
    X[2, 1] = np.nan
    array = zarr.create_array(tmp_path / "x.zarr", data=X, attributes={"scale_factor": 0.5})
    with pytest.raises(NonFiniteInput) as caught:
        batch_encoder(1, n_nonzero=2).fit(array)
    assert "declare" not in str(caught.value)


def test_decoded_and_stored_numbers_are_not_taken_for_the_same_data(packed: Path, tmp_path: Path) -> None:
    assert fingerprint(open_matrix(packed)) != fingerprint(open_matrix(packed, decode=False))
    fit = batch_encoder(2, n_nonzero=3, missing="zero", checkpoint=tmp_path / "run")
    fit.fit(packed)
    with pytest.raises(OtherCheckpoint, match="decoded"):
        fit.fit(open_matrix(packed, decode=False))
