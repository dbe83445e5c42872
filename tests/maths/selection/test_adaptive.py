import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.datasets.lower_bound import lower_bound_matrix
from spae_dask.maths.encoders import theorem_bound
from spae_dask.maths.selection.adaptive import adaptive, adaptive_paper, best_split, paper_split, sufficient_columns
from spae_dask.maths.selection.dual_set import barrier, barrier_start
from spae_dask.maths.selection.problem import pose
from tests import oracles
from tests.matrices import factor_model, power_law


@given(st.integers(1, 30), st.integers(1, 400))
def test_the_split_never_promises_less_than_the_papers(k, extra):
    r = k + extra
    split = best_split(k, r)

    assert k <= split.start < r
    if r > 5 * k:
        assert split.bound <= 1 + 5 * k / (r - 5 * k)


@pytest.mark.parametrize(("eps", "columns_per_rank"), [(0.5, 13.5), (0.2, 24.9), (0.1, 41.4)])
def test_the_split_needs_the_columns_it_should(eps, columns_per_rank):
    k = 200
    assert best_split(k, int(columns_per_rank * k * 1.01)).bound <= 1 + eps
    assert best_split(k, int(columns_per_rank * k * 0.99)).bound >= 1 + eps


@pytest.mark.parametrize(
    ("eps", "sharp", "papers", "one"),
    [
        (1, 9, 10, 3),
        (0.5, 13.5, 15, 5),
        (0.2, 24.9, 30, 11),
        (0.1, 41.4, 55, 21),
        (0.05, 71.2, 105, 41),
        (0.01, 279.6, 505, 201),
    ],
)
def test_sufficient_columns_for_each_vector_are_those_worked_out_by_hand(eps, sharp, papers, one):
    k = 1000
    assert sufficient_columns(k, eps, sharp=True) / k == pytest.approx(sharp, abs=0.051)
    assert sufficient_columns(k, eps, sharp=False) == papers * k
    assert sufficient_columns(1, eps, sharp=True) == one


@given(st.integers(1, 12), st.floats(0.02, 4))
def test_sufficient_columns_are_the_fewest_whose_split_promises_enough(k, eps):
    r = sufficient_columns(k, eps, sharp=True)

    assert best_split(k, r).bound <= (1 + eps) * (1 + 1e-9)
    assert r == k + 1 or best_split(k, r - 1).bound > (1 + eps) * (1 - 1e-9)
    assert r <= sufficient_columns(k, eps, sharp=False)


def test_for_one_vector_the_start_is_one_column_within_a_factor_two():
    assert best_split(1, 11) == (1, pytest.approx(1.2))


def test_the_mean_loss_is_within_the_bound():
    X = lower_bound_matrix(2, 12, 0.3)
    k, r = 2, 9

    losses = [oracles.columns_loss(X, adaptive(X, k, r, np.random.default_rng(seed)), k) for seed in range(200)]

    assert len(set(losses)) > 1
    assert 1.0 < np.mean(losses) / oracles.pca_loss(X, k) <= best_split(k, r).bound


def test_the_same_generator_gives_the_same_columns():
    X = factor_model(np.random.default_rng(0), 30, 25, 3, 0.5)

    draws = [adaptive(X, 2, 12, np.random.default_rng(seed)).tolist() for seed in (1, 1, 2)]

    assert draws[0] == draws[1] != draws[2]


def test_columns_are_drawn_by_what_the_start_leaves_of_them():
    # Two strong columns make the start; of the rest one has 90 % of the residual and is all but certain to be drawn.
    X = np.diag([10.0, 9.0, 0.3, 0.3, 0.3, 0.3, 3.0, 0.3])

    drawn = [adaptive(X, 2, 5, np.random.default_rng(seed)).tolist() for seed in range(40)]

    assert all(sorted(selected[:2]) == [0, 1] for selected in drawn)
    assert sum(6 in selected[2:] for selected in drawn) >= 38


def test_no_more_columns_than_vectors_leave_nothing_to_chance():
    X = power_law(np.random.default_rng(1), 15, 12)

    assert adaptive(X, 4, 4, np.random.default_rng(1)).tolist() == adaptive(X, 4, 4, np.random.default_rng(2)).tolist()


@given(st.integers(1, 30), st.integers(1, 400))
def test_the_papers_split_has_the_papers_bound(k, extra):
    split = paper_split(k, 5 * k + extra)

    assert split.start == 5 * k
    assert 1 + 4 * k / extra < split.bound <= 1 + 5 * k / extra


@pytest.mark.parametrize("k", [1, 2])
def test_the_papers_start_is_the_recursion_with_five_columns_a_vector(k):
    X = factor_model(np.random.default_rng(0), 60, 50, 3, 0.5)
    start = barrier_start(pose(X, k, 5 * k), 5 * k)

    chosen = [adaptive_paper(X, k, 5 * k + 7, np.random.default_rng(seed)) for seed in range(5)]

    assert all(each[: start.size].tolist() == start.tolist() for each in chosen)
    assert len({tuple(each.tolist()) for each in chosen}) > 1
    few = adaptive_paper(X, k, 5 * k, np.random.default_rng(0))
    assert few.tolist() == barrier(X, k, 5 * k).tolist()


def test_the_mean_loss_of_the_papers_split_is_within_its_bound():
    X = lower_bound_matrix(1, 40, 0.3)
    k, r = 1, 14

    losses = [oracles.columns_loss(X, adaptive_paper(X, k, r, np.random.default_rng(seed)), k) for seed in range(100)]

    bound = theorem_bound("adaptive-paper", k, r)
    assert bound.in_expectation
    assert 1.0 < np.mean(losses) / oracles.pca_loss(X, k) <= bound.bound == pytest.approx(paper_split(k, r).bound)
