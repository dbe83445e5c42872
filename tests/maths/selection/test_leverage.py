import numpy as np

from spae_dask.maths.linalg.spectral import right_singular
from spae_dask.maths.selection.leverage import leverage, leverage_scores
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
    one, other = np.random.default_rng(2).standard_normal((2, 8, 1))
    X = np.hstack([np.zeros((8, 1)), np.tile(np.hstack([one, other]), 15)])

    selected = leverage(X, 1, 31)

    twins = selected[:15], selected[15:]
    assert sorted(set(twins[0] % 2)) != sorted(set(twins[1] % 2))
    assert 0 not in selected
    for group in twins:
        assert group.tolist() == sorted(group.tolist())
