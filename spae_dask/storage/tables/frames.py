"""Tables in memory: pandas and polars DataFrames and Arrow tables, as one array with names.

None of their libraries is imported here: who hands over a table has imported its own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput
from spae_dask.storage.sources.sentinel import holding_nan
from spae_dask.storage.tables.columns import check_names, choose_columns, refuse_non_numeric

Numbers = npt.NDArray[Any]


def is_frame(x: Any) -> bool:
    """Return True if an object is a table of named columns."""
    return (_library(x), type(x).__name__) in FRAMES


def is_pandas(x: Any) -> bool:
    """Return True if it is a table of pandas."""
    return (_library(x), type(x).__name__) == PANDAS


PANDAS = ("pandas", "DataFrame")
FRAMES = {
    PANDAS,
    ("polars", "DataFrame"),
    ("polars", "LazyFrame"),
    ("pyarrow", "Table"),
    ("pyarrow", "RecordBatch"),
}


def _library(x: Any) -> str:
    return type(x).__module__.partition(".")[0]


def matrix_of(frame: Any, columns: Sequence[str] | None) -> tuple[Numbers, tuple[str, ...] | None]:
    """A table's columns as one array (n, d), nulls as NaN, and their names, if all are strings.

    Parameters
    ----------
    frame : DataFrame or Table
        Table of pandas (also with nullable and Arrow types), polars or pyarrow.
    columns : sequence of str, optional
        Names or patterns of the columns to take.

    Raises
    ------
    InvalidInput
        If the frame is lazy, or lacks one of the columns.
    NotNumbers
        If columns are no numbers.
    """
    library, name = _library(frame), f"the {type(frame).__name__}"
    if type(frame).__name__ == "LazyFrame":
        raise InvalidInput(
            "a polars LazyFrame has no rows yet and cannot be read in row blocks. If it fits in memory, give "
            "frame.collect(). Otherwise write it with frame.sink_parquet('table.parquet') and give that path."
        )
    names = _names(frame)
    read = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_arrow}[library]
    if columns is None:
        chosen = _all_columns(frame)
        check_names([_listed(frame)[place] for place in chosen], name)
    elif names is None:  # pandas with numbers or tuples for names
        raise InvalidInput(f"columns={list(columns)}: not all columns of {name} have string names.")
    else:
        chosen = choose_columns(
            names,
            columns,
            name,
            is_numeric=lambda place: not isinstance(read(frame, place), str),
            everything=_all_columns(frame),
        )
    if library == "pandas" and columns is None and all(isinstance(kind, np.dtype) for kind in frame.dtypes):
        kinds = set(frame.dtypes)
        if len(kinds) == 1 and next(iter(kinds)).kind in "fiub":
            return np.asarray(frame), names  # as it is in memory, without a copy
    labels = [str(each) for each in (frame.columns if library == "pandas" else names or ())]
    values: dict[int, Numbers] = {}
    refused: dict[str, str] = {}
    for place in chosen:
        found = read(frame, place)
        if isinstance(found, str):
            refused[labels[place]] = found
        else:
            values[place] = found
    refuse_non_numeric(refused, len(chosen), name)
    chosen_names = None if names is None else tuple(names[place] for place in chosen)
    if not values:
        return np.empty((frame.shape[0], 0)), chosen_names
    rows = np.empty((frame.shape[0], len(chosen)), np.result_type(*{each.dtype for each in values.values()}), order="F")
    for j, place in enumerate(chosen):
        rows[:, j] = values[place]
    return rows, chosen_names


def _listed(frame: Any) -> list[Any]:
    return list(frame.schema.names if _library(frame) == "pyarrow" else frame.columns)


def _names(frame: Any) -> tuple[str, ...] | None:
    listed = _listed(frame)
    return tuple(map(str, listed)) if all(isinstance(each, str) for each in listed) else None


def _all_columns(frame: Any) -> tuple[int, ...]:
    """Places of all columns, save those of an Arrow table that are the row labels of a pandas frame."""
    if _library(frame) != "pyarrow":
        return tuple(range(frame.shape[1]))
    from spae_dask.storage.tables.arrow_files import row_labels

    labels = row_labels(frame.schema)
    return tuple(place for place, name in enumerate(frame.schema.names) if name not in labels)


def _of_pandas(frame: Any, place: int) -> Numbers | str:
    """A column as numbers, or what it holds instead."""
    column = frame.iloc[:, place]
    kind = column.dtype
    if isinstance(kind, np.dtype):
        return _of_objects(column.to_numpy()) if kind.kind == "O" else _if_real(column.to_numpy(), str(kind))
    if hasattr(kind, "pyarrow_dtype"):
        return _of_arrow_array(column.array.__arrow_array__())
    numbers = getattr(kind, "numpy_dtype", getattr(kind, "subtype", None))  # nullable; sparse (and intervals')
    if not isinstance(numbers, np.dtype) or numbers.kind not in "fiub" or kind.kind not in "fiub":
        return str(kind)
    gaps = bool(column.isna().any())
    target = holding_nan(numbers) if gaps and numbers.kind != "f" else numbers
    return np.asarray(column.to_numpy(dtype=target, na_value=np.nan) if gaps else column.to_numpy(dtype=target))


def _of_objects(values: Numbers) -> Numbers | str:
    if any(isinstance(value, str | bytes) for value in values):
        return "strings"
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        kinds = sorted({type(value).__name__ for value in values})
        return f"objects: {', '.join(kinds[:3])}"


def _of_polars(frame: Any, place: int) -> Numbers | str:
    column = frame.to_series(place)
    kind = column.dtype
    if kind.is_decimal():
        column = column.cast(float)
    elif not (kind.is_numeric() or str(kind) == "Boolean"):
        return str(kind)
    if not column.null_count():
        return _if_real(np.asarray(column.to_numpy()), str(kind))
    values = np.asarray(column.to_numpy(), dtype=np.float64)  # polars has NaN, or None among booleans, for null
    exact = column.drop_nulls().head(1).to_numpy().dtype
    return values.astype(exact if exact.kind == "f" else holding_nan(exact))


def _of_arrow(frame: Any, place: int) -> Numbers | str:
    return _of_arrow_array(frame.column(place))


def _of_arrow_array(column: Any) -> Numbers | str:
    from spae_dask.storage.tables.arrow_files import column_values, number_type

    return str(column.type) if number_type(column.type) is None else column_values(column)


def _if_real(values: Numbers, kind: str) -> Numbers | str:
    return values if values.dtype.kind in "fiub" else kind
