"""Bounds on what an error of the second moments does to a loss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.strategies.rounding import Rounding


def pair(seed: int, d: int = 6, k: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((d, k)) * (rng.random((d, 1)) < 0.6)
    return H, rng.standard_normal((k, d)) * 10.0 ** rng.uniform(-2, 4), 10.0 ** rng.uniform(-3, 3, d)


@given(seed=st.integers(0, 10**6))
def test_no_error_of_products_moves_a_loss_by_more_than_the_bound(seed: int) -> None:
    H, G, lengths = pair(seed)
    rng = np.random.default_rng(seed + 1)
    signs = np.triu(rng.choice([-1.0, 1.0], (6, 6)))
    E = 1e-3 * (signs + np.triu(signs, 1).T) * np.outer(lengths, lengths)
    M = np.eye(6) - H @ G
    moved = abs(np.trace(M.T @ E @ M))
    rounding = Rounding(lengths, products=1e-3, by_products=True)
    assert moved <= rounding.loss_error(0.0, H, G) * (1 + 1e-9)


def test_the_bound_is_met_where_all_errors_agree() -> None:
    lengths = np.array([2.0, 3.0])
    rounding = Rounding(lengths, products=1e-3, by_products=True)
    H, G = np.array([[1.0], [0.0]]), np.array([[0.0, -4.0]])
    M = np.eye(2) - H @ G
    E = 1e-3 * np.outer(lengths, lengths)
    assert rounding.loss_error(0.0, H, G) == pytest.approx(np.trace(M.T @ E @ M), rel=1e-9)


@given(seed=st.integers(0, 10**6))
def test_no_error_of_rows_moves_a_loss_by_more_than_the_bound(seed: int) -> None:
    H, G, _ = pair(seed)
    rng = np.random.default_rng(seed + 1)
    X = rng.standard_normal((9, 6)) * 10.0 ** rng.uniform(-3, 3, 6)
    lengths = np.linalg.norm(X, axis=0)
    error = rng.standard_normal(X.shape)
    error *= 1e-4 * lengths / np.linalg.norm(error, axis=0)
    exact, seen = (float(np.sum((A - A @ H @ G) ** 2)) for A in (X, X + error))
    rounding = Rounding(np.linalg.norm(X + error, axis=0) * 1.001, rows=1e-4)
    assert abs(exact - seen) <= rounding.loss_error(seen, H, G)


@given(seed=st.integers(0, 10**6), k=st.integers(1, 5))
def test_pca_has_no_larger_reach_than_its_bound_assumes(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((6, k)))[0]
    lengths = 10.0 ** rng.uniform(-3, 3, 6)
    rounding = Rounding(lengths)
    assert rounding.reach(V, V.T) <= (1 + np.sqrt(k)) * np.linalg.norm(lengths) * (1 + 1e-12)
    assert rounding.reach(V, V.T) <= rounding.apart(V, V.T) * (1 + 1e-12)


def test_noise_makes_columns_dependent_and_low_losses_more_so() -> None:
    noisy, clean = Rounding(np.ones(4), noise=1e-14), Rounding(np.ones(4))
    assert clean.rank_tol(1.0) == 1e-12
    assert 1e-12 < noisy.rank_tol(1.0) < noisy.rank_tol(1e-3) <= 1e-3


def test_what_the_mean_misses_and_columns_left_out_are_part_of_the_error() -> None:
    H, G = np.zeros((2, 1)), np.zeros((1, 2))
    rounding = Rounding(np.ones(2), missed=np.array([3.0, 4.0]), left_out=0.5)
    assert rounding.loss_error(0.0, H, G) == pytest.approx(25.5)
    assert rounding.pca_error(0.0, 1) == pytest.approx(25.5)
