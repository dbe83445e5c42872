"""Data as other programs leave them: other libraries' paths, old files, stale copies of metadata, numbered parts."""

import gzip
import os
import subprocess
from pathlib import Path

import dask.dataframe as dd
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xarray as xr
import zarr

from spae_dask import load_encoder, open_matrix
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded
from spae_dask.estimators.planning import mask_note
from spae_dask.estimators.saved import save_encoder
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.storage.grids.xarray_files import open_grid
from spae_dask.storage.ingesting.ingest import ingest
from tests.estimators.sources import batch_encoder

X = np.random.default_rng(0).normal(size=(60, 4))


class OtherPath:
    """A path of another library: it has no str of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return os.fspath(self.path)


def rows_of(source):
    blocks = [source.read(number) for number in range(len(source.bounds) - 1)]
    return np.concatenate([block.toarray() if sp.issparse(block) else block for block in blocks])


def test_paths_of_other_libraries_are_paths_at_every_door(tmp_path):
    np.save(tmp_path / "x.npy", X)
    pd.DataFrame(X, columns=list("abcd")).to_parquet(tmp_path / "x.parquet")
    ingest(OtherPath(tmp_path / "x.npy"), OtherPath(tmp_path / "x.zarr"))
    for name in ("x.npy", "x.zarr", "x.parquet"):
        np.testing.assert_array_equal(rows_of(open_matrix(OtherPath(tmp_path / name))), X)
    encoder = batch_encoder(1, n_nonzero=2, checkpoint=OtherPath(tmp_path / "states")).fit(
        OtherPath(tmp_path / "x.zarr")
    )
    assert (tmp_path / "states").is_dir()
    save_encoder(encoder, OtherPath(tmp_path / "e.zarr"))
    loaded = load_encoder(OtherPath(tmp_path / "e.zarr"))
    report = transform_to_zarr(OtherPath(tmp_path / "x.zarr"), loaded, OtherPath(tmp_path / "codes.zarr"))
    assert report.path == str(tmp_path / "codes.zarr")
    np.testing.assert_allclose(zarr.open_array(tmp_path / "codes.zarr")[:], encoder.transform(X))


def test_parts_of_a_folder_are_read_in_the_order_of_their_numbers(tmp_path):
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=12)
    frame.to_parquet(tmp_path / "flat.parquet", write_index=False)
    for year in (9, 10, 100):
        (tmp_path / "years" / f"year={year}").mkdir(parents=True)
        pd.DataFrame({"a": [float(year)]}).to_parquet(tmp_path / "years" / f"year={year}" / "p.parquet")

    np.testing.assert_array_equal(rows_of(open_matrix(tmp_path / "flat.parquet")), X)
    np.testing.assert_array_equal(rows_of(open_matrix(tmp_path / "years")).ravel(), [9, 10, 100])
    np.testing.assert_array_equal(rows_of(open_matrix(f"local://{tmp_path}/flat.parquet")), X)


@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_h5ad_files_of_before_anndata_0_7_are_read_with_their_names(tmp_path, layout):
    rows = np.where(X > 0, X, 0)
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        for key, factor in (("X", 1), ("raw.X", 2)):
            if layout == "dense":
                file[key] = rows * factor
                continue
            matrix, group = sp.csr_matrix(rows * factor), file.create_group(key)
            group["data"], group["indices"], group["indptr"] = matrix.data, matrix.indices, matrix.indptr
            group.attrs["h5sparse_format"], group.attrs["h5sparse_shape"] = "csr", np.array(matrix.shape)
        record = np.dtype([("index", "S8"), ("n", "i4")])
        file["obs"] = np.array([(f"c{i}".encode(), i) for i in range(60)], record)
        file["var"] = np.array([(f"g{i}".encode(), i) for i in range(4)], record)
        file["raw.var"] = np.array([(f"r{i}".encode(), i) for i in range(4)], record)
    for array, factor, letter in ((None, 1, "g"), ("raw.X", 2, "r")):
        source = open_matrix(tmp_path / "old.h5ad", array=array)
        np.testing.assert_array_equal(rows_of(source), rows * factor)
        assert source.feature_names == tuple(f"{letter}{i}" for i in range(4))
    with pytest.raises(InvalidInput, match=r"raw\.X"):
        open_matrix(tmp_path / "old.h5ad", array="layers/counts")


def test_an_old_h5ad_file_stored_by_columns_is_known_as_a_new_one(tmp_path):
    with h5py.File(tmp_path / "old.h5ad", "w") as file:
        group = file.create_group("X")
        group.attrs["h5sparse_format"], group.attrs["h5sparse_shape"] = "csc", np.array([3, 4])
    with pytest.raises(InvalidInput, match="csc_matrix"):
        open_matrix(tmp_path / "old.h5ad", array="X")


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_rows_appended_after_the_metadata_were_consolidated_are_read(tmp_path, zarr_format):
    store = tmp_path / "g.zarr"
    group = zarr.open_group(store, mode="w", zarr_format=zarr_format)
    names = {"dimension_names": ("time", "cell")} if zarr_format == 3 else {}
    array = group.create_array("x", shape=(40, 4), chunks=(10, 4), dtype="f8", **names)
    array.attrs["_ARRAY_DIMENSIONS"] = ["time", "cell"]
    array[...] = X[:40]
    zarr.consolidate_metadata(store)
    zarr.open_group(store, mode="r+", use_consolidated=False)["x"].append(X[40:])

    np.testing.assert_array_equal(rows_of(open_matrix(store)), X)
    np.testing.assert_array_equal(rows_of(open_matrix(zarr.open_group(store, mode="r"))), X)
    np.testing.assert_array_equal(
        rows_of(open_grid(str(store), variable="x", sample_dim="time", budget=1 << 24).rows), X
    )


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_sparse_rows_appended_after_the_metadata_were_consolidated_are_read(tmp_path):
    store = tmp_path / "g.zarr"
    root = zarr.open_group(store, mode="w")
    rows = sp.csr_array(np.where(X > 0, X, 0))
    half = rows[:30]

    def write(matrix):
        group = root.create_group("X", overwrite=True)
        group.attrs.update({"encoding-type": "csr_matrix", "shape": list(matrix.shape)})
        for key in ("data", "indices", "indptr"):
            group.create_array(key, data=getattr(matrix, key))

    root.attrs["encoding-type"] = "anndata"
    write(half)
    zarr.consolidate_metadata(store)
    root = zarr.open_group(store, mode="r+", use_consolidated=False)
    write(rows)

    np.testing.assert_array_equal(rows_of(open_matrix(store)), rows.toarray())


NAMED = {
    "pandas": lambda names: pd.DataFrame(X, columns=names),
    "dask": lambda names: dd.from_pandas(pd.DataFrame(X, columns=names), npartitions=2),
}


@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize(
    ("names", "said"),
    [(["a", "b", 1, 2], "'a'.* 1"), (list("aabb"), "several columns named 'a'"), ([0, 1, 1, 2], "named 1")],
)
def test_names_that_cannot_be_compared_are_refused_before_a_fit(kind, names, said):
    if kind == "dask" and names != list("aabb"):
        pytest.skip("dask sorts names, and takes each number once")
    with pytest.raises(InvalidInput, match=said):
        batch_encoder(1, n_nonzero=2).fit(NAMED[kind](names))


def test_doubled_names_of_an_arrow_table_are_refused():
    table = pa.table([pa.array(X[:, 0]), pa.array(X[:, 1])], names=["a", "a"])
    with pytest.raises(InvalidInput, match="named 'a'"):
        open_matrix(table)


@pytest.mark.parametrize("names", [[0, 1, 2, 3], [("a", 1), ("a", 2), ("b", 1), ("b", 2)], list("abcd")])
def test_frames_that_are_fitted_are_transformed(names):
    frame = pd.DataFrame(X, columns=names)
    encoder = batch_encoder(1, n_nonzero=2).fit(frame)
    np.testing.assert_allclose(encoder.transform(frame), (X - X.mean(axis=0)) @ encoder.components_.T, atol=1e-12)


TABLE = "alpha,beta\n1,2\n3,4\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["x.csv", "it is.csv.gz"])
def test_text_of_two_bytes_a_character_is_named_with_a_command_that_converts_it(tmp_path, monkeypatch, encoding, name):
    monkeypatch.chdir(tmp_path)
    content = TABLE.encode(encoding)
    Path(name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(InvalidInput, match=encoding.upper().replace("-LE", "LE").replace("-BE", "BE")) as refused:
        ingest(name, "y.zarr")
    command = str(refused.value).split("`")[1]
    subprocess.run(["sh", "-c", command], check=True, timeout=30)
    assert Path("NEW.csv").read_text(encoding="utf-8-sig") == TABLE


@pytest.mark.parametrize("header", [None, True])
def test_a_table_in_text_with_doubled_names_is_refused(tmp_path, header):
    (tmp_path / "x.csv").write_text("a,b,a\n1,2,3\n4,5,6\n")
    with pytest.raises(InvalidInput, match="several columns named 'a'"):
        ingest(tmp_path / "x.csv", tmp_path / "y.zarr", header=header)
    ingest(tmp_path / "x.csv", tmp_path / "y.zarr", columns=["b"])
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "y.zarr")[:], [[2], [5]])


MIXED = pd.DataFrame({"id": list("xyz"), "a": [1, 2, 4], "note": ["", "n", "m"], "b": [0.5, None, 2.0]})


def as_file(suffix: str, folder: Path) -> Path:
    path = folder / f"t.{suffix}"
    if suffix == "parquet":
        MIXED.to_parquet(path)
    elif suffix == "feather":
        MIXED.to_feather(path)
    else:
        MIXED.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv", "pandas", "polars", "arrow", "dask"])
@pytest.mark.parametrize("wanted", [["@numeric"], ["!id", "!note"], ["@numeric", "!b"]])
def test_columns_of_numbers_and_all_but_mean_the_same_in_every_table(tmp_path, kind, wanted):
    if kind == "csv":
        ingest(as_file("csv", tmp_path), tmp_path / "x.zarr", columns=wanted)
        source = open_matrix(tmp_path / "x.zarr")
    else:
        makers = {
            "pandas": lambda: MIXED,
            "polars": lambda: pl.from_pandas(MIXED),
            "arrow": lambda: pa.Table.from_pandas(MIXED),
            "dask": lambda: dd.from_pandas(MIXED, npartitions=1),
        }
        given = makers[kind]() if kind in makers else as_file(kind, tmp_path)
        source = open_matrix(given, columns=wanted)
    expected = MIXED[["a"] if "!b" in wanted else ["a", "b"]].to_numpy()
    np.testing.assert_array_equal(rows_of(source), expected)


@pytest.mark.parametrize("name", ["x.csv", "x.tsv.gz"])
def test_files_that_fit_in_memory_are_read_as_they_are_and_larger_ones_name_ingest(tmp_path, name):
    path = tmp_path / name
    pd.DataFrame(X, columns=list("abcd")).to_csv(path, sep="," if "csv" in name else "\t", index=False)
    source = open_matrix(path)
    np.testing.assert_allclose(rows_of(source), X, rtol=1e-15)
    assert source.describe() == str(path)
    ingest(path, tmp_path / "y.zarr")
    assert source.feature_names == tuple(zarr.open_array(tmp_path / "y.zarr").attrs["feature_names"])

    encoder = batch_encoder(1, n_nonzero=2).fit(str(path))
    np.testing.assert_allclose(encoder.transform(str(path)), (X - X.mean(axis=0)) @ encoder.components_.T, atol=1e-12)
    with pytest.raises(MemoryBudgetExceeded, match=f"`spae ingest {path} DATA.zarr`"):
        open_matrix(path, memory_limit=8 * X.nbytes - 1)
    assert open_matrix(path, memory_limit=10**9).shape == X.shape


def test_cells_of_a_grid_that_are_left_out_are_told_of(tmp_path):
    values = X.copy()
    values[:, 2] = np.nan
    xr.Dataset({"air": (("time", "cell"), values)}, coords={"cell": [1.0, 2.0, 3.0, 4.0]}).to_netcdf(tmp_path / "x.nc")
    source = open_matrix(tmp_path / "x.nc")
    assert mask_note(source) == "uses 3 of 4 columns: cells with data"
    assert source.feature_names == ("cell=1.0", "cell=2.0", "cell=4.0")
    np.testing.assert_array_equal(rows_of(source), values[:, [0, 1, 3]])
