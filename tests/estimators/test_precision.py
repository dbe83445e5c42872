"""Large means, small spreads, few bits: centering must not cost digits."""

import dask.array as da
import numpy as np
import pytest
from zarr.storage import MemoryStore

from spae_dask import evaluate
from tests import oracles
from tests.estimators.sources import batch_encoder, spread, zarr_array


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
def test_a_mean_of_ten_thousand_spreads_leaves_the_direction(dtype: type, strategy: str) -> None:
    X = np.array([[10001, 10000], [10000, 10001]], dtype=dtype)
    encoder = batch_encoder(1, n_nonzero=2, strategy=strategy).fit(X)
    direction = np.array([1, -1]) / np.sqrt(2)
    decoder = encoder.decoder_[0] / np.linalg.norm(encoder.decoder_[0])
    assert abs(decoder @ direction) == pytest.approx(1, abs=1e-12)
    assert encoder.certificate_.total == pytest.approx(1)
    assert 0 <= encoder.certificate_.loss < 1e-20


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("kind", ["numpy", "dask", "zarr"])
def test_float32_rows_give_the_answer_of_the_same_numbers_in_float64(strategy: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    X = (spread(rng, 5000, 12) + 1e4 * rng.standard_normal(12) * np.arange(1, 13)).astype(np.float32)
    assert np.abs(X.mean(axis=0) / X.std(axis=0)).max() > 1e4
    given = {
        "numpy": lambda: X,
        "dask": lambda: da.from_array(X, chunks=(700, 5)),
        "zarr": lambda: zarr_array(MemoryStore(), X, (700, 5)),
    }[kind]()
    wanted = batch_encoder(3, n_nonzero=5, strategy="tsqr").fit(X.astype(np.float64))
    found = batch_encoder(3, n_nonzero=5, strategy=strategy).fit(given)
    assert found.selected_features_.tolist() == wanted.selected_features_.tolist()
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-8)
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    dense = X.astype(np.float64) - X.astype(np.float64).mean(axis=0)
    assert found.certificate_.loss == pytest.approx(oracles.encoder_loss(dense, found.components_.T), rel=1e-9)
    assert evaluate(given, found).decoder_loss == pytest.approx(found.certificate_.loss, rel=1e-9)


def test_tsqr_keeps_directions_of_float64_data_that_a_gram_matrix_rounds_away() -> None:
    rng = np.random.default_rng(1)
    strong, weak = rng.standard_normal((200, 2)), 1e-10 * rng.standard_normal((200, 4))
    X = np.hstack([strong @ rng.standard_normal((2, 4)) + weak, strong])
    X -= X.mean(axis=0)
    encoder = batch_encoder(2, n_nonzero=2, strategy="auto", center=False).fit(X)
    assert encoder.plan_.strategy == "tsqr"
    assert encoder.certificate_.loss / encoder.certificate_.total < 1e-18
    sigma = np.linalg.svd(X, compute_uv=False)
    assert encoder.certificate_.pca_loss == pytest.approx(np.sum(sigma[2:] ** 2), rel=1e-4)


@pytest.mark.parametrize(
    ("dtype", "strategy"),
    [
        (np.float64, "tsqr"),
        (np.longdouble, "tsqr"),
        (np.int64, "tsqr"),
        (np.uint64, "tsqr"),
        (np.float32, "gram"),
        (np.float16, "gram"),
        (np.int32, "gram"),
        (np.uint8, "gram"),
        (np.bool_, "gram"),
    ],
)
def test_the_planner_takes_the_cheaper_way_that_loses_nothing(dtype: type, strategy: str) -> None:
    X = (np.random.default_rng(2).random((30, 4)) * 100).astype(dtype)
    if dtype is np.bool_:
        X = np.random.default_rng(2).random((30, 4)) < 0.5
    assert batch_encoder(1, n_nonzero=2).fit(X).plan_.strategy == strategy


@pytest.mark.parametrize("factor", [1e100, 1e-100])
@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
def test_units_of_measurement_do_not_change_the_columns(factor: float, strategy: str) -> None:
    X = spread(np.random.default_rng(3), 100, 8)
    one = batch_encoder(2, n_nonzero=4, strategy=strategy).fit(X)
    other = batch_encoder(2, n_nonzero=4, strategy=strategy).fit(X * factor)
    assert one.selected_features_.tolist() == other.selected_features_.tolist()
    np.testing.assert_allclose(one.components_, other.components_, atol=1e-9)
    assert one.certificate_.ratio == pytest.approx(other.certificate_.ratio, rel=1e-9)


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("size", [1e160, 1e200, 1e300])
def test_entries_whose_squares_overflow_are_refused_with_a_remedy(strategy: str, size: float) -> None:
    X = spread(np.random.default_rng(4), 50, 4)
    X[:, 2] *= size
    with pytest.raises(ValueError, match=r"column 2 overflow float64.*Divide the data by a constant"):
        batch_encoder(1, n_nonzero=2, strategy=strategy).fit(X)
