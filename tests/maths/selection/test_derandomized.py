import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.maths.linalg.spectral import right_singular
from spae_dask.maths.selection.adaptive import best_split
from spae_dask.maths.selection.derandomized import adaptive_derandomized, derandomized_round
from spae_dask.maths.selection.dual_set import dual_set
from tests import oracles
from tests.matrices import heavy_tailed, low_rank, power_law


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 3), s=st.integers(1, 12))
def test_the_estimator_never_grows_and_certifies_the_loss(seed, k, s):
    X = (power_law, heavy_tailed)[seed % 2](np.random.default_rng(seed), 16, 14)
    V_k = right_singular(X, k)[1]
    start = dual_set(X, k, k)

    found = derandomized_round(X, V_k, start, s)

    steps = np.arange(1, s + 1)
    assert np.all(found.squared <= steps * found.variance * (1 + 1e-9))
    loss = oracles.columns_loss(X, np.concatenate([start, found.columns]), k)
    pca = oracles.pca_loss(X, k)
    left = X - oracles.projected(X, X[:, start])
    # loss <= certificate <= the bound in expectation <= the bound in the papers
    assert loss <= (pca + found.certificate) * (1 + 1e-9)
    assert found.certificate <= found.variance / s * (1 + 1e-9)
    assert found.variance <= k * np.sum(left**2) * (1 + 1e-9)


def test_the_estimator_is_what_it_says():
    X = power_law(np.random.default_rng(0), 12, 9)
    V_k = right_singular(X, 2)[1]
    start = dual_set(X, 2, 2)

    found = derandomized_round(X, V_k, start, 4)

    B = X - oracles.projected(X, X[:, start])
    p = np.sum(B**2, axis=0) / np.sum(B**2)
    D = sum(np.outer(B[:, j], V_k[j]) / p[j] - B @ V_k for j in found.columns)
    assert found.squared[-1] == pytest.approx(np.sum(D**2), rel=1e-10)
    mean_square = sum(
        p[j] * np.sum((np.outer(B[:, j], V_k[j]) / p[j] - B @ V_k) ** 2) for j in np.flatnonzero(p > 1e-12)
    )
    assert found.variance == pytest.approx(mean_square, rel=1e-9)


def test_nothing_left_to_explain_ends_the_round():
    X = low_rank(np.random.default_rng(1), 20, 10, 2)

    found = derandomized_round(X, right_singular(X, 2)[1], np.array([0, 1]), 5)

    assert found.columns.size == 0
    assert found.certificate == 0.0


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 3), extra=st.integers(1, 12))
def test_the_bound_in_expectation_holds_every_time(seed, k, extra):
    X = (power_law, heavy_tailed)[seed % 2](np.random.default_rng(seed), 18, 16)
    r = k + extra

    ratio = oracles.columns_loss(X, adaptive_derandomized(X, k, r), k) / oracles.pca_loss(X, k)

    assert 1 - 1e-9 <= ratio <= best_split(k, r).bound
