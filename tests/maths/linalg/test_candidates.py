"""The core of a few columns is exact on those columns."""

import numpy as np

from spae_dask.maths.linalg.candidates import candidate_core
from spae_dask.maths.linalg.loss import encoder_loss
from tests.matrices import power_law


def test_products_of_candidates_decide_losses_on_them():
    rng = np.random.default_rng(0)
    X = power_law(rng, 80, 15)
    columns = np.array([3, 7, 1, 12])
    core, _ = candidate_core(X[:, columns].T @ X[:, columns], X[:, columns].T @ X)
    outside = np.sum(X * X) - np.sum(core * core)
    H = np.zeros((15, 2))
    H[columns] = rng.standard_normal((4, 2))
    Z = X @ H
    expected = np.sum((X - Z @ np.linalg.lstsq(Z, X, rcond=None)[0]) ** 2)
    assert abs(outside + encoder_loss(core, H) - expected) <= 1e-12 * np.sum(X * X)


def test_dependent_and_zero_columns_add_nothing():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 6))
    X[:, 2], X[:, 4] = X[:, 0], 0.0
    columns = np.array([0, 2, 4])
    core, _ = candidate_core(X[:, columns].T @ X[:, columns], X[:, columns].T @ X)
    assert core.shape == (1, 6)
    assert np.allclose(np.sum(core**2), np.sum((X[:, 0] @ X) ** 2) / np.sum(X[:, 0] ** 2))
