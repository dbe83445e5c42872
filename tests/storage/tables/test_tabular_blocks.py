"""Blocks of Parquet and Arrow files."""

import decimal
import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask import open_matrix
from spae_dask.blocks import columns_alone
from spae_dask.errors import InvalidInput, NotFound, NotNumbers, StorageError
from spae_dask.storage.tables.tabular_blocks import TableBlocks, open_table


def frame(n: int = 100) -> pd.DataFrame:
    rng = np.random.default_rng(n)
    return pd.DataFrame(
        {
            "x.1": rng.normal(size=n),
            "x": rng.normal(size=n).astype("f4"),
            "count": rng.integers(-5, 5, n).astype("i2"),
            "seen": rng.random(n) < 0.5,
        }
    )


def write(table: pd.DataFrame, path: Path, rows: int = 30) -> Path:
    if path.suffix == ".parquet":
        table.to_parquet(path, row_group_size=rows)
    else:
        feather.write_feather(pa.Table.from_pandas(table), str(path), chunksize=rows)
    return path


def read_all(blocks: Any) -> Any:
    parts = [blocks.read(i) for i in range(len(blocks.bounds) - 1)]
    assert [len(part) for part in parts] == [b - a for a, b in pairwise(blocks.bounds)]
    return np.concatenate(parts)


@given(
    n=st.integers(1, 60),
    rows=st.integers(1, 40),
    target=st.integers(1, 2000),
    most=st.integers(1, 2000),
    room=st.integers(4, 3000),
    suffix=st.sampled_from([".parquet", ".arrow"]),
    columns=st.none() | st.lists(st.sampled_from(["x", "x.1", "count", "seen"]), min_size=1, unique=True),
)
def test_the_blocks_put_together_are_what_pandas_has(
    tmp_path_factory: pytest.TempPathFactory,
    n: int,
    rows: int,
    target: int,
    most: int,
    room: int,
    suffix: str,
    columns: list[str] | None,
) -> None:
    table = frame(n)
    path = write(table, tmp_path_factory.getbasetemp() / f"t{suffix}", rows)
    blocks = open_table(str(path), columns, target_nbytes=target, most_nbytes=most)
    expected = table[columns or list(table.columns)].to_numpy(np.float64)
    assert blocks.shape == expected.shape
    assert blocks.feature_names == tuple(columns or table.columns)
    found = read_all(blocks)
    assert found.dtype == blocks.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.concatenate(list(blocks.bands(room))), expected)


def test_the_type_is_the_smallest_that_holds_all_columns(tmp_path: Path) -> None:
    table = frame()
    path = write(table, tmp_path / "t.parquet")
    for columns, dtype in ((["x"], "f4"), (["count"], "i2"), (["seen"], "?"), (["x", "count"], "f4"), (["x.1"], "f8")):
        assert open_matrix(path, columns=columns).dtype == np.dtype(dtype)


def test_small_row_groups_are_gathered_and_large_ones_cut(tmp_path: Path) -> None:
    path = str(write(frame(), tmp_path / "t.parquet", rows=30))
    row = 4 * 8
    assert open_table(path).bounds == (0, 100)
    assert open_table(path, target_nbytes=60 * row).bounds == (0, 60, 100)
    cut = open_table(path, target_nbytes=row, most_nbytes=12 * row)
    assert cut.bounds == (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    assert cut.decodes_per_chunk == 3
    assert open_table(path).decodes_per_chunk == 1


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_nulls_are_nan_in_the_smallest_float_type_that_holds_the_numbers(tmp_path: Path, suffix: str) -> None:
    table = pd.DataFrame(
        {
            "short": pd.array([1, None, 3], dtype="Int16"),
            "long": pd.array([2**40 + 1, 2, None], dtype="Int64"),
            "seen": pd.array([True, None, False], dtype="boolean"),
            "price": pd.array([decimal.Decimal("1.50"), None, None], dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
        }
    )
    path = write(table, tmp_path / f"t{suffix}")
    expected = np.array([[1, 2**40 + 1, 1, 1.5], [np.nan, 2, np.nan, np.nan], [3, np.nan, 0, np.nan]])
    np.testing.assert_array_equal(read_all(open_matrix(path)), expected)
    short = open_matrix(path, columns=["short", "seen"])
    assert short.dtype == np.float32
    np.testing.assert_array_equal(read_all(short), expected[:, [0, 2]])


def test_integers_of_a_file_without_nulls_stay_integers_though_they_might_have_some(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int64())}), tmp_path / "t.parquet")
    assert open_matrix(tmp_path / "t.parquet").dtype == np.int64
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int64())}), tmp_path / "t.parquet", write_statistics=False)
    assert open_matrix(tmp_path / "t.parquet").dtype == np.float64


def test_a_folder_is_read_file_by_file_in_the_order_of_names(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    for number in range(3):
        write(frame(10 + number), folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()
    (folder / "_metadata.parquet").write_bytes(b"no Parquet")
    expected = np.concatenate([frame(10 + number).to_numpy(np.float64) for number in range(3)])
    np.testing.assert_array_equal(read_all(open_matrix(folder)), expected)


def test_keys_in_the_names_of_folders_are_no_columns(tmp_path: Path) -> None:
    table = frame().assign(year=np.arange(100) % 2)
    table.to_parquet(tmp_path / "table", partition_cols=["year"])
    blocks = open_matrix(tmp_path / "table")
    assert blocks.feature_names == ("x.1", "x", "count", "seen")  # type: ignore[attr-defined]
    by_year = table.sort_values("year", kind="stable").drop(columns="year")
    np.testing.assert_array_equal(read_all(blocks), by_year.to_numpy(np.float64))
    with pytest.raises(InvalidInput, match=r"'year' stands in the names of folders"):
        open_matrix(tmp_path / "table", columns=["x", "year"])


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_the_index_of_a_pandas_frame_is_no_column_unless_it_is_asked_for(tmp_path: Path, suffix: str) -> None:
    path = write(frame().set_index("count"), tmp_path / f"t{suffix}")
    assert open_matrix(path).feature_names == ("x.1", "x", "seen")  # type: ignore[attr-defined]
    chosen = open_matrix(path, columns=["count"])
    np.testing.assert_array_equal(read_all(chosen)[:, 0], frame()["count"])


def test_files_of_one_table_may_order_their_columns_differently_but_not_lack_one(tmp_path: Path) -> None:
    folder = tmp_path / "t.parquet"
    folder.mkdir()
    write(frame(), folder / "a.parquet")
    write(frame()[["seen", "x", "count", "x.1"]], folder / "b.parquet")
    np.testing.assert_array_equal(read_all(open_matrix(folder)), np.tile(frame().to_numpy(np.float64), (2, 1)))
    write(frame()[["seen", "x"]], folder / "c.parquet")
    with pytest.raises(InvalidInput, match=r"c\.parquet lacks 2 of the 4 columns .* such as 'x\.1'"):
        open_matrix(folder)
    assert open_matrix(folder, columns=["x"]).shape == (300, 1)


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_columns_that_are_no_numbers_are_named(tmp_path: Path, suffix: str) -> None:
    table = frame(4).assign(id=list("abcd"), day=pd.date_range("2020", periods=4), kind=pd.Categorical(list("aabb")))
    path = write(table, tmp_path / f"t{suffix}")
    told = r"3 of 7 columns are not numbers: 'id' \(\w*string\), 'day' \(timestamp.*'kind' \(categories of \w*string\)"
    with pytest.raises(NotNumbers, match=told):
        open_matrix(path)
    assert open_matrix(path, columns=["x*"]).shape == (4, 2)
    with pytest.raises(NotNumbers, match=r"1 of 2 columns is not numbers: 'id'"):
        open_matrix(path, columns=["x", "id"])


def test_a_column_of_nulls_without_a_type_is_no_column_of_numbers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1.0], "b": pa.nulls(1)}), tmp_path / "t.parquet")
    with pytest.raises(NotNumbers, match=r"'b' \(nothing but nulls, no type\)"):
        open_matrix(tmp_path / "t.parquet")


def test_some_columns_alone_are_read_without_the_others(tmp_path: Path) -> None:
    path = write(frame(), tmp_path / "t.parquet")
    blocks = open_matrix(path)
    alone = columns_alone(blocks, np.array([0, 2]))
    assert isinstance(alone, TableBlocks)
    assert alone.feature_names == ("x.1", "count")
    np.testing.assert_array_equal(read_all(alone), frame()[["x.1", "count"]].to_numpy(np.float64))
    assert columns_alone(blocks, np.arange(4)) is None


def test_it_is_small_when_pickled_and_reads_where_it_is_unpickled(tmp_path: Path) -> None:
    blocks = open_matrix(write(frame(), tmp_path / "t.parquet"))
    pickled = pickle.dumps(blocks)
    assert len(pickled) < 3000
    np.testing.assert_array_equal(pickle.loads(pickled).read(0), blocks.read(0))
    assert blocks.describe() == str(tmp_path / "t.parquet")


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_rows_that_cannot_be_read_are_told_with_file_and_part(tmp_path: Path, suffix: str) -> None:
    path = write(frame(), tmp_path / f"t{suffix}")
    blocks = open_table(str(path), target_nbytes=1)
    content = bytearray(path.read_bytes())
    content[200 : len(content) // 2] = bytes(len(content) // 2 - 200)
    path.write_bytes(content)
    with pytest.raises(StorageError, match=rf"(row group|record batch) \d of .*t{suffix} cannot be read"):
        read_all(blocks)
    path.unlink()
    with pytest.raises(StorageError, match=r"cannot be read: FileNotFoundError"):
        blocks.read(0)


def test_a_file_that_was_replaced_by_a_shorter_one_is_noticed(tmp_path: Path) -> None:
    path = write(frame(), tmp_path / "t.parquet")
    blocks = open_table(str(path))
    write(frame(90), path, rows=23)
    with pytest.raises(StorageError, match="10 fewer rows"):
        blocks.read(0)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.feather"])
@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"PAR1" + bytes(100) + b"PAR1"])
def test_what_is_no_such_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=rf"{name} is not a readable (Parquet|Arrow) file"):
        open_matrix(tmp_path / name)


def test_nothing_there_and_nothing_in_it_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"there is nothing at .*t\.parquet"):
        open_matrix(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").mkdir()
    with pytest.raises(NotFound, match=r"a folder without files that end in \.parquet"):
        open_matrix(tmp_path / "t.parquet")
    write(frame()[:0], tmp_path / "none.parquet")
    with pytest.raises(InvalidInput, match=r"none\.parquet is empty: found array with 0 sample"):
        open_matrix(tmp_path / "none.parquet")


def test_members_of_groups_are_not_looked_for_in_tables_nor_columns_elsewhere(tmp_path: Path) -> None:
    path = write(frame(), tmp_path / "t.parquet")
    with pytest.raises(InvalidInput, match=r"--columns x \(columns=\['x'\]\)"):
        open_matrix(path, array="x")
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    with pytest.raises(InvalidInput, match=r"names columns, but .*x\.npy has no names. Give numbers"):
        open_matrix(tmp_path / "x.npy", columns=["a"])


def test_a_table_behind_a_url_is_read_like_one_on_disk(tmp_path: Path) -> None:
    import fsspec

    write(frame(), tmp_path / "t.parquet")
    with fsspec.open("memory://tables/year=1/t.parquet", "wb") as file:
        file.write((tmp_path / "t.parquet").read_bytes())
    for url in ("memory://tables/year=1/t.parquet", "memory://tables"):
        if url.endswith("tables"):
            blocks: Any = open_table(url)
        else:
            blocks = open_matrix(url)
        np.testing.assert_array_equal(read_all(blocks), frame().to_numpy(np.float64))
        assert blocks.describe() == url


def test_without_pyarrow_the_extra_to_install_is_named(tmp_path: Path) -> None:
    path = write(frame(), tmp_path / "t.parquet")
    code = f"import sys; sys.modules['pyarrow'] = None; import spae_dask; spae_dask.open_matrix({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "InvalidInput" in done.stderr
    assert "pip install 'spae-dask[tabular]'" in done.stderr
