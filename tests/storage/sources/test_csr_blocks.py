"""CSR matrices in Zarr groups, as AnnData stores them: read right, cut by what is stored, and refused when damaged."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from zarr.storage import MemoryStore

from spae_dask.blocks import RowBlocks, largest_block_nbytes, total_nbytes
from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.storage.artifacts.fingerprint import fingerprint
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources.csr_blocks import CHUNKS_PER_BLOCK, CsrBlocks
from spae_dask.storage.sources.stored_chunks import check_chunks
from tests.storage.anndata_stores import anndata_store, csr_store, sparse_counts, write_csr

NAMES = [f"gene-{j}" for j in range(12)]


def small(group: Any, target_nbytes: int = 400) -> CsrBlocks:
    """Blocks of a few rows, of single chunks where they are smaller."""
    opened = CsrBlocks.opened(group, "the group")
    return CsrBlocks(opened.data, opened.indices, opened.indptr, opened.shape, target_nbytes=target_nbytes)


def rows_of(blocks: RowBlocks) -> np.ndarray[Any, Any]:
    return np.concatenate([blocks.read(i).toarray() for i in range(len(blocks.bounds) - 1)])


@pytest.mark.parametrize(
    ("zarr_format", "chunk", "dtype"),
    [(2, 37, "float32"), (3, 7, "float64"), (3, 37, "int8"), (3, 50, "uint16"), (3, 10_000, "float32")],
)
def test_the_blocks_are_the_rows(tmp_path: Path, zarr_format: int, chunk: int, dtype: str) -> None:
    X = sparse_counts(dtype=dtype)
    group = csr_store(tmp_path / "x", X, zarr_format, chunk=chunk, pointer_chunk=max(chunk, 30))
    blocks = small(group)
    assert isinstance(blocks, RowBlocks)
    assert (blocks.shape, blocks.dtype) == (X.shape, X.dtype)
    assert blocks.read(0).dtype == X.dtype
    np.testing.assert_array_equal(rows_of(blocks), X.toarray())
    np.testing.assert_array_equal(rows_of(open_matrix(tmp_path / "x")), X.toarray())


@pytest.mark.parametrize("index", ["int32", "int64", "uint32", "uint64"])
def test_indices_of_any_integer_type(tmp_path: Path, index: str) -> None:
    X = sparse_counts()
    group = csr_store(tmp_path / "x", X, indices=X.indices.astype(index), indptr=X.indptr.astype(index))
    np.testing.assert_array_equal(rows_of(small(group)), X.toarray())


@pytest.mark.parametrize("stored", ["float16", ">f4", ">i2"])
def test_types_that_scipy_does_not_hold_are_converted_as_they_are_read(tmp_path: Path, stored: str) -> None:
    X = sparse_counts()
    blocks = small(csr_store(tmp_path / "x", X, data=X.data.astype(stored)))
    assert blocks.read(0).dtype == blocks.dtype
    assert blocks.dtype.isnative
    np.testing.assert_array_equal(rows_of(blocks), X.toarray())


def test_unsorted_columns_are_sorted_and_repeated_ones_summed(tmp_path: Path) -> None:
    X = sp.csr_array((np.array([1.0, 2.0, 3.0, 4.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), shape=(2, 3))
    block = small(csr_store(tmp_path / "x", X)).read(0)
    assert block.has_canonical_format
    np.testing.assert_array_equal(block.toarray(), [[2.0, 0.0, 4.0], [0.0, 4.0, 0.0]])


def test_blocks_are_cut_by_stored_bytes_and_planned_with_them(tmp_path: Path) -> None:
    X = sparse_counts(n=1000, density=0.05)
    blocks = small(csr_store(tmp_path / "x", X, chunk=12), target_nbytes=1000)
    held = [blocks.read(i) for i in range(len(blocks.bounds) - 1)]
    nbytes = [b.data.nbytes + b.indices.nbytes + 4 * b.shape[0] for b in held]
    assert np.diff(blocks.stored.offsets).tolist() == nbytes
    assert max(nbytes) <= 1000
    assert min(nbytes[:-1]) > 500  # rows count as entries too
    assert total_nbytes(blocks) == 8 * X.nnz + 4 * 1000
    assert largest_block_nbytes(blocks) == max(nbytes)
    assert blocks.stored.density == pytest.approx(X.nnz / (1000 * 12))
    assert total_nbytes(blocks) < 1000 * 12 * 4


def test_a_chunk_is_decoded_once_but_for_those_in_which_a_block_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = sparse_counts(n=1500, density=0.3)
    blocks = small(csr_store(tmp_path / "x", X, chunk=64), target_nbytes=1)
    decoded: list[int] = []
    read = zarr.Array.__getitem__

    def counted(self: Any, selection: slice) -> Any:
        if self.path.endswith("data"):
            decoded.append(-(-selection.stop // 64) - selection.start // 64)
        return read(self, selection)

    bounds = blocks.bounds
    monkeypatch.setattr(zarr.Array, "__getitem__", counted)
    for i in range(len(bounds) - 1):
        blocks.read(i)
    n_chunks = -(-X.nnz // 64)
    assert n_chunks <= sum(decoded) <= n_chunks * (1 + 2 / CHUNKS_PER_BLOCK)
    assert blocks.decodes_per_chunk == 1


def test_it_is_small_when_pickled_and_is_read_by_another_process_without_another_look_at_all_rows(
    tmp_path: Path,
) -> None:
    X = sparse_counts(n=5000)
    blocks = small(csr_store(tmp_path / "x", X), target_nbytes=10_000)
    assert not blocks.in_process
    bounds = blocks.bounds
    pickled = pickle.dumps(blocks)
    assert len(pickled) < 10_000
    (tmp_path / "source.pickle").write_bytes(pickled)
    code = (
        "import pickle, sys; from spae_dask.storage.sources.csr_blocks import CsrBlocks\n"
        "CsrBlocks._pointers = None\n"
        "print(pickle.load(open(sys.argv[1], 'rb')).read(1).sum())"
    )
    out = subprocess.run([sys.executable, "-c", code, tmp_path / "source.pickle"], capture_output=True, text=True)
    assert float(out.stdout) == X[bounds[1] : bounds[2]].sum(), out.stderr


def test_a_group_in_memory_is_of_this_process() -> None:
    root = zarr.create_group(MemoryStore())
    X = sparse_counts()
    blocks = open_matrix(write_csr(root, "x", X))
    assert blocks.in_process
    np.testing.assert_array_equal(rows_of(blocks), X.toarray())


def test_a_matrix_without_entries_can_be_opened(tmp_path: Path) -> None:
    X = sp.csr_array((7, 3), dtype=np.float32)
    group = csr_store(tmp_path / "x", X)
    assert open_matrix(group).read(0).nnz == 0


def falling(pointers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    pointers = pointers.copy()
    pointers[120] = pointers[119] - 1
    return pointers


X0 = sparse_counts()
DAMAGED: dict[str, tuple[dict[str, Any], str]] = {
    "pointers that fall": ({"indptr": falling(X0.indptr)}, r"row 119 starts at entry \d+ and ends at entry"),
    "pointers that begin late": ({"indptr": X0.indptr + 1}, r"begin with 1, not with 0"),
    "too few pointers": ({"indptr": X0.indptr[:-1]}, r"200 row pointers, but 200 rows need 201"),
    "too few values": ({"data": X0.data[:-1]}, r"values but \d+ column numbers"),
    "too few entries": ({"data": X0.data[:-1], "indices": X0.indices[:-1]}, r"row pointers end at"),
    "a column beyond the last": (
        {"indices": np.where(np.arange(X0.nnz) == 40, 12, X0.indices)},
        r"column 12, but",
    ),
    "a negative column": ({"indices": np.where(np.arange(X0.nnz) == 40, -1, X0.indices)}, r"column -1, but"),
    "columns that are floats": ({"indices": X0.indices.astype(float)}, r"indices are float64, not integers"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_matrices_are_refused_by_name_with_what_is_wrong(tmp_path: Path, damage: str) -> None:
    arrays, message = DAMAGED[damage]
    csr_store(tmp_path / "x", X0, **arrays)
    with pytest.raises(InvalidInput, match=message) as caught:
        rows_of(open_matrix(tmp_path / "x"))
    assert str(tmp_path / "x") in str(caught.value)
    assert "write it again" in str(caught.value)


def test_chunks_without_entries_are_refused(tmp_path: Path) -> None:
    csr_store(tmp_path / "x", X0)
    about = tmp_path / "x/data/zarr.json"
    known = json.loads(about.read_text())
    known["chunk_grid"]["configuration"]["chunk_shape"] = [0]
    about.write_text(json.dumps(known))
    with pytest.raises(InvalidInput, match="its chunks have no entries"):
        open_matrix(tmp_path / "x")


def test_a_member_that_the_system_does_not_open_is_named_with_what_to_do(tmp_path: Path) -> None:
    csr_store(tmp_path / "x", X0)
    about = tmp_path / "x/indptr/zarr.json"
    about.unlink()
    about.symlink_to("zarr.json")
    with pytest.raises(StorageError, match=r"a member of .*x cannot be opened.*symbolic links.*restore it"):
        open_matrix(tmp_path / "x")


def test_the_row_of_a_wrong_column_is_named(tmp_path: Path) -> None:
    at = 40
    row = int(np.searchsorted(X0.indptr, at, side="right")) - 1
    csr_store(tmp_path / "x", X0, indices=np.where(np.arange(X0.nnz) == at, 99, X0.indices))
    with pytest.raises(InvalidInput, match=f"row {row} has an entry in column 99"):
        rows_of(open_matrix(tmp_path / "x"))


@pytest.mark.parametrize(("key", "value"), [("shape", [200]), ("shape", "200x12"), ("shape", None)])
def test_a_group_without_a_shape_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    csr_store(tmp_path / "x", X0)
    zarr.open_group(tmp_path / "x").attrs[key] = value
    with pytest.raises(InvalidInput, match="lacks the attribute shape of two integers"):
        open_matrix(tmp_path / "x")


def test_a_group_without_its_arrays_is_refused(tmp_path: Path) -> None:
    csr_store(tmp_path / "x", X0)
    del zarr.open_group(tmp_path / "x")["indices"]
    with pytest.raises(InvalidInput, match="lacks the one-dimensional array indices"):
        open_matrix(tmp_path / "x")


def test_a_chunk_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    csr_store(tmp_path / "x", X0)
    (tmp_path / "x" / "indices" / "c" / "2").write_bytes(b"no zstd")
    with pytest.raises(StorageError, match=r"chunk 'c/2' of .*x/indices \(entries 74 to 110\).*Restore the chunk"):
        rows_of(open_matrix(tmp_path / "x"))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_the_matrix_of_an_anndata_store_comes_with_the_names_of_its_variables(
    tmp_path: Path, zarr_format: int, kind: str
) -> None:
    X = X0 if kind == "sparse" else X0.toarray()
    twice = sp.csr_array(2 * X0)
    path = anndata_store(tmp_path / "a.zarr", X, NAMES, {"counts": twice}, zarr_format)
    for opened in (open_matrix(path), open_matrix(path, array="X"), open_matrix(zarr.open_group(path, mode="r"))):
        assert opened.feature_names == tuple(NAMES)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(sp.csr_array(opened.read(0)).toarray()[:50], X0.toarray()[:50])
    layer = open_matrix(path, array="layers/counts")
    assert layer.feature_names == tuple(NAMES)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(rows_of(layer), 2 * X0.toarray())
    np.testing.assert_array_equal(rows_of(open_matrix(path / "layers" / "counts")), 2 * X0.toarray())


def test_a_member_that_an_anndata_store_has_not_is_refused_with_what_it_has(tmp_path: Path) -> None:
    path = anndata_store(tmp_path / "a.zarr", X0, NAMES, {"counts": X0})
    with pytest.raises(NotFound, match=r"no matrix 'layers/raw'; it has X, layers/counts"):
        open_matrix(path, array="layers/raw")


def test_an_index_that_does_not_fit_gives_no_names(tmp_path: Path) -> None:
    path = anndata_store(tmp_path / "a.zarr", X0, NAMES[:-1])
    assert open_matrix(path).feature_names is None  # type: ignore[attr-defined]


def test_a_sparse_member_of_a_plain_group_is_opened_by_name(tmp_path: Path) -> None:
    root = zarr.open_group(tmp_path / "g.zarr", mode="w")
    write_csr(root, "counts", X0)
    root.create_array("other", data=np.zeros((3, 2)))
    np.testing.assert_array_equal(rows_of(open_matrix(tmp_path / "g.zarr", array="counts")), X0.toarray())
    assert open_matrix(tmp_path / "g.zarr").shape == (3, 2)


def test_missing_chunks_of_all_three_arrays_are_counted_and_named(tmp_path: Path) -> None:
    csr_store(tmp_path / "x", X0)
    source = open_matrix(tmp_path / "x")
    complete = check_chunks(source)[1]
    assert complete is not None
    assert complete.n_missing == 0
    assert complete.n_expected == 2 * -(-X0.nnz // 37) + 5
    (tmp_path / "x" / "data" / "c" / "1").unlink()
    chunks = check_chunks(source)[1]
    assert chunks is not None
    assert (chunks.n_missing, chunks.first_missing) == (1, ("data/c/1",))


def test_the_fingerprint_knows_the_content(tmp_path: Path) -> None:
    csr_store(tmp_path / "x", X0)
    csr_store(tmp_path / "y", X0)
    csr_store(tmp_path / "z", sp.csr_array(2 * X0))
    x, y, z = (fingerprint(open_matrix(tmp_path / name)) for name in "xyz")
    assert x == y != z
