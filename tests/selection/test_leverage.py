import numpy as np

from spae_dask.linalg.spectral import right_singular
from spae_dask.selection.leverage import leverage, leverage_scores
from tests.matrices import power_law


def test_scores_are_the_diagonal_of_the_projection_and_sum_to_k():
    V_k = right_singular(power_law(np.random.default_rng(0), 20, 9), 3)[1]

    np.testing.assert_allclose(leverage_scores(V_k), np.diagonal(V_k @ V_k.T), rtol=1e-14)
    assert abs(leverage_scores(V_k).sum() - 3) < 1e-13


def test_the_columns_of_most_leverage_come_in_order():
    X = power_law(np.random.default_rng(1), 20, 9)
    scores = np.sum(np.linalg.svd(X)[2][:3] ** 2, axis=0)

    assert leverage(X, 3, 5).tolist() == np.argsort(-scores)[:5].tolist()


def test_ties_go_by_index_and_zero_columns_are_never_taken():
    X = np.zeros((8, 6))
    X[:, [1, 2, 4, 5]] = np.kron(np.ones((1, 2)), np.random.default_rng(2).standard_normal((8, 2)))

    selected = leverage(X, 1, 6).tolist()

    assert sorted(selected) == [1, 2, 4, 5]
    assert selected.index(1) < selected.index(4)
    assert selected.index(2) < selected.index(5)
