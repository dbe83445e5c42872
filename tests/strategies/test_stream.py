"""One read into Frequent Directions: encoders as good as on the exact core, losses where the intervals say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.blocks import ArrayBlocks
from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.passes.serial import SerialRunner
from spae_dask.strategies import stream
from spae_dask.strategies.core import read_core
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.path import sparsity_path
from spae_dask.strategies.sparse_encoder import encode_core
from spae_dask.strategies.stream import fit_stream, stream_finish_nbytes, stream_recipe
from spae_dask.strategies.table import check_strategy
from tests.matrices import power_law
from tests.oracles import encoder_loss, pca_loss
from tests.strategies.passes import Traced, wide_data


def fit(X, params, rows_per_block=97):
    runner = SerialRunner(ArrayBlocks(X, rows_per_block))
    fitted, streamed = fit_stream(params, runner.run_pass, X.shape[1])
    return fitted, streamed, runner.tally.passes


def factors(n=1000, d=80):
    """Rows of eight sparse factors in noise, about a large mean."""
    rng = np.random.default_rng(3)
    loadings = rng.standard_normal((8, d)) * (rng.random((8, d)) < 0.2) * np.linspace(3, 1, 8)[:, None]
    return 50 + rng.standard_normal((n, 8)) @ loadings + rng.standard_normal((n, d))


X = factors()


def assert_covers(fitted, X, k):
    found = fitted.certificate
    Xc = (X - fitted.mean) / fitted.scale
    best = pca_loss(Xc, k)
    assert found.loss_lower <= encoder_loss(Xc, fitted.H) <= found.loss_upper
    assert found.loss_lower <= found.loss <= found.loss_upper
    assert found.pca_loss_lower <= best <= found.pca_loss_upper
    assert found.pca_loss_lower <= found.pca_loss <= found.pca_loss_upper
    assert min(np.sum((Xc - Xc @ fitted.H @ fitted.G) ** 2), found.total) <= found.loss_upper
    assert found.total == pytest.approx(np.sum(Xc**2), rel=1e-11)
    assert found.ratio >= 1


@pytest.mark.parametrize(("k", "r"), [(1, 4), (3, 6), (2, (9, 2))])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"center": False, "method": "batch"},
        {"scale": True, "method": "batch"},
        {"method": "iterative"},
        {"method": "batch", "certified": True},
        {"shared_support": True, "orthonormal": True, "effort": 0},
    ],
)
def test_both_losses_lie_in_their_certified_intervals(k, r, options):
    if isinstance(r, tuple) and ("shared_support" in options or options.get("method") == "batch"):
        r = max(r)
    fitted, _, passes = fit(X, FitParameters(k, r, strategy="stream", sketch_rows=40, n_candidates=60, **options))
    assert_covers(fitted, X, k)
    found = fitted.certificate
    assert passes == 1
    assert found.loss_kind == "certified interval"
    assert found.pca_loss_kind == ("certified lower bound" if options.get("certified") else "estimate")
    assert fitted.explained_ratio.sum() == pytest.approx(found.explained, abs=1e-6)
    if not options.get("orthonormal"):
        assert np.all(np.count_nonzero(fitted.H, axis=0) <= np.broadcast_to(r, k))


@settings(max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["noise", "decay", "tails", "drift"]),
    rows=st.integers(2, 12),
    scale=st.booleans(),
)
def test_the_intervals_hold_whatever_the_data_and_the_blocks(seed, kind, rows, scale):
    rng = np.random.default_rng(seed)
    n, d = 150, 14
    data = {
        "noise": lambda: rng.standard_normal((n, d)),
        "decay": lambda: power_law(rng, n, d, 1.0),
        "tails": lambda: rng.standard_t(1.2, (n, d)),
        "drift": lambda: rng.standard_normal((n, d)) + 10.0 * np.arange(n)[:, None] * rng.standard_normal(d),
    }[kind]()
    params = FitParameters(2, 3, strategy="stream", sketch_rows=rows, scale=scale, effort=0)
    fitted, _, _ = fit(data, params, int(rng.integers(1, n + 1)))
    assert_covers(fitted, data, 2)


@pytest.mark.parametrize(("k", "r"), [(2, 5), (5, 8)])
@pytest.mark.parametrize("diagonal", [512, 64])
def test_its_excess_is_near_that_of_the_exact_core(k, r, diagonal, monkeypatch):
    monkeypatch.setattr(stream, "DIAGONAL", diagonal)
    fitted, _, _ = fit(X, FitParameters(k, r, strategy="stream", sketch_rows=60, effort=0))
    run_pass = SerialRunner(ArrayBlocks(X, 500)).run_pass
    core = read_core(run_pass, X.shape[1], strategy="tsqr", center=True, scale=False, missing="error")
    exact = encode_core(FitParameters(k, r, effort=0), core, passes=1, bytes_read=0).certificate
    loss = encoder_loss(core.core, fitted.H)
    assert loss / exact.pca_loss - 1 <= 1.1 * (exact.ratio - 1)
    assert fitted.certificate.loss == pytest.approx(loss, rel=0.02)
    assert fitted.certificate.pca_loss == pytest.approx(exact.pca_loss, rel=0.02)
    # the decoder, too, is nearly the best there is
    assert np.sum((core.core - core.core @ fitted.H @ fitted.G) ** 2) <= 1.001 * loss


@pytest.mark.parametrize("rows_per_block", [7, 1000])
def test_other_blocks_give_the_same_columns_and_losses_within_both_intervals(rows_per_block):
    params = FitParameters(2, 5, strategy="stream", sketch_rows=40, effort=0)
    here, there = fit(X, params)[0], fit(X, params, rows_per_block)[0]
    assert np.array_equal(here.H != 0, there.H != 0)
    assert here.certificate.loss == pytest.approx(there.certificate.loss, rel=1e-2)
    assert_covers(there, X, 2)


def test_few_columns_or_few_rows_are_known_exactly():
    for data in (X[:, :20], X[:30]):
        fitted, _, _ = fit(data, FitParameters(2, 4, strategy="stream", sketch_rows=40, effort=0))
        found, Xc = fitted.certificate, data - data.mean(axis=0)
        assert found.loss == pytest.approx(encoder_loss(Xc, fitted.H), rel=1e-9)
        assert found.loss_upper - found.loss_lower <= 3 * found.loss_error
        assert found.pca_loss == pytest.approx(pca_loss(Xc, 2), rel=1e-9)


def test_a_wanted_excess_is_reached_on_the_model_and_takes_more_candidates_if_it_must():
    for n_candidates in (80, 8):
        params = FitParameters(
            3, None, eps=0.02, strategy="stream", n_candidates=n_candidates, sketch_rows=60, effort=0
        )
        fitted, _, passes = fit(X, params)
        assert fitted.certificate.loss <= 1.02 * fitted.certificate.pca_loss * (1 + 1e-9)
        assert encoder_loss(X - fitted.mean, fitted.H) <= 1.03 * pca_loss(X - fitted.mean, 3)
        assert (passes, fitted.certificate.eps) == (1, 0.02)


def test_a_share_to_keep_is_reached_on_the_model_and_not_claimed_of_the_data():
    fitted, _, _ = fit(X, FitParameters(3, keep=0.9, strategy="stream", sketch_rows=60, effort=0))
    found, Xc = fitted.certificate, X - fitted.mean
    total, best = float(np.sum(Xc**2)), pca_loss(Xc, 3)
    assert total - found.loss >= 0.9 * (total - found.pca_loss) * (1 - 1e-9)
    certain = found.loss_upper <= total - 0.9 * (total - found.pca_loss_lower)
    assert found.target_met is (True if certain else None)
    assert total - encoder_loss(Xc, fitted.H) >= 0.89 * (total - best)


def test_a_path_costs_no_read_and_its_polished_losses_never_rise_on_the_model():
    params = FitParameters(3, 8, strategy="stream", sketch_rows=60, effort=0)
    _, streamed, _ = fit(X, params)
    points = sparsity_path(params, streamed, [2, 3], [2, 4, 8]).points
    losses = np.array([point.loss for point in points]).reshape(2, 3)
    assert np.all(np.diff(losses, axis=1) <= 1e-9 * losses[0, 0])
    with pytest.raises(InvalidInput, match="only the candidate columns"):
        sparsity_path(FitParameters(3, 8, method="batch"), streamed, [2], [4])


def test_constant_low_rank_and_duplicated_columns_give_what_there_is():
    constant, _, _ = fit(np.full((50, 6), 3.0), FitParameters(2, 2, strategy="stream"))
    assert constant.certificate.loss == 0
    assert not constant.H.any()
    rng = np.random.default_rng(1)
    low = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 20))
    data = np.hstack([low, low[:, :5], np.zeros((400, 3))])
    fitted, _, _ = fit(data, FitParameters(4, 3, strategy="stream", sketch_rows=10))
    assert fitted.certificate.loss <= 1e-9 * fitted.certificate.total
    assert fitted.certificate.ratio == pytest.approx(1.0, abs=1e-9)
    assert np.all(np.isfinite(fitted.H))
    assert not fitted.H[25:].any()


def test_gaps_are_refused_when_the_read_is_over_or_filled_with_zero():
    gappy = X[:300, :30].copy()
    gappy[np.random.default_rng(0).random(gappy.shape) < 0.05] = np.nan
    with pytest.raises(NonFiniteInput, match="missing="):
        fit(gappy, FitParameters(2, 4, strategy="stream", sketch_rows=10))
    fitted, _, passes = fit(gappy, FitParameters(2, 4, strategy="stream", missing="zero", sketch_rows=10, effort=0))
    assert_covers(fitted, np.nan_to_num(gappy), 2)
    assert passes == 1


@pytest.mark.parametrize("options", [{"missing": "mean"}, {"method": "doubly-sparse"}, {"method": "batch", "r": None}])
def test_what_one_read_cannot_do_is_refused(options):
    params = FitParameters(2, options.pop("r", 3), strategy="stream", **options)
    with pytest.raises(InvalidInput, match="strategy='stream'"):
        check_strategy(params)


def test_what_is_kept_does_not_depend_on_n():
    assert stream_recipe(FitParameters(3, 5), 1000).state_nbytes == 8 * (128 * 1000 + 14 * 1000 + 26)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "polished", "scale": True},
        {"method": "polished", "shared_support": True},
        {"method": "iterative", "missing": "zero"},
        {"n_candidates": 20},
        {"selection": "full-greedy", "n_candidates": 20},
        {"selection": "adaptive", "n_candidates": 20, "center": False},
        {"n_nonzero": None, "eps": 3.0, "method": "polished", "n_candidates": 128},
    ],
    ids=lambda options: " ".join(f"{name}={value}" for name, value in options.items()),
)
def test_the_algebra_of_wide_data_takes_no_more_memory_than_planned_and_at_least_half(monkeypatch, options):
    # few columns are searched, and few rows stand for the diagonal, so that what is as wide as the data counts
    monkeypatch.setattr(stream, "DIAGONAL", 64)
    monkeypatch.setattr(stream, "POOL", 300)
    # a plan counts all doublings of the candidates, and a target within reach takes none
    monkeypatch.setattr("spae_dask.strategies.candidate_set.MOST_DOUBLINGS", 0)
    monkeypatch.setattr("spae_dask.strategies.candidate_set.POOL", 300)
    given = {"n_nonzero": 3, "method": "batch", "effort": 0, "sketch_rows": 40} | options
    params = FitParameters(2, strategy="stream", **given)
    source = wide_data(150)
    with Traced(source) as traced:
        fit_stream(params, traced.run_pass, source.shape[1])
    most = traced.peaks[-1]
    assert most <= stream_finish_nbytes(params, source.shape[1]) <= 2 * most
