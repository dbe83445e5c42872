import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask import SparseEncoder
from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg import spectral
from spae_dask.maths.linalg.spectral import (
    core_from_gram,
    fix_signs,
    leading_subspace,
    numerical_rank,
    pca_loss,
    right_singular,
    singular_values,
    thin_svd,
)
from tests import oracles
from tests.matrices import awkward, low_rank, orthonormal, power_law, with_spectrum


def test_signs_make_the_largest_entry_positive_and_the_first_one_on_ties():
    V = np.array([[0.1, -1.0, 2.0], [-3.0, 1.0, 1.0]])

    np.testing.assert_array_equal(fix_signs(V), [[-0.1, 1.0, 2.0], [3.0, -1.0, 1.0]])


@pytest.mark.parametrize("shape", [(40, 12), (12, 40), (12, 12)])
def test_singular_values_are_the_prescribed_ones_down_to_rounding_of_the_largest(shape):
    sigma = 10.0 ** -np.arange(12)
    X = with_spectrum(np.random.default_rng(0), *shape, sigma)

    found, V = right_singular(X)

    np.testing.assert_allclose(found, sigma, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(V.T @ V, np.eye(12), atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(X @ V, axis=0), sigma, atol=1e-14)


def test_vectors_of_the_data_and_of_its_triangular_core_are_the_same():
    X = power_law(np.random.default_rng(1), 60, 9)

    sigma, V = right_singular(X, 4)
    sigma_core, V_core = right_singular(np.linalg.qr(X, mode="r"), 4)

    np.testing.assert_allclose(sigma_core, sigma, rtol=1e-12)
    np.testing.assert_allclose(V_core, V, atol=1e-11)


@pytest.mark.parametrize("shape", [(30, 80), (80, 30)])
def test_large_cores_get_the_same_subspace_from_the_gram_matrix(monkeypatch, shape):
    X = power_law(np.random.default_rng(2), *shape, decay=0.5)
    sigma, V = right_singular(X, 5)
    monkeypatch.setattr(spectral, "SVD_LIMIT", 10)

    sigma_gram, V_gram = right_singular(X, 5)

    np.testing.assert_allclose(sigma_gram, sigma, rtol=1e-11)
    np.testing.assert_allclose(V_gram, V, atol=1e-11)
    np.testing.assert_allclose(V_gram.T @ V_gram, np.eye(5), atol=1e-14)


@pytest.mark.parametrize("smallest", [1.0, 1e-3, 1e-9, 0.0])
def test_wide_cores_get_the_same_values_and_vectors_from_their_triangle(monkeypatch, smallest):
    rng = np.random.default_rng(3)
    left, right = (np.linalg.qr(rng.standard_normal((n, 12)))[0] for n in (12, 300))
    sigma = np.concatenate([[9.0, 7.0, 5.0, smallest], np.zeros(8)])
    core = (left * sigma) @ right.T
    monkeypatch.setattr("spae_dask.maths.linalg.spectral.WIDE", 100)
    found, V = right_singular(core, 4)
    np.testing.assert_allclose(found, sigma, atol=1e-14)
    np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-13)
    sure = 4 if smallest > 0 else 3
    cosines = np.abs(np.einsum("ij,ij->j", V[:, :sure], right[:, :sure]))
    np.testing.assert_allclose(cosines, 1, atol=1e-10)


def test_large_cores_with_a_tiny_tail_keep_their_small_singular_values(monkeypatch):
    monkeypatch.setattr(spectral, "SVD_LIMIT", 10)
    sigma = np.concatenate([np.ones(5), 1e-6 * np.arange(30, 0, -1.0) / 30])

    found, _ = right_singular(with_spectrum(np.random.default_rng(3), 50, 40, sigma), 5)

    np.testing.assert_allclose(found[5:35], sigma[5:], rtol=1e-8)


@pytest.mark.parametrize("shape", [(50, 40), (40, 50)])
def test_singular_values_alone_are_those_of_the_svd_however_large_the_core(monkeypatch, shape):
    monkeypatch.setattr(spectral, "SVD_LIMIT", 10)
    sigma = np.concatenate([[1.0], 1e-6 * np.arange(30, 0, -1.0) / 30])

    found, nothing = right_singular(with_spectrum(np.random.default_rng(3), *shape, sigma), 0)

    np.testing.assert_allclose(found[:31], sigma, rtol=1e-8)
    assert nothing.shape == (shape[1], 0)


def test_no_more_vectors_than_the_core_has_rows():
    sigma, V = right_singular(np.ones((2, 6)), 5)

    assert sigma.shape == (2,)
    assert V.shape == (6, 2)


@pytest.mark.parametrize("factor", [1e-100, 1e100])
def test_magnitude_changes_nothing_but_the_scale(factor):
    X = power_law(np.random.default_rng(4), 20, 6)

    sigma, V = right_singular(X, 3)
    sigma_scaled, V_scaled = right_singular(X * factor, 3)

    np.testing.assert_allclose(sigma_scaled / factor, sigma, rtol=1e-13)
    np.testing.assert_allclose(V_scaled, V, atol=1e-13)


@pytest.mark.parametrize("rank", [0, 1, 3, 8])
def test_rank_is_counted_above_rounding(rank):
    X = low_rank(np.random.default_rng(5), 30, 8, rank) if rank else np.zeros((30, 8))

    assert numerical_rank(right_singular(X)[0]) == rank
    assert leading_subspace(X, 5).shape == (8, min(5, rank))


def test_loss_of_pca_agrees_with_forming_the_best_approximation():
    X = power_law(np.random.default_rng(6), 25, 10)

    for k in range(1, 10):
        assert pca_loss(right_singular(X)[0], k) == pytest.approx(oracles.pca_loss(X, k), rel=1e-12)


def test_loss_of_pca_keeps_its_digits_where_the_difference_from_the_total_has_none():
    sigma = np.array([1.0, 1.0, 1e-9, 1e-9])
    X = with_spectrum(np.random.default_rng(7), 9, 4, sigma)

    assert pca_loss(right_singular(X)[0], 2) == pytest.approx(2e-18, rel=1e-6)


def test_loss_of_pca_is_exactly_zero_from_the_rank_on():
    sigma = right_singular(low_rank(np.random.default_rng(8), 40, 30, 4))[0]

    assert pca_loss(sigma, 3) > 0.0
    assert pca_loss(sigma, 4) == 0.0
    assert pca_loss(sigma, 99) == 0.0


def test_core_from_gram_squares_back_for_every_awkward_matrix():
    for name, X in awkward(np.random.default_rng(9)).items():
        gram = X.T @ X

        core = core_from_gram(gram)

        lengths = np.sqrt(np.diagonal(gram))
        error = np.abs(core.T @ core - gram)
        assert np.all(error <= 1e-13 * lengths[:, None] * lengths), name
        assert 1 <= core.shape[0] <= X.shape[1]


def test_core_from_gram_drops_directions_that_are_rounding():
    X = low_rank(np.random.default_rng(10), 50, 20, 3)

    assert core_from_gram(X.T @ X).shape == (3, 20)


def test_core_from_gram_keeps_the_direction_of_a_tiny_column():
    # A plain eigendecomposition leaves rounding of the large columns in the tiny one, along the first component.
    X = np.random.default_rng(11).standard_normal((30, 5)) * np.array([1e6, 1.0, 1.0, 1e-9, 1.0])

    core = core_from_gram(X.T @ X)

    cosines = core.T @ core / np.outer(np.linalg.norm(core, axis=0), np.linalg.norm(core, axis=0))
    np.testing.assert_allclose(cosines, _cosines(X), atol=1e-12)


def _cosines(X):
    unit = X / np.linalg.norm(X, axis=0)
    return unit.T @ unit


def test_core_from_gram_takes_a_column_of_cancellation_noise_as_zero():
    gram = np.array([[1.0, 0.0, 1e-17], [0.0, 1.0, 0.0], [1e-17, 0.0, 1e-36]])

    core = core_from_gram(gram)

    np.testing.assert_allclose(core.T @ core, np.diag([1.0, 1.0, 0.0]), atol=1e-15)


def test_core_from_gram_refuses_what_no_data_can_have():
    with pytest.raises(InvalidInput, match="not positive semidefinite"):
        core_from_gram(np.array([[1.0, 5.0], [5.0, 1.0]]))
    with pytest.raises(InvalidInput, match="square"):
        core_from_gram(np.ones((2, 3)))


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 8))
def test_a_rotation_from_the_left_changes_neither_singular_values_nor_vectors(seed, m, d):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))

    sigma, V = right_singular(X)
    sigma_rotated, V_rotated = right_singular(orthonormal(rng, m, m) @ X)

    np.testing.assert_allclose(sigma_rotated, sigma, atol=1e-12)
    np.testing.assert_allclose((V_rotated * sigma) @ V_rotated.T, (V * sigma) @ V.T, atol=1e-12)


def refuse(monkeypatch):
    """Let LAPACK's divide and conquer fail to converge, whoever asks for it."""

    def svd(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(np.linalg, "svd", svd)


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (5, 5)])
def test_an_svd_that_does_not_converge_is_made_by_slower_means(monkeypatch, shape):
    A = np.random.default_rng(8).standard_normal(shape)
    squares = np.linalg.eigvalsh(A @ A.T if shape[0] <= shape[1] else A.T @ A)[::-1]

    refuse(monkeypatch)
    U, sigma, Vt = thin_svd(A)

    np.testing.assert_allclose(U * sigma @ Vt, A, atol=1e-14)
    np.testing.assert_allclose(sigma**2, squares, rtol=1e-12)
    np.testing.assert_array_equal(singular_values(A), sigma)


@pytest.mark.parametrize("parameters", [{}, {"method": "batch"}, {"method": "iterative"}, {"strategy": "sketch"}])
def test_a_fit_outlives_svds_that_do_not_converge(monkeypatch, parameters):
    X = power_law(np.random.default_rng(9), 60, 12)
    usual = SparseEncoder(n_components=2, n_nonzero=4, **parameters).fit(X)

    refuse(monkeypatch)
    again = SparseEncoder(n_components=2, n_nonzero=4, **parameters).fit(X)

    assert again.certificate_.loss == pytest.approx(usual.certificate_.loss, rel=1e-9)
