"""``precision="fast"``: the same encoder, a loss within the error that the certificate states."""

import numpy as np
import pytest

from spae_dask import SparseEncoder
from spae_dask.errors import InvalidInput, PrecisionWarning
from tests.estimators.sources import batch_encoder
from tests.oracles import encoder_loss, pca_loss


@pytest.fixture(scope="module")
def X():  # noqa: N802 - the data
    rng = np.random.default_rng(0)
    return (
        500 + rng.standard_normal((3000, 6)) @ rng.standard_normal((6, 40)) + rng.standard_normal((3000, 40))
    ).astype(np.float32)


@pytest.mark.parametrize("strategy", ["auto", "sketch"])
@pytest.mark.parametrize("scale", [False, True])
def test_the_loss_is_within_the_stated_error(X, strategy, scale):
    fast = batch_encoder(3, n_nonzero=5, strategy=strategy, precision="fast", scale=scale, n_candidates=30).fit(X)
    found = fast.certificate_
    Xc = (X.astype(np.float64) - fast.mean_) / fast.scale_
    assert 0 < found.loss_error < 1e-3 * found.total
    assert abs(found.loss - encoder_loss(Xc, fast.components_.T)) <= found.loss_error
    assert abs(found.loss - encoder_loss(Xc, fast.components_.T)) <= 1e-5 * found.loss
    if strategy == "auto":
        assert abs(found.pca_loss - pca_loss(Xc, 3)) <= found.loss_error
    exact = batch_encoder(3, n_nonzero=5, strategy=strategy, scale=scale, n_candidates=30).fit(X)
    assert np.array_equal(fast.selected_features_, exact.selected_features_)
    assert exact.certificate_.loss_error < found.loss_error


def test_float64_data_are_allowed_and_take_a_gram_matrix(X):
    assert batch_encoder(2, n_nonzero=3, precision="fast").fit(X.astype(np.float64)).plan_.strategy == "gram"


def test_a_loss_near_the_error_is_warned_of():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((500, 2)) @ rng.standard_normal((2, 8)) + 1e-3 * rng.standard_normal((500, 8))
    with pytest.warns(PrecisionWarning, match="precision='exact'"):
        batch_encoder(2, n_nonzero=8, precision="fast").fit(X)


@pytest.mark.parametrize("strategy", ["tsqr", "paper"])
def test_strategies_without_float32_products_refuse_it(X, strategy):
    with pytest.raises(InvalidInput, match="float32"):
        SparseEncoder(2, n_nonzero=3, method="batch", precision="fast", strategy=strategy).fit(X)
