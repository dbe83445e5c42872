"""Evaluating an encoder row by row agrees with the algebra on the core."""

import numpy as np
import pytest

from spae_dask.errors import NonFiniteInput
from spae_dask.strategies.evaluation import Autoencoder, evaluate_encoder
from tests import oracles
from tests.matrices import factor_model
from tests.strategies.passes import runner

X = factor_model(np.random.default_rng(0), 80, 9, 3, 0.4)


def autoencoder(*, fill: np.ndarray | None = None) -> Autoencoder:
    rng = np.random.default_rng(1)
    H = rng.standard_normal((9, 2)) * (rng.random((9, 1)) < 0.6)
    return Autoencoder(H, rng.standard_normal((2, 9)), rng.standard_normal(9), 1 + rng.random(9), fill)


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("n", [1, 5, 80])
def test_any_encoder_and_decoder_are_measured(strategy: str, n: int) -> None:
    given = autoencoder()
    found = evaluate_encoder(runner(X[:n]).run_pass, given, strategy=strategy)
    seen = (X[:n] - given.mean) / given.scale
    assert found.decoder_loss == pytest.approx(float(np.sum((seen - seen @ given.H @ given.G) ** 2)), rel=1e-10)
    loss = oracles.encoder_loss(seen, given.H)
    assert found.loss == pytest.approx(loss, rel=1e-9, abs=1e-12 * found.total)
    assert found.pca_loss == pytest.approx(oracles.pca_loss(seen, 2), rel=1e-9, abs=1e-12 * found.total)
    assert found.total == pytest.approx(float(np.sum(seen**2)), rel=1e-10)


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
def test_all_metrics_are_those_of_the_rows_as_the_encoder_sees_them(strategy: str) -> None:
    given = autoencoder()
    found = evaluate_encoder(runner(X).run_pass, given, strategy=strategy)
    seen = (X - given.mean) / given.scale
    Z = seen @ given.H
    assert found.metrics is not None
    assert found.metrics.information_loss == found.ratio
    assert found.metrics.loss == found.loss
    assert found.metrics.prefix_losses[0] == pytest.approx(oracles.encoder_loss(seen, given.H[:, :1]), rel=1e-9)
    # the mean is the encoder's, not that of these rows
    assert found.metrics.score_correlation[0][1] == pytest.approx(
        Z[:, 0] @ Z[:, 1] / np.linalg.norm(Z[:, 0]) / np.linalg.norm(Z[:, 1]), abs=1e-9
    )
    assert found.metrics.details() in str(found)
    assert found.as_dict()["metrics"] == found.metrics.as_dict()


def test_gaps_are_filled_with_the_values_of_the_fit() -> None:
    rows = X.copy()
    rows[np.random.default_rng(2).random(X.shape) < 0.1] = np.nan
    fill = np.arange(9.0)
    filled = np.where(np.isnan(rows), fill, rows)
    one = evaluate_encoder(runner(rows).run_pass, autoencoder(fill=fill), strategy="tsqr")
    other = evaluate_encoder(runner(filled).run_pass, autoencoder(), strategy="tsqr")
    assert one.decoder_loss == pytest.approx(other.decoder_loss, rel=1e-12)
    assert one.loss == pytest.approx(other.loss, rel=1e-9)
    with pytest.raises(NonFiniteInput):
        evaluate_encoder(runner(rows).run_pass, autoencoder(), strategy="tsqr")


@pytest.mark.parametrize("n", [1, 5, 80])
def test_without_a_core_the_loss_is_as_exact_and_pca_is_bracketed(n: int) -> None:
    given = autoencoder()
    found = evaluate_encoder(runner(X[:n]).run_pass, given, strategy="sketch")
    exact = evaluate_encoder(runner(X[:n]).run_pass, given, strategy="tsqr")
    rounding = 1e-11 * exact.total
    assert found.loss == pytest.approx(exact.loss, rel=1e-9, abs=rounding)
    assert found.decoder_loss == pytest.approx(exact.decoder_loss, rel=1e-12)
    assert found.total == pytest.approx(exact.total, rel=1e-12)
    assert found.symmetric_explained == pytest.approx(exact.symmetric_explained, rel=1e-9, abs=rounding)
    assert found.pca_loss_lower is not None
    assert found.pca_loss_upper is not None
    assert found.pca_loss == found.pca_loss_lower <= exact.pca_loss + rounding
    assert exact.pca_loss <= found.pca_loss_upper + rounding
    assert found.combined_nonzero == exact.combined_nonzero
