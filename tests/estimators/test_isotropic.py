"""Whitened data, whose covariance has equal eigenvalues, in every strategy."""

import numpy as np
import pytest

from spae_dask import SparseEncoder


@pytest.mark.filterwarnings("ignore::spae_dask.errors.RankDeficientWarning")
@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch", "stream", "sample", "paper"])
@pytest.mark.parametrize("method", ["polished", "batch", "iterative"])
def test_whitened_data_are_fitted_by_every_strategy(strategy, method):
    if strategy == "paper" and method != "batch":
        pytest.skip("the paper's passes make batch encoders")
    for seed in range(1 if method == "polished" else 2):
        X = np.random.default_rng(seed).standard_normal((60, 8))
        X -= X.mean(axis=0)
        white = np.linalg.svd(X, full_matrices=False)[0]
        for k, r in ((1, 1), (2, 3), (3, 4)):
            found = SparseEncoder(k, n_nonzero=r, method=method, strategy=strategy, random_state=seed).fit(white)

            # columns proposed on a sketch may leave nothing for a later component
            made = np.count_nonzero(found.components_.any(axis=1))
            assert made == k or (method == "iterative" and strategy in ("sketch", "stream"))
            assert found.certificate_.loss == pytest.approx(8 - made, rel=1e-6)


@pytest.mark.parametrize("X", [1.5 * np.eye(6), np.eye(5)[::-1], np.vstack([np.eye(4), -np.eye(4)])], ids=str)
@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
def test_multiples_of_the_identity_are_fitted(X, strategy):
    found = SparseEncoder(1, n_nonzero=1, center=False, strategy=strategy).fit(X)

    assert found.certificate_.ratio == pytest.approx(1.0, rel=1e-12)
    assert found.get_support().sum() == 1
