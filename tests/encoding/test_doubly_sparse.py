"""C Phi R: exact loss, few columns and few rows, and rows that hardly cost anything."""

import numpy as np
import pytest

from spae_dask.accumulators import RowPool
from spae_dask.encoding.batch import encode_batch
from spae_dask.encoding.doubly_sparse import encode_doubly_sparse, leverage_coefficients
from tests.matrices import power_law, with_spectrum


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = power_law(rng, 500, 30, decay=1.0)
    L = np.linalg.qr(X)[1]
    columns = encode_batch(L, 3, 8, selection="greedy", rng=rng).selected
    return X, L, columns


def pool_of(X, L, columns, k, size, seed=0):
    accumulator = RowPool(size, columns, leverage_coefficients(L, columns, k), np.zeros(X.shape[1]), seed=seed)
    return accumulator.result(accumulator.update(accumulator.zero(), X, 0))


@pytest.mark.parametrize("n_rows", [3, 6, 12])
def test_the_loss_is_that_of_the_dense_reconstruction_and_the_decoder_is_made_of_the_rows(problem, n_rows):
    X, L, columns = problem
    pool = pool_of(X, L, columns, 3, 10 * n_rows)
    made = encode_doubly_sparse(L, columns, pool.rows, 3, n_rows)
    assert made.loss == pytest.approx(np.sum((X - X @ made.H @ made.G) ** 2), rel=1e-9)
    rows = X[pool.numbers[made.rows]]
    assert np.linalg.matrix_rank(np.vstack([rows, made.G]), tol=1e-9) == np.linalg.matrix_rank(rows, tol=1e-9)
    assert set(np.flatnonzero(made.H.any(axis=1))) <= set(columns.tolist())
    assert np.allclose(made.H.T @ made.H, np.eye(3), atol=1e-12)


def test_the_error_is_the_total_minus_the_norm_of_the_middle(problem):
    X, L, columns = problem
    pool = pool_of(X, L, columns, 3, 60)
    made = encode_doubly_sparse(L, columns, pool.rows, 3, 6)
    Q_C = np.linalg.qr(X[:, columns])[0]
    Q_R = np.linalg.qr(pool.rows[made.rows].T)[0]
    middle = np.linalg.svd(Q_C.T @ X @ Q_R, compute_uv=False)[:3]
    assert made.loss == pytest.approx(np.sum(X * X) - np.sum(middle**2), rel=1e-9)


def test_four_rows_a_code_lose_little_over_the_columns_alone(problem):
    X, L, columns = problem
    batch = encode_batch(L, 3, 8, selection="greedy", rng=np.random.default_rng(0))
    made = encode_doubly_sparse(L, columns, pool_of(X, L, columns, 3, 120).rows, 3, 12)
    assert batch.loss * (1 - 1e-12) <= made.loss <= 1.02 * batch.loss


def test_as_many_rows_as_the_rank_lose_nothing_over_the_columns():
    rng = np.random.default_rng(3)
    X = with_spectrum(rng, 100, 12, [5.0, 3.0, 2.0, 1.0])
    L = np.linalg.qr(X)[1]
    batch = encode_batch(L, 2, 3, selection="greedy", rng=rng)
    made = encode_doubly_sparse(L, batch.selected, X[:40], 2, 4)
    assert made.loss == pytest.approx(batch.loss, rel=1e-9)


def test_the_pool_is_the_same_for_any_cut_and_follows_the_leverages():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((4000, 5)) * np.linspace(0.2, 3, 4000)[:, None]
    columns, T = np.array([0, 3]), np.eye(2) / 50
    accumulator = RowPool(400, columns, T, np.zeros(5), seed=2)
    whole = accumulator.result(accumulator.update(accumulator.zero(), X, 0))
    state = accumulator.zero()
    for start in range(0, 4000, 173):
        state = accumulator.merge(state, accumulator.update(accumulator.zero(), X[start : start + 173], start))
    parts = accumulator.result(state)
    assert np.array_equal(whole.numbers, parts.numbers)
    assert np.array_equal(whole.rows, X[whole.numbers])
    weights = np.sum(X[:, columns] ** 2, axis=1)
    # sampling by weight draws rows of the upper half about as often as their share of the weight says
    share = weights[2000:].sum() / weights.sum()
    assert abs(np.mean(whole.numbers >= 2000) - share) < 0.06
