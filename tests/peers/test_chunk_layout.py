"""Faults that users of other packages reported about chunks. Each test names the reports."""

from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from zarr.storage import MemoryStore

from spae_dask import plan
from tests.estimators.sources import batch_encoder, spread, zarr_array


@pytest.mark.parametrize("chunks", [(100, 50), (25, 25), (100, 400), (7, 399)])
@pytest.mark.parametrize("kind", ["dask", "zarr"])
def test_arrays_chunked_over_columns_are_taken(chunks: tuple[int, int], kind: str) -> None:
    """dask-ml#731 and dask#6590: an array of several column chunks was refused."""
    X = spread(np.random.default_rng(0), 100, 400).astype(np.float32)

    def made(chunks: tuple[int, int]) -> Any:
        return da.from_array(X, chunks=chunks) if kind == "dask" else zarr_array(MemoryStore(), X, chunks)

    found = batch_encoder(2, n_nonzero=5, selection="greedy").fit(made(chunks))
    wanted = batch_encoder(2, n_nonzero=5, selection="greedy").fit(made((25, 400)))
    assert found.selected_features_.tolist() == wanted.selected_features_.tolist()


def test_the_plan_prices_chunks_that_must_be_decoded_more_than_once() -> None:
    """dask-ml#731: the cost of the wrong layout was hidden."""
    tall = zarr.create_array(MemoryStore(), shape=(2_000_000, 100), chunks=(2_000_000, 10), dtype="f4")
    assert "each chunk is decoded" in "".join(plan(tall, 2, calibrate=False).notes)
    flat = zarr.create_array(MemoryStore(), shape=(2_000_000, 100), chunks=(10_000, 100), dtype="f4")
    assert "decoded" not in "".join(plan(flat, 2, calibrate=False).notes)


def test_rows_of_unknown_number_are_counted() -> None:
    """dask-ml#542: an array filtered by a mask died with "Truth of Delayed objects is not supported"."""
    X = spread(np.random.default_rng(1), 40, 6)
    lazy = da.from_array(X, chunks=(10, 6))
    some = lazy[lazy[:, 0] > np.median(X[:, 0])]
    found = batch_encoder(2, n_nonzero=3).fit(some)
    assert found.certificate_.passes == 2  # the count is one
    wanted = batch_encoder(2, n_nonzero=3).fit(X[X[:, 0] > np.median(X[:, 0])])
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-9)


@pytest.mark.parametrize("kind", ["dask", "zarr"])
def test_a_last_block_smaller_than_k_is_no_special_case(kind: str) -> None:
    """sklearn#12234, scanpy PR#3313: the last batch of 41 rows was too small for 100 components."""
    X = np.random.default_rng(2).standard_normal((1041, 120)) * np.linspace(1, 3, 120)
    given = da.from_array(X, chunks=(1000, -1)) if kind == "dask" else zarr_array(MemoryStore(), X, (1000, 120))
    parameters = {"n_components": 100, "n_nonzero": 110, "selection": "pivoted-qr"}
    found, wanted = batch_encoder(**parameters).fit(given), batch_encoder(**parameters).fit(X)
    assert found.selected_features_.tolist() == wanted.selected_features_.tolist()
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)


@pytest.mark.parametrize("selection", ["dual-set", "adaptive", "greedy"])
def test_one_seed_gives_one_answer_under_any_chunks(selection: str) -> None:
    """dask#1684, sgkit#421: with the same seed, the result moved with the chunks."""
    X = spread(np.random.default_rng(3), 100, 20)
    fits = [
        batch_encoder(3, n_nonzero=6, selection=selection, random_state=0).fit(da.from_array(X, chunks=(rows, -1)))
        for rows in (100, 37, 10)
    ]
    for other in fits[1:]:
        assert other.selected_features_.tolist() == fits[0].selected_features_.tolist()
        np.testing.assert_allclose(other.components_, fits[0].components_, atol=1e-8)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("scale", [False, True])
def test_blocks_of_sparse_rows_are_reduced(kind: Any, scale: bool) -> None:
    """dask#11880: a mean over blocks of csr_array failed; scanpy#3594: scaling such blocks did."""
    X = np.random.default_rng(4).poisson(0.5, size=(200, 30)).astype(float)
    lazy = da.from_array(X, chunks=(30, -1)).map_blocks(kind)
    parameters = {"n_components": 2, "n_nonzero": 5, "scale": scale}
    found, wanted = batch_encoder(**parameters).fit(lazy), batch_encoder(**parameters).fit(X)
    assert found.selected_features_.tolist() == wanted.selected_features_.tolist()
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-8)
    np.testing.assert_allclose(found.transform(lazy).compute(), wanted.transform(X), atol=1e-8)


def test_sparse_matrices_with_64_bit_indices_are_taken() -> None:
    """sklearn#31073: 64-bit indices were refused."""
    X = np.random.default_rng(5).poisson(1.0, size=(10, 5)).astype(float)
    rows = sp.csr_array(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    assert rows.indices.dtype == rows.indptr.dtype == np.int64
    found, wanted = batch_encoder(2, n_nonzero=3).fit(rows), batch_encoder(2, n_nonzero=3).fit(X)
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-9)
    np.testing.assert_allclose(found.transform(rows), wanted.transform(X), atol=1e-9)
