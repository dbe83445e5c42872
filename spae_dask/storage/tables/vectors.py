"""A column of vectors, as embeddings are stored in tables: each entry of the column is a row of the matrix."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spae_dask.errors import InvalidInput
from spae_dask.storage.tables.arrow_files import column_values


def length_of_vectors(kind: pa.DataType, columns: Iterable[pa.Array], name: str) -> int:
    """Number of entries of each vector: that of the type, or of the first vector that is not null.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of the column.
    columns : iterable of pyarrow.Array
        The column, a few rows at a time.
    name : str
        Name of the column in messages.

    Raises
    ------
    InvalidInput
        If no vector has entries.
    """
    if pa.types.is_fixed_size_list(kind):
        length = int(kind.list_size)
    else:
        lengths = (each for column in columns for each in column.drop_null().value_lengths().to_pylist())
        length = next(lengths, 0)
    if not length:
        raise InvalidInput(f"{name} holds no vector with entries. Give a column of vectors of one length.")
    return length


def rows_of_vectors(column: pa.Array, length: int, name: str) -> npt.NDArray[np.generic]:
    """Rows (m, length) of a column of m vectors. A vector that is null is a row of NaN, and so is an entry.

    Raises
    ------
    InvalidInput
        If a vector has another length.
    """
    known = column.drop_null()
    if not pa.types.is_fixed_size_list(column.type):
        other = next((each for each in known.value_lengths().unique().to_pylist() if each != length), None)
        if other is not None:
            raise InvalidInput(
                f"{name} holds a vector of {other} entries, but the first has {length}. Give vectors of one length."
            )
    values = column_values(known.flatten()).reshape(-1, length)
    if not column.null_count:
        return values
    rows = np.full((len(column), length), np.nan, values.dtype if values.dtype.kind == "f" else np.float64)
    rows[column.is_valid().to_numpy(zero_copy_only=False)] = values
    return rows
