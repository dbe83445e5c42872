"""Arrow IPC files (Feather, version 2): their metadata, and their rows a record batch at a time."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spae_dask.storage.sources.sentinel import holding_nan
from spae_dask.storage.tables.columns import refuse_non_numeric
from spae_dask.storage.tables.table_files import FileParts, opened

LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
"""Types of a column that holds a vector in each row."""


def number_type(kind: pa.DataType) -> np.dtype[Any] | None:
    """The numpy type of a column, or None if it does not hold numbers. Decimals are float64."""
    if pa.types.is_decimal(kind):
        return np.dtype(np.float64)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    return None


def entry_type(kind: pa.DataType) -> pa.DataType | None:
    """The type of the entries of vectors, or None if a column does not hold vectors of numbers."""
    if not any(is_kind(kind) for is_kind in LISTS):
        return None
    entry: pa.DataType = kind.value_type
    return entry if number_type(entry) is not None else None


def row_labels(schema: pa.Schema) -> frozenset[str]:
    """Columns that pandas stored its index in: labels of rows, and not data."""
    listed = (schema.pandas_metadata or {}).get("index_columns", [])
    return frozenset(each for each in listed if isinstance(each, str))


def numbers_of(schema: pa.Schema, names: Iterable[str], table: str) -> dict[str, np.dtype[Any]]:
    """The numpy type of each column by its name; of a single column of vectors, the type of their entries.

    Raises
    ------
    NotNumbers
        If some hold no numbers.
    """
    kinds = {name: schema.field(name).type for name in names}
    if len(kinds) == 1:
        kinds = {name: entry_type(kind) or kind for name, kind in kinds.items()}
    types = {name: number_type(kind) for name, kind in kinds.items()}
    refused = {name: _told(name, kinds[name]) for name, dtype in types.items() if dtype is None}
    refuse_non_numeric(refused, len(types), table)
    return {name: dtype for name, dtype in types.items() if dtype is not None}


def _told(name: str, kind: pa.DataType) -> str:
    if entry_type(kind) is not None:
        return f"vectors of {kind.value_type}, which --columns {name} reads alone"
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


KIND, PART = "Arrow", "record batch"


def schema_of(file: str) -> pa.Schema:
    """Columns of a file."""
    with opened(file) as source, pa.ipc.open_file(source) as table:
        return table.schema


def survey(file: str, names: Sequence[str]) -> FileParts:
    """Rows of each record batch of a file, and types of some of its columns.

    The format has no row counts in one place: of each batch the smallest of those columns is read for them. Nor does it
    say beforehand whether there are nulls, so columns that may have some count as if they had.

    Raises
    ------
    NotNumbers
        If they are no numbers.
    """
    schema = schema_of(file)
    types = numbers_of(schema, names, file)
    smallest = min(names, key=lambda name: types[name].itemsize)
    alone = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(smallest)])
    with opened(file) as source, pa.ipc.open_file(source, options=alone) as table:
        rows = tuple(table.get_batch(i).num_rows for i in range(table.num_record_batches))
    return FileParts(
        file=file,
        rows=rows,
        types=types,
        nulls=any(schema.field(name).nullable for name in names),
        part_nbytes=max(rows, default=0) * sum(dtype.itemsize for dtype in types.values()),
    )


def n_parts(file: str) -> int:
    """Record batches of a file."""
    with opened(file) as source, pa.ipc.open_file(source) as table:
        return int(table.num_record_batches)


def batches(file: str, first: int, last: int, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Rows of the record batches ``first`` to ``last - 1``, at most ``rows`` at a time; a batch is decoded whole."""
    fields = schema_of(file)
    chosen = pa.ipc.IpcReadOptions(included_fields=[fields.get_field_index(name) for name in names], use_threads=False)
    with opened(file) as source, pa.ipc.open_file(source, options=chosen) as table:
        for number in range(first, last):
            batch = table.get_batch(number)
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)
