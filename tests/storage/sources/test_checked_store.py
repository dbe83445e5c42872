"""A chunk that was stored when chunks were counted, and is missed by a process that reads, is an error and no zeros."""

import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import h5py
import numpy as np
import pytest
import scipy.sparse as sp
import xarray as xr
import zarr
from distributed import Client

from spae_dask.blocks import RowBlocks
from spae_dask.cli.main import main
from spae_dask.errors import DataChanged, MissingChunksWarning, StorageError
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources.sentinel import with_missing
from spae_dask.storage.sources.stored_chunks import check_chunks
from spae_dask.storage.sources.submatrix import Submatrix
from tests.dask_processes import DaskProcesses
from tests.estimators.sources import batch_encoder

X = 1.0 + np.random.default_rng(0).random((60, 6))

PLACES = {
    "format 3": ({"chunks": (10, 3)}, "c/2/1"),
    "format 2": ({"chunks": (10, 3), "zarr_format": 2}, "2.1"),
    "format 2, in folders": (
        {
            "chunks": (10, 3),
            "zarr_format": 2,
            "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}},
        },
        "2/1",
    ),
    "dots": ({"chunks": (10, 3), "chunk_key_encoding": {"name": "default", "separator": "."}}, "c.2.1"),
    "sharded": ({"chunks": (5, 3), "shards": (10, 6)}, "c/2/0"),
}


def stored_at(path: Path, **options: Any) -> Any:
    return zarr.create_array(path, data=X, **({"chunks": (10, 3)} | options))


def as_csr(path: Path) -> None:
    group, matrix = zarr.open_group(path, mode="w"), sp.csr_array(X)
    group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(X.shape)})
    for name in ("data", "indices", "indptr"):
        group.create_array(name, data=getattr(matrix, name), chunks=(25,))


def as_dataset(path: Path) -> None:
    variable = xr.Variable(("time", "x"), X, encoding={"chunks": (10, 3)})
    xr.Dataset({"v": variable}).to_zarr(path, consolidated=False, zarr_format=2)


def read_all(source: RowBlocks) -> Any:
    blocks: list[Any] = [source.read(i) for i in range(len(source.bounds) - 1)]
    return np.vstack([block.toarray() if sp.issparse(block) else block for block in blocks])


@pytest.mark.parametrize("layout", PLACES)
@pytest.mark.parametrize("place", ["", "group/x"])
def test_a_chunk_lost_after_the_count_is_named_and_nothing_is_read_in_its_place(
    layout: str, place: str, tmp_path: Path
) -> None:
    options, key = PLACES[layout]
    stored_at(tmp_path / "x.zarr", name=place or None, **options)
    source, chunks, _ = check_chunks(open_matrix(str(tmp_path / "x.zarr" / place)))
    assert chunks is not None
    assert chunks.n_missing == 0
    sent = pickle.loads(pickle.dumps(source))  # as it comes to a worker
    np.testing.assert_array_equal(read_all(sent), X)
    (tmp_path / "x.zarr" / place / key).unlink()
    lost = f"chunk {key!r} of {tmp_path / 'x.zarr' / place} was stored when this run began, but for a process of "
    with pytest.raises(StorageError, match=re.escape(lost)):
        sent.read(0)


def test_a_shard_that_was_emptied_after_the_count_is_refused(tmp_path: Path) -> None:
    stored_at(tmp_path / "x.zarr", chunks=(5, 3), shards=(10, 6))
    source, *_ = check_chunks(open_matrix(str(tmp_path / "x.zarr")))
    (tmp_path / "x.zarr" / "c" / "2" / "0").write_bytes(b"")
    with pytest.raises(StorageError, match="it is missing or empty"):
        source.read(0)


@pytest.mark.parametrize("name", ["data", "indices", "indptr"])
def test_each_array_of_a_csr_matrix_is_counted(name: str, tmp_path: Path) -> None:
    as_csr(tmp_path / "x.zarr")
    source, *_ = check_chunks(open_matrix(str(tmp_path / "x.zarr")))
    np.testing.assert_array_equal(read_all(source), X)
    (tmp_path / "x.zarr" / name / "c" / "1").unlink()
    with pytest.raises(StorageError, match=rf"chunk 'c/1' of \S+x.zarr/{name} was stored"):
        source.read(0)


def test_chunks_that_were_not_stored_when_they_were_counted_still_read_as_the_fill_value(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "x.zarr", shape=(100, 15), chunks=(10, 3), dtype="f8", fill_value=2.0)
    rng = np.random.default_rng(1)
    expected = np.full((100, 15), 2.0)
    for row, column in zip(*np.nonzero(rng.random((10, 5)) < 0.3), strict=True):
        expected[10 * row : 10 * row + 10, 3 * column : 3 * column + 3] = rng.random((10, 3))
    array[:] = expected
    source, chunks, _ = check_chunks(open_matrix(str(tmp_path / "x.zarr")))
    stored = sorted((tmp_path / "x.zarr" / "c").rglob("*/*"))
    assert chunks is not None
    assert chunks.n_missing == 50 - len(stored)
    np.testing.assert_array_equal(read_all(source), expected)
    for chunk in stored:  # each that was stored is missed, and none that was not
        content = chunk.read_bytes()
        chunk.unlink()
        with pytest.raises(StorageError, match=f"chunk {str(chunk.relative_to(tmp_path / 'x.zarr'))!r} of"):
            source.read(0)
        chunk.write_bytes(content)


def test_a_count_of_a_million_chunks_is_small_and_of_a_full_array_nothing(tmp_path: Path) -> None:
    array = stored_at(tmp_path / "x.zarr")
    full, *_ = check_chunks(open_matrix(array))
    assert len(pickle.dumps(full)) < len(pickle.dumps(open_matrix(array))) + 300

    from spae_dask.storage.sources.checked_store import with_checked_store

    huge = zarr.create_array({}, shape=(10**6, 10), chunks=(1, 10), dtype="f4")
    half = np.arange(1, 10**6, 2)
    assert len(pickle.dumps(with_checked_store(huge, half))) < len(pickle.dumps(huge)) + 10**6 // 8 + 300


def test_columns_and_markers_and_rows_of_a_counted_array_are_counted_too(tmp_path: Path) -> None:
    stored_at(tmp_path / "x.zarr")
    whole = open_matrix(str(tmp_path / "x.zarr"))
    marked, chunks, _ = check_chunks(with_missing(whole, 3.0))
    some, *_ = check_chunks(Submatrix(whole, kept_rows=np.array([25, 26])))
    assert chunks is not None
    assert np.isnan(with_missing(whole, X[0, 0]).read(0)[0, 0])
    of_columns = marked.of_columns(np.array([4]))  # type: ignore[attr-defined]
    elsewhere = marked.of_columns(np.array([1]))  # type: ignore[attr-defined]
    (tmp_path / "x.zarr" / "c" / "2" / "1").unlink()
    for source in (marked, some, of_columns):
        with pytest.raises(StorageError, match="chunk 'c/2/1' of"):
            source.read(0)
    np.testing.assert_array_equal(elsewhere.read(0), X[:, [1]])


def test_an_array_that_went_away_whole_is_said_to_have_gone(tmp_path: Path) -> None:
    stored_at(tmp_path / "x.zarr")
    source, *_ = check_chunks(open_matrix(str(tmp_path / "x.zarr")))
    shutil.move(tmp_path / "x.zarr", tmp_path / "elsewhere")
    with pytest.raises(StorageError, match=r"x.zarr does not exist for a process of \S+\. Give data at a path"):
        source.read(0)


BENEATH: dict[str, Callable[[str], Any]] = {
    "from_zarr": lambda path: da.from_zarr(f"{path}/v"),
    "from_array": lambda path: da.from_array(zarr.open_array(f"{path}/v", mode="r"), chunks=(10, 6)),
    "computed": lambda path: (da.from_zarr(f"{path}/v") - 1) * 2 + 2 - da.from_zarr(f"{path}/v"),
    "xarray on dask": lambda path: xr.open_zarr(path, consolidated=False)["v"] * 1.0,
    "xarray, lazily indexed": lambda path: xr.open_zarr(path, chunks=None, consolidated=False)["v"],
}


@pytest.mark.parametrize("kind", BENEATH)
def test_arrays_beneath_graphs_and_variables_of_somebody_else_are_counted(kind: str, tmp_path: Path) -> None:
    as_dataset(tmp_path / "x.zarr")
    given = open_matrix(BENEATH[kind](str(tmp_path / "x.zarr")))
    source, chunks, _ = check_chunks(given)
    assert (chunks.n_expected, chunks.n_absent) == (12, 0)
    np.testing.assert_allclose(read_all(source), X)
    assert source.describe() == given.describe()
    (tmp_path / "x.zarr" / "v" / "2.1").unlink()
    with pytest.raises(StorageError, match=r"chunk '2.1' of (file://)?/\S+/x.zarr/v was stored when this run began"):
        read_all(source)


def in_netcdf(path: Path, engine: str) -> Path:
    """The matrix in a netCDF file."""
    xr.Dataset({"v": (("t", "c"), X)}).to_netcdf(path, engine=engine)
    return path


FILES: dict[str, Callable[[Path], Any]] = {
    "netCDF 3": lambda path: str(in_netcdf(path, "scipy")),
    "netCDF 4": lambda path: str(in_netcdf(path, "h5netcdf")),
    "a variable of netCDF 3": lambda path: xr.open_dataset(in_netcdf(path, "scipy"), engine="scipy")["v"],
    "a variable of netCDF 4": lambda path: xr.open_dataset(in_netcdf(path, "h5netcdf"), engine="h5netcdf")["v"],
    "chunks of netCDF 3": lambda path: xr.open_dataset(in_netcdf(path, "scipy"), engine="scipy", chunks={"t": 9})["v"],
    "chunks of netCDF 4": lambda path: 2 * xr.open_dataset(in_netcdf(path, "h5netcdf"), chunks={})["v"],
    "chunks of HDF5": lambda path: da.from_array(h5py.File(in_netcdf(path, "h5netcdf"))["v"], chunks=(9, 6)),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_beneath_that_changes_is_noticed(kind: str, tmp_path: Path) -> None:
    given = FILES[kind](tmp_path / "x.nc")
    checked = check_chunks(open_matrix(given, sample_dim="t" if isinstance(given, str) else None))
    checked.refuse_changed()
    in_netcdf(tmp_path / "y.nc", "scipy").replace(tmp_path / "x.nc")
    with pytest.raises(DataChanged, match=r"x\.nc"):
        checked.refuse_changed()


def test_a_store_beneath_a_graph_that_refuses_to_be_listed_is_read_without_a_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = stored_at(tmp_path / "x.zarr")

    def refused(folder: str) -> Any:
        raise PermissionError("no listing")

    monkeypatch.setattr("os.scandir", refused)
    source, *_ = check_chunks(open_matrix(da.from_array(array, chunks=(10, 6))))
    np.testing.assert_array_equal(read_all(source), X)
    with pytest.raises(PermissionError):
        check_chunks(open_matrix(array))


def test_an_array_of_this_process_stays_one(tmp_path: Path) -> None:
    source, *_ = check_chunks(open_matrix(zarr.create_array({}, data=X, chunks=(10, 3))))
    assert source.in_process


ELSEWHERE = """
import pathlib
from zarr.storage import LocalStore
def of_other_mount(self, state):
    vars(self).update(state, root=pathlib.Path(str(state["root"]).replace("/mine/", "/theirs/")))
LocalStore.__setstate__ = of_other_mount
"""


@pytest.mark.timeout(180)
def test_a_worker_whose_copy_of_the_data_lacks_a_chunk_ends_the_run_naming_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.random.default_rng(0).standard_normal((3000, 12))
    mine, theirs = tmp_path / "mine" / "x.zarr", tmp_path / "theirs" / "x.zarr"
    sparse = zarr.create_array(mine, shape=(3000, 12), chunks=(500, 12), dtype="f8")
    sparse[500:] = rows[500:]  # a chunk that nobody has
    shutil.copytree(mine, theirs)
    (tmp_path / "before.py").write_text(ELSEWHERE)
    with DaskProcesses(tmp_path / "dask") as processes:
        address = processes.scheduler()
        processes.worker(address, "--preload", str(tmp_path / "before.py"))
        words = ["-k", "2", "-r", "4", "-q", "--cluster", address]
        assert main(["fit", str(mine), *words, "-o", str(tmp_path / "whole.zarr")]) == 0
        (theirs / "c" / "3" / "0").unlink()
        capsys.readouterr()
        assert main(["fit", str(mine), *words, "-o", str(tmp_path / "e.zarr")]) == 5
        said = capsys.readouterr().err
        assert re.search(rf"chunk 'c/3/0' of {theirs} was stored when this run .* worker tcp://127.0.0.1:\d+ of", said)
        assert not (tmp_path / "e.zarr").exists()
        shutil.rmtree(theirs)
        assert main(["fit", str(mine), *words, "-o", str(tmp_path / "e.zarr")]) == 5
        assert re.search(r"does not exist for the worker tcp://127.0.0.1:\d+ of", capsys.readouterr().err)


@pytest.mark.timeout(180)
def test_a_users_own_dask_array_is_not_read_as_zeros_by_a_worker_that_does_not_see_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # each process has its own working folder, and the array is taken from there
    (tmp_path / "before.py").write_text(f"import os\nos.chdir({str(tmp_path / 'theirs')!r})\n")
    for name in ("mine", "theirs"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    rows = np.random.default_rng(0).standard_normal((3000, 12))
    zarr.create_array("x.zarr", data=rows, chunks=(500, 12))
    array = zarr.open_array("/proc/self/cwd/x.zarr", mode="r")
    if not os.path.exists(array.store.root):
        pytest.skip("needs /proc")
    with DaskProcesses(tmp_path / "dask") as processes:
        address = processes.scheduler()
        processes.worker(address, "--preload", str(tmp_path / "before.py"))
        with Client(address) as client:
            client.wait_for_workers(1, timeout=60)
            with pytest.raises(StorageError, match=r"does not exist for the worker tcp://\S+ of"):
                batch_encoder(2, n_nonzero=4).fit(da.from_zarr(array))
            shutil.copytree("x.zarr", tmp_path / "theirs" / "x.zarr")
            fitted = batch_encoder(2, n_nonzero=4).fit(da.from_zarr(array))
    np.testing.assert_allclose(fitted.mean_, rows.mean(axis=0))


def test_a_chunk_lost_before_the_count_is_told_as_ever(tmp_path: Path) -> None:
    stored_at(tmp_path / "x.zarr")
    (tmp_path / "x.zarr" / "c" / "2" / "1").unlink()
    with pytest.warns(MissingChunksWarning, match=r"1 of 12 chunks are not stored .* \(first: c/2/1\)"):
        batch_encoder(2, n_nonzero=3).fit(str(tmp_path / "x.zarr"))
