"""Pictures of spectral images against hand-made ones."""

import numpy as np
import pytest

from spae_dask.report.image_section import DensePCA, composite, composite_bands, pixel_errors


def test_dense_pca_loses_what_the_covariance_matrix_says():
    X = np.random.default_rng(0).normal(size=(40, 6)) @ np.diag([5, 4, 3, 2, 1, 0.5]) + 7
    pca = DensePCA.of(X, 2)
    eigenvalues = np.linalg.eigvalsh(np.cov(X.T) * 39)
    assert pca.loss == pytest.approx(eigenvalues[:4].sum())
    assert pca.loss_on(X) == pytest.approx(pca.loss)
    np.testing.assert_allclose(pca.reconstruct(pca.reconstruct(X)), pca.reconstruct(X))


def test_the_bands_of_a_picture_are_the_nearest_that_may_be_used():
    wavelengths = np.array([550.0, 560, 640, 655, 850, 870])
    assert composite_bands(wavelengths, np.array([], dtype=int)) == (4, 3, 0)
    assert composite_bands(wavelengths, np.array([0, 3])) == (4, 2, 1)


def test_a_picture_stretches_its_reference_from_black_to_white():
    image = np.zeros((10, 10, 3), dtype=np.uint16)
    image[..., 0] = np.arange(100).reshape(10, 10)
    picture = composite(image, (0, 1, 2), image)
    assert picture.shape == (10, 10, 3)
    assert picture[0, 0, 0] == 0
    assert picture[9, 9, 0] == 255
    assert not picture[..., 1:].any()
    assert (np.diff(picture[..., 0].ravel().astype(int)) >= 0).all()


def test_pixel_errors_are_root_mean_squares_over_the_bands():
    image = np.zeros((1, 2, 2))
    assert pixel_errors(image, np.array([[[3.0, 4.0], [0.0, 0.0]]])).tolist() == [[np.sqrt(12.5), 0.0]]
