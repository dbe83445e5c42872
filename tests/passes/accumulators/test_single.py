"""Float32 products: as near to the exact ones as is claimed, whatever the mean, the type and the magnitude."""

import numpy as np
import pytest
import scipy.sparse as sp

from spae_dask.blocks import ArrayBlocks
from spae_dask.passes.accumulators import CrossProducts, Gram
from spae_dask.passes.accumulators.single import MOST_ROWS
from spae_dask.passes.serial import SerialRunner

D = 7
STATED = 2 * MOST_ROWS * 2.0**-24
"""The largest error that a result may state, relative to the lengths of the columns."""
COLUMNS = np.array([5, 0, 3])


def run(recipe, X, rows_per_block=1500):
    return SerialRunner(ArrayBlocks(X, rows_per_block)).run_pass(recipe)


def spread(rng, n=4000):
    return rng.standard_normal((n, D)) @ rng.standard_normal((D, D))


@pytest.fixture(params=["float32", "float64, mean 1e6", "int16", "int32", "sparse", "tiny", "huge", "mixed"])
def X(request):  # noqa: N802 - the data
    values = spread(np.random.default_rng(0))
    return {
        "float32": (values + 300).astype(np.float32),
        "float64, mean 1e6": values + 1e6,
        "int16": np.rint(200 * values).astype(np.int16),
        "int32": np.rint(values * 1e6).astype(np.int32) + 10**8,
        "sparse": sp.csr_array(np.where(np.abs(values) > 4, values, 0.0)),
        "tiny": (values * 1e-30).astype(np.float32),
        "huge": values * 1e40,
        "mixed": values * 10.0 ** np.arange(-24, 25, 8),
    }[request.param]


def assert_near(found, exact, lengths_left, lengths_right, error):
    assert error <= STATED
    assert np.all(np.abs(found - exact) <= error * np.outer(lengths_left, lengths_right))


def test_the_scatter_is_within_the_stated_error(X):
    found = run(Gram(D, single=True), X)
    dense = (X.toarray() if sp.issparse(X) else X).astype(np.longdouble)
    centered = (dense - dense.mean(axis=0)).astype(np.float64)
    lengths = np.linalg.norm(centered, axis=0)
    assert_near(found.scatter, centered.T @ centered, lengths, lengths, found.error)
    mean = dense.mean(axis=0).astype(np.float64)
    assert np.all(np.abs(found.mean - mean) <= STATED * lengths / np.sqrt(len(centered)) + 1e-15 * np.abs(mean))


@pytest.mark.parametrize("scale", [None, np.linspace(0.5, 2, D)])
def test_cross_products_are_within_the_stated_error(X, scale):
    dense = (X.toarray() if sp.issparse(X) else X).astype(np.longdouble)
    mean = dense.mean(axis=0).astype(np.float64)
    Z = np.linalg.qr(np.random.default_rng(1).standard_normal((D, 2)))[0]
    found = run(CrossProducts(COLUMNS, mean, scale, Z, single=True), X)
    centered = ((dense - mean) / (1 if scale is None else scale)).astype(np.float64)
    lengths = np.linalg.norm(centered, axis=0)
    assert_near(found.cross, centered[:, COLUMNS].T @ centered, lengths[COLUMNS], lengths, found.error)
    assert np.allclose(found.column_norms, lengths**2, rtol=found.error, atol=0)
    codes = centered @ Z
    reach = np.abs(centered) @ np.abs(Z)  # what the products of single directions add up to, signs aside
    assert np.all(np.abs(found.directions - centered.T @ codes) <= 3 * STATED * np.abs(centered).T @ reach)


def test_float32_sums_alone_would_miss_the_claim_that_float64_sums_keep():
    rng = np.random.default_rng(2)
    X = (1 + 0.5 * rng.random((3_000_000, 2))).astype(np.float32)
    centered = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    exact = np.sum(centered**2, axis=0)
    naive = np.cumsum(centered.astype(np.float32) ** 2, axis=0, dtype=np.float32)[-1]
    assert np.all(np.abs(naive - exact) > STATED * exact)
    assert np.all(np.abs(np.diag(run(Gram(2, single=True), X, 10**6).scatter) - exact) <= STATED * exact)
