"""Data whose covariance has equal eigenvalues, such as whitened data: solvers of a few eigenvectors may find none."""

import numpy as np
import pytest

from spae_dask.maths.encoders.batch import encode_batch
from spae_dask.maths.encoders.iterative import encode_iterative
from spae_dask.maths.encoders.polished import encode_polished
from spae_dask.maths.linalg.spectral import LANCZOS_FROM, leading_eigenvectors
from spae_dask.maths.selection import SELECTIONS
from tests.matrices import orthonormal


def isotropic(d):
    """Matrices with ``X'X = c I``."""
    hadamard = np.ones((1, 1))
    while hadamard.shape[0] < d:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    yield 1.5 * np.eye(d)
    yield 1e100 * np.eye(d)[::-1]
    yield hadamard[:, :d]
    for seed in range(2):
        yield 3.0 * orthonormal(np.random.default_rng(seed), 3 * d, d)


def blocks_of_ties():
    """Matrices whose squared singular values are few numbers, many times each."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        sigma = np.repeat(rng.uniform(0.5, 3.0, 3), (4, 1, 5))
        yield np.diag(sigma)
        yield orthonormal(rng, 25, 10) * sigma
        yield orthonormal(rng, 25, 10) * sigma @ orthonormal(rng, 10, 10)
        yield np.repeat(orthonormal(rng, 25, 5), 2, axis=1)
    yield np.eye(12) - 1.0 / 12.0  # centered
    yield np.kron(np.eye(3), np.ones((2, 4)))


def encoders(core, k, r):
    yield "polished", encode_polished(core, k, r, effort=0.1)
    yield "iterative", encode_iterative(core, k, r)
    for name in SELECTIONS:
        yield name, encode_batch(core, k, r, selection=name, rng=np.random.default_rng(0))
        yield f"iterative {name}", encode_iterative(core, k, r, selection=name, rng=np.random.default_rng(0))


def loss_of(X, H):
    scaled = X / np.abs(X).max()
    U, sigma, _ = np.linalg.svd(scaled @ H, full_matrices=False)
    U = U[:, sigma > 1e-10 * sigma[0]]
    return np.linalg.norm(scaled - U @ (U.T @ scaled)) ** 2 * np.abs(X).max() ** 2


@pytest.mark.parametrize(("k", "r"), [(1, 1), (1, 3), (2, 2), (3, 4), (6, 6)])
def test_every_encoder_of_isotropic_data_is_as_good_as_any(k, r):
    for X in isotropic(6):
        for name, found in encoders(X, k, r):
            assert found.H.shape == (6, k), name
            assert np.count_nonzero(found.H, axis=0).max() <= r, name
            assert found.loss == pytest.approx(np.sum(X**2) * (1 - k / 6), rel=1e-9, abs=1e-20 * np.sum(X**2)), name
            assert loss_of(X, found.H) == pytest.approx(found.loss, rel=1e-9, abs=1e-12 * np.sum(X**2)), name


@pytest.mark.parametrize(("k", "r"), [(1, 2), (3, 3), (5, 5)])
def test_blocks_of_equal_singular_values_are_no_trouble(k, r):
    for X in blocks_of_ties():
        for name, found in encoders(X, k, r):
            if "leverage" not in name:  # which takes twins
                assert found.H.shape[1] == min(k, np.linalg.matrix_rank(X)), name
            assert loss_of(X, found.H) == pytest.approx(found.loss, rel=1e-9, abs=1e-12 * np.sum(X**2)), name


@pytest.mark.parametrize("m", [1, 2, 6, LANCZOS_FROM, LANCZOS_FROM + 1, LANCZOS_FROM + 50])
def test_as_many_leading_vectors_as_wanted_come_back_whatever_the_ties(m):
    rng = np.random.default_rng(m)
    descending = np.sort(rng.uniform(1.0, 2.0, m))[::-1] ** 2
    for sigma in (np.ones(m), np.zeros(m), np.where(np.arange(m) < m // 2, 2.0, 1.0), descending, 1e-8 * np.ones(m)):
        for F in (
            np.diag(sigma),
            orthonormal(rng, m, m) * sigma,
            orthonormal(rng, m, m) * sigma @ orthonormal(rng, m, m),
        ):
            for count in (1, 2, 3, 7, m, m + 1):
                V = leading_eigenvectors((F @ F.T).__matmul__, count, np.full(m, 1.0 / np.sqrt(m)))

                assert V.shape == (m, min(count, m))
                np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-8)
                captured = np.sum((V.T @ F) ** 2, axis=1)
                np.testing.assert_allclose(captured, np.sort(sigma**2)[::-1][: V.shape[1]], rtol=1e-4, atol=1e-18)
    assert leading_eigenvectors(np.zeros((0, 0)).__matmul__, 2, np.zeros(0)).shape == (0, 0)
