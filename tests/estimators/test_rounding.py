"""Fits whose core cannot tell the loss: near-copies, large means, columns that vary by rounding only."""

import warnings

import numpy as np
import pytest

from spae_dask import SparseEncoder, evaluate
from spae_dask.errors import PrecisionWarning
from tests import oracles
from tests.certified import Truth, claims
from tests.estimators.sources import batch_encoder


def near_copies(eps: float, dtype: str = "float32") -> np.ndarray:
    """A column and a near-copy whose difference predicts eight others."""
    rng = np.random.default_rng(0)
    z, a = rng.normal(size=(2, 1000))
    return np.c_[a, a + eps * z, np.outer(z, np.ones(8)) + 0.5 * rng.normal(size=(1000, 8))].astype(dtype)


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch"])
@pytest.mark.parametrize("eps", [1e-4, 1e-5, 1e-7, 3e-8])
def test_a_ratio_is_that_of_the_rows_where_near_copies_are_used(strategy, eps):
    X = near_copies(eps)
    encoder = SparseEncoder(1, n_nonzero=2, strategy=strategy).fit(X)
    truth, found = Truth(X, encoder), encoder.certificate_
    assert all(claim.holds for claim in claims(truth, found))
    assert found.ratio == pytest.approx(truth.loss / truth.pca_loss, rel=1e-6)
    assert found.loss_kind == "exact"


def test_one_more_read_sums_the_residuals_where_the_core_cannot_tell():
    X = near_copies(1e-5)
    encoder = SparseEncoder(1, n_nonzero=2, strategy="gram").fit(X)
    found = encoder.certificate_
    assert (found.passes, found.summed_over_rows) == (2, True)
    assert "summed over the rows" in str(found)
    about = X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)
    left = about - (about @ encoder.components_.T) @ encoder.decoder_
    assert found.loss == pytest.approx(float(np.sum(left**2)), rel=1e-9)
    plain = SparseEncoder(1, n_nonzero=2, strategy="gram").fit(X[:, 2:])
    assert (plain.certificate_.passes, plain.certificate_.summed_over_rows) == (1, False)


@pytest.mark.parametrize("strategy", ["gram", "sketch"])
def test_differences_that_are_noise_in_the_core_are_not_used(strategy):
    encoder = SparseEncoder(1, n_nonzero=2, strategy=strategy).fit(near_copies(3e-8))
    assert set(encoder.selected_features_) != {0, 1}


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch"])
def test_evaluate_measures_the_rows_and_agrees_with_a_dense_projection(strategy):
    X = near_copies(1e-5, "float64")
    encoder = SparseEncoder(1, n_nonzero=2, strategy="tsqr").fit(X)
    other = X + 0.3 * np.random.default_rng(1).normal(size=X.shape) * np.r_[0, 0, np.ones(8)]
    found = evaluate(other, encoder, strategy=strategy)
    seen = other - encoder.mean_
    codes = seen @ encoder.components_.T
    best = seen - codes @ np.linalg.lstsq(codes, seen, rcond=None)[0]
    assert found.loss == pytest.approx(float(np.sum(best**2)), rel=1e-9)
    assert found.decoder_loss == pytest.approx(float(np.sum((seen - codes @ encoder.decoder_) ** 2)), rel=1e-9)


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch", "stream", "paper"])
@pytest.mark.parametrize("mean", [1e6, 1e9, 1e12])
def test_a_large_mean_costs_no_digits(strategy, mean):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 12)) * np.linspace(5, 0.5, 12) + mean
    encoder = SparseEncoder(2, n_nonzero=3, strategy=strategy, method="batch").fit(X)
    truth = Truth(X, encoder)
    assert all(claim.holds for claim in claims(truth, encoder.certificate_))
    assert encoder.certificate_.total == pytest.approx(truth.total, rel=1e-12)
    if strategy != "stream":
        assert encoder.certificate_.loss == pytest.approx(truth.loss, rel=1e-12)
        assert encoder.certificate_.loss_error < 1e-6 * truth.loss


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch"])
def test_columns_left_out_as_constant_are_named_and_nothing_is_called_exact(strategy):
    rng = np.random.default_rng(1)
    X = np.c_[rng.normal(size=(500, 5)), 1e15 + 0.25 * rng.integers(-1, 2, (500, 2))]
    with pytest.warns(PrecisionWarning, match="2 columns vary by no more than the rounding of their entries"):
        found = SparseEncoder(2, n_nonzero=2, strategy=strategy).fit(X).certificate_
    assert found.n_left_out == 2
    assert found.left_out == pytest.approx(float(np.sum((X[:, 5:] - X[:, 5:].mean(axis=0)) ** 2)), rel=0.1)
    assert found.loss_kind == "approximate"
    assert "left out           2 columns constant to rounding" in str(found)


def test_columns_that_are_constant_are_not_called_left_out():
    X = np.c_[np.random.default_rng(2).normal(size=(100, 4)), np.full((100, 2), 0.1)]
    for strategy in ("gram", "tsqr", "sketch"):
        encoder = SparseEncoder(1, n_nonzero=2, strategy=strategy).fit(X)
        assert encoder.constant_features_.tolist() == [4, 5]
        assert (encoder.certificate_.n_left_out, encoder.certificate_.loss_kind) == (0, "exact")


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch"])
@pytest.mark.parametrize("base", [2**40, 2**54, 2**60, -(2**62), 2**63])
def test_integers_are_counted_from_an_integer(strategy, base):
    rng = np.random.default_rng(3)
    small = (rng.normal(size=(120, 4)) * [50, 40, 30, 20]).astype(np.int64) + 500
    X = small + np.int64(base) if base < 2**63 else small.astype(np.uint64) + np.uint64(base)
    found, exact = fit_quietly(X, strategy=strategy), fit_quietly(small, strategy=strategy)
    assert found.selected_features_.tolist() == exact.selected_features_.tolist()
    assert found.certificate_.loss == pytest.approx(exact.certificate_.loss, rel=1e-6)
    assert found.certificate_.total == pytest.approx(exact.certificate_.total, rel=1e-12)
    if strategy != "sketch":  # its estimate of PCA's loss is an upper bound, and the rounded mean is in it
        assert found.certificate_.pca_loss == pytest.approx(exact.certificate_.pca_loss, rel=1e-9)


def fit_quietly(X, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        return batch_encoder(2, n_nonzero=2, **parameters).fit(X)


def test_a_mean_that_one_float_cannot_hold_is_warned_of():
    X = (np.random.default_rng(4).normal(size=(100, 3)) * 50).astype(np.int64) + 2**60
    with pytest.warns(PrecisionWarning, match=r"integers beyond 2\*\*53, so mean_ is rounded. Subtract a constant"):
        SparseEncoder(1, n_nonzero=2).fit(X)


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch", "stream", "paper"])
@pytest.mark.parametrize("scale", [1e-158, 1e-170, 1e160])
def test_squares_that_float64_cannot_hold_are_refused_in_words(strategy, scale):
    X = np.random.default_rng(5).normal(size=(50, 4)) * scale
    with pytest.raises(ValueError, match=r"overflow float64|vanish in float64"):
        SparseEncoder(1, n_nonzero=2, strategy=strategy, method="batch").fit(X)


@pytest.mark.parametrize("strategy", ["stream", "sketch"])
def test_units_that_differ_by_16_orders_keep_certified_bounds_true_and_narrow(strategy):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(400, 8)) @ rng.normal(size=(8, 30)) + 0.3 * rng.normal(size=(400, 30))
    units = 10.0 ** rng.uniform(-8, 8, 30)
    options = {"n_nonzero": 4, "strategy": strategy, "certified": True, "scale": True, "sketch_rows": 20}
    found = SparseEncoder(2, **options).fit(X * units).certificate_
    scaled = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    exact = oracles.pca_loss(scaled, 2)
    assert found.pca_loss_lower <= exact <= found.pca_loss_upper
    assert found.pca_loss_upper - found.pca_loss_lower < 0.5 * exact
