import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.datasets.lower_bound import lower_bound_loss, lower_bound_matrix
from spae_dask.maths.linalg.spectral import right_singular
from spae_dask.maths.selection.pivoting import independent_rows, pivot_columns, pivoted_qr
from tests import oracles
from tests.matrices import heavy_tailed, low_rank, orthonormal, power_law


@settings(max_examples=80)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 6))
def test_k_columns_come_within_their_own_bound_which_is_within_k_plus_one(seed, k):
    rng = np.random.default_rng(seed)
    X = (power_law, heavy_tailed)[seed % 2](rng, 14, 12)
    V_k = right_singular(X, k)[1]
    E = X - X @ V_k @ V_k.T

    columns, bound = pivot_columns(V_k, E)

    assert len(set(columns.tolist())) == k
    pca = oracles.pca_loss(X, k)
    assert oracles.columns_loss(X, columns, k) <= bound * (1 + 1e-9)
    assert bound <= (k + 1) * pca * (1 + 1e-9)


def test_arguments_are_left_alone():
    X = power_law(np.random.default_rng(0), 10, 6)
    V_k = right_singular(X, 2)[1]
    E = X - X @ V_k @ V_k.T
    before = V_k.copy(), E.copy()

    pivot_columns(V_k, E)

    np.testing.assert_array_equal(V_k, before[0])
    np.testing.assert_array_equal(E, before[1])


def test_one_column_of_each_block_of_the_worst_case():
    X = lower_bound_matrix(3, 8, 0.2)
    V_k = right_singular(X, 3)[1]

    columns, _ = pivot_columns(V_k, X - X @ V_k @ V_k.T)

    assert sorted((columns // 8).tolist()) == [0, 1, 2]
    assert oracles.columns_loss(X, columns, 3) == pytest.approx(lower_bound_loss([1, 1, 1], 8, 0.2), rel=1e-9)


def test_columns_inside_the_subspace_cost_nothing():
    rng = np.random.default_rng(1)
    U = orthonormal(rng, 20, 8)
    # the first three columns are the principal components themselves
    X = np.hstack([U[:, :3] * [9.0, 8.0, 7.0], U[:, 3:]])
    V_k = right_singular(X, 3)[1]

    columns, bound = pivot_columns(V_k, X - X @ V_k @ V_k.T)

    assert sorted(columns.tolist()) == [0, 1, 2]
    assert bound == pytest.approx(oracles.pca_loss(X, 3), rel=1e-12)


def test_of_columns_that_cost_nothing_the_one_of_most_leverage_is_taken():
    U = orthonormal(np.random.default_rng(4), 20, 2)
    X = np.stack([1e-6 * U[:, 0], 9.0 * U[:, 0], U[:, 1]], axis=1)
    V_k = right_singular(X, 1)[1]

    assert pivot_columns(V_k, X - X @ V_k @ V_k.T)[0].tolist() == [1]


def test_independent_rows_span_a_low_rank_matrix():
    X = low_rank(np.random.default_rng(2), 20, 15, 4)

    rows = independent_rows(right_singular(X, 4)[1])

    assert oracles.columns_loss(X, rows, 4) < 1e-20 * np.sum(X**2)


def test_pivoted_qr_agrees_with_lapack():
    X = heavy_tailed(np.random.default_rng(3), 25, 14)

    np.testing.assert_array_equal(pivoted_qr(X, 1, 9), scipy.linalg.qr(X, mode="r", pivoting=True)[1][:9])
