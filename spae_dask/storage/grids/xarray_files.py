"""netCDF files and Zarr datasets as matrices: one variable, samples along some dimensions, cells along the others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, NotFound, SpaeError, StorageError
from spae_dask.plain_files import beside
from spae_dask.quantities import format_nbytes
from spae_dask.storage.grids.grid_layout import coordinate_of, layout_of
from spae_dask.storage.grids.xarray_blocks import Cells, GridRows, rows_of
from spae_dask.storage.readable import many_files
from spae_dask.storage.remote.icechunk_address import is_icechunk
from spae_dask.storage.sources.bounded_reader import READING_ONE, SHARES, block_bands, share_of
from spae_dask.storage.sources.store_at import REFERENCES, ZIPPED, store_at

ENGINES = {b"\x89HDF\r\n\x1a\n": "h5netcdf", b"CDF": "scipy"}
"""First bytes of the files that each of xarray's engines reads: netCDF 4, and 3."""


@dataclass(frozen=True, eq=False)
class OpenedGrid:
    """A variable as a matrix.

    Attributes
    ----------
    rows : GridRows
        Its cells that have data.
    names : tuple of str
        Names of the columns.
    notes : tuple of str
        Notes for the user: the variable and dimension that were taken, and the number of cells left out.
    """

    rows: GridRows
    names: tuple[str, ...]
    notes: tuple[str, ...]


def open_grid(
    path: str, *, variable: str | None, sample_dim: str | Sequence[str] | None, budget: int, decode: bool = True
) -> OpenedGrid:
    """Open one variable of a netCDF file or a Zarr dataset; cells that are NaN throughout are left out.

    The first row block is read for that, and all of them if it has such cells: once more than the ingest itself. Packed
    values are unpacked, and values marked as missing become NaN, as CF has it; times stay numbers.

    Parameters
    ----------
    path : str
        A netCDF file, of format 3 or 4, or the path or URL of a Zarr dataset.
    variable : str, optional
        Variable to read. It may be left out if only one variable has a dimension of time, or if there is only one
        variable.
    sample_dim : str or sequence of str, optional
        Dimension of the rows; by default the one of time.
    budget : int
        Most bytes to take at once.
    decode : bool, default True
        Unpack and mark values. If False, they are taken as they are stored.

    Raises
    ------
    NotFound
        If there is no such file or variable.
    InvalidInput
        If the variable or the dimension must be named, or the variable cannot be a matrix.
    MemoryBudgetExceeded
        If a band of rows, or a chunk, is too large; nothing is read then.
    StorageError
        If it cannot be read.
    """
    dataset = _opened(path, decode=decode)
    array = _chosen(dataset, variable, path)
    layout = layout_of(array, sample_dim)
    if array.dtype.kind not in "fiub":
        raise InvalidInput(
            f"the variable {array.name!r} of {path} is {array.dtype}, not numbers. Name another variable."
        )

    share = share_of(budget)

    def as_rows(cells: Cells) -> GridRows:
        rows = rows_of(array, layout.sample_dims, layout.feature_dims, cells)
        assert isinstance(rows, GridRows), "files are opened without dask"
        return replace(rows, name=f"{path}/{array.name}", target_nbytes=share, max_nbytes=share)

    rows = as_rows(Cells(layout.n_cells))
    _refuse_large(rows, budget)
    kept = cells_with_data(rows)
    if not kept.size:
        raise InvalidInput(f"{rows.describe()} is NaN in every cell at every time, so there is nothing to write.")
    along = " and ".join(layout.sample_dims)
    notes = [f"{array.name}: samples along {along}, cells along {' and '.join(layout.feature_dims)}"]
    if kept.size < layout.n_cells:
        left_out = layout.n_cells - kept.size
        notes.append(f"{left_out:,} of {layout.n_cells:,} cells are NaN throughout and were left out")
        rows = as_rows(Cells(layout.n_cells, kept))
    return OpenedGrid(rows, layout.cell_names(kept), tuple(notes))


def coordinates_in(path: str, names: Sequence[str]) -> list[np.ndarray[Any, np.dtype[Any]]]:
    """Coordinates of the samples in a netCDF file, or parts of dates such as ``time.month``.

    Raises
    ------
    NotFound
        If there is no such coordinate.
    InvalidInput
        If one has more dimensions than one.
    """
    with _opened(path, decode=True) as stored:
        dataset, found = xr.decode_cf(stored, decode_timedelta=False), []
        for name in names:
            along = coordinate_of(dataset, name, path)
            if along.ndim != 1:
                raise InvalidInput(f"{name!r} of {path} is along {along.dims}. Give coordinates of the samples alone.")
            found.append(np.asarray(along))
    return found


def _refuse_large(rows: GridRows, budget: int) -> None:
    """Refuse chunks, or rows, that do not fit beside what is written."""
    left = READING_ONE - 3  # the band takes a share, and two while it is put together
    if 2 * rows.chunks_nbytes > left * share_of(budget):
        needed = format_nbytes(-(-2 * rows.chunks_nbytes * SHARES // left), up=True)
        raise MemoryBudgetExceeded(
            f"rows of {rows.describe()} need chunks that take {format_nbytes(rows.chunks_nbytes)} together, "
            f"but the budget is {format_nbytes(budget)}. Nothing was read. Give a budget of at least {needed}."
        )
    block_bands(rows, budget)


def cells_with_data(rows: GridRows) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Cells that are a number at some time. Reads until each has been one: the first block, or all of them."""
    lacking = np.ones(rows.shape[1], dtype=bool)
    for number in range(len(rows.bounds) - 1 if rows.dtype.kind == "f" else 0):
        lacking &= np.isnan(rows.read(number)).all(axis=0)
        if not lacking.any():
            break
    else:
        if rows.dtype.kind == "f":
            return np.flatnonzero(~lacking)
    return np.arange(rows.shape[1])


def _opened(path: str, *, decode: bool) -> xr.Dataset:
    options: dict[str, Any] = {"decode_times": False, "decode_timedelta": False, "chunks": None, "cache": False}
    options["mask_and_scale"] = decode
    local = "://" not in path
    if local and not Path(path).exists():
        raise many_files(path) or NotFound(
            f"there is nothing at {path}.{beside(path)} Give the path of a netCDF file or a Zarr dataset."
        )
    engine = "zarr"
    if local and Path(path).is_file() and not path.endswith((ZIPPED, REFERENCES)):
        with open(path, "rb") as file:
            start = file.read(8)
        engine = next((name for magic, name in ENGINES.items() if start.startswith(magic)), "")
        if not engine:
            raise InvalidInput(
                f"{path} is not a netCDF file: it begins with {start!r}. Give a file of netCDF format 3 or 4, or "
                "a Zarr dataset."
            )
    elif local and _is_array(path):
        raise InvalidInput(
            f"{path} is a single Zarr array, but a variable or a dimension was named. Leave these out, or "
            "give a dataset."
        )
    if (local or is_icechunk(path)) and engine == "zarr":
        options["consolidated"] = False  # that copy of the metadata may be older
    try:
        return xr.open_dataset(store_at(path), engine=engine, **options)
    except SpaeError:
        raise
    except ImportError as error:
        raise InvalidInput(
            f'{path} needs a library that is not installed ({error}). Run `pip install "spae-dask[xarray]"`.'
        ) from error
    except Exception as error:  # readers raise exceptions of any type
        raise (many_files(path) if local else None) or StorageError(
            f"{path} cannot be opened as a {'Zarr' if engine == 'zarr' else 'netCDF'} dataset: "
            f"{type(error).__name__}: {error}. Check the file, or restore it from a copy."
        ) from error


def _is_array(path: str) -> bool:
    try:
        return isinstance(zarr.open(store_at(path), mode="r"), zarr.Array)
    except Exception:  # reported when it is opened as a dataset
        return False


def _chosen(dataset: xr.Dataset, variable: str | None, path: str) -> xr.DataArray:
    """The variable that is named, else the only one that can be meant."""
    arrays = {str(name): array for name, array in dataset.data_vars.items()}
    if variable is not None:
        if variable not in arrays:
            raise NotFound(f"{path} has no variable {variable!r}; it has {_listed(arrays)}.")
        return arrays[variable]
    told = (each.attrs.get(key) for each in dataset.variables.values() for key in ("bounds", "climatology"))
    bounds = {str(name) for name in told if name is not None}
    meant = [a for name, a in arrays.items() if a.ndim >= 2 and a.dtype.kind in "fiub" and name not in bounds]
    most = max((array.ndim for array in meant), default=0)
    largest = [array for array in meant if array.ndim == most]
    if len(largest) == 1:
        return largest[0]
    raise InvalidInput(
        f"{path} has {'several variables' if meant else 'no variable'} to choose from; it has "
        f"{_listed(arrays)}. Name one with two dimensions or more: variable=NAME (--variable NAME)."
    )


def _listed(arrays: dict[str, xr.DataArray]) -> str:
    return "; ".join(f"{name} ({', '.join(map(str, array.dims))})" for name, array in arrays.items()) or "none"
