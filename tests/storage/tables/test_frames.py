"""Tables in memory."""

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from spae_dask import open_matrix
from spae_dask.errors import InvalidInput, NotNumbers

NULLABLE = {
    pa.float32(): pd.Float32Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


def through_arrow(types: Callable[[Any], Any]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Function that gives columns other types of the same numbers."""
    return lambda table: pa.Table.from_pandas(table).to_pandas(types_mapper=types)


MAKERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda table: table,
    "pandas, nullable": through_arrow(NULLABLE.get),
    "pandas, Arrow": through_arrow(pd.ArrowDtype),
    "polars": pl.from_pandas,
    "Arrow table": pa.Table.from_pandas,
    "Arrow batch": pa.RecordBatch.from_pandas,
}


@pytest.fixture(params=list(MAKERS))
def make(request: pytest.FixtureRequest) -> Callable[[pd.DataFrame], Any]:
    return MAKERS[request.param]


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "x": np.array([0.5, 1.5, -2.0], "f4"),
            "count": np.array([1, 2, 3], "i2"),
            "seen": [True, False, True],
            "gap": pd.array([7, None, 9], dtype="Int16"),
        }
    )


EXPECTED = np.array([[0.5, 1, 1, 7], [1.5, 2, 0, np.nan], [-2, 3, 1, 9]])


def content(blocks: Any) -> Any:
    return np.concatenate([blocks.read(i) for i in range(len(blocks.bounds) - 1)])


def test_numbers_names_and_gaps_are_kept(make: Callable[[pd.DataFrame], Any]) -> None:
    blocks: Any = open_matrix(make(table()))
    np.testing.assert_array_equal(content(blocks), EXPECTED)
    assert blocks.feature_names == ("x", "count", "seen", "gap")
    assert blocks.dtype == np.float32


def test_columns_are_chosen_by_name_and_pattern(make: Callable[[pd.DataFrame], Any]) -> None:
    blocks: Any = open_matrix(make(table()), columns=["seen", "c*"])
    np.testing.assert_array_equal(content(blocks), EXPECTED[:, [2, 1]])
    assert blocks.feature_names == ("seen", "count")
    assert blocks.dtype.kind == "i"
    with pytest.raises(InvalidInput, match=r"no column 'conut'\. Did you mean 'count'"):
        open_matrix(make(table()), columns=["conut"])


def test_columns_that_are_no_numbers_are_named(make: Callable[[pd.DataFrame], Any]) -> None:
    mixed = table().assign(id=list("abc"), day=pd.date_range("2020", periods=3), kind=pd.Categorical(list("aab")))
    with pytest.raises(NotNumbers, match=r"3 of 7 columns are not numbers: 'id' \(.*\), 'day' \(.*\), 'kind' \(.*\)\."):
        open_matrix(make(mixed))
    np.testing.assert_array_equal(content(open_matrix(make(mixed), columns=["x", "gap"])), EXPECTED[:, [0, 3]])


def test_decimals_are_floats() -> None:
    prices = pa.table({"price": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(9, 2))})
    frames = (prices, prices.to_pandas(types_mapper=pd.ArrowDtype), prices.to_pandas(), pl.from_arrow(prices))
    for frame in frames:
        np.testing.assert_array_equal(content(open_matrix(frame)), [[1.5], [np.nan]])


def test_numbers_among_python_objects_are_numbers_but_strings_that_look_like_them_are_not() -> None:
    mixed = pd.DataFrame({"a": pd.Series([1, 2.5, None], dtype=object), "b": pd.Series(["1", "2", "3"], dtype=object)})
    np.testing.assert_array_equal(content(open_matrix(mixed, columns=["a"])), [[1], [2.5], [np.nan]])
    with pytest.raises(NotNumbers, match=r"1 of 2 columns is not numbers: 'b' \(strings\)"):
        open_matrix(mixed)
    with pytest.raises(NotNumbers, match=r"'a' \(objects: dict, float\)"):
        open_matrix(pd.DataFrame({"a": pd.Series([1.0, {}], dtype=object)}))


def test_a_frame_of_one_type_is_not_copied() -> None:
    values = np.arange(12.0).reshape(4, 3)
    blocks = open_matrix(pd.DataFrame(values, columns=list("abc"), copy=False))
    assert np.shares_memory(blocks.read(0), values)


def test_sparse_columns_of_pandas_are_read() -> None:
    sparse = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0, 0.0]), "b": pd.arrays.SparseArray([0, 0, 2])})
    np.testing.assert_array_equal(content(open_matrix(sparse)), [[0, 0], [1, 0], [0, 2]])


def test_names_that_are_no_strings_are_no_names() -> None:
    frame = pd.DataFrame({1: [1.0, 2.0], 2: [3, 4]})
    blocks: Any = open_matrix(frame)
    assert blocks.feature_names is None
    np.testing.assert_array_equal(content(blocks), [[1, 3], [2, 4]])
    with pytest.raises(InvalidInput, match="have string names"):
        open_matrix(frame, columns=["1"])


def test_a_lazy_frame_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidInput, match=r"LazyFrame has no rows yet.*collect\(\).*sink_parquet"):
        open_matrix(pl.from_pandas(table()).lazy())


def test_the_index_that_pandas_left_in_an_arrow_table_is_no_column() -> None:
    labelled = pa.Table.from_pandas(table().set_index("count"))
    blocks: Any = open_matrix(labelled)
    assert blocks.feature_names == ("x", "seen", "gap")


def test_empty_frames_are_refused(make: Callable[[pd.DataFrame], Any]) -> None:
    with pytest.raises(InvalidInput, match=r"0 sample\(s\)"):
        open_matrix(make(table()[:0]))
    with pytest.raises(InvalidInput, match=r"is empty"):
        open_matrix(pd.DataFrame(index=range(3)))
