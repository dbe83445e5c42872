"""Codes: eager for arrays in memory, lazy for dask and Zarr, the same numbers for all."""

import pickle
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from zarr.storage import MemoryStore

from spae_dask import ColumnSelector, SparseEncoder
from tests.estimators.sources import Unreadable, Watched, batch_encoder, spread, zarr_array

X = spread(np.random.default_rng(0), 200, 9)


@pytest.fixture(scope="module")
def encoder() -> SparseEncoder:
    return batch_encoder(3, n_nonzero=4, scale=True).fit(X)


def by_hand(encoder: SparseEncoder, rows: Any) -> Any:
    return (rows - encoder.mean_) / encoder.scale_ @ encoder.components_.T


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x.tolist(),
        lambda x: sp.csr_array(x),
        lambda x: da.from_array(x, chunks=(30, 4)),
        lambda x: da.from_array(x, chunks=(30, 9)).map_blocks(sp.csr_array),
        lambda x: zarr_array(MemoryStore(), x, (30, 4)),
        lambda x: Watched(x, rows_per_block=30),
    ],
    ids=["numpy", "list", "sparse", "dask", "dask of CSR", "zarr", "own source"],
)
def test_codes_are_the_formula(encoder: SparseEncoder, make: Any) -> None:
    codes = encoder.transform(make(X))
    np.testing.assert_allclose(np.asarray(codes), by_hand(encoder, X), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.float16])
def test_float32_stays_float32_and_all_else_becomes_float64(encoder: SparseEncoder, dtype: type) -> None:
    rows = X.astype(dtype)
    wanted = np.float32 if dtype is np.float32 else np.float64
    eager, lazy = encoder.transform(rows), encoder.transform(da.from_array(rows, chunks=(30, 9)))
    assert eager.dtype == lazy.dtype == lazy.compute().dtype == wanted
    np.testing.assert_allclose(eager, by_hand(encoder, rows.astype(float)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_lazy_codes_know_their_type_shape_and_chunks_and_compute_nothing(dtype: type) -> None:
    encoder = batch_encoder(3, n_nonzero=4).fit(X)
    source = Unreadable((1000, 9), 300, np.dtype(dtype))
    codes = encoder.transform(source)
    assert isinstance(codes, da.Array)
    assert codes.shape == (1000, 3)
    assert codes.chunks == ((300, 300, 300, 100), (3,))
    assert codes.dtype == (np.float32 if dtype is np.float32 else np.float64)
    assert type(codes._meta) is np.ndarray
    assert codes._meta.dtype == codes.dtype
    assert codes[:10].shape == (10, 3)
    selected = ColumnSelector(4).fit(X).transform(source)
    assert (selected.shape, selected.dtype, selected.chunks[0]) == ((1000, 4), dtype, codes.chunks[0])


def test_lazy_dask_rows_are_not_computed_by_transform(encoder: SparseEncoder) -> None:
    def fail(block: Any) -> Any:
        if block.size:
            raise AssertionError("computed")
        return block

    lazy = da.from_array(X, chunks=(30, 4)).map_blocks(fail, dtype=X.dtype, meta=np.empty((0, 0)))
    codes = encoder.transform(lazy)
    assert codes.chunks == (lazy.chunks[0], (3,))
    back = encoder.inverse_transform(codes)
    assert back.shape == X.shape
    with pytest.raises(AssertionError, match="computed"):
        codes.compute()


def test_only_the_blocks_asked_for_are_read(encoder: SparseEncoder) -> None:
    source = Watched(X, rows_per_block=30)
    encoder.transform(source)[35:50].compute(scheduler="synchronous")
    assert source.reads == [1]


def test_encoders_that_differ_only_in_means_scales_or_fill_do_not_share_results() -> None:
    lazy = da.from_array(X, chunks=(50, 9))
    encoders = [
        batch_encoder(1, n_nonzero=1, center=center, scale=scale, missing=missing).fit(X)
        for center, scale, missing in (
            (True, False, "error"),
            (False, False, "error"),
            (True, True, "error"),
            (True, False, "zero"),
        )
    ]
    for encoder in encoders:
        encoder.components_ = encoders[0].components_
        encoder.selected_features_ = encoders[0].selected_features_
    codes = [encoder.transform(lazy) for encoder in encoders]
    assert len({each.name for each in codes}) == 4
    for encoder, found in zip(encoders, dask.compute(*codes), strict=True):
        np.testing.assert_allclose(found, by_hand(encoder, X))


def test_a_store_that_changed_is_read_again(encoder: SparseEncoder, tmp_path: Path) -> None:
    array = zarr_array(tmp_path / "x.zarr", X, (50, 9))
    before = encoder.transform(tmp_path / "x.zarr")
    array[...] = X[::-1]
    after = encoder.transform(tmp_path / "x.zarr")
    assert before.name != after.name
    np.testing.assert_allclose(after.compute(), by_hand(encoder, X[::-1]), rtol=1e-10)


def test_the_graph_of_lazy_codes_is_small(encoder: SparseEncoder) -> None:
    many = encoder.transform(Unreadable((10**7, 9), 1000))
    assert many.npartitions == 10_000
    assert len(pickle.dumps(many.__dask_graph__())) < 10 << 20


def test_fit_transform_is_fit_then_transform() -> None:
    for parameters in ({}, {"strategy": "gram"}, {"scale": True}, {"selection": "leverage"}):
        one, other = (batch_encoder(2, n_nonzero=3, **parameters) for _ in range(2))
        np.testing.assert_array_equal(one.fit_transform(X), other.fit(X).transform(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inverse_transform_is_the_formula(encoder: SparseEncoder, dtype: type) -> None:
    codes = encoder.transform(X).astype(dtype)
    wanted = codes @ encoder.decoder_ * encoder.scale_ + encoder.mean_
    lazy = da.from_array(codes, chunks=(30, 2))
    for given in (codes, codes.tolist(), sp.csr_array(codes), lazy, zarr_array(MemoryStore(), codes, (30, 2))):
        back = encoder.inverse_transform(given)
        assert isinstance(back, da.Array) == (not isinstance(given, np.ndarray | list | sp.csr_array))
        np.testing.assert_allclose(np.asarray(back), wanted, rtol=1e-6)
    assert encoder.inverse_transform(lazy).chunks == (lazy.chunks[0], (9,))


def test_one_row_is_enough_to_transform(encoder: SparseEncoder) -> None:
    np.testing.assert_allclose(encoder.transform(X[:1]), by_hand(encoder, X[:1]), rtol=1e-10)


def test_arrays_are_not_written_to(encoder: SparseEncoder) -> None:
    rows = X.copy()
    rows.flags.writeable = False
    encoder.transform(rows)
    encoder.score(rows)
    batch_encoder(2, n_nonzero=3).fit(rows)
    assert rows.tobytes() == X.tobytes()


def test_components_have_the_sign_rule_and_no_negative_zeros(encoder: SparseEncoder) -> None:
    largest = np.abs(encoder.components_).argmax(axis=1)
    assert (encoder.components_[np.arange(3), largest] > 0).all()
    assert not np.signbit(encoder.components_[encoder.components_ == 0]).any()


def test_support_is_a_mask_or_indices(encoder: SparseEncoder) -> None:
    mask = encoder.get_support()
    assert mask.dtype == bool
    assert mask.shape == (9,)
    assert np.flatnonzero(mask).tolist() == encoder.get_support(indices=True).tolist()
    assert np.flatnonzero(mask).tolist() == encoder.selected_features_.tolist()
