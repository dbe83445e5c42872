"""Data with fewer rows than columns: the rows are the core, PCA's loss is exact, and one read is made."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from spae_dask import SparseEncoder, plan
from spae_dask.strategies.core import NARROW
from tests import oracles


def data(n: int = 30, d: int = NARROW + 200, mean: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(5)
    return mean + rng.standard_normal((n, 4)) @ rng.standard_normal((4, d)) + 0.3 * rng.standard_normal((n, d))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "csr"])
@pytest.mark.parametrize("scale", [False, True])
def test_losses_are_exact_and_no_larger_matrix_is_made(dtype: str, scale: bool) -> None:
    X = np.round(20 * data()).astype("f4" if dtype == "csr" else dtype)
    dense = X.astype(np.longdouble)
    centered = dense - dense.mean(axis=0)
    if scale:
        centered = centered / np.sqrt(np.sum(centered**2, axis=0) / (len(X) - 1))
    encoder = SparseEncoder(3, n_nonzero=8, scale=scale, method="batch").fit(sp.csr_array(X) if dtype == "csr" else X)
    certificate = encoder.certificate_
    assert encoder.plan_.strategy == "tsqr"
    assert certificate.passes == 1
    assert certificate.pca_loss == pytest.approx(oracles.pca_loss(centered.astype(float), 3), rel=1e-10)
    codes = centered @ encoder.components_.T.astype(np.longdouble)
    left = centered - codes @ encoder.decoder_.astype(np.longdouble)
    assert certificate.loss == pytest.approx(float(np.sum(left**2)), rel=1e-10)
    assert encoder.plan_.finish_nbytes < 8 * X.shape[1] ** 2 * 6


@pytest.mark.parametrize("mean", [1e6, 1e10])
def test_large_means_stay_within_the_stated_error(mean: float) -> None:
    X = data(mean=mean)
    exact = X.astype(np.longdouble)
    exact -= exact.mean(axis=0)
    certificate = SparseEncoder(3, n_nonzero=8, method="batch").fit(X).certificate_
    true = oracles.pca_loss(exact.astype(float), 3)
    assert abs(certificate.pca_loss - true) <= max(certificate.loss_error, 1e-9 * true)


def test_a_plan_tells_why_and_chunks_do_not_change_the_bits(tmp_path: Path) -> None:
    X = data().astype("f4")
    found = []
    for rows in (7, 30):
        zarr.create_array(tmp_path / f"{rows}.zarr", data=X, chunks=(rows, 400))
        assert "fewer rows than columns" in str(plan(tmp_path / f"{rows}.zarr", 3, n_nonzero=8, calibrate=False))
        found.append(SparseEncoder(3, n_nonzero=8, method="batch").fit(tmp_path / f"{rows}.zarr"))
    np.testing.assert_array_equal(found[0].selected_features_, found[1].selected_features_)
    assert found[0].certificate_.loss == pytest.approx(found[1].certificate_.loss, rel=1e-9)
