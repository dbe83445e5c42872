"""Text tables and netCDF files that fit in memory: read whole, by the readers that `spae ingest` has for them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import total_nbytes
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, SpaeWarning, warn
from spae_dask.plain_files import in_shell
from spae_dask.quantities import format_nbytes
from spae_dask.storage.readable import NETCDF
from spae_dask.storage.tables.csv_rows import SUFFIXES, open_csv

SHARE = 4
"""Fraction of the memory, as 1 / `SHARE`, that the rows may fill. A fit takes as much again and more."""


def is_held(path: str) -> bool:
    """Return True if the name of a path is that of a file which is read whole."""
    return path.lower().endswith((*SUFFIXES, *NETCDF))


def read_whole(
    path: str, array: str | None, columns: Sequence[str] | None, memory: int, *, decode: bool = True
) -> tuple[npt.NDArray[Any], tuple[str, ...] | None]:
    """All rows of a file, and the names of its columns.

    Parameters
    ----------
    path : str
        The file.
    array : str, optional
        Variable of a netCDF file.
    columns : sequence of str, optional
        Columns of a text table.
    memory : int
        Bytes that may be used in all.
    decode : bool
        False to read the stored numbers of a packed netCDF variable.

    Raises
    ------
    InvalidInput, NotFound, StorageError
        As the readers raise them.
    MemoryBudgetExceeded
        If the rows take more than one part in `SHARE` of the memory.
    """
    if path.lower().endswith(NETCDF):
        if columns is not None:
            raise InvalidInput(
                f"columns={list(columns)} choose columns of tables, but {path} is a grid. Leave them out."
            )
        return _read_grid(path, array, memory, decode=decode)
    if array is not None:
        raise InvalidInput(f"array={array!r} names a member of a Zarr group, but {path} is a text file.")
    return _read_text(path, columns, memory)


def _read_text(
    path: str, columns: Sequence[str] | None, memory: int
) -> tuple[npt.NDArray[Any], tuple[str, ...] | None]:
    table = open_csv(Path(path), columns=columns)
    d = table.d if table.chosen is None else len(table.chosen)
    batches, nbytes = [np.empty((0, d))], 0
    for batch in table.batches():
        nbytes += 2 * batch.nbytes  # the pieces, and their concatenation
        if nbytes > memory // SHARE:
            raise _too_large(path, memory)
        batches.append(batch)
    return np.concatenate(batches), table.names_read


def _read_grid(
    path: str, variable: str | None, memory: int, *, decode: bool
) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    try:
        from spae_dask.storage.grids.xarray_files import open_grid
    except ImportError as error:
        raise InvalidInput(
            f'{path} needs xarray, which is not installed. Run `pip install "spae-dask[xarray]"`.'
        ) from error
    opened = open_grid(path, variable=variable, sample_dim=None, budget=memory, decode=decode)
    rows = opened.rows
    if 2 * total_nbytes(rows) > memory // SHARE:
        raise _too_large(path, memory)
    for note in opened.notes[1:]:  # the first says how the variable is read
        warn(f"{path}: {note}.", SpaeWarning)
    return np.concatenate([rows.read(number) for number in range(len(rows.bounds) - 1)]), opened.names


def _too_large(path: str, memory: int) -> MemoryBudgetExceeded:
    return MemoryBudgetExceeded(
        f"{path} does not fit in memory. Such files are read whole and may take "
        f"{format_nbytes(memory // SHARE)}, 1/{SHARE} of the limit. Convert it once to read it in row "
        f"blocks: `spae ingest {in_shell(path)} DATA.zarr`."
    )
