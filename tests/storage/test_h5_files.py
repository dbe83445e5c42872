"""Matrices in .h5ad files: read where they are, by whoever has them, and refused when damaged."""

import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr

from spae_dask import open_matrix
from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.storage import h5_files, open_stored
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.sources import csr_blocks
from tests.estimators.sources import batch_encoder
from tests.storage.anndata_stores import sparse_counts

X0 = sparse_counts()
NAMES = [f"gene {column}" for column in range(X0.shape[1])]


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    raw = anndata.AnnData(sp.csr_matrix(X0 * 3), var=pd.DataFrame(index=[f"raw {name}" for name in NAMES]))
    made = anndata.AnnData(X0.toarray(), var=pd.DataFrame(index=NAMES))
    made.raw = raw
    made.layers["counts"], made.layers["by columns"] = sp.csr_matrix(X0 * 2), sp.csc_matrix(X0)
    made.write_h5ad(tmp_path / "cells.h5ad", compression="gzip")
    return tmp_path / "cells.h5ad"


def rows_of(source: Any) -> np.ndarray:
    blocks = [source.read(number) for number in range(len(source.bounds) - 1)]
    return np.concatenate([block.toarray() if sp.issparse(block) else block for block in blocks])


@pytest.mark.parametrize(("array", "factor"), [(None, 1), ("X", 1), ("layers/counts", 2), ("raw/X", 3)])
def test_every_matrix_of_a_file_comes_with_its_names(cells: Path, array: str | None, factor: int) -> None:
    source = pickle.loads(pickle.dumps(open_matrix(cells, array=array)))

    np.testing.assert_array_equal(rows_of(source), X0.toarray() * factor)
    assert list(source.feature_names) == [f"raw {name}" if factor == 3 else name for name in NAMES]


def test_many_small_blocks_make_the_same_matrix(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        file.attrs["encoding-type"] = "anndata"
        file.create_dataset("X", data=X0.toarray(), chunks=(7, 5), dtype=">f4")
    whole = open_matrix(tmp_path / "x.h5ad")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(h5_files, "TARGET_BLOCK_NBYTES", 400)
        assert len(whole.bounds) > 10
        np.testing.assert_array_equal(rows_of(whole), X0.toarray())
        patch.setattr(h5_files, "MAX_BLOCK_NBYTES", 200)
        assert whole.bounds[1] < 7
        assert whole.decodes_per_chunk > 1  # type: ignore[attr-defined]
        np.testing.assert_array_equal(rows_of(whole), X0.toarray())


def test_a_file_can_be_written_again_while_it_is_a_source(cells: Path) -> None:
    source = open_matrix(cells)
    rows_of(source)
    anndata.AnnData(X0.toarray() + 1).write_h5ad(cells)
    np.testing.assert_array_equal(rows_of(source), X0.toarray() + 1)


def test_a_fit_on_a_file_is_that_on_its_matrix(cells: Path) -> None:
    from_file = batch_encoder(n_components=2, n_nonzero=3).fit(cells)
    from_array = batch_encoder(n_components=2, n_nonzero=3).fit(X0.toarray())

    np.testing.assert_array_equal(from_array.components_, from_file.components_)
    assert list(from_file.feature_names_in_) == NAMES
    np.testing.assert_allclose(np.asarray(from_file.transform(cells)), from_array.transform(X0.toarray()), rtol=1e-6)


def test_a_file_is_read_by_other_processes(cells: Path) -> None:
    source = open_matrix(cells, array="layers/counts")
    script = "import pickle, sys; print(pickle.load(sys.stdin.buffer).read(0).sum())"
    made = subprocess.run([sys.executable, "-c", script], input=pickle.dumps(source), capture_output=True, check=True)
    assert float(made.stdout) == 2 * X0.sum()


@pytest.mark.parametrize("array", ["X", "layers/counts"])
def test_threads_that_read_at_once_get_their_own_rows(cells: Path, array: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h5_files, "TARGET_BLOCK_NBYTES", 400)
    for module in (h5_files, csr_blocks):
        monkeypatch.setattr(module, "MAX_BLOCK_NBYTES", 800)
    source = open_matrix(cells, array=array)
    expected = X0.toarray() * (1 if array == "X" else 2)
    numbers = [number for number in range(len(source.bounds) - 1) for _ in range(3)]
    assert len(numbers) > 10
    with ThreadPoolExecutor(8) as pool:
        for number, block in zip(numbers, pool.map(source.read, numbers), strict=True):
            rows = block.toarray() if sp.issparse(block) else block
            np.testing.assert_array_equal(rows, expected[source.bounds[number] : source.bounds[number + 1]])


def test_open_objects_of_h5py_are_read_from_their_file(cells: Path) -> None:
    with h5py.File(cells) as file:
        for node in (file, file["X"], file["layers/counts"]):
            source = open_matrix(node)
            assert not source.in_process
            np.testing.assert_array_equal(rows_of(source), X0.toarray() * (2 if node.name == "/layers/counts" else 1))
    with pytest.raises(StorageError, match="its file is closed"):
        open_matrix(node)


def test_a_file_of_several_matrices_asks_for_one(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        file["a"], file["b"] = X0.toarray(), X0.toarray() * 2
    with pytest.raises(InvalidInput, match=r"2 two-dimensional arrays.*array=NAME \(--array NAME\)"):
        open_matrix(tmp_path / "x.h5ad")
    np.testing.assert_array_equal(rows_of(open_matrix(tmp_path / "x.h5ad", array="b")), X0.toarray() * 2)


@pytest.mark.parametrize("array", [None, "layers/counts"])
def test_ingest_keeps_entries_and_names(cells: Path, tmp_path: Path, array: str | None) -> None:
    ingest(cells, tmp_path / "x.zarr", array=array)
    kept = open_matrix(tmp_path / "x.zarr")
    np.testing.assert_array_equal(rows_of(kept), X0.toarray() * (1 if array is None else 2))
    assert list(kept.feature_names) == NAMES  # type: ignore[attr-defined]


def test_a_matrix_by_columns_is_read_by_rows(cells: Path) -> None:
    np.testing.assert_array_equal(rows_of(open_matrix(cells, array="layers/by columns")), X0.toarray())


def test_what_is_not_there_is_told_with_what_is(cells: Path) -> None:
    with pytest.raises(NotFound, match=r"no matrix 'obs'; it has X, layers/by columns, layers/counts, raw/X"):
        open_matrix(cells, array="obs")
    with pytest.raises(NotFound, match=r"no file .*none\.h5ad"):
        open_matrix(cells.with_name("none.h5ad"))
    with pytest.raises(InvalidInput, match="Download it"):
        open_matrix("s3://bucket/cells.h5ad")


def test_other_files_under_that_name_are_no_hdf5(tmp_path: Path) -> None:
    for content in (b"", b"gene,cell\n1,2\n"):
        (tmp_path / "x.h5ad").write_bytes(content)
        with pytest.raises(InvalidInput, match="is not an HDF5 file"):
            open_matrix(tmp_path / "x.h5ad")


def test_a_file_cut_off_is_a_storage_error(cells: Path) -> None:
    whole = cells.read_bytes()
    for share in (0.1, 0.5, 0.9):
        cells.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(StorageError, match=r"may be damaged"):
            open_matrix(cells)


def test_damaged_bytes_are_a_storage_error_that_names_the_chunk(cells: Path) -> None:
    source = open_matrix(cells)
    with h5py.File(cells) as file:
        where = file["X"].id.get_chunk_info(0)
    with cells.open("r+b") as file:
        file.seek(where.byte_offset)
        file.write(b"\xff" * where.size)
    with pytest.raises(StorageError, match=r"chunk '0' of .*cells\.h5ad/X \(rows 0 to"):
        source.read(0)


def test_a_file_that_has_gone_is_a_storage_error(cells: Path) -> None:
    source = open_matrix(cells, array="layers/counts")
    assert len(source.bounds) > 1
    cells.unlink()
    with pytest.raises(StorageError, match=r"cells\.h5ad/layers/counts/indptr .*cannot be read"):
        source.read(0)


def test_without_h5py_a_file_is_refused_with_what_to_install(cells: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_stored, "find_spec", lambda _: None)
    with pytest.raises(InvalidInput, match=r'needs h5py.*pip install "spae-dask\[anndata\]"'):
        open_matrix(cells)


@pytest.mark.parametrize("array", ["X", "layers/counts"])
def test_a_copy_with_other_rows_is_no_shorter_block(cells: Path, array: str, tmp_path: Path) -> None:
    source = pickle.loads(pickle.dumps(open_matrix(cells, array=array)))
    source.read(0)
    older = anndata.read_h5ad(cells)[:-5].copy()
    older.write_h5ad(cells)
    with pytest.raises(StorageError, match=r"when it was opened, but is \(\d+,( \d+)?\) \w+ for a process of"):
        source.read(0)


@pytest.mark.parametrize("by_path", ["absolute", "relative"])
def test_files_that_a_virtual_array_is_made_of_are_missed_and_not_read_as_the_fill_value(
    by_path: str, tmp_path: Path
) -> None:
    rows = X0.toarray()
    layout = h5py.VirtualLayout(rows.shape, rows.dtype, maxshape=None)
    for number, part in enumerate(np.array_split(np.arange(len(rows)), 3)):
        name = f"part-{number}.h5"
        with h5py.File(tmp_path / name, "w") as file:
            file["x"] = rows[part]
        given = str(tmp_path / name) if by_path == "absolute" else name
        layout[part[0] : part[-1] + 1] = h5py.VirtualSource(given, "x", shape=rows[part].shape)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_virtual_dataset("X", layout)
    with h5py.File(tmp_path / "x.h5") as file:
        source = pickle.loads(pickle.dumps(open_matrix(file["X"])))
    np.testing.assert_array_equal(rows_of(source), rows)
    (tmp_path / "part-1.h5").unlink()
    with pytest.raises(StorageError, match=r"part-1.h5, a part of \S+x.h5/X, does not exist for a process of"):
        source.read(0)


def test_a_shape_that_can_only_be_damage_is_refused_at_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        file.create_dataset("X", shape=(2**40, 2**20), chunks=(64, 1024), dtype=np.float32)
    with pytest.raises(InvalidInput, match=r"x\.h5ad declare the shape \(1099511627776, 1048576\)"):
        open_matrix(tmp_path / "x.h5ad")


def test_sparse_rows_that_can_only_be_damage_are_refused_before_their_pointers_are_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        X = file.create_group("X")
        X.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": (2**40, 9)})
        X.create_dataset("indptr", shape=(2**40 + 1,), chunks=(1024,), dtype=np.int64)
        X["data"], X["indices"] = np.ones(3, dtype=np.float32), np.arange(3)
    with pytest.raises(
        InvalidInput, match=r"its shape is \(1099511627776, 9\), but at most 17,179,869,184 rows are allowed"
    ):
        open_matrix(tmp_path / "x.h5ad", array="X")


def test_a_path_leads_into_a_file_as_it_does_into_a_store(cells: Path, tmp_path: Path) -> None:
    made = anndata.read_h5ad(cells)
    made.obs["batch"] = pd.Categorical(["a", "b"] * (made.n_obs // 2) + ["a"] * (made.n_obs % 2))
    with h5py.File(tmp_path / "both.h5mu", "w") as file:
        file.attrs["encoding-type"] = "MuData"
        anndata.io.write_elem(file.require_group("mod"), "rna", made)

    rna = open_matrix(tmp_path / "both.h5mu/mod/rna", array="layers/counts", rows="batch == 'a'")
    np.testing.assert_array_equal(rows_of(rna), 2 * X0.toarray()[::2])
    assert list(rna.feature_names) == NAMES
    layer = open_matrix(tmp_path / "both.h5mu/mod/rna/layers/counts")
    np.testing.assert_array_equal(rows_of(layer), 2 * X0.toarray())
    plain = open_matrix(f"{cells}/X")
    np.testing.assert_array_equal(rows_of(plain), X0.toarray())

    with pytest.raises(InvalidInput, match=r"holds AnnData stores\. Give the path of one: .*both\.h5mu/mod/rna\."):
        open_matrix(tmp_path / "both.h5mu")
    with pytest.raises(NotFound, match=r"both\.h5mu has no member 'mod/dna'; it has mod"):
        open_matrix(tmp_path / "both.h5mu/mod/dna")
    with pytest.raises(InvalidInput, match="is an array, so it has no member 'x'"):
        open_matrix(f"{cells}/X", array="x")


def test_a_store_of_stores_names_those_that_it_holds(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "space.zarr", mode="w", zarr_format=2)  # the one that every anndata writes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anndata.io.write_elem(group.require_group("tables"), "cells", anndata.AnnData(X0))

    with pytest.raises(InvalidInput, match=r"holds AnnData stores.*space\.zarr/tables/cells\."):
        open_matrix(tmp_path / "space.zarr")
    np.testing.assert_array_equal(rows_of(open_matrix(tmp_path / "space.zarr/tables/cells")), X0.toarray())
