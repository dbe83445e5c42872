"""Sparse matrices written as CSR groups: the same matrix, whole or not at all."""

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, StorageError
from spae_dask.storage.ingesting import csr_ingest
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources.csr_blocks import CsrBlocks
from tests.storage.anndata_stores import anndata_store, csr_store, sparse_counts

X = sparse_counts()
NAMES = [f"gene-{j}" for j in range(12)]


def written(path: Path) -> np.ndarray[Any, Any]:
    blocks = open_matrix(path)
    assert isinstance(blocks, CsrBlocks)
    return np.concatenate([blocks.read(i).toarray() for i in range(len(blocks.bounds) - 1)])


def lazy() -> da.Array:
    meta = sp.csr_array((0, 0), dtype=np.float32)
    return da.from_array(X.toarray(), chunks=(60, 12)).map_blocks(sp.csr_array, meta=meta)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csr_ingest, "CHUNK_ENTRIES", 16)


@pytest.mark.parametrize("kind", ["scipy", "by columns", "dask", "group", "anndata", "repeated entries"])
def test_every_sparse_source_becomes_the_same_group(small_chunks: None, tmp_path: Path, kind: str) -> None:
    twice = sp.csr_array((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)
    source: Any = {
        "scipy": lambda: X,
        "by columns": lambda: sp.csc_array(X),
        "dask": lazy,
        "group": lambda: csr_store(tmp_path / "x", X, chunk=37),
        "anndata": lambda: anndata_store(tmp_path / "a.zarr", X, NAMES),
        "repeated entries": lambda: twice,
    }[kind]()
    report = ingest(source, tmp_path / "out.zarr")
    np.testing.assert_array_equal(written(tmp_path / "out.zarr"), X.toarray())
    group = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert group.attrs["encoding-type"] == "csr_matrix"
    assert group.attrs["shape"] == [200, 12]
    assert (report.shape, report.dtype, report.n_entries) == ((200, 12), "float32", X.nnz)  # type: ignore[union-attr]
    assert "sparse" in report.describe()
    assert open_matrix(tmp_path / "out.zarr").feature_names == (tuple(NAMES) if kind == "anndata" else None)  # type: ignore[attr-defined]


def test_large_matrices_are_written_in_shards(
    small_chunks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csr_ingest, "MAX_OBJECTS", 3)
    ingest(X, tmp_path / "out.zarr")
    assert zarr.open_group(tmp_path / "out.zarr")["data"].shards == (16 * csr_ingest.SHARD_CHUNKS,)
    np.testing.assert_array_equal(written(tmp_path / "out.zarr"), X.toarray())


def test_values_are_converted_if_they_fit_and_refused_if_not(tmp_path: Path) -> None:
    ingest(X, tmp_path / "out.zarr", dtype="uint8")
    assert open_matrix(tmp_path / "out.zarr").dtype == np.uint8
    with pytest.raises(InvalidInput, match=r"holds 0\.5, which int8 cannot hold"):
        ingest(sp.csr_array(np.diag([1.0, 0.5])), tmp_path / "half.zarr", dtype="int8")
    assert not (tmp_path / "half.zarr").exists()


def test_chunks_of_a_dense_matrix_are_not_for_a_sparse_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is sparse"):
        ingest(X, tmp_path / "out.zarr", chunks=(10, 3))


def test_what_reads_back_differently_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = zarr.Array.__getitem__
    monkeypatch.setattr(zarr.Array, "__getitem__", lambda self, selection: read(self, selection) + 1)
    with pytest.raises(StorageError, match="read back differently"):
        ingest(X, tmp_path / "out.zarr")
    assert list(tmp_path.iterdir()) == []


def test_a_block_too_large_for_the_budget_is_refused_before_it_is_read(tmp_path: Path) -> None:
    csr_store(tmp_path / "x", X)
    with pytest.raises(MemoryBudgetExceeded, match="Nothing was read"):
        ingest(tmp_path / "x", tmp_path / "out.zarr", budget=1000)
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize("array", ["indices", "indptr"])
def test_a_chunk_of_a_written_group_that_gets_lost_is_noticed(small_chunks: None, tmp_path: Path, array: str) -> None:
    ingest(X, tmp_path / "out.zarr")
    (tmp_path / "out.zarr" / array / "c" / "1").unlink()
    with pytest.raises(InvalidInput, match="not a valid CSR matrix"):
        written(tmp_path / "out.zarr")


def test_progress_is_told_by_rows(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    ingest(lazy(), tmp_path / "out.zarr", watch=lambda done, total: seen.append((done, total)))
    assert seen == [(60, 200), (120, 200), (180, 200), (200, 200)]


def test_the_given_matrix_is_not_changed(tmp_path: Path) -> None:
    unsorted = sp.csr_array((np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    ingest(unsorted, tmp_path / "out.zarr")
    np.testing.assert_array_equal(unsorted.indices, [1, 0])
