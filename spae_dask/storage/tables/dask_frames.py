"""dask DataFrames as dask arrays: the same partitions, in the smallest type that holds all columns."""

from typing import Any

import dask.array as da
import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput
from spae_dask.storage.sources.sentinel import holding_nan
from spae_dask.storage.tables.columns import check_names, refuse_non_numeric


def array_of_frame(frame: Any, *, counted: bool) -> da.Array:
    """Rows of a dask DataFrame.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        Frame of numbers. Columns may be of different types, also nullable and Arrow ones. A null becomes NaN.
    counted : bool
        True to count the rows of each partition. That is a pass over the first column. Formats that store columns apart
        read little else for it.

    Raises
    ------
    NotNumbers
        If a column does not hold numbers; it is named.
    """
    dtype = common_dtype(frame.columns, frame.dtypes)
    lengths: tuple[float, ...] = (np.nan,) * frame.npartitions
    if counted:
        lengths = tuple(int(n) for n in frame[list(frame.columns[:1])].map_partitions(len).compute())
    rows = frame.map_partitions(rows_of_frame, dtype, meta=np.empty((0, 0), dtype=dtype))
    # known properties of the frame: its width, and the lengths of its partitions if they were counted
    chunks = (lengths, (len(frame.columns),))
    return da.Array(rows.dask, rows.name, chunks, meta=np.empty((0, 0), dtype=dtype))


def rows_of_frame(frame: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A pandas frame as rows of one type, with NaN for nulls."""
    if dtype.kind == "f":
        return np.asarray(frame.to_numpy(dtype=dtype, na_value=np.nan))
    return np.asarray(frame.to_numpy(dtype=dtype))


def common_dtype(names: Any, dtypes: Any) -> np.dtype[Any]:
    """The type of a matrix that holds columns of these types.

    Raises
    ------
    NotNumbers
        If one of them is not of real numbers.
    InvalidInput
        If there are none, or their names are mixed or not unique.
    """
    if not len(names):
        raise InvalidInput("the dask DataFrame has no columns: found 0 feature(s) while a minimum of 1 is required.")
    check_names(list(names), "the dask DataFrame")
    found, refused = [], {}
    for name, each in zip(names, dtypes, strict=True):
        if is_numeric(each):
            found.append(_numpy_dtype(each))
        else:
            refused[str(name)] = str(each)
    refuse_non_numeric(refused, len(dtypes), "the dask DataFrame")
    return np.result_type(*found)


def is_numeric(dtype: Any) -> bool:
    """Return True if a column of this type holds real numbers."""
    numeric = _numpy_dtype(dtype)
    return numeric is not None and numeric.kind in "fiub"


def _numpy_dtype(dtype: Any) -> np.dtype[Any] | None:
    """The type that holds a column's values, nulls among them; None if there is none."""
    if isinstance(dtype, np.dtype):
        return dtype
    inner = getattr(dtype, "numpy_dtype", None)  # nullable and Arrow types of pandas
    if not isinstance(inner, np.dtype):
        return None
    if inner.kind in "iub":  # any value may be null
        return holding_nan(inner)
    return inner
