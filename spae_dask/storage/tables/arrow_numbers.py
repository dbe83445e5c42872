"""Arrow types that stand for real numbers, and their columns as numpy."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spae_dask.storage.sources.sentinel import holding_nan
from spae_dask.storage.tables.columns import refuse_non_numeric


def number_type(kind: pa.DataType) -> np.dtype[Any] | None:
    """The numpy type of a column, or None if it does not hold numbers. Decimals are float64."""
    if pa.types.is_decimal(kind):
        return np.dtype(np.float64)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    return None


def row_labels(schema: pa.Schema) -> frozenset[str]:
    """Columns that pandas stored its index in: labels of rows, and not data."""
    listed = (schema.pandas_metadata or {}).get("index_columns", [])
    return frozenset(each for each in listed if isinstance(each, str))


def numbers_of(schema: pa.Schema, names: Iterable[str], table: str) -> dict[str, np.dtype[Any]]:
    """The numpy type of each column by its name.

    Raises
    ------
    NotNumbers
        If some hold no numbers.
    """
    kinds = {name: schema.field(name).type for name in names}
    types = {name: number_type(kind) for name, kind in kinds.items()}
    refuse_non_numeric({name: _told(kinds[name]) for name, dtype in types.items() if dtype is None}, len(types), table)
    return {name: dtype for name, dtype in types.items() if dtype is not None}


def _told(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return f"categories of {kind.value_type}"
    if pa.types.is_null(kind):
        return "nothing but nulls, no type"
    return str(kind)


def common_type(types: Iterable[np.dtype[Any]], *, nulls: bool) -> np.dtype[Any]:
    """The type of all entries of a table: one that holds every column's, and NaN if there are nulls."""
    common = np.result_type(*types)
    return holding_nan(common) if nulls and common.kind != "f" else common


def column_values(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """A column of numbers as numpy, its nulls as NaN."""
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64(), safe=False)
    if column.null_count and not pa.types.is_floating(column.type):
        # through the float type that a table with nulls has: Arrow itself would make float64 or objects of them
        column = column.cast(pa.from_numpy_dtype(holding_nan(np.dtype(column.type.to_pandas_dtype()))), safe=False)
    values: npt.NDArray[Any] = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(False)
    return values
