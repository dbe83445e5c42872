"""CSC matrices on disk: read by rows, a read of all entries for each block, and written by rows by ``ingest``."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from spae_dask.errors import InvalidInput
from spae_dask.estimators.planning import layout_notes
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources import csc_blocks
from spae_dask.storage.sources.csc_blocks import CscBlocks
from spae_dask.storage.sources.csr_blocks import CsrBlocks
from tests.estimators.sources import batch_encoder
from tests.storage.anndata_stores import csr_store, sparse_counts

X0 = sparse_counts(n=211, dtype="float32")


def by_columns(path: Path, X: Any = X0, **options: Any) -> Path:
    """A store of one CSC matrix: its arrays are those of the transpose by rows."""
    columns = sp.csc_array(X)
    transposed = sp.csr_array((columns.data, columns.indices, columns.indptr), shape=columns.shape[::-1])
    csr_store(path, transposed, encoding="csc_matrix", **options)
    zarr.open_group(path).attrs["shape"] = list(X.shape)
    return path


def rows_of(blocks: Any) -> np.ndarray[Any, Any]:
    return np.concatenate([blocks.read(i).toarray() for i in range(len(blocks.bounds) - 1)])


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csc_blocks, "BLOCK_NBYTES", 1000)
    monkeypatch.setattr(csc_blocks, "ENTRIES_AT_ONCE", 64)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("zarr_format", "chunk", "dtype"), [(2, 37, "float32"), (3, 7, "int8"), (3, 10_000, "uint16")])
def test_the_blocks_are_the_rows(tmp_path: Path, zarr_format: int, chunk: int, dtype: str) -> None:
    X = sparse_counts(dtype=dtype)
    blocks = open_matrix(by_columns(tmp_path / "x", X, zarr_format=zarr_format, chunk=chunk))
    assert isinstance(blocks, CscBlocks)
    assert (blocks.shape, blocks.dtype, blocks.read(0).dtype) == (X.shape, X.dtype, X.dtype)
    assert len(blocks.bounds) > 3
    np.testing.assert_array_equal(rows_of(blocks), X.toarray())
    held = [blocks.read(i) for i in range(len(blocks.bounds) - 1)]
    assert np.diff(blocks.stored.offsets).tolist() == [b.data.nbytes + b.indices.nbytes + 4 * b.shape[0] for b in held]


def test_entries_given_twice_are_summed_without_overflow(tmp_path: Path) -> None:
    path = by_columns(tmp_path / "x", sp.csr_array(np.array([[100, 0], [0, 7]], dtype="int8")))
    group = zarr.open_group(path)
    for key, values in {"data": [100, 100, 7], "indices": [0, 0, 1], "indptr": [0, 2, 3]}.items():
        kind = group[key].dtype
        del group[key]
        group.create_array(key, data=np.array(values, dtype=kind))
    assert open_matrix(path).read(0).toarray().tolist() == [[200, 0], [0, 7]]


@pytest.mark.usefixtures("small_blocks")
def test_a_fit_and_what_ingest_writes_are_those_of_the_rows(tmp_path: Path) -> None:
    path, rows = by_columns(tmp_path / "x"), csr_store(tmp_path / "rows", X0)
    fits = [batch_encoder(2, n_nonzero=3).fit(source) for source in (path, rows)]
    np.testing.assert_allclose(fits[0].components_, fits[1].components_, atol=1e-9)
    assert any("decoded" in note and "spae ingest" in note for note in layout_notes(open_matrix(path)))
    ingest(path, tmp_path / "kept.zarr")
    kept = open_matrix(tmp_path / "kept.zarr")
    assert isinstance(kept, CsrBlocks)
    np.testing.assert_array_equal(rows_of(kept), X0.toarray())


@pytest.mark.parametrize(
    ("key", "at", "value", "match"),
    [
        ("indices", 20, 10**6, "has an entry in row 1000000, but there are only 211 rows"),
        ("indptr", 3, 10**6, "column 3 starts at entry .* and ends at entry"),
        ("indptr", 12, 5, r"column 11 starts|pointers end at 5"),
    ],
)
def test_a_damaged_matrix_is_refused(tmp_path: Path, key: str, at: int, value: int, match: str) -> None:
    path = by_columns(tmp_path / "x")
    zarr.open_group(path)[key][at] = value
    with pytest.raises(InvalidInput, match=f"not a valid CSC matrix: .*{match}"):
        rows_of(open_matrix(path))


def test_a_lack_of_pointers_is_told_in_columns(tmp_path: Path) -> None:
    csr_store(tmp_path / "x", X0, encoding="csc_matrix")
    with pytest.raises(InvalidInput, match=r"212 column pointers, but 12 columns need 13"):
        open_matrix(tmp_path / "x")
