import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.maths.linalg.project import column_basis, optimal_decoder, orthonormal_basis, residual, residual_norms
from tests.matrices import low_rank, orthonormal, with_spectrum


@pytest.mark.parametrize("factors", [np.ones(6), np.array([1e100, 1.0, 1e-100, 1e-3, 1e50, 1.0])])
def test_basis_spans_the_columns_whatever_their_magnitudes(factors):
    C = np.random.default_rng(0).standard_normal((15, 6)) * factors

    Q = orthonormal_basis(C)

    assert Q.shape == (15, 6)
    np.testing.assert_allclose(Q.T @ Q, np.eye(6), atol=1e-14)
    np.testing.assert_allclose(Q @ (Q.T @ C) / factors, C / factors, atol=1e-13)


def test_dependent_duplicated_and_zero_columns_add_nothing_to_the_basis():
    rng = np.random.default_rng(1)
    C = low_rank(rng, 20, 5, 3)
    C = np.column_stack([C, C[:, 0], np.zeros(20), 1e-90 * C[:, 1]])

    basis = column_basis(C)

    assert basis.Q.shape == (20, 3)
    assert len(set(basis.kept.tolist())) == 3
    assert np.linalg.matrix_rank(C[:, basis.kept] / np.linalg.norm(C[:, basis.kept], axis=0)) == 3


@pytest.mark.parametrize(("gap", "rank"), [(1e-9, 2), (1e-14, 1)])
def test_a_column_is_dependent_below_a_relative_1e_12(gap, rank):
    Q = orthonormal(np.random.default_rng(2), 10, 2)

    assert orthonormal_basis(np.column_stack([Q[:, 0], Q[:, 0] + gap * Q[:, 1]])).shape[1] == rank


def test_no_columns_have_an_empty_basis():
    assert orthonormal_basis(np.zeros((4, 0))).shape == (4, 0)
    assert orthonormal_basis(np.zeros((4, 3))).shape == (4, 0)


def test_coefficients_rebuild_vectors_of_the_span_from_the_columns():
    rng = np.random.default_rng(3)
    C = rng.standard_normal((12, 4)) * np.array([1.0, 1e-8, 1e8, 1.0])
    C = np.column_stack([C, C[:, 0] + C[:, 3]])
    basis = column_basis(C)
    U = orthonormal(rng, basis.Q.shape[1], 2)

    T = basis.coefficients(U)

    np.testing.assert_allclose(C @ T, basis.Q @ U, atol=1e-11)
    assert np.count_nonzero(np.any(T != 0.0, axis=1)) == 4


def test_coefficients_that_are_rounding_are_zero():
    C = np.diag([1.0, 1e-100])
    basis = column_basis(C)
    direction = basis.Q.T @ np.array([[1.0], [1e-17]])

    np.testing.assert_array_equal(np.abs(basis.coefficients(direction)), [[1.0], [0.0]])


def test_residual_is_orthogonal_to_the_basis_even_where_almost_nothing_is_left():
    rng = np.random.default_rng(4)
    Q = orthonormal(rng, 30, 5)
    core = Q @ rng.standard_normal((5, 8)) + 1e-10 * rng.standard_normal((30, 8))

    B = residual(core, Q)

    assert np.max(np.abs(Q.T @ B)) < 1e-14 * np.max(np.abs(B)) * 10
    np.testing.assert_allclose(residual_norms(core, Q), np.zeros(8), atol=0)
    np.testing.assert_allclose(B, core - Q @ (Q.T @ core), atol=1e-14)


def test_residual_norms_are_squared_lengths_outside_the_span():
    rng = np.random.default_rng(5)
    core, Q = rng.standard_normal((9, 7)), orthonormal(rng, 9, 3)
    complement = np.linalg.svd(Q)[0][:, 3:]

    np.testing.assert_allclose(residual_norms(core, Q), np.sum((complement.T @ core) ** 2, axis=0), rtol=1e-12)


def test_residual_against_nothing_is_a_copy():
    core = np.ones((2, 2))

    B = residual(core, np.zeros((2, 0)))
    B[:] = 0.0

    assert core.all()


def test_decoder_is_the_least_squares_one():
    rng = np.random.default_rng(6)
    X, H = rng.standard_normal((14, 6)), rng.standard_normal((6, 3))

    np.testing.assert_allclose(optimal_decoder(X, H), np.linalg.lstsq(X @ H, X, rcond=None)[0], atol=1e-12)


def test_decoder_of_dependent_and_zero_codes_leaves_them_out():
    rng = np.random.default_rng(7)
    X, h = rng.standard_normal((14, 6)), rng.standard_normal((6, 1))
    H = np.hstack([h, 2.0 * h, np.zeros((6, 1))])

    G = optimal_decoder(X, H)

    np.testing.assert_allclose(X @ H @ G, X @ h @ np.linalg.lstsq(X @ h, X, rcond=None)[0], atol=1e-12)
    assert np.count_nonzero(np.any(G != 0.0, axis=1)) == 1


@given(st.integers(0, 10**6), st.floats(0.0, 9.0), st.integers(1, 6))
def test_projecting_splits_the_variance(seed, log_condition, r):
    rng = np.random.default_rng(seed)
    core = rng.standard_normal((10, 7))
    C = with_spectrum(rng, 10, r, np.logspace(0, -log_condition, r))

    Q = orthonormal_basis(C)

    split = np.sum(residual(core, Q) ** 2) + np.sum((Q.T @ core) ** 2)
    assert split == pytest.approx(np.sum(core**2), rel=1e-12)
