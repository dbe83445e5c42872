"""One door for every kind of data, and what it says to what it cannot take."""

import functools
import http.server
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import h5py
import numpy as np
import pytest
import scipy.sparse as sp
import xarray as xr
import zarr

from spae_dask import retry
from spae_dask.blocks import ArrayBlocks, RowBlocks
from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.retry import RetryPolicy
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources.npy_blocks import NpyBlocks
from spae_dask.storage.sources.stored_chunks import count_stored
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks

X = np.arange(60, dtype=np.float32).reshape(12, 5)


def all_rows(blocks: RowBlocks) -> np.ndarray:
    parts = [blocks.read(i) for i in range(len(blocks.bounds) - 1)]
    return np.concatenate([part.toarray() if sp.issparse(part) else part for part in parts])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that holds X in every way a path can name it."""
    zarr.create_array(tmp_path / "v2.zarr", data=X, chunks=(5, 3), zarr_format=2)
    zarr.create_array(tmp_path / "v3.zarr", data=X, chunks=(5, 3))
    for name, version in (("g2.zarr", 2), ("g3.zarr", 3)):
        group = zarr.open_group(tmp_path / name, mode="w", zarr_format=version)
        group.create_array("x", data=X, chunks=(5, 3))
        group.create_array("time", data=X[:, 0])
    np.save(tmp_path / "x.npy", X)
    return tmp_path


@pytest.mark.parametrize("name", ["v2.zarr", "v3.zarr", "g2.zarr/x", "g3.zarr/x", "g2.zarr", "g3.zarr", "x.npy"])
@pytest.mark.parametrize("how", ["path", "text", "trailing slash", "file url", "relative"])
def test_a_matrix_on_disk_is_opened_by_any_kind_of_path(
    name: str, how: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "trailing slash" and name == "x.npy":
        name = "v3.zarr"
    monkeypatch.chdir(folder)
    path = folder / name
    given = {
        "path": path,
        "text": str(path),
        "trailing slash": f"{path}/",
        "file url": f"file://{path}",
        "relative": name,
    }[how]
    blocks = open_matrix(given)
    assert blocks.shape == (12, 5)
    assert str(path) in blocks.describe()
    monkeypatch.chdir("/")  # whoever reads it may stand elsewhere
    np.testing.assert_array_equal(all_rows(pickle.loads(pickle.dumps(blocks))), X)


def test_the_member_of_a_group_can_be_named_apart(folder: Path) -> None:
    group = zarr.open_group(folder / "g3.zarr", mode="a")
    group.create_array("other", data=-X)
    for given in (folder / "g3.zarr", group):
        np.testing.assert_array_equal(all_rows(open_matrix(given, array="other")), -X)
        with pytest.raises(InvalidInput, match=r"2 two-dimensional arrays; it has other .*, time .*, x .*Name one"):
            open_matrix(given)
        with pytest.raises(NotFound, match=r"has no array 'z'; it has other"):
            open_matrix(given, array="z")


def _group_of(values: np.ndarray) -> zarr.Group:
    group = zarr.open_group({}, mode="w")
    group.create_array("x", data=values)
    return group


KINDS: dict[str, Callable[[], Any]] = {
    "ndarray": lambda: X,
    "column-major": lambda: np.asfortranarray(X),
    "view": lambda: np.repeat(X, 2, axis=0)[::2],
    "matrix": lambda: np.asmatrix(X),
    "unmasked": lambda: np.ma.masked_array(X, mask=False),
    "list": X.tolist,
    "objects that are numbers": lambda: X.astype(object),
    "zarr array": lambda: zarr.create_array({}, data=X, chunks=(5, 2)),
    "zarr group": lambda: _group_of(X),
    "dask": lambda: da.from_array(X, chunks=(5, 2)),
    "csr_matrix": lambda: sp.csr_matrix(X),
    "csr_array": lambda: sp.csr_array(X),
    "csc_array": lambda: sp.csc_array(X),
    "coo_array": lambda: sp.coo_array(X),
    "row blocks": lambda: ArrayBlocks(X, 5),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_matrix_becomes_row_blocks(kind: str) -> None:
    blocks = open_matrix(KINDS[kind]())
    assert isinstance(blocks, RowBlocks)
    np.testing.assert_array_equal(all_rows(blocks), X)
    assert type(blocks.read(0)) in (np.ndarray, sp.csr_array)


def test_neither_an_array_nor_a_memory_map_is_copied(folder: Path) -> None:
    for given in (X, np.load(folder / "x.npy", mmap_mode="r")):
        assert np.shares_memory(open_matrix(given).read(0), given)


def test_each_kind_goes_to_its_own_reader(folder: Path) -> None:
    assert isinstance(open_matrix(folder / "v3.zarr"), ZarrBlocks)
    assert isinstance(open_matrix(folder / "x.npy"), NpyBlocks)
    given = ArrayBlocks(X, 5)
    assert open_matrix(given) is given


def test_sparse_indices_of_64_bits_are_accepted() -> None:
    x = sp.csr_array(X)
    x.indices, x.indptr = x.indices.astype(np.int64), x.indptr.astype(np.int64)
    np.testing.assert_array_equal(all_rows(open_matrix(x)), X)


def test_blocks_of_a_sparse_matrix_are_cut_by_what_it_stores() -> None:
    # 100,000 rows of 10,000 columns, an entry each: 3.7 GiB dense, 1.6 MB stored
    x = sp.csr_array((np.ones(100_000, np.float32), np.zeros(100_000, np.int32), np.arange(100_001)), (100_000, 10_000))
    blocks = open_matrix(x)
    assert len(blocks.bounds) == 2
    assert open_matrix(sp.csr_array(np.ones((3000, 1000)))).bounds[1] < 3000


def test_duplicate_entries_of_a_sparse_matrix_add_up() -> None:
    x = sp.coo_array((np.array([1.0, 2.0, 5.0]), (np.array([0, 0, 1]), np.array([1, 1, 0]))), shape=(2, 2))
    np.testing.assert_array_equal(all_rows(open_matrix(x)), [[0.0, 3.0], [5.0, 0.0]])


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "one dimension": (X[0], InvalidInput, r"1 dimension.*shape \(5,\).*reshape"),
    "three dimensions": (X[None], InvalidInput, r"3 dimension.*shape \(1, 12, 5\)"),
    "a number": (3.0, InvalidInput, r"0 dimension"),
    "nothing": (None, InvalidInput, r"0 dimension"),
    "no rows": (X[:0], InvalidInput, r"empty.*0 sample"),
    "no columns": (X[:, :0], InvalidInput, r"empty.*0 feature"),
    "complex": (X * 1j, InvalidInput, r"complex.*real and imaginary parts"),
    "text": (X.astype(str), InvalidInput, r"<U\d+, not numbers.*convert or drop"),
    "objects": (np.array([[1, "a"]], dtype=object), InvalidInput, r"not all numbers.*convert or drop"),
    "dates": (X.astype("datetime64[s]"), InvalidInput, r"datetime64\[s\], not numbers"),
    "records": (np.zeros((3, 2), dtype=[("a", int)]), InvalidInput, r"not numbers"),
    "ragged": ([[1.0, 2.0], [3.0]], InvalidInput, r"a list cannot be read as a matrix"),
    "masked": (np.ma.masked_less(X, 7.0), InvalidInput, r"hides 7 entries.*filled\(numpy\.nan\)"),
    "dask of one dimension": (da.from_array(X[0]), InvalidInput, r"the dask array has 1 dimension"),
    "dask of unknown width": (da.from_array(X)[:, da.from_array(X)[0] > 9], InvalidInput, r"compute_chunk_sizes"),
    "dask of text": (da.from_array(X.astype(str)), InvalidInput, r"not numbers"),
    "dask without rows": (da.from_array(X[:0]), InvalidInput, r"empty.*0 sample"),
    "sparse of one dimension": (sp.coo_array(X[0]), InvalidInput, r"the sparse matrix has 1 dimension"),
    "complex sparse": (sp.csr_array(X * 1j), InvalidInput, r"complex"),
    "zarr of one dimension": (zarr.create_array({}, data=X[0]), InvalidInput, r"1 dimension"),
    "zarr of three dimensions": (zarr.create_array({}, data=X[None]), InvalidInput, r"3 dimension"),
    "complex zarr": (zarr.create_array({}, data=X * 1j), InvalidInput, r"complex64.*real and imaginary"),
    "zarr without rows": (zarr.create_array({}, shape=(0, 5), dtype="f4"), InvalidInput, r"empty.*0 sample"),
    "an empty group": (zarr.open_group({}, mode="w"), InvalidInput, r"0 two-dimensional arrays; it has no arrays"),
    "a missing file": ("/nowhere/x.npy", NotFound, r"no file /nowhere/x\.npy"),
    "a missing store": ("/nowhere/x.zarr", NotFound, r"nothing at /nowhere/x\.zarr\. Give the path of a Zarr array"),
    "a missing url": ("file:///nowhere/x.zarr", NotFound, r"nothing at /nowhere/x\.zarr"),
    "no store": ("/dev", NotFound, r"/dev is not a Zarr array or group"),
    "a missing grid": ("/nowhere/cells.nc", NotFound, r"nothing at /nowhere/cells\.nc"),
    "a missing table": ("/nowhere/cells.csv.gz", NotFound, r"no file /nowhere/cells\.csv\.gz"),
    "genes in rows": ("data/cells.loom", InvalidInput, r"cells\.loom is of a format .* not read.*read_loom\(path\)"),
    "variants as text": ("x.vcf.gz", InvalidInput, r"x\.vcf\.gz is of a format that is not read\. Convert .*vcf2zarr"),
    "an image on a server": ("https://host/b.TIF", InvalidInput, r"rioxarray\.open_rasterio"),
    "an unknown protocol": ("gopher://host/x.zarr", InvalidInput, r"gopher"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_used_is_refused_with_what_was_given_and_what_to_do(kind: str) -> None:
    given, error, message = REFUSED[kind]
    with pytest.raises(error, match=message) as caught:
        open_matrix(given)
    assert isinstance(caught.value, ValueError)
    if error is NotFound:
        assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (X[0], "1 dimension"),
        (X[None], "3 dimension"),
        (X * 1j, "complex"),
        (X.astype(str), "not numbers"),
        (X[:0], "0 s"),
    ],
)
def test_npy_files_are_held_to_the_same(array: np.ndarray, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(InvalidInput, match=message) as caught:
        open_matrix(tmp_path / "x.npy")
    assert "x.npy" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("days", "is a folder of GRIB files.*with xarray and cfgrib"),
        ("da?z/*.nc", "is a pattern of names that no grid matches"),
    ],
)
def test_many_files_of_other_kinds_are_refused(name: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "days").mkdir()
    (tmp_path / "days" / "1.grib").write_bytes(b"GRIB")

    for read in (open_matrix, functools.partial(ingest, destination=tmp_path / "x.zarr")):
        with pytest.raises(InvalidInput, match=told):
            read(str(tmp_path / name))


def test_a_store_beside_a_netcdf_file_is_a_store_and_its_chunks_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X)
    (tmp_path / "x.zarr" / "notes.nc").write_bytes(b"CDF\x01")

    def listed(folder: Path) -> Iterator[Path]:
        raise AssertionError(f"{folder} was listed")

    monkeypatch.setattr(Path, "iterdir", listed)
    np.testing.assert_array_equal(all_rows(open_matrix(tmp_path / "x.zarr")), X)


@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3", "netcdf 4"])
def test_bounds_beside_a_grid_are_not_taken_for_the_data(kind: str, tmp_path: Path) -> None:
    times, lats = np.arange(6.0), [-1.0, 0.0, 1.0]
    grid = xr.DataArray(np.ones((6, 3, 4), "f4"), dims=("time", "lat", "lon"), coords={"time": times, "lat": lats})
    grid["time"].attrs["bounds"] = "time_bnds"
    bounds = xr.DataArray(np.stack([times, times + 1], axis=1), dims=("time", "nv"))
    dataset = xr.Dataset({"t2m": grid, "time_bnds": bounds})
    path = tmp_path / ("x.h5" if kind == "netcdf 4" else "x.zarr")
    if kind == "netcdf 4":
        dataset.to_netcdf(path, engine="h5netcdf")
    else:
        dataset.to_zarr(path, zarr_format=int(kind[-1]), consolidated=False)

    np.testing.assert_array_equal(all_rows(open_matrix(path)), np.ones((6, 12)))
    with pytest.raises(InvalidInput, match=r"holds grids.*t2m \(6, 3, 4\).*Give its path.*GridEncoder"):
        open_matrix(h5py.File(path) if kind == "netcdf 4" else zarr.open_group(path, mode="r"))
    np.testing.assert_array_equal(all_rows(open_matrix(path, array="time_bnds")), bounds)
    if kind != "netcdf 4":
        ingest(path, tmp_path / "rows.zarr")
        assert open_matrix(tmp_path / "rows.zarr").shape == (6, 12)


def test_a_member_name_without_a_group_is_refused(folder: Path) -> None:
    for given in (X, ArrayBlocks(X, 5), da.from_array(X)):
        with pytest.raises(InvalidInput, match=r"array='x' names a member of a Zarr group, but a \w+ was given"):
            open_matrix(given, array="x")
    with pytest.raises(InvalidInput, match=r"is an array, so it has no member 'x'\. Leave out the name of the member"):
        open_matrix(folder / "v3.zarr", array="x")


@pytest.mark.parametrize("metadata", [b"{", b"{}", b'{"zarr_format": 9}', b'{"zarr_format": 3, "node_type": "array"}'])
def test_metadata_that_cannot_be_understood_are_refused(metadata: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / "zarr.json").write_bytes(metadata)
    with pytest.raises(InvalidInput, match=r"x\.zarr"):
        open_matrix(tmp_path / "x.zarr")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


class _Bare(_Quiet):
    """Serves files but no pages that list them, as most web servers do."""

    def list_directory(self, path: Any) -> None:
        del path
        self.send_error(404)


@pytest.fixture(params=[_Quiet, _Bare], ids=["with listings", "without listings"])
def server(request: pytest.FixtureRequest, folder: Path) -> Iterator[http.server.ThreadingHTTPServer]:
    handler = functools.partial(request.param, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["v2.zarr", "v3.zarr", "g2.zarr/x", "g3.zarr/x"])
def test_a_store_behind_http_is_read_and_pickled(
    name: str, server: http.server.ThreadingHTTPServer, request: pytest.FixtureRequest
) -> None:
    url = f"http://127.0.0.1:{server.server_port}/{name}"
    blocks = open_matrix(url)
    assert blocks.describe() == url
    np.testing.assert_array_equal(all_rows(blocks), X)
    np.testing.assert_array_equal(all_rows(pickle.loads(pickle.dumps(blocks))), X)
    chunks = count_stored(blocks.array)
    if "without" in request.node.name:
        assert chunks is None
    else:
        assert (chunks.n_expected, chunks.n_missing) == (6, 0)


def test_what_is_not_there_behind_http_is_not_found(server: http.server.ThreadingHTTPServer) -> None:
    with pytest.raises(NotFound, match=r"http://127\.0\.0\.1:\d+/nothing\.zarr is not a Zarr array"):
        open_matrix(f"http://127.0.0.1:{server.server_port}/nothing.zarr")


def test_a_server_that_does_not_answer_is_a_storage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "POLICY", RetryPolicy(first_wait=0.001))
    with pytest.raises(
        StorageError, match=r"http://127\.0\.0\.1:9/x\.zarr/zarr\.json cannot be read.*Check the address"
    ) as caught:
        open_matrix("http://127.0.0.1:9/x.zarr")
    assert isinstance(caught.value, OSError)


def test_a_server_that_goes_away_while_it_is_read_is_a_storage_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "POLICY", RetryPolicy(first_wait=0.001))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        blocks = open_matrix(f"http://127.0.0.1:{server.server_port}/v3.zarr")
        server.shutdown()
        thread.join()
    with pytest.raises(StorageError, match=r"http://127.*/v3\.zarr/c/\d/\d cannot be read"):
        blocks.read(0)


@pytest.mark.parametrize("shape", [[1 << 62, 3], [1 << 70, 3], [3, 1 << 70]])
def test_metadata_that_speak_of_more_rows_or_columns_than_can_be_are_refused_at_once(
    shape: list[int], tmp_path: Path
) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=np.ones((6, 3)), chunks=(2, 3))
    metadata = tmp_path / "x.zarr" / "zarr.json"
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"shape": shape}))
    with pytest.raises(InvalidInput, match=f"declare the shape \\({shape[0]}, {shape[1]}\\)"):
        open_matrix(str(tmp_path / "x.zarr"))


@pytest.mark.parametrize("attributes", [1e308, [], "x"])
def test_attributes_that_are_no_object_are_refused(attributes: object, tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=np.ones((6, 3)), chunks=(2, 3))
    metadata = tmp_path / "x.zarr" / "zarr.json"
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"attributes": attributes}))
    with pytest.raises(InvalidInput, match="metadata"):
        open_matrix(str(tmp_path / "x.zarr"))


def test_the_metadata_of_a_member_that_cannot_be_understood_are_named(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path / "g.zarr")
    group.create_array("a", data=np.ones((6, 3)))
    (tmp_path / "g.zarr" / "a" / "zarr.json").write_text("{")
    with pytest.raises(InvalidInput, match=r"metadata of a member of .*g\.zarr cannot be understood"):
        open_matrix(str(tmp_path / "g.zarr"))
