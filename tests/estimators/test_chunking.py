"""How a matrix is cut into chunks, and what kind of object holds it, changes no column and no value beyond rounding."""

import tempfile
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zarr.storage import MemoryStore

from spae_dask import SparseEncoder, evaluate
from tests.estimators.sources import FloatArray, batch_encoder, spread, zarr_array

few = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def matrices(draw: st.DrawFn) -> FloatArray:
    n, d = draw(st.integers(5, 60)), draw(st.integers(4, 12))
    return spread(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), n, d)


@st.composite
def cuts(draw: st.DrawFn, length: int) -> tuple[int, ...]:
    """Chunk lengths that add up to ``length``."""
    inner = draw(st.sets(st.integers(1, length - 1), max_size=6))
    return tuple(np.diff([0, *sorted(inner), length]).tolist())


def fitted(X: Any, strategy: str) -> SparseEncoder:
    return batch_encoder(2, n_nonzero=3, strategy=strategy).fit(X)


def assert_same(found: SparseEncoder, wanted: SparseEncoder) -> None:
    assert found.selected_features_.tolist() == wanted.selected_features_.tolist()
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-8)
    np.testing.assert_allclose(found.decoder_, wanted.decoder_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.mean_, wanted.mean_, rtol=1e-12, atol=1e-12)  # one may cancel
    np.testing.assert_allclose(found.certificate_.ratio, wanted.certificate_.ratio, rtol=1e-9)


@few
@given(st.data(), matrices(), st.sampled_from([2, 3]), st.booleans(), st.sampled_from(["gram", "tsqr"]))
def test_zarr_chunks_do_not_matter(data: st.DataObject, X: FloatArray, v: int, on_disk: bool, strategy: str) -> None:
    n, d = X.shape
    chunks = data.draw(st.tuples(st.integers(1, n + 3), st.integers(1, d + 2)))
    with tempfile.TemporaryDirectory() as folder:
        array = zarr_array(f"{folder}/x.zarr" if on_disk else MemoryStore(), X, chunks, zarr_format=v)
        found = fitted(array, strategy)
        np.testing.assert_allclose(found.transform(array).compute(), found.transform(X), rtol=1e-10, atol=1e-10)
    assert_same(found, fitted(X, strategy))


@few
@given(st.data(), matrices(), st.sampled_from(["gram", "tsqr"]))
def test_dask_chunks_do_not_matter(data: st.DataObject, X: FloatArray, strategy: str) -> None:
    chunks = (data.draw(cuts(X.shape[0])), data.draw(cuts(X.shape[1])))
    found = fitted(da.from_array(X, chunks=chunks), strategy)
    assert_same(found, fitted(X, strategy))


@few
@given(st.data(), matrices(), st.sampled_from([sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array]))
def test_sparse_rows_are_the_same_rows(data: st.DataObject, X: FloatArray, kind: Any) -> None:
    X[np.random.default_rng(data.draw(st.integers(0, 99))).random(X.shape) < 0.3] = 0.0
    assert_same(fitted(kind(X), "gram"), fitted(X, "gram"))


@few
@given(st.data(), matrices())
def test_chunks_do_not_matter_to_an_evaluation(data: st.DataObject, X: FloatArray) -> None:
    encoder = fitted(X, "tsqr")
    rows = X[: data.draw(st.integers(2, X.shape[0]))]
    chunks = data.draw(st.tuples(st.integers(1, rows.shape[0]), st.integers(1, rows.shape[1])))
    one, other = evaluate(rows, encoder), evaluate(zarr_array(MemoryStore(), rows, chunks), encoder)
    np.testing.assert_allclose(one.decoder_loss, other.decoder_loss, rtol=1e-9)
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-9, atol=1e-12 * one.total)
