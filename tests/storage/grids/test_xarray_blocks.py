"""DataArrays as matrices: opened without reading, in blocks of what chunks there are, with names."""

import pickle
from dataclasses import replace
from pathlib import Path

import dask
import numpy as np
import pytest
import xarray as xr

from spae_dask import open_matrix
from spae_dask.errors import InvalidInput, StorageError
from spae_dask.storage.grids.xarray_blocks import Cells, GridRows, rows_of
from spae_dask.storage.sources.dask_blocks import DaskBlocks
from tests.estimators.sources import batch_encoder


def matrix(n: int = 300, d: int = 6) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.1 * rng.normal(size=(n, d))


def stored(
    path: Path, x: np.ndarray, dims: tuple[str, ...] = ("time", "gene"), chunks: tuple[int, ...] | None = None
) -> str:
    encoding = {"x": {"chunksizes": chunks}} if chunks else {}
    xr.DataArray(x, dims=dims, name="x").to_dataset().to_netcdf(path, engine="h5netcdf", encoding=encoding)
    return str(path)


def all_rows(blocks) -> np.ndarray:
    return np.concatenate([blocks.read(i) for i in range(len(blocks.bounds) - 1)])


def test_an_array_in_memory_is_a_view() -> None:
    x = matrix()
    blocks = open_matrix(xr.DataArray(x))
    assert np.shares_memory(blocks.read(0), x)
    assert blocks.feature_names is None


def test_dask_blocks_are_kept_and_not_computed() -> None:
    x = xr.DataArray(matrix(), dims=("time", "gene")).chunk(time=70, gene=4)
    with dask.config.set(scheduler=lambda *_, **__: pytest.fail("something was computed")):
        blocks = open_matrix(x)
    assert isinstance(blocks, DaskBlocks)
    assert blocks.bounds == (0, 70, 140, 210, 280, 300)
    np.testing.assert_array_equal(all_rows(blocks), x)


@pytest.mark.parametrize("order", [("time", "gene"), ("gene", "time")])
def test_a_file_is_read_in_whole_chunks_of_rows(tmp_path: Path, order: tuple[str, ...]) -> None:
    x = matrix()
    rows_first = order[0] == "time"
    path = stored(tmp_path / "x.nc", x if rows_first else x.T, order, (50, 3) if rows_first else (3, 50))
    with xr.open_dataset(path, engine="h5netcdf") as dataset:
        blocks = rows_of(dataset["x"], ("time",), ("gene",), Cells(6))
        assert isinstance(blocks, GridRows)
        small = replace(blocks, target_nbytes=6 * 8 * 120)
        assert list(small.bounds) == [0, 100, 200, 300]
        assert small.decodes_per_chunk == 1
        tall = replace(blocks, max_nbytes=6 * 8 * 20)
        assert tall.bounds[1] == 17  # an even part of a chunk
        assert tall.decodes_per_chunk > 1
        for each in (blocks, small, tall, pickle.loads(pickle.dumps(small))):
            np.testing.assert_array_equal(all_rows(each), x)
        assert not dataset["x"]._in_memory


def test_the_encoder_is_that_of_the_plain_matrix(tmp_path: Path) -> None:
    x = matrix()
    plain = batch_encoder(2, n_nonzero=3).fit(x)
    path = stored(tmp_path / "x.nc", x)
    with xr.open_dataset(path, engine="h5netcdf") as dataset:
        for given in (xr.DataArray(x), xr.DataArray(x).chunk(100), dataset["x"]):
            encoder = batch_encoder(2, n_nonzero=3).fit(given)
            np.testing.assert_allclose(encoder.certificate_.loss, plain.certificate_.loss)
            np.testing.assert_allclose(np.asarray(encoder.transform(given)), plain.transform(x), atol=1e-4)


@pytest.mark.parametrize("chunks", [None, 100])
def test_columns_are_named_by_their_coordinate(chunks: int | None) -> None:
    x = xr.DataArray(matrix(), dims=("time", "gene"), coords={"gene": list("abcdef")})
    numbered = x.assign_coords(gene=np.arange(6) / 2)
    for each, names in ((x, "abcdef"), (numbered, [f"gene={i / 2}" for i in range(6)])):
        given = each if chunks is None else each.chunk(time=chunks)
        encoder = batch_encoder(2, n_nonzero=3, missing_value=-1.0, missing="zero").fit(given)
        np.testing.assert_array_equal(encoder.feature_names_in_, list(names))


def test_a_file_that_was_cut_is_told(tmp_path: Path) -> None:
    path = stored(tmp_path / "x.nc", matrix(3000), chunks=(100, 6))
    with xr.open_dataset(path, engine="h5netcdf") as dataset:
        blocks = pickle.loads(pickle.dumps(replace(open_matrix(dataset["x"]), name="x.nc/x")))
    Path(path).write_bytes(Path(path).read_bytes()[:30000])
    with pytest.raises(StorageError, match=r"x.nc/x cannot be read at time 0 to"):
        all_rows(blocks)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (xr.DataArray(np.zeros((3, 4, 5)), dims=list("tyx")), r"\(t: 3, y: 4, x: 5\).*sample_dim='time'"),
        (xr.DataArray(np.zeros(3)), "Expected 2D array"),
        (xr.Dataset({"air": ("x", [1.0])}), r"several variables \(air\)"),
        (xr.DataArray(np.zeros((0, 3))), "is empty"),
        (xr.DataArray(np.array([["a", "b"]])), "not numbers"),
        (xr.DataArray(np.ones((2, 2)) * 1j), "Complex data not supported"),
        (xr.DataArray(np.ones((2, 2)), dims=("x", "y")).variable, "Variable has no named"),
    ],
)
def test_what_is_no_matrix_is_refused_with_what_to_do(given, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        open_matrix(given)
