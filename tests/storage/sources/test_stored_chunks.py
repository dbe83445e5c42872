"""Counting the chunks that are stored."""

import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import zarr

from spae_dask import SparseEncoder
from spae_dask.errors import InvalidInput, MissingChunksWarning
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources.stored_chunks import check_chunks, count_stored
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from spae_dask.xarray import GridEncoder

X = 1.0 + np.arange(600.0).reshape(60, 10)


def census_of(array: Any) -> Any:
    return count_stored(array)


LAYOUTS = {
    "format 3": ({"chunks": (10, 5)}, 12, "c/3/1"),
    "format 2": ({"chunks": (10, 5), "zarr_format": 2}, 12, "3.1"),
    "sharded": ({"chunks": (5, 5), "shards": (20, 10)}, 3, "c/1/0"),
    "one chunk": ({"chunks": (100, 100)}, 1, "c/0/0"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("place", ["", "group/x"])
def test_a_full_array_has_all_its_chunks_and_a_lost_one_is_named(layout: str, place: str, tmp_path: Path) -> None:
    options, n_expected, lost = LAYOUTS[layout]
    path = tmp_path / "x.zarr"
    if place:
        zarr.open_group(path, mode="w", zarr_format=options.get("zarr_format", 3))
        zarr.create_array(path, name=f"{place}-2", data=X, **options)  # a neighbour whose name begins alike
    array = zarr.create_array(path, name=place or None, data=X, **options)
    chunks = census_of(array)
    assert (chunks.n_expected, chunks.n_missing, chunks.first_missing) == (n_expected, 0, ())
    assert chunks.describe() == f"all {n_expected} chunks are stored"
    (path / place / lost).unlink()
    chunks = census_of(array)
    assert (chunks.n_expected, chunks.n_missing, chunks.first_missing) == (n_expected, 1, (lost,))
    assert chunks.describe() == f"1 of {n_expected} chunks are not stored and read as 0.0 (first: {lost})"


def test_chunks_of_nothing_but_the_fill_value_are_not_stored_and_count_as_missing(tmp_path: Path) -> None:
    sparse = X.copy()
    sparse[20:60] = 0.0
    chunks = census_of(zarr.create_array(tmp_path / "x.zarr", data=sparse, chunks=(10, 10)))
    assert (chunks.n_expected, chunks.n_missing) == (6, 4)


def test_an_array_nobody_wrote_to_misses_everything_and_names_the_first_few() -> None:
    chunks = census_of(zarr.create_array({}, shape=(100, 10), chunks=(10, 10), dtype="int16", fill_value=-1))
    assert (chunks.n_expected, chunks.n_missing) == (10, 10)
    assert chunks.first_missing == ("c/0/0", "c/1/0", "c/2/0", "c/3/0", "c/4/0")
    assert chunks.describe() == (
        "10 of 10 chunks are not stored and read as -1 (first: c/0/0, c/1/0, c/2/0, c/3/0, c/4/0, ...)"
    )


def test_an_emptied_shard_counts_as_missing_because_that_is_how_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    array = zarr.create_array(path, data=X, chunks=(5, 5), shards=(20, 10))
    (path / "c" / "1" / "0").write_bytes(b"")
    assert not ZarrBlocks(array).read(0)[20:40].any()
    assert census_of(array).first_missing == ("c/1/0",)


def test_files_that_are_not_chunks_do_not_count(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(30, 10))
    (tmp_path / "x.zarr" / "c" / "9").mkdir()
    (tmp_path / "x.zarr" / "c" / "9" / "0").write_bytes(b"left by a larger array")
    (tmp_path / "x.zarr" / "notes.txt").write_text("by hand")
    assert census_of(array).n_missing == 0


def test_a_store_that_cannot_list_gives_no_census(monkeypatch: pytest.MonkeyPatch) -> None:
    array = zarr.create_array({}, data=X)
    monkeypatch.setattr(type(array.store), "supports_listing", False)
    assert census_of(array) is None


def test_a_store_that_lists_nothing_gives_no_census_rather_than_a_false_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    # a web server without directory pages: fsspec's listing is empty, although every chunk is there
    array = zarr.create_array({}, data=X)

    async def nothing(self: Any, prefix: str) -> Any:
        for key in ():
            yield key

    monkeypatch.setattr(type(array.store), "list_prefix", nothing)
    assert census_of(array) is None


def test_metadata_that_declare_more_chunks_than_can_be_kept_track_of_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    zarr.create_array(str(path), shape=(10**9, 1000), chunks=(1000, 1), dtype="f4")
    with pytest.raises(InvalidInput, match=r"declare 1,000,000,000 chunks, but at most 268,435,456 are allowed"):
        open_matrix(str(path))


def test_ten_million_declared_chunks_are_counted_by_those_that_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    array = zarr.create_array(str(path), shape=(10**8, 100), chunks=(1000, 1), dtype="f4")
    array[:1000, 2] = 1.0
    array[3000:4000, 0] = 1.0
    tracemalloc.start()
    chunks = count_stored(array)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert chunks is not None
    assert (chunks.n_expected, chunks.n_missing) == (10**7, 10**7 - 2)
    assert chunks.first_missing == ("c/0/0", "c/0/1", "c/0/3", "c/0/4", "c/0/5")
    assert most < 1 << 20


def test_what_is_no_chunk_of_the_array_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    zarr.create_array(str(path), shape=(20, 4), chunks=(10, 4), dtype="f4")[:10] = 1.0
    for name in ("c/0/0.partial", "c/0/00", "c/7/0", "c/1", "1/0", "c/0/0~"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        if not (path / name).exists():
            (path / name).write_bytes(b"x")
    chunks = count_stored(zarr.open_array(str(path)))
    assert chunks is not None
    assert (chunks.n_missing, chunks.first_missing) == (1, ("c/1/0",))


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    """A dataset whose integers have lost a chunk."""
    values = np.arange(1, 241, dtype="i2").reshape(24, 2, 5)
    made = xr.Dataset({"t": (("time", "lat", "lon"), values)}, {"time": np.arange(24)})
    made.chunk(time=6).to_zarr(tmp_path / "cube.zarr", consolidated=False)
    shutil.rmtree(tmp_path / "cube.zarr" / "t" / "c" / "2")
    return tmp_path / "cube.zarr"


def lazily(cube: Path, chunks: dict[str, int] | None) -> xr.DataArray:
    return xr.open_zarr(cube, chunks=chunks, consolidated=False)["t"]


ALL: dict[str, Callable[[Path], Any]] = {
    "a path": lambda cube: open_matrix(cube, sample_dim="time"),
    "a dask array": lambda cube: da.from_zarr(cube / "t").reshape(24, 10),
    "numbers made of them": lambda cube: 2.0 * da.from_zarr(cube / "t").reshape(24, 10),
}
PARTS: dict[str, Callable[[Path], Any]] = {
    "columns": lambda cube: da.from_zarr(cube / "t").reshape(24, 10)[:, :3],
    "rows": lambda cube: da.from_zarr(cube / "t").reshape(24, 10)[:12],
}


@pytest.mark.parametrize("kind", ALL)
def test_a_lost_chunk_beneath_a_graph_or_a_grid_is_told_of(cube: Path, kind: str) -> None:
    with pytest.warns(MissingChunksWarning, match=r"1 of 4 chunks are not stored and read as 0 \(first: c/2/0/0\)"):
        found = SparseEncoder(2, n_nonzero=3, method="batch").fit(ALL[kind](cube))
    assert "1 of 4 chunks" in str(found.certificate_.missing_chunks)


def test_a_lost_chunk_of_one_of_several_stores_is_told_of(cube: Path) -> None:
    shutil.copytree(cube, cube.with_name("later.zarr"))
    expected = (
        r"2 of 8 chunks are not stored and read as 0 \(first: \S*/cube.zarr/t/c/2/0/0, \S*/later.zarr/t/c/2/0/0\)"
    )
    joined = da.concatenate([da.from_zarr(each / "t").reshape(24, 10) for each in (cube, cube.with_name("later.zarr"))])
    for given in (open_matrix(cube.parent / "*.zarr", sample_dim="time"), joined):
        with pytest.warns(MissingChunksWarning, match=expected):
            SparseEncoder(2, n_nonzero=3, method="batch").fit(given)


@pytest.mark.parametrize("chunks", [None, {}])
def test_a_grid_encoder_is_told_of_it_too(cube: Path, chunks: dict[str, int] | None) -> None:
    with pytest.warns(MissingChunksWarning, match="1 of 4 chunks"):
        GridEncoder(2, n_nonzero=3, method="batch").fit(lazily(cube, chunks))
    GridEncoder(2, n_nonzero=3, method="batch").fit(lazily(cube, chunks)[:, :1])  # a part, which may leave it out


@pytest.mark.parametrize("chunks", [None, {}])
def test_a_tile_of_land_is_no_lost_chunk(tmp_path: Path, chunks: dict[str, int] | None) -> None:
    values = np.random.default_rng(0).standard_normal((24, 4, 6))
    values[:, :2, :3] = np.nan
    made = xr.Dataset({"t": (("time", "lat", "lon"), values)}, {"time": np.arange(24)})
    made.chunk(lat=2, lon=3).to_zarr(tmp_path / "cube.zarr", consolidated=False)
    shutil.rmtree(tmp_path / "cube.zarr" / "t" / "c" / "0" / "0" / "0", ignore_errors=True)
    GridEncoder(2, n_nonzero=3, method="batch").fit(lazily(tmp_path / "cube.zarr", chunks))
    SparseEncoder(2, n_nonzero=3, method="batch").fit(open_matrix(tmp_path / "cube.zarr", sample_dim="time"))


@pytest.mark.parametrize("kind", PARTS)
def test_a_part_of_an_array_may_leave_out_the_chunk(cube: Path, kind: str) -> None:
    assert check_chunks(open_matrix(PARTS[kind](cube))).chunks is None
