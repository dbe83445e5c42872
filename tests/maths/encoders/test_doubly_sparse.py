"""C Phi R: exact loss, few columns and few rows, and rows that hardly cost anything."""

import numpy as np
import pytest

from spae_dask.maths.encoders.batch import encode_batch
from spae_dask.maths.encoders.doubly_sparse import (
    CodesOnColumns,
    encode_doubly_sparse,
    lemma_rows,
    leverage_coefficients,
)
from spae_dask.maths.linalg.sketch import exponential_draws
from spae_dask.passes.accumulators import RowPool
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


def sample_of(X, T, columns, size, seed):
    accumulator = RowPool(size, columns, T, np.zeros(X.shape[1]), seed=seed)
    return accumulator.result(accumulator.update(accumulator.zero(), X, 0)).numbers


def lemma_problem(kind):
    rng = np.random.default_rng(7)
    X = power_law(rng, 150, 20, decay=1.0)
    if kind == "uneven":
        X *= np.exp(rng.standard_normal((150, 1)))
    L = np.linalg.qr(X)[1]
    columns = encode_batch(L, 3, 6, selection="greedy", rng=rng).selected
    T = leverage_coefficients(L, columns, 3)
    return X, L, columns, T


@pytest.mark.parametrize("kind", ["even", "uneven"])
@pytest.mark.parametrize("n_drawn", [4, 12])
def test_drawn_rows_estimate_the_target_without_bias_and_as_well_as_the_lemma_says(kind, n_drawn):
    X, _, columns, T = lemma_problem(kind)
    Z = X[:, columns] @ T
    np.testing.assert_allclose(Z.T @ Z, np.eye(3), atol=1e-9)
    R1 = X[:5]
    B = X - X @ np.linalg.pinv(R1) @ R1
    errors, mean, n_seeds = [], np.zeros((3, 20)), 1000
    for seed in range(n_seeds):
        kept = sample_of(X, T, columns, n_drawn + 1, seed)
        weights = np.sum(Z[kept] ** 2, axis=1)
        bar = (exponential_draws(seed, int(kept[-1]), 1) / weights[-1])[0]
        found = (Z[kept[:-1]] / (1 - np.exp(-weights[:-1] * bar))[:, None]).T @ B[kept[:-1]]
        mean += found / n_seeds
        errors.append(np.sum((found - Z.T @ B) ** 2))
    allowed = 3 * np.sum(B**2) / (n_drawn - 1)
    assert 0.3 * allowed <= np.mean(errors) <= allowed
    # of 60 entries, the squared error of a mean of 1000 is a thousandth of that of one
    assert np.sum((mean - Z.T @ B) ** 2) <= 3 * np.mean(errors) / n_seeds


@pytest.mark.parametrize("n_rows", [4, 6, 12])
def test_the_rows_of_the_lemma_add_no_more_than_it_promises_on_average(n_rows):
    X, L, columns, T = lemma_problem("uneven")
    Z = X[:, columns] @ T
    pool = X[sample_of(X, T, columns, 40, 10_000)]
    codes = CodesOnColumns.of(L, columns, 3)
    lemma = lemma_rows(codes, pool, n_rows)
    assert lemma.start.size + lemma.n_drawn == n_rows
    added = []
    for seed in range(200):
        rows = np.vstack([pool[lemma.start], X[sample_of(X, T, columns, lemma.n_drawn, seed)]])
        added.append(np.sum((Z.T @ X @ (np.eye(20) - np.linalg.pinv(rows) @ rows)) ** 2))
    assert np.mean(added) <= lemma.excess
    left = [
        3 * np.sum((X - X @ np.linalg.pinv(R1) @ R1) ** 2) / (n_rows - r1 - 1)
        for r1, R1 in enumerate(pool[codes.grow(pool, n_rows - 2)[:r1]] for r1 in range(n_rows - 1))
    ]
    assert lemma.excess == pytest.approx(min(left), rel=1e-9)
    assert lemma.start.size == np.argmin(left)


def test_one_row_is_promised_nothing():
    X, L, columns, _ = lemma_problem("even")
    assert lemma_rows(CodesOnColumns.of(L, columns, 3), X, 1).excess == np.inf


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
