import numpy as np
import pytest

from spae_dask.errors import InvalidInput
from spae_dask.maths.selection.problem import distinct, first_of_best, lowest_best, pose, ranked
from tests import oracles
from tests.matrices import low_rank, power_law


def test_equal_scores_go_to_the_lowest_index_even_if_rounding_tells_them_apart():
    allowed = np.array([False, True, True, True])

    assert lowest_best(np.array([9.0, 1.0, 1.0 + 1e-15, 0.5]), allowed) == 1
    assert lowest_best(np.array([9.0, 1.0, 1.0 + 1e-10, 0.5]), allowed) == 1
    assert lowest_best(np.array([9.0, 1.0, 1.0 + 1e-8, 0.5]), allowed) == 2
    assert lowest_best(np.array([9.0, -1.0, -1.0 + 1e-15, -2.0]), allowed) == 1
    assert lowest_best(np.array([9.0, 0.0, 0.0, 0.0]), allowed) == 1


def test_repeats_are_dropped_after_the_first():
    assert distinct(np.array([5, 2, 5, 0, 2, 7])).tolist() == [5, 2, 0, 7]


def test_rank_and_zero_columns_limit_what_is_asked_for():
    X = low_rank(np.random.default_rng(0), 10, 6, 2)
    X[:, 3] = 0.0

    problem = pose(X, 4, 9)

    assert (problem.k, problem.r) == (2, 5)
    assert problem.nonzero.tolist() == [True, True, True, False, True, True]


def test_residual_of_pca_is_exactly_zero_when_only_rounding_is_left():
    E, e = pose(low_rank(np.random.default_rng(1), 10, 6, 2), 3, 3).residual_of_pca()

    assert not E.any()
    assert not e.any()


def test_residual_of_pca_carries_its_loss():
    X = power_law(np.random.default_rng(2), 10, 6)

    problem = pose(X, 2, 3)

    scale = np.sum(X**2) / np.sum(problem.core**2)
    assert problem.residual_of_pca()[1].sum() * scale == pytest.approx(oracles.pca_loss(X, 2), rel=1e-12)


def test_a_zero_matrix_poses_an_empty_problem():
    problem = pose(np.zeros((3, 4)), 2, 2)

    assert (problem.k, problem.r) == (0, 0)


def test_r_and_k_start_at_one():
    with pytest.raises(InvalidInput, match="k >= 1 and r >= 1; got k = 1, r = -1"):
        pose(np.eye(2), 1, -1)


def test_rankings_and_final_choices_know_ties():
    assert ranked(np.array([1.0, 3.0, 1.0 + 1e-12, 3.0 - 1e-12, 0.0])).tolist() == [1, 3, 0, 2, 4]
    assert ranked(np.zeros(3)).tolist() == [0, 1, 2]
    assert ranked(np.array([-1.0, -1.0 - 1e-12, -2.0])).tolist() == [0, 1, 2]
    assert first_of_best([2.0, 2.0 + 1e-12, 1.0], [[4, 1], [3, 1], [0, 0]]) == 1
    assert first_of_best([-2.0, -2.0 - 1e-12, -1.0], [[1, 3], [0, 3], [5, 6]]) == 2
