"""Text tables that fit in memory: read whole, by the reader that `spae ingest` has for them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput, MemoryBudgetExceeded
from spae_dask.plain_files import in_shell
from spae_dask.quantities import format_nbytes
from spae_dask.storage.tables.csv_rows import SUFFIXES, open_csv

SHARE = 4
"""Fraction of the memory, as 1 / `SHARE`, that the rows may fill. A fit takes as much again and more."""


def is_held(path: str) -> bool:
    """Return True if the name of a path is that of a file which is read whole."""
    return path.lower().endswith(tuple(SUFFIXES))


def read_whole(
    path: str, array: str | None, columns: Sequence[str] | None, memory: int
) -> tuple[npt.NDArray[Any], tuple[str, ...] | None]:
    """All rows of a file, and the names of its columns.

    Parameters
    ----------
    path : str
        The file.
    array : str, optional
        Refused: a table has no members.
    columns : sequence of str, optional
        Columns of the table.
    memory : int
        Bytes that may be used in all.

    Raises
    ------
    InvalidInput, NotFound, StorageError
        As the reader raises them.
    MemoryBudgetExceeded
        If the rows take more than one part in `SHARE` of the memory.
    """
    if array is not None:
        raise InvalidInput(f"array={array!r} names a member of a Zarr group, but {path} is a text file.")
    table = open_csv(Path(path), columns=columns)
    d = table.d if table.chosen is None else len(table.chosen)
    batches, nbytes = [np.empty((0, d))], 0
    for batch in table.batches():
        nbytes += 2 * batch.nbytes  # the pieces, and their concatenation
        if nbytes > memory // SHARE:
            raise _too_large(path, memory)
        batches.append(batch)
    return np.concatenate(batches), table.names_read


def _too_large(path: str, memory: int) -> MemoryBudgetExceeded:
    return MemoryBudgetExceeded(
        f"{path} does not fit in memory. Such files are read whole and may take "
        f"{format_nbytes(memory // SHARE)}, 1/{SHARE} of the limit. Convert it once to read it in row "
        f"blocks: `spae ingest {in_shell(path)} DATA.zarr`."
    )
