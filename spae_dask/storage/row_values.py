"""Values of the rows by name, beside a matrix: columns of AnnData's ``obs`` and of tables; and files of such values.

Values come as arrays of numbers, or of texts in which None is missing.
"""

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput, NotFound
from spae_dask.plain_files import beside, refuse_pipes
from spae_dask.storage.groups import means_grid, obs_column, of_anndata
from spae_dask.storage.readable import NETCDF, grid_files, within_hdf5
from spae_dask.storage.sources.store_at import root_at
from spae_dask.storage.tables.columns import near_or_listed
from spae_dask.storage.tables.csv_rows import SUFFIXES
from spae_dask.storage.tables.table_files import is_table, table_files

Values: TypeAlias = npt.NDArray[Any]

MISSING_CELLS = ("", "na", "nan", "null", "none")
"""Cells of a text table, in lower case, that hold nothing."""


def is_text_table(path: str) -> bool:
    """Return True for the name of a text table."""
    return path.lower().endswith(tuple(SUFFIXES))


def is_named_table(path: str) -> bool:
    """Return True for the path of a table, whose columns have names."""
    path = path.removeprefix("file://")
    return is_text_table(path) or is_table(path)


def names_of_table(path: str) -> list[str]:
    """Names of the columns of a table on disk."""
    path = path.removeprefix("file://")
    if is_text_table(path):
        return _text_table(path)[0]
    from spae_dask.storage.tables import tabular_blocks

    file = table_files(path)[0]
    return [str(name) for name in tabular_blocks.reader_of(file).schema_of(file).names]


def stored_values(path: str, names: Sequence[str]) -> list[Values]:
    """Columns of the ``obs`` of an AnnData store or of a table, or coordinates of a grid, at a path or URL.

    Raises
    ------
    NotFound
        If there is no such column. The message lists those that there are.
    InvalidInput
        If nothing there has names.
    """
    path = path.removeprefix("file://")
    if is_named_table(path):
        return _of_table(path, names)
    if within_hdf5(path) is not None:
        from spae_dask.storage.h5_files import is_grid, opened

        if not is_grid(path, None):
            with opened(path) as file:
                return [obs_column(file, name, path) for name in names]
    elif not path.lower().endswith(NETCDF) and grid_files(path) is None:
        root = root_at(path)
        if not hasattr(root, "arrays") or not means_grid(root, None):
            return values_in_group(root, names, path)
    from spae_dask.storage.grids.xarray_files import coordinates_in

    return coordinates_in(path, names)


def values_in_group(root: Any, names: Sequence[str], called: str) -> list[Values]:
    """Columns of ``obs`` of an open group of Zarr or HDF5.

    Raises
    ------
    NotFound, InvalidInput
        As `stored_values`.
    """
    if not of_anndata(root):
        raise nameless(called, names)
    return [obs_column(root, name, called) for name in names]


def nameless(called: str, names: Sequence[str]) -> InvalidInput:
    """The error about names where nothing has names."""
    return InvalidInput(
        f"{','.join(names)!r} must name columns of AnnData's obs or of a table, or a file that exists. The data, "
        f"{called}, have no names for their rows' values. Give the values of all rows: an array, or a DataFrame."
    )


def file_values(path: str) -> dict[str, Values]:
    """All columns of a file: a text table, Parquet, Arrow, or ``.npy``.

    Raises
    ------
    InvalidInput
        If it is none of these.
    """
    if path.endswith(".npy"):
        held = npy_values(path)
        if held.ndim not in (1, 2):
            raise InvalidInput(f"{path} has {held.ndim} dimensions. Give one row for each row of the data.")
        columns = held.reshape(held.shape[0], -1)
        return {f"{Path(path).stem} {number + 1}": columns[:, number] for number in range(columns.shape[1])}
    names = names_of_table(path)
    return dict(zip(names, _of_table(path, names), strict=True))


def npy_values(path: str) -> Values:
    """The array of a ``.npy`` file.

    Raises
    ------
    NotFound
        If there is no such file.
    InvalidInput
        If it holds no array, or one of Python objects.
    """
    refuse_pipes(path)
    try:
        with open(path, "rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}.{beside(path)}") from error
    except (OSError, EOFError, ValueError) as error:
        raise InvalidInput(f"{path} is not a .npy file of numbers ({error}). Write it with numpy.save.") from error


def numbers_of_file(path: str, called: str) -> npt.NDArray[np.float64]:
    """The numbers of a ``.npy`` file of one dimension, or of a ``.csv`` file without a header.

    Raises
    ------
    NotFound
        If there is no such file.
    InvalidInput
        If it does not hold one row of numbers; ``called`` names the parameter.
    """
    refuse_pipes(path)
    try:
        found = npy_values(path) if path.endswith(".npy") else np.loadtxt(path, delimiter=",", ndmin=2)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {path}, which {called} names.{beside(path)}") from error
    except (OSError, ValueError) as error:  # InvalidInput is one
        raise InvalidInput(
            f"{called}={path!r} holds no numbers ({error}). Give a .npy file of one dimension, or a .csv file "
            "of numbers without a header."
        ) from error
    if found.dtype.kind not in "fiu" or sorted(found.shape)[:-1] not in ([], [1]):
        raise InvalidInput(
            f"{called}={path!r} holds {found.dtype} of shape {found.shape}. Give one number for each column."
        )
    return np.asarray(found, dtype=np.float64).ravel()


def is_values_file(name: str) -> bool:
    """Return True if a text names an existing file of values, rather than a column."""
    return (name.endswith(".npy") or is_named_table(name)) and Path(name).exists()


def _of_table(path: str, names: Sequence[str]) -> list[Values]:
    known = names_of_table(path)
    for name in names:
        if name not in known:
            raise NotFound(f"{path} has no column {name!r}.{near_or_listed(name, known)}")
    if is_text_table(path):
        header, rows = _text_table(path)
        return [_of_cells([row[header.index(name)] for row in rows]) for name in names]
    from spae_dask.storage.tables.tabular_blocks import whole_columns

    return whole_columns(table_files(path), names)


def _text_table(path: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a text table."""
    if not Path(path).exists():
        raise NotFound(f"there is no file {path}.{beside(path)} Give the path of an existing table.")
    refuse_pipes(path)
    delimiter = next(mark for suffix, mark in SUFFIXES.items() if path.lower().endswith(suffix))
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file, delimiter=delimiter) if row] or [[]]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text. Convert it, with `iconv -f latin1 -t utf-8`.") from error
    names = [cell.strip() for cell in header]
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise InvalidInput(f"{path}: row {number} has {len(row)} cells, and the header has {len(names)}.")
    return names, rows


def _of_cells(cells: list[str]) -> Values:
    found = [None if (cell := each.strip()).lower() in MISSING_CELLS else cell for each in cells]
    try:
        return np.array([np.nan if each is None else float(each) for each in found])
    except ValueError:
        return np.array(found, dtype=object)
