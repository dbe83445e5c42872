"""Blocks of Zarr arrays of every layout, and chunks that cannot be read."""

import pickle
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spae_dask.errors import StorageError
from spae_dask.storage.sources.zarr_blocks import MAX_BLOCK_NBYTES, ZarrBlocks

N, D = 57, 13


def numbers(dtype: str = "float32") -> NDArray[Any]:
    return (np.arange(N * D).reshape(N, D) % 120 - 5).astype(dtype)


def all_rows(blocks: ZarrBlocks) -> NDArray[Any]:
    parts = [blocks.read(i) for i in range(len(blocks.bounds) - 1)]
    assert [len(part) for part in parts] == [b - a for a, b in pairwise(blocks.bounds)]
    return np.concatenate(parts)


@dataclass(frozen=True)
class Layout:
    """How an array is stored."""

    name: str
    chunks: tuple[int, int]
    dtype: str = "float32"
    options: dict[str, Any] = field(default_factory=dict)


LAYOUTS = [
    Layout("row chunks", (10, D)),
    Layout("tiny chunks", (1, 1)),
    Layout("one chunk", (N, D)),
    Layout("a chunk larger than the array", (1000, 200)),
    Layout("column chunks", (N, 2)),
    Layout("chunks in both directions", (5, 4)),
    Layout("sharded", (5, 4), options={"shards": (20, 12)}),
    Layout("one shard", (5, 4), options={"shards": (60, 16)}),
    Layout("format 2", (10, 4), options={"zarr_format": 2}),
    Layout("format 2, column order", (10, D), options={"zarr_format": 2, "order": "F"}),
    Layout("format 2, big-endian", (10, D), ">i2", {"zarr_format": 2}),
    Layout("not compressed", (10, D), options={"compressors": None}),
    Layout("int8", (10, D), "int8"),
    Layout("bool", (10, D), "bool"),
    Layout("float16", (10, D), "float16"),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("target_nbytes", [1, 400, 1 << 24])
def test_the_blocks_put_together_are_the_array(layout: Layout, target_nbytes: int, tmp_path: Path) -> None:
    X = numbers(layout.dtype)
    array = zarr.create_array(tmp_path / "x.zarr", data=X, chunks=layout.chunks, **layout.options)
    blocks = ZarrBlocks(array, target_nbytes)
    assert blocks.shape == (N, D)
    assert blocks.dtype == X.dtype
    assert (blocks.bounds[0], blocks.bounds[-1]) == (0, N)
    np.testing.assert_array_equal(all_rows(blocks), X)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_blocks_end_where_chunks_end(layout: Layout, tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "x.zarr", data=numbers(layout.dtype), chunks=layout.chunks, **layout.options)
    for target_nbytes in (1, 400, 1 << 24):
        blocks = ZarrBlocks(array, target_nbytes)
        assert all(bound % layout.chunks[0] == 0 or bound == N for bound in blocks.bounds)
        assert blocks.decodes_per_chunk == 1


@given(
    n=st.integers(1, 60),
    chunk_rows=st.integers(1, 70),
    chunk_columns=st.integers(1, 6),
    most=st.integers(1, 400),
    target=st.integers(1, 400),
)
def test_a_row_of_chunks_that_is_too_large_is_read_in_parts_as_often_as_it_says(
    n: int, chunk_rows: int, chunk_columns: int, most: int, target: int
) -> None:
    X = np.arange(n * 6, dtype=np.float64).reshape(n, 6)
    array = zarr.create_array({}, data=X, chunks=(chunk_rows, chunk_columns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spae_dask.storage.sources.zarr_blocks.MAX_BLOCK_NBYTES", most)
        blocks = ZarrBlocks(array, target)
        np.testing.assert_array_equal(all_rows(blocks), X)
        starts = range(0, n, chunk_rows)
        touching = [sum(a < start + chunk_rows and b > start for a, b in pairwise(blocks.bounds)) for start in starts]
        assert max(touching) <= blocks.decodes_per_chunk <= max(touching) + 1
        row_nbytes = 6 * 8
        if chunk_columns < 6 and chunk_rows * row_nbytes > most:
            assert blocks.rows_per_block * row_nbytes <= max(most, row_nbytes)
        rows_of_chunks = max(
            sum(a < start + chunk_rows and b > start for start in starts) for a, b in pairwise(blocks.bounds)
        )
        at_once = min(10, rows_of_chunks * -(-6 // chunk_columns))
        assert blocks.read_nbytes >= at_once * chunk_rows * chunk_columns * 8


def test_a_block_is_about_as_large_as_the_target(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "x.zarr", data=numbers(), chunks=(4, D))
    blocks = ZarrBlocks(array, target_nbytes=3 * 4 * D * 4 + 7)
    assert blocks.rows_per_block == 12


@pytest.mark.parametrize(("d", "rows"), [(1000, 4190), (60_000, 60), (200_000, 60), (3_000_000, 20)])
def test_wide_rows_come_in_blocks_of_several_within_the_limit(tmp_path: Path, d: int, rows: int) -> None:
    blocks = ZarrBlocks(zarr.create_array(tmp_path / "x.zarr", shape=(20_000, d), chunks=(10, d), dtype="f4"))
    assert blocks.rows_per_block == rows
    assert rows * d * 4 <= MAX_BLOCK_NBYTES
    assert blocks.decodes_per_chunk == 1


def test_a_group_member_is_read_below_its_group(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("deep/x", data=numbers(), chunks=(10, D))
    group.create_array("deep/x2", data=-numbers(), chunks=(10, D))
    blocks = ZarrBlocks(group["deep/x"])
    np.testing.assert_array_equal(all_rows(blocks), numbers())
    assert blocks.describe() == f"{tmp_path}/g.zarr/deep/x"


def test_an_array_in_memory_says_that_no_other_process_can_read_it(tmp_path: Path) -> None:
    assert ZarrBlocks(zarr.create_array({}, data=numbers())).in_process
    assert not ZarrBlocks(zarr.create_array(tmp_path / "x.zarr", data=numbers())).in_process


def test_it_is_small_when_pickled_and_reads_the_same_afterwards(tmp_path: Path) -> None:
    blocks = ZarrBlocks(zarr.create_array(tmp_path / "x.zarr", data=numbers(), chunks=(1, 1)), 1)
    blocks.read(0)
    pickled = pickle.dumps(blocks)
    assert len(pickled) < 10_000
    np.testing.assert_array_equal(all_rows(pickle.loads(pickled)), numbers())


@dataclass(frozen=True)
class Damage:
    """A stored object to break, and what the message must say."""

    name: str
    options: dict[str, Any]
    file: str
    key: str
    rows: str


DAMAGES = [
    Damage("format 3", {"chunks": (10, 5)}, "c/3/1", "'c/3/1'", "rows 30 to 39"),
    Damage("format 2", {"chunks": (10, 5), "zarr_format": 2}, "3.1", "'3.1'", "rows 30 to 39"),
    Damage("sharded", {"chunks": (5, 5), "shards": (20, 15)}, "c/1/0", "'c/1/0'", "rows 20 to 39"),
    Damage("last chunk", {"chunks": (10, 5)}, "c/5/2", "'c/5/2'", "rows 50 to 56"),
]


# zarr-python reads an emptied shard as one that is not stored: the count of chunks says so
HOW = {
    damage.name: ("overwritten", "cut short", "emptied")[: 2 if "shards" in damage.options else 3] for damage in DAMAGES
}


@pytest.mark.parametrize(
    ("damage", "how"),
    [pytest.param(damage, how, id=f"{damage.name}, {how}") for damage in DAMAGES for how in HOW[damage.name]],
)
@pytest.mark.parametrize("target_nbytes", [1, 1 << 24])
def test_a_damaged_chunk_is_named_with_its_rows_and_what_to_do(
    damage: Damage, how: str, target_nbytes: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "x.zarr"
    array = zarr.create_array(path, data=rng.standard_normal((N, D)), **damage.options)
    file = path / damage.file
    whole = file.read_bytes()
    file.write_bytes({"overwritten": b"\xff" * len(whole), "cut short": whole[: len(whole) // 2], "emptied": b""}[how])
    blocks = ZarrBlocks(array, target_nbytes)
    number = next(i for i, stop in enumerate(blocks.bounds[1:]) if stop > int(damage.rows.split()[1]))
    with pytest.raises(StorageError) as caught:
        blocks.read(number)
    message = str(caught.value)
    assert damage.key in message
    assert str(path) in message
    assert damage.rows in message
    assert "Restore the chunk" in message
    assert caught.value.__cause__ is not None
    if number:
        blocks.read(0)  # the others are still read


def test_a_failure_that_does_not_happen_again_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = zarr.create_array(tmp_path / "x.zarr", data=numbers(), chunks=(10, D))
    failures = iter([OSError("connection reset")])
    read = zarr.Array.__getitem__

    def sometimes(self: Any, selection: Any) -> Any:
        for failure in failures:
            raise failure
        return read(self, selection)

    monkeypatch.setattr(zarr.Array, "__getitem__", sometimes)
    with pytest.raises(StorageError, match=r"rows 10 to 19 of .*connection reset.*Run again"):
        ZarrBlocks(array, 1).read(1)


def test_running_out_of_memory_is_not_blamed_on_the_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = zarr.create_array(tmp_path / "x.zarr", data=numbers(), chunks=(10, D))

    def too_much(self: Any, selection: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(zarr.Array, "__getitem__", too_much)
    with pytest.raises(MemoryError):
        ZarrBlocks(array, 1).read(1)
