import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.datasets.lower_bound import lower_bound_loss, lower_bound_matrix
from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.spectral import right_singular
from spae_dask.maths.selection.dual_set import barrier, barrier_start, best_unused, dual_set, dual_set_weights
from spae_dask.maths.selection.problem import pose
from tests import oracles
from tests.matrices import factor_model, heavy_tailed, power_law

TIE_RULES = {
    "best unused": best_unused,
    "best": lambda slack, valid, used: int(np.argmax(np.where(valid, slack, -np.inf))),
    "first": lambda slack, valid, used: int(np.argmax(valid)),
    "last": lambda slack, valid, used: int(np.flatnonzero(valid)[-1]),
    "least slack": lambda slack, valid, used: int(np.argmin(np.where(valid, slack, np.inf))),
}


def problem(seed, m, d, k):
    rng = np.random.default_rng(seed)
    X = (power_law, heavy_tailed)[seed % 2](rng, m, d)
    V_k = right_singular(X, k)[1]
    return X, V_k, np.sum((X - X @ V_k @ V_k.T) ** 2, axis=0)


@pytest.mark.parametrize("rule", sorted(TIE_RULES))
@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 5), extra=st.integers(1, 15))
def test_both_inequalities_hold_whatever_valid_column_is_taken(rule, seed, k, extra):
    r = k + extra
    _, V_k, e = problem(seed, 20, 16, k)

    weights, picks = dual_set_weights(V_k, e, r, TIE_RULES[rule])

    assert np.count_nonzero(weights) <= r
    assert set(picks.tolist()) == set(np.flatnonzero(weights).tolist())
    smallest = np.linalg.eigvalsh((V_k.T * weights) @ V_k)[0]
    assert smallest >= (1 - np.sqrt(k / r)) ** 2 * (1 - 1e-9)
    assert weights @ e <= e.sum() * (1 + 1e-9)


def test_no_second_set_leaves_only_the_spectral_inequality():
    V_k = problem(1, 12, 10, 3)[1]

    weights, _ = dual_set_weights(V_k, np.zeros(10), 7)

    assert np.linalg.eigvalsh((V_k.T * weights) @ V_k)[0] >= (1 - np.sqrt(3 / 7)) ** 2


def test_for_one_vector_the_scores_are_its_squared_entries_at_every_step():
    _, v, e = problem(0, 20, 9, 1)
    upper = e / e.sum() * (1 - np.sqrt(1 / 6))
    seen = []

    def watch(slack, valid, used):
        seen.append(slack + upper)
        return best_unused(slack, valid, used)

    dual_set_weights(v, e, 6, watch)

    np.testing.assert_allclose(seen, np.tile(v[:, 0] ** 2, (6, 1)), atol=1e-12)


def test_unused_columns_are_preferred():
    X = lower_bound_matrix(4, 30, 0.1)
    V_k = right_singular(X, 4)[1]
    e = np.sum((X - X @ V_k @ V_k.T) ** 2, axis=0)

    fresh = dual_set_weights(V_k, e, 60).picks
    first = dual_set_weights(V_k, e, 60, TIE_RULES["first"]).picks

    assert len(set(fresh.tolist())) == 60
    assert len(set(first.tolist())) < 10


def test_rows_of_zero_columns_are_never_taken():
    V_k = np.vstack([np.zeros((5, 2)), problem(2, 12, 8, 2)[1]])
    e = np.concatenate([np.zeros(5), np.ones(8)])

    assert dual_set_weights(V_k, e, 9, TIE_RULES["first"]).picks.min() >= 5


def test_vectors_that_are_not_orthonormal_are_repaired():
    _, V_k, e = problem(4, 20, 16, 3)

    weights, _ = dual_set_weights(0.01 * V_k, e, 4)

    assert np.linalg.eigvalsh((V_k.T * weights) @ V_k)[0] >= (1 - np.sqrt(3 / 4)) ** 2 * (1 - 1e-9)


def test_as_many_columns_as_vectors_are_too_few():
    with pytest.raises(InvalidInput, match="r = 3, k = 3"):
        dual_set_weights(np.eye(5)[:, :3], np.ones(5), 3)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 4), extra=st.integers(0, 10))
def test_the_loss_stays_within_the_theorem(seed, k, extra):
    r = k + extra
    X = problem(seed, 18, 16, k)[0]

    ratio = oracles.columns_loss(X, dual_set(X, k, r), k) / oracles.pca_loss(X, k)

    bound = k + 1 if r == k or k == 1 else 1 + 1 / (1 - np.sqrt(k / r)) ** 2
    assert 1 - 1e-9 <= ratio <= bound


def test_closed_form_on_the_worst_case_matrix():
    k, block, alpha = 4, 30, 0.1
    X = lower_bound_matrix(k, block, alpha)
    pca = k * (block - 1) * alpha**2

    assert oracles.pca_loss(X, k) == pytest.approx(pca, rel=1e-10)
    assert lower_bound_loss([5, 5, 5, 5], block, alpha) / pca == pytest.approx(1.1721, abs=5e-5)
    for r in (4, 20, 60):
        selected = dual_set(X, k, r)
        counts = np.bincount(selected // block, minlength=k)
        assert oracles.columns_loss(X, selected, k) == pytest.approx(lower_bound_loss(counts, block, alpha), rel=1e-9)
        # columns are exchangeable inside a block, so a fair choice takes as many from each
        np.testing.assert_array_equal(counts, r // k)


def test_fewer_columns_than_vectors_are_near_the_best_of_that_rank():
    X = factor_model(np.random.default_rng(5), 40, 20, 6, 0.2)

    selected = dual_set(X, 6, 3)

    assert oracles.columns_loss(X, selected, 3) <= 4 * oracles.pca_loss(X, 3)


def test_barrier_runs_the_recursion_for_one_vector_too():
    # ten equal columns and one long one: dual-set takes one column, the recursion one a step
    X = np.hstack([np.ones((30, 10)), 3 * np.ones((30, 1))]) + 0.1 * np.random.default_rng(0).standard_normal((30, 11))
    v = np.linalg.svd(X)[2][0]
    e = np.sum((X - np.outer(X @ v, v)) ** 2, axis=0)
    r = 6

    start = barrier_start(pose(X, 1, r), r)

    # of k = 1 the test of a column is the same at every step
    valid = v**2 >= (1 - np.sqrt(1 / r)) * e / e.sum()
    slack = v**2 - (1 - np.sqrt(1 / r)) * e / e.sum()
    by_hand = [j for j in np.argsort(-slack) if valid[j]][:r]
    assert start.tolist() == by_hand
    assert len(start) > 1
    assert barrier(X, 1, r)[: start.size].tolist() == start.tolist()


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 4), extra=st.integers(0, 8))
def test_barrier_is_dual_set_for_more_vectors(seed, k, extra):
    X = problem(seed, 20, 16, k)[0]

    assert barrier(X, k, k + extra).tolist() == dual_set(X, k, k + extra).tolist()
