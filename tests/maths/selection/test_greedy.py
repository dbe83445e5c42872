"""Targeted and full greedy against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.spectral import right_singular
from spae_dask.maths.selection.full_greedy import full_greedy
from spae_dask.maths.selection.targeted_greedy import greedy_order, targeted_greedy
from tests import oracles
from tests.matrices import factor_model, heavy_tailed, orthonormal, power_law

both = pytest.mark.parametrize("select", [targeted_greedy, full_greedy])


def by_definition(X, target, r):
    """Each column the one whose addition leaves the least of the target outside the span."""
    chosen = []
    while len(chosen) < r:
        left = [
            np.inf if j in chosen else np.sum((target - oracles.projected(target, X[:, [*chosen, j]])) ** 2)
            for j in range(X.shape[1])
        ]
        chosen.append(int(np.argmin(left)))
    return chosen


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 3))
def test_targeted_greedy_spans_the_principal_components_step_by_step(seed, k):
    X = (power_law, heavy_tailed)[seed % 2](np.random.default_rng(seed), 12, 8)

    assert targeted_greedy(X, k, 5).tolist() == by_definition(X, X @ right_singular(X, k)[1], 5)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_full_greedy_spans_everything_step_by_step(seed):
    X = (power_law, heavy_tailed)[seed % 2](np.random.default_rng(seed), 12, 8)

    assert full_greedy(X, 1, 5).tolist() == by_definition(X, X, 5)


@both
def test_paths_are_nested(select):
    X = factor_model(np.random.default_rng(0), 30, 20, 4, 0.4)
    longest = select(X, 3, 20)

    for r in range(1, 20):
        np.testing.assert_array_equal(select(X, 3, r), longest[:r])


@both
def test_a_path_is_continued_from_where_it_stopped(select):
    X = factor_model(np.random.default_rng(1), 30, 20, 4, 0.4)
    longest = select(X, 3, 10)

    np.testing.assert_array_equal(select(X, 3, 10, start=longest[:4].tolist()), longest)


@both
def test_a_start_is_kept_in_front(select):
    X = power_law(np.random.default_rng(2), 15, 9)

    selected = select(X, 2, 5, start=[7, 3])

    assert selected[:2].tolist() == [7, 3]
    assert len(set(selected.tolist())) == 5


@both
@pytest.mark.parametrize("start", [[1, 1], [0, 1, 2]])
def test_an_impossible_start_is_refused(select, start):
    with pytest.raises(InvalidInput, match="distinct"):
        select(np.eye(4), 1, 2, start=start)


@both
def test_residuals_a_billion_times_shorter_than_their_columns_are_still_told_apart(select):
    # All columns are the same long vector plus tiny orthogonal ones of falling length: the order is by that length.
    rng = np.random.default_rng(3)
    Q = orthonormal(rng, 20, 7)
    tiny = 1e-9 * np.array([3.0, 6.0, 1.0, 5.0, 2.0, 4.0])
    X = Q[:, [0]] + Q[:, 1:] * tiny

    selected = select(X, 6, 6)

    assert selected[1:].tolist() == by_definition_on_residuals(X, int(selected[0]), select is full_greedy)


def by_definition_on_residuals(X, first, full):
    x = X[:, first] / np.linalg.norm(X[:, first])
    B = X - np.outer(x, x @ X)
    B -= np.outer(x, x @ B)
    target = B if full else B @ right_singular(X, 6)[1]
    others = [j for j in range(6) if j != first]
    return [others[i] for i in by_definition(B[:, others] * 1e9, target * 1e9, 5)]


def test_once_the_components_are_spanned_the_longest_residual_comes_next():
    rng = np.random.default_rng(4)
    U = orthonormal(rng, 10, 5)
    X = U * [5.0, 4.0, 1.0, 3.0, 2.0]

    assert targeted_greedy(X, 2, 5).tolist() == [0, 1, 3, 4, 2]


def test_dependent_columns_come_last_longest_first():
    x, y = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    X = np.stack([x, 2.0 * x, y, 0.5 * y, np.zeros(3)], axis=1)

    assert full_greedy(X, 1, 5).tolist() == [0, 2, 1, 3]


def test_order_of_given_columns_is_that_of_greedy_without_the_others():
    X = factor_model(np.random.default_rng(5), 30, 12, 3, 0.4)
    columns = np.array([1, 4, 5, 9])
    V_k = right_singular(X, 2)[1]

    order = greedy_order(X, V_k, columns)

    assert order.tolist() == columns[by_definition(X[:, columns], X @ V_k, 4)].tolist()


def test_distance_to_the_target_bounds_the_loss():
    X = factor_model(np.random.default_rng(6), 40, 15, 3, 0.5)
    target = X @ right_singular(X, 3)[1]

    for r in range(1, 10):
        C = X[:, targeted_greedy(X, 3, r)]
        outside = np.sum((target - oracles.projected(target, C)) ** 2)
        assert oracles.columns_loss(X, targeted_greedy(X, 3, r), 3) <= oracles.pca_loss(X, 3) + outside + 1e-9
