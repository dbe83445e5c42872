"""Files in a store that cannot be what they should be are refused before anything waits for them, or is filled."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from zarr.codecs import GzipCodec, ZstdCodec

from spae_dask import load_encoder, open_matrix
from spae_dask.errors import SpaeError, StorageError
from spae_dask.estimators.saved import save_encoder
from spae_dask.storage import checks
from spae_dask.storage.ingesting.ingest import ingest
from tests.estimators.sources import batch_encoder
from tests.storage.anndata_stores import sparse_counts

# pipes and devices are no files to Zarr when it lists a store
pytestmark = pytest.mark.filterwarnings("ignore::spae_dask.errors.MissingChunksWarning")

X = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def holes(path: Path) -> None:
    os.truncate(path, 1 << 36)


def a_bomb(path: Path) -> None:
    path.write_bytes(gzip.compress(bytes(1 << 27)))


ODD = {"pipe": a_pipe, "device": a_device, "holes": holes}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    array = zarr.create_array(tmp_path / "x.zarr", shape=X.shape, chunks=(20, 3), dtype="f4", compressors=GzipCodec())
    array[...] = X
    return tmp_path / "x.zarr"


@pytest.mark.parametrize("odd", [*ODD.values(), a_bomb])
@pytest.mark.parametrize("key", ["c/1/0", "c/2/1"])
def test_no_chunk_of_another_kind_or_of_far_too_many_bytes_is_read(
    store: Path, odd: Callable[[Path], None], key: str
) -> None:
    odd(store / key)

    with pytest.raises(StorageError, match=key):
        batch_encoder(n_components=1, n_nonzero=2).fit(store)
    with pytest.raises(StorageError, match=key):
        ingest(store, store.parent / "y.zarr")


@pytest.mark.parametrize("odd", ODD.values())
def test_codes_of_chosen_columns_look_at_their_own_chunks(store: Path, odd: Callable[[Path], None]) -> None:
    x = X.copy()
    x[:, 1] *= 9
    zarr.open_array(store)[...] = x
    encoder = batch_encoder(n_components=1, n_nonzero=1).fit(store)
    expected = encoder.transform(x)
    odd(store / "c/1/1")
    np.testing.assert_allclose(np.asarray(encoder.transform(str(store))), expected, rtol=1e-5)
    (store / "c/1/1").unlink()
    odd_files_at = store / "c/1/0"
    odd(odd_files_at)
    with pytest.raises(StorageError, match="c/1/0"):
        np.asarray(encoder.transform(str(store)))


@pytest.mark.parametrize("odd", ODD.values())
def test_entries_of_a_sparse_matrix_are_looked_at_too(tmp_path: Path, odd: Callable[[Path], None]) -> None:
    x = sp.csr_array(sparse_counts())
    group = zarr.create_group(tmp_path / "x.zarr", attributes={"encoding-type": "csr_matrix", "shape": list(x.shape)})
    for name in ("data", "indices", "indptr"):
        group.create_array(name, data=getattr(x, name), chunks=(50,))
    odd(tmp_path / "x.zarr" / "indices" / "c" / "0")
    with pytest.raises(StorageError, match="indices/c/0"):
        batch_encoder(n_components=1, n_nonzero=2).fit(tmp_path / "x.zarr")


@pytest.mark.parametrize("odd", ODD.values())
def test_metadata_are_looked_at_before_they_are_read(store: Path, odd: Callable[[Path], None]) -> None:
    odd(store / "zarr.json")
    with pytest.raises(StorageError, match=r"zarr\.json"):
        open_matrix(store)


@pytest.mark.parametrize("odd", ODD.values())
@pytest.mark.parametrize("key", ["zarr.json", "decoder/zarr.json", "values/c/0"])
def test_encoders_of_strangers_are_looked_at_likewise(
    store: Path, tmp_path: Path, odd: Callable[[Path], None], key: str
) -> None:
    save_encoder(batch_encoder(n_components=1, n_nonzero=2).fit(store), tmp_path / "e.zarr")
    odd(tmp_path / "e.zarr" / key)
    with pytest.raises(SpaeError, match=key):
        load_encoder(tmp_path / "e.zarr")


@pytest.mark.parametrize("compressors", [None, GzipCodec(level=0), ZstdCodec(), "auto"])
@pytest.mark.parametrize(("chunks", "shards"), [((1, 1), None), ((7, 5), None), ((1, 1), (30, 6)), ((60, 6), None)])
def test_what_cannot_be_compressed_is_still_read(
    tmp_path: Path, compressors: object, chunks: tuple[int, int], shards: tuple[int, int] | None
) -> None:
    noise = np.random.default_rng(1).integers(0, 256, X.shape).astype(np.uint8)
    array = zarr.create_array(
        tmp_path / "x.zarr", shape=X.shape, chunks=chunks, shards=shards, dtype="u1", compressors=compressors
    )
    array[...] = noise
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "EXTRA_NBYTES", 1 << 7)  # headers of a chunk of a byte
        source = open_matrix(tmp_path / "x.zarr")
        np.testing.assert_array_equal(np.concatenate([source.read(i) for i in range(len(source.bounds) - 1)]), noise)
