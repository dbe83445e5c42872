"""Inner chunks that shards lack: counted against what was written."""

import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import BytesCodec, GzipCodec, ShardingCodec

from spae_dask.errors import MissingChunksWarning
from spae_dask.estimators.checking import check
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources.stored_chunks import check_chunks
from tests.estimators.sources import batch_encoder


@settings(max_examples=40, deadline=None)
@given(
    chunk=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    inner=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    n=st.integers(1, 25),
    d=st.integers(1, 8),
    location=st.sampled_from(["start", "end"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_as_many_are_missing_as_hold_nothing_but_the_fill_value(tmp_path_factory, chunk, inner, n, d, location, seed):
    path = tmp_path_factory.mktemp("shards") / "x.zarr"
    shard = tuple(c * i for c, i in zip(chunk, inner, strict=True))
    array = zarr.create_array(
        str(path), shape=(n, d), shards={"shape": shard, "index_location": location}, chunks=chunk, dtype="f4"
    )
    rng = np.random.default_rng(seed)
    X = np.zeros((n, d), dtype="f4")
    empty = set()
    for i, j in product(range(0, n, chunk[0]), range(0, d, chunk[1])):
        if rng.random() < 0.6:
            X[i : i + chunk[0], j : j + chunk[1]] = 1 + rng.random()
        else:
            empty.add((i // shard[0], j // shard[1], i, j))
    array[:] = X
    found = check_chunks(open_matrix(str(path))).chunks
    stored = {(int(p.parent.name), int(p.name)) for p in (path / "c").rglob("*") if p.is_file()} if X.any() else set()
    assert found.n_missing == found.n_expected - len(stored)
    assert found.inner.n_missing == sum((a, b) in stored for a, b, *_ in empty)


def sharded(path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(40, 6)).astype("f4")
    X[10:20] = 0
    zarr.create_array(str(path), shape=X.shape, shards=(20, 6), chunks=(5, 6), dtype="f4")[:] = X


def test_a_fit_warns_a_check_tells_and_the_certificate_says_so(tmp_path):
    sharded(tmp_path / "x.zarr")
    with pytest.warns(MissingChunksWarning, match=r"2 of 8 inner chunks of shards are not stored and read as 0\.0"):
        fitted = batch_encoder(1, n_nonzero=2).fit(str(tmp_path / "x.zarr"))
    assert "c/0/0 inner 2/0, c/0/0 inner 3/0" in fitted.certificate_.missing_chunks
    assert "missing            2 of 8 inner chunks" in str(fitted.certificate_)
    found = check(str(tmp_path / "x.zarr"))
    assert (found.missing_chunks, found.missing_inner_chunks) == (0, 2)
    assert "2 of 8 inner chunks" in found.problems[0]


def test_whole_shards_raise_no_warning(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 6)).astype("f4")
    zarr.create_array(str(tmp_path / "x.zarr"), shape=X.shape, shards=(20, 6), chunks=(5, 6), dtype="f4")[:] = X
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = batch_encoder(1, n_nonzero=2).fit(str(tmp_path / "x.zarr"))
    assert fitted.certificate_.missing_chunks is None


def test_an_index_that_is_encoded_unusually_is_not_read(tmp_path):
    codec = ShardingCodec(chunk_shape=(5, 6), codecs=[BytesCodec()], index_codecs=[BytesCodec(), GzipCodec()])
    try:
        array = zarr.create(shape=(40, 6), chunks=(20, 6), dtype="f4", codecs=[codec], store=str(tmp_path / "y.zarr"))
        array[:] = 1.0
    except (ValueError, NotImplementedError) as error:
        pytest.skip(f"this zarr writes none: {error}")
    assert check_chunks(open_matrix(str(tmp_path / "y.zarr"))).chunks.inner is None


def test_many_shards_are_looked_into_only_on_request(tmp_path, monkeypatch):
    sharded(tmp_path / "x.zarr")
    monkeypatch.setattr("spae_dask.storage.sources.stored_chunks.FEW_SHARDS", 1)
    assert check(str(tmp_path / "x.zarr")).missing_inner_chunks is None
    assert check(str(tmp_path / "x.zarr"), deep=True).missing_inner_chunks == 2
