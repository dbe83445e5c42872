"""``partial_fit``: rows a batch at a time, and the encoder of all of them whenever it is asked for."""

import pickle
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from spae_dask import ColumnSelector, SparseEncoder, load_encoder, plan
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, NewStreamWarning, NonFiniteInput, RankDeficientWarning
from spae_dask.estimators.saved import save_encoder
from spae_dask.passes.accumulators import base
from spae_dask.strategies import core
from tests import oracles
from tests.estimators.sources import FloatArray, Unreadable, spread
from tests.generated import partitions

X = spread(np.random.default_rng(0), 300, 12)
KEPT = ("components_", "decoder_", "mean_", "scale_", "singular_values_", "explained_variance_ratio_")


@pytest.fixture(scope="module", autouse=True)
def small_panels() -> Iterator[None]:
    """So that a few hundred rows are added in several updates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "PANEL_NBYTES", 4096)
        yield


def stream(**parameters: Any) -> SparseEncoder:
    """An encoder whose sketch is smaller than d, so that it is one."""
    return SparseEncoder(2, **({"n_nonzero": 3, "strategy": "stream", "sketch_rows": 6, "effort": 0} | parameters))


def fed(encoder: SparseEncoder, X: Any, bounds: Any) -> SparseEncoder:
    for start, stop in pairwise(bounds):
        if stop > start:
            encoder.partial_fit(X[start:stop])
    return encoder


def bits(encoder: SparseEncoder) -> list[Any]:
    return [*(getattr(encoder, name).tobytes() for name in KEPT), encoder.certificate_, encoder.n_samples_seen_]


def assert_covers(encoder: SparseEncoder, X: FloatArray) -> None:
    found, Xc = encoder.certificate_, (X - X.mean(axis=0)) / encoder.scale_
    assert found.loss_lower <= oracles.encoder_loss(Xc, encoder.components_.T) <= found.loss_upper
    assert found.pca_loss_lower <= oracles.pca_loss(Xc, found.n_components) <= found.pca_loss_upper


@settings(max_examples=6)
@given(bounds=partitions(len(X)), parameters=st.sampled_from([{}, {"scale": True}, {"strategy": "auto"}]))
def test_any_batches_give_the_same_bits(bounds: tuple[int, ...], parameters: dict[str, Any]) -> None:
    assert bits(fed(stream(**parameters), X, bounds)) == bits(stream(**parameters).partial_fit(X))


def test_batches_give_the_columns_of_a_fit_on_all_rows() -> None:
    rows = spread(np.random.default_rng(1), 3000, 12)
    whole = stream().fit(da.from_array(rows, chunks=(700, 12)))
    parts = fed(stream(), rows, range(0, 3001, 250))
    np.testing.assert_array_equal(parts.components_ != 0, whole.components_ != 0)
    assert parts.certificate_.loss == pytest.approx(whole.certificate_.loss, rel=1e-3)
    assert parts.certificate_.total == pytest.approx(whole.certificate_.total, rel=1e-12)
    assert (parts.certificate_.passes, parts.certificate_.bytes_read) == (1, rows.nbytes)
    for encoder in (whole, parts):
        assert encoder.certificate_.loss_kind == "certified interval"
        assert_covers(encoder, rows)


def test_auto_keeps_what_is_exact_where_it_fits() -> None:
    parts, whole = fed(stream(strategy="auto"), X, (0, 1, 299, 300)), stream(strategy="auto").fit(X)
    assert parts.certificate_.loss_kind == "exact"
    assert parts.certificate_.loss == pytest.approx(whole.certificate_.loss, rel=1e-10)
    np.testing.assert_allclose(parts.components_, whole.components_, rtol=1e-8, atol=1e-10)


def test_a_mean_that_drifts_far_is_centered_exactly() -> None:
    rows = spread(np.random.default_rng(2), 400, 12) + 1000.0 * np.repeat(np.arange(8), 50)[:, None] * np.sin(
        np.arange(12)
    )
    encoder = fed(stream(), rows, range(0, 401, 50))
    np.testing.assert_allclose(encoder.mean_, rows.mean(axis=0), rtol=1e-12)
    assert encoder.certificate_.total == pytest.approx(np.sum((rows - rows.mean(axis=0)) ** 2), rel=1e-11)
    assert_covers(encoder, rows)


def test_the_encoder_follows_the_stream() -> None:
    encoder = stream().partial_fit(X[:100])
    before = bits(encoder)
    assert before == bits(encoder)
    encoder.partial_fit(X[100:])
    assert encoder.n_samples_seen_ == 300
    assert bits(encoder) != before
    assert encoder.transform(X).shape == (300, 2)
    assert encoder.score(X) == pytest.approx(encoder.certificate_.explained, rel=0.05)
    assert [point.n_nonzero for point in encoder.sparsity_path([2], [2, 3]).points] == [2, 3]


def test_nothing_is_built_before_it_is_asked_for() -> None:
    encoder = fed(stream(), X, (0, 100, 300))
    assert "components_" not in vars(encoder)
    assert (encoder.n_samples_seen_, encoder.n_features_in_) == (300, 12)
    check_is_fitted(encoder)
    assert encoder.components_.shape == (2, 12)


def test_one_row_is_not_enough_to_be_fitted() -> None:
    encoder = stream().partial_fit(X[:1])
    assert not hasattr(encoder, "components_")
    with pytest.raises(NotFittedError):
        encoder.transform(X)
    with pytest.warns(RankDeficientWarning):
        assert encoder.partial_fit(X[1:2]).certificate_.loss <= 1e-9


@pytest.mark.parametrize("strategy", ["stream", "auto"])
def test_a_stream_goes_on_after_pickling_and_not_after_cloning(strategy: str) -> None:
    half = stream(strategy=strategy).partial_fit(X[:151])
    _ = half.components_
    again = pickle.loads(pickle.dumps(half))
    assert bits(again.partial_fit(X[151:])) == bits(stream(strategy=strategy).partial_fit(X))
    assert again.sparsity_path([2], [3]).points[0].loss == again.certificate_.loss
    fresh = clone(half)
    assert not hasattr(fresh, "components_")
    assert fresh.partial_fit(X[:50]).n_samples_seen_ == 50


def test_a_stream_goes_on_from_a_fit_that_keeps_it() -> None:
    encoder = stream().fit(X[:200]).partial_fit(X[200:])
    assert encoder.n_samples_seen_ == 300
    assert not hasattr(encoder, "plan_")
    assert_covers(encoder, X)
    assert encoder.fit(X[:120]).n_samples_seen_ == 120


def test_another_fit_leaves_nothing_to_go_on_from_and_that_is_said() -> None:
    encoder = stream(strategy="gram").fit(X)
    with pytest.warns(NewStreamWarning, match="strategy='stream'"):
        encoder.partial_fit(X[:50])
    assert encoder.n_samples_seen_ == 50


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (np.where(np.arange(240).reshape(20, 12) == 27, np.nan, 1.0), NonFiniteInput, "NaN.*row 102, column 3.*stream"),
        (np.where(np.arange(240).reshape(20, 12) == 27, np.inf, 1.0), NonFiniteInput, "infin.*row 102, column 3"),
        (np.full((2, 12), 1e160), InvalidInput, "too large"),
        (np.ones((3, 11)), InvalidInput, "X has 11 features, but SparseEncoder is expecting 12"),
        (np.ones((0, 12)), InvalidInput, "empty"),
    ],
)
def test_a_refused_batch_leaves_the_stream_as_it_was(batch: FloatArray, error: type, message: str) -> None:
    encoder = stream().partial_fit(X[:100])
    with pytest.raises(error, match=message) as raised:
        encoder.partial_fit(batch)
    assert "missing='mean'" not in str(raised.value)
    assert bits(encoder.partial_fit(X[100:])) == bits(stream().partial_fit(X))


def test_a_refused_first_batch_starts_nothing() -> None:
    encoder = stream()
    with pytest.raises(NonFiniteInput):
        encoder.partial_fit(np.full((4, 12), np.nan))
    assert vars(encoder) == vars(stream())


@pytest.mark.parametrize("sparse", [False, True])
def test_gaps_can_be_zero(sparse: bool) -> None:
    gappy = np.where(np.random.default_rng(5).random(X.shape) < 0.1, np.nan, X)
    encoder = stream(missing="zero")
    for rows in (gappy[:77], gappy[77:]):
        encoder.partial_fit(sp.csr_array(rows) if sparse else rows)
    np.testing.assert_array_equal(encoder.fill_, np.zeros(12))
    assert_covers(encoder, np.nan_to_num(gappy))


def test_names_of_features_are_kept_and_checked() -> None:
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(12)])
    encoder = stream().partial_fit(table[:100]).partial_fit(table[100:])
    assert encoder.feature_names_in_.tolist() == list(table.columns)
    with pytest.raises(ValueError, match="feature names"):
        encoder.partial_fit(table.rename(columns={"f0": "g0"}))
    assert encoder.n_samples_seen_ == 300


@pytest.mark.parametrize(
    "parameters",
    [
        {"strategy": "sketch"},
        {"strategy": "paper"},
        {"method": "doubly-sparse", "strategy": "gram"},
        {"missing": "mean"},
    ],
)
def test_what_needs_another_read_is_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"partial_fit sees every row once|strategy='stream'"):
        stream(**parameters).partial_fit(X)


def test_bad_parameters_are_refused_before_a_row_is_taken() -> None:
    with pytest.raises(InvalidInput, match="n_components"):
        stream().set_params(n_components=13).partial_fit(X)
    encoder = stream().partial_fit(X[:50])
    with pytest.raises(InvalidInput, match="not the strategy of this stream"):
        encoder.set_params(strategy="gram").partial_fit(X[50:])
    with pytest.raises(MemoryBudgetExceeded, match="stream of 12 features"):
        stream(memory_limit="100MB").partial_fit(X)


def test_parameters_may_change_on_the_way() -> None:
    encoder = stream().partial_fit(X[:100]).set_params(n_components=3, scale=True).partial_fit(X[100:])
    assert encoder.components_.shape == (3, 12)
    assert_covers(encoder, X)


def test_a_saved_stream_is_a_plain_encoder(tmp_path: Path) -> None:
    encoder = stream().partial_fit(X)
    save_encoder(encoder, tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.certificate_ == encoder.certificate_
    assert loaded.provenance_["strategy"] == "stream"
    assert loaded.provenance_["shape"] == [300, 12]
    with pytest.warns(NewStreamWarning):
        loaded.partial_fit(X)
    assert bits(loaded) == bits(encoder)


def test_the_plan_of_a_stream_is_one_pass_whose_state_does_not_grow() -> None:
    short, long = (
        plan(Unreadable((n, 20_000), 1000), 5, n_nonzero=10, strategy="stream", calibrate=False) for n in (10**4, 10**8)
    )
    assert [each.name for each in long.passes] == ["stream"]
    assert short.passes[0].state_nbytes == long.passes[0].state_nbytes
    assert long.bytes_read == 10**8 * 20_000 * 4
    assert "one pass" in long.reason


def test_columns_can_be_selected_in_one_read_too() -> None:
    selector = ColumnSelector(3, strategy="stream").fit(X)
    assert selector.transform(X).shape == (300, 3)


def test_the_certificate_says_how_its_numbers_are_known() -> None:
    found = stream().partial_fit(X).certificate_
    assert "certified interval" in str(found)
    least = max(1.0, found.loss_lower / found.pca_loss_upper)
    assert f"the ratio is {least:.6f} to {found.loss_upper / found.pca_loss_lower:.6f}" in str(found)


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "stream"])
def test_batches_may_be_of_any_type_and_length(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "NARROW", 5)  # so that a batch of 4 rows has few rows for its columns
    counts = np.random.default_rng(1).poisson(3.0, size=(300, 12)).astype(np.uint8)
    encoder = SparseEncoder(2, n_nonzero=3, strategy=strategy, effort=0)
    for batch in (counts[:4], counts[4:100].astype(float), sp.csr_array(counts[100:])):
        encoder.partial_fit(batch)
    wanted = SparseEncoder(2, n_nonzero=3, effort=0).fit(counts)
    assert encoder.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
