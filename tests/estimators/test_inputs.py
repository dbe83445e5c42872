"""Every kind of object a matrix comes in gives the encoder of the plain array."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from zarr.storage import MemoryStore

from spae_dask import SparseEncoder, open_matrix
from tests.estimators.sources import Watched, batch_encoder, spread, zarr_array

X = spread(np.random.default_rng(0), 90, 8)
COUNTS = np.random.default_rng(1).poisson(2.0 + np.arange(8), size=(90, 8)).astype(np.float64)


def fitted(x: Any, **parameters: Any) -> SparseEncoder:
    return batch_encoder(2, n_nonzero=3, **parameters).fit(x)


def assert_same(found: SparseEncoder, wanted: SparseEncoder) -> None:
    assert found.selected_features_.tolist() == wanted.selected_features_.tolist()
    np.testing.assert_allclose(found.components_, wanted.components_, atol=1e-8)
    np.testing.assert_allclose(found.decoder_, wanted.decoder_, atol=1e-8)
    assert found.n_samples_seen_ == wanted.n_samples_seen_


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("chunks", [(20, 8), (90, 3), (17, 5)])
@pytest.mark.parametrize("how", ["path", "str", "url", "member path", "array=", "zarr.Array", "in memory"])
def test_zarr_in_every_form(tmp_path: Path, zarr_format: int, chunks: tuple[int, int], how: str) -> None:
    path = tmp_path / "x.zarr"
    array = zarr_array(path, X, chunks, zarr_format=zarr_format)
    group = zarr.create_group(tmp_path / "g.zarr", zarr_format=zarr_format)
    for name in ("rows", "others"):
        group.create_array(name, shape=X.shape, chunks=chunks, dtype=X.dtype)[...] = X if name == "rows" else 0.0
    given = {
        "path": lambda: path,
        "str": lambda: str(path),
        "url": lambda: path.as_uri(),
        "member path": lambda: f"{tmp_path}/g.zarr/rows",
        "array=": lambda: open_matrix(f"{tmp_path}/g.zarr", array="rows"),
        "zarr.Array": lambda: array,
        "in memory": lambda: zarr_array(MemoryStore(), X, chunks, zarr_format=zarr_format),
    }[how]()
    assert_same(fitted(given), fitted(X))


def test_shards_are_read(tmp_path: Path) -> None:
    zarr_array(tmp_path / "x.zarr", X, (10, 4), shards=(30, 8))
    assert_same(fitted(tmp_path / "x.zarr"), fitted(X))


def test_the_only_matrix_of_a_group_needs_no_name(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "g.zarr")
    group.create_array("rows", shape=X.shape, dtype=X.dtype)[...] = X
    group.create_array("labels", shape=(90,), dtype=np.int64)
    assert_same(fitted(tmp_path / "g.zarr"), fitted(X))
    assert_same(fitted(group), fitted(X))


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_and_memory_maps(tmp_path: Path, order: Any) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.asarray(X, order=order))
    for given in (path, str(path), path.as_uri(), np.load(path, mmap_mode="r")):
        assert_same(fitted(given), fitted(X))


TYPES = ["int8", "uint8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64", "longdouble", ">f4"]


@pytest.mark.parametrize(
    ("dtype", "kind"),
    # Zarr has no long double
    [(dtype, kind) for dtype in TYPES for kind in ("numpy", "dask", "zarr") if (dtype, kind) != ("longdouble", "zarr")],
)
def test_every_real_type(dtype: str, kind: str) -> None:
    typed = COUNTS.astype(dtype)
    given = {
        "numpy": lambda: typed,
        "dask": lambda: da.from_array(typed, chunks=(40, 5)),
        "zarr": lambda: zarr_array(MemoryStore(), typed, (40, 5)),
    }[kind]()
    found = fitted(given)
    assert_same(found, fitted(COUNTS))
    wanted = np.float32 if np.dtype(dtype).itemsize == 4 and np.dtype(dtype).kind == "f" else np.float64
    codes = found.transform(given)
    assert codes.dtype == wanted
    np.testing.assert_allclose(np.asarray(codes), found.transform(COUNTS), rtol=1e-5)


def test_booleans_are_zeros_and_ones() -> None:
    assert_same(fitted(COUNTS > 4), fitted((COUNTS > 4).astype(float)))


@pytest.mark.parametrize(
    "make",
    [
        np.ndarray.tolist,
        lambda x: x.astype(object),
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: x[::-1][::-1],
        lambda x: np.ma.masked_invalid(x),
    ],
    ids=["list", "objects", "Fortran order", "strided", "reversed strides", "mask of nothing"],
)
def test_array_likes(make: Callable[[Any], Any]) -> None:
    assert_same(fitted(make(X)), fitted(X))


@pytest.mark.parametrize("chunks", [(20, 8), (90, 3), ((1, 88, 1), (1, 7))])
def test_dask_arrays_of_any_chunks(chunks: Any) -> None:
    assert_same(fitted(da.from_array(X, chunks=chunks)), fitted(X))


def test_dask_arrays_with_empty_chunks() -> None:
    padded = da.from_array(np.vstack([np.full((15, 8), -99.0), X, np.full((15, 8), -99.0)]), chunks=(15, 8))
    lazy = padded[padded[:, 0] > -99].compute_chunk_sizes()
    assert lazy.chunks[0] == (0, 15, 15, 15, 15, 15, 15, 0)
    found = fitted(lazy)
    assert_same(found, fitted(X))
    assert found.transform(lazy).compute().shape == (90, 2)


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array, sp.coo_array, sp.lil_array])
def test_sparse_matrices(kind: Any) -> None:
    thin = np.where(COUNTS > 4, COUNTS, 0.0)
    assert_same(fitted(kind(thin)), fitted(thin))
    np.testing.assert_allclose(fitted(thin).transform(kind(thin)), fitted(thin).transform(thin), rtol=1e-12)


def test_sparse_matrices_with_repeated_and_unsorted_entries() -> None:
    rows, columns, values = [0, 0, 1, 2, 2], [1, 1, 0, 2, 0], [1.0, 2.0, 3.0, 4.0, 5.0]
    assert_same(
        batch_encoder(1, n_nonzero=2).fit(sp.coo_array((values, (rows, columns)), shape=(4, 3))),
        batch_encoder(1, n_nonzero=2).fit(np.array([[0, 3.0, 0], [3, 0, 0], [5, 0, 4], [0, 0, 0]])),
    )


def test_own_sources_are_taken_as_they_are() -> None:
    source = Watched(X, rows_per_block=13)
    assert open_matrix(source) is source
    found = fitted(source)
    assert_same(found, fitted(X))
    assert sorted(source.reads) == list(range(7))
    assert found.certificate_.passes == 1
    assert found.certificate_.bytes_read == X.nbytes


def test_opening_reads_nothing_and_says_what_it_opened(tmp_path: Path) -> None:
    array = zarr_array(tmp_path / "x.zarr", X, (20, 8))
    for chunk in (tmp_path / "x.zarr" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"not a chunk")
    source = open_matrix(tmp_path / "x.zarr")
    assert (source.shape, source.dtype) == (array.shape, array.dtype)
    assert str(tmp_path / "x.zarr") in source.describe()


@pytest.mark.parametrize("shape", [(2, 1), (2, 5), (3, 40), (200, 1)])
def test_awkward_shapes(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(2).standard_normal(shape)
    encoder = batch_encoder(1, n_nonzero=1).fit(rows)
    assert encoder.components_.shape == (1, shape[1])
    assert encoder.certificate_.ratio >= 1
    assert encoder.transform(rows).shape == (shape[0], 1)
