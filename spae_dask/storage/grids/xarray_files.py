"""netCDF files and Zarr datasets as matrices: one variable, samples along some dimensions, cells along the others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

from spae_dask.blocks import column_groups, remember, total_nbytes
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, NotFound, SpaeError, StorageError
from spae_dask.plain_files import beside
from spae_dask.quantities import format_nbytes
from spae_dask.storage.bounded import bounded
from spae_dask.storage.checks import refuse_code
from spae_dask.storage.grids.grid_files import GridFiles, as_one
from spae_dask.storage.grids.grid_layout import GridLayout, Ints, coordinate_of, is_time, layout_of
from spae_dask.storage.grids.weights import COSLAT, factor_of, weights_on
from spae_dask.storage.grids.xarray_blocks import Cells, GridCells, GridRows, rows_of
from spae_dask.storage.masks import ALL, WITH_DATA, Usual
from spae_dask.storage.readable import check_blocks, grid_files, many_files
from spae_dask.storage.remote.address import is_remote, parse_address
from spae_dask.storage.remote.icechunk_address import is_icechunk
from spae_dask.storage.remote.remote_store import open_remote
from spae_dask.storage.sources.bounded_reader import READING_ONE, SHARES, block_bands, share_of
from spae_dask.storage.sources.declared import CODING
from spae_dask.storage.sources.store_at import REFERENCES, ZIPPED, store_at

ENGINES = {b"\x89HDF\r\n\x1a\n": "h5netcdf", b"CDF": "scipy"}
"""First bytes of the files that each of xarray's engines reads: netCDF 4, and 3."""


LOOKED_NBYTES = 256 << 20
"""Bytes of a variable that is looked through for cells without data; of larger ones the first row block is."""


@dataclass(frozen=True, eq=False)
class OpenedGrid:
    """A variable as a matrix.

    Attributes
    ----------
    rows : GridRows or GridFiles
        The cells that were chosen, under their names.
    notes : tuple of str
        Notes for the user: the variable and dimension that were taken, and the number of cells left out.
    """

    rows: GridRows | GridFiles
    notes: tuple[str, ...]


def open_grid(
    path: str,
    *,
    variable: str | None = None,
    sample_dim: str | Sequence[str] | None = None,
    mask: str | None = None,
    weights: str | None = None,
    decode: bool = True,
    budget: int | None = None,
    store: Any = None,
) -> OpenedGrid:
    """Open one variable of a netCDF file or a Zarr dataset; cells that are NaN throughout are left out.

    Packed values are unpacked, and values marked as missing become NaN, as CF has it; times stay numbers. Unless a mask
    is named, a small variable is looked through for cells without data. Of a larger one the first row block is, and a
    block with data in a cell that was left out is refused. Of chunks too tall for row blocks all cells are taken.

    Parameters
    ----------
    path : str
        A netCDF file, of format 3 or 4, or the path or URL of a Zarr dataset.
    variable : str, optional
        Variable to read. It may be left out if only one variable has a dimension of time, or if there is only one
        variable.
    sample_dim : str or sequence of str, optional
        Dimension of the rows, or several, also with commas between; by default the one of time.
    mask : str, optional
        Variable over the grid that is true, or 1, in the cells to take; ``none`` takes all.
    weights : str, optional
        ``coslat`` or a variable over the grid: what cells are multiplied by, as for ``GridEncoder``.
    decode : bool, default True
        Unpack and mark values. If False, they are taken as they are stored.
    budget : int, optional
        Most bytes to take at once, to read the rows in order. All of them are looked through then.
    store : zarr.abc.store.Store, optional
        The opened store at a URL.

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
    files = _in_order(path, decode=decode, store=store)
    first, dataset = files[0]
    array = _chosen(dataset, variable, first)
    layout = layout_of(array, _without_commas(sample_dim))
    parts = []
    for file, opened in files:
        part, samples = layout.checked(_chosen(opened, variable or str(array.name), file), first)
        if set(samples) != set(layout.sample_dims):
            raise InvalidInput(f"{file} has samples along {samples}, but {first} along {layout.sample_dims}.")
        parts.append(_rows(part, file, layout, layout.sample_dims, Cells(layout.n_cells), decode=decode))
    rows = as_one(parts, f"{path}/{array.name}")
    if budget is not None:
        rows = rows.changed(target_nbytes=share_of(budget), max_nbytes=share_of(budget))
        _refuse_large(rows, budget)
    given = _weights(dataset, layout, weights)
    kept, chosen_by, unread = _kept(dataset, layout, rows, mask, given, through=budget is not None)
    notes = [f"{array.name}: samples along {' and '.join(layout.sample_dims)}, cells along {_along(layout)}"]
    if kept.size < layout.n_cells:
        left_out, why = layout.n_cells - kept.size, "not in the mask"
        if chosen_by == WITH_DATA:
            why = "NaN throughout" if unread is None else "NaN throughout the first row block"
        notes.append(f"{left_out:,} of {layout.n_cells:,} cells are {why} and were left out")
    cells = Cells(layout.n_cells, None if kept.size == layout.n_cells else kept)
    if given is not None:
        cells = replace(cells, factor=factor_of(given, layout, kept, rows.dtype))
    rows = rows.changed(cells=cells, feature_names=layout.cell_names(kept), left_out=unread, layout=layout)
    remember(
        rows,
        mask=chosen_by,
        n_columns=None if chosen_by is None else layout.n_cells,
        sample_dim=None if sample_dim is None else ",".join(layout.sample_dims),
        weights=weights,
    )
    return OpenedGrid(rows, tuple(notes))


def open_like_grid(
    path: str, fitted: GridCells, *, variable: str | None = None, decode: bool = True, store: Any = None
) -> GridRows | GridFiles:
    """Open a variable on the grid of an encoder, with its cells and their weights.

    Raises
    ------
    NotFound, StorageError
        As `open_grid`.
    InvalidInput
        As `open_grid`, or if the grid is another one.
    """
    layout, parts, name = fitted.layout, [], None
    for file, dataset in _in_order(path, decode=decode, store=store):
        known = layout.name if layout.name in dataset.data_vars else None
        array, samples = layout.checked(_chosen(dataset, variable or name or known, file))
        if not samples:
            raise InvalidInput(f"{file}/{array.name} has no dimension beside those of the cells. Give rows of samples.")
        if set(samples) == set(layout.sample_dims):
            samples = layout.sample_dims
        parts.append(_rows(array, file, layout, samples, fitted.cells, decode=decode))
        name = str(array.name)
    names = layout.cell_names(fitted.cells.numbers)
    return as_one(parts, f"{path}/{name}").changed(feature_names=names, layout=layout)


def _in_order(path: str, *, decode: bool, store: Any = None) -> list[tuple[str, xr.Dataset]]:
    """The dataset at a path, or those of a folder or a pattern, by their first times, else by their names."""
    files = None if store is not None or "://" in path else grid_files(path)
    found = [(each, _opened(each, decode=decode, store=store)) for each in files or (path,)]
    if len(found) == 1:
        return found
    times = [_first_time(dataset) for _, dataset in found]
    try:
        order = sorted(range(len(found)), key=lambda i: (times[i], i))
    except TypeError:  # some have none, or one of another calendar
        return found
    return [found[i] for i in order]


def _first_time(dataset: xr.Dataset) -> Any:
    """The first time of a dataset, if it has any."""
    for name, coord in dataset.coords.items():
        if coord.ndim == 1 and coord.size and is_time(coord):
            return xr.decode_cf(dataset[[name]].isel({coord.dims[0]: [0]}), decode_timedelta=False)[name].values[0]
    return None


def _rows(
    array: xr.DataArray, path: str, layout: GridLayout, samples: tuple[str, ...], cells: Cells, *, decode: bool
) -> GridRows:
    """Rows of samples of a variable of a file, whose chunks are unpacked within bounds."""
    name = f"{path}/{array.name}"
    if array.dtype.kind not in "fiub":
        raise InvalidInput(f"the variable {name} is {array.dtype}, not numbers. Name another variable.")
    rows = rows_of(array, samples, layout.feature_dims, cells)
    assert isinstance(rows, GridRows), "files are opened without dask"
    passed_over = () if decode else tuple(each for each in CODING if each in array.attrs)
    rows = replace(rows.with_arrays(bounded), name=name, passed_over=passed_over)
    check_blocks(rows.shape, rows.places_per_block, name)
    return rows


def _without_commas(sample_dim: str | Sequence[str] | None) -> str | Sequence[str] | None:
    return tuple(sample_dim.split(",")) if isinstance(sample_dim, str) and "," in sample_dim else sample_dim


def _along(layout: GridLayout) -> str:
    return " and ".join(layout.feature_dims)


def _weights(
    dataset: xr.Dataset, layout: GridLayout, weights: str | None
) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Weights of all cells, by their latitude or by a variable."""
    if weights is None or weights == COSLAT:
        return weights_on(layout, weights, None)
    if weights not in dataset.variables:
        raise NotFound(
            f"weights={weights!r} is neither {COSLAT!r} nor a variable of the dataset; it has "
            f"{', '.join(map(str, dataset.variables))}."
        )
    return weights_on(layout, dataset[weights].load(), None)


def _kept(
    dataset: xr.Dataset,
    layout: GridLayout,
    rows: GridRows | GridFiles,
    mask: str | None,
    weights: np.ndarray[Any, np.dtype[np.float64]] | None,
    *,
    through: bool,
) -> tuple[Ints, str | None, Ints | None]:
    """Cells to take, the name of what chose them, and those left out of which not all was looked at."""
    unread = None
    usual = mask is None or (isinstance(mask, Usual) and mask not in dataset.variables) or mask == WITH_DATA
    if (mask == ALL and not usual) or (usual and rows.dtype.kind != "f"):
        wanted, chosen_by = np.ones(layout.n_cells, dtype=bool), None
    elif usual:
        through = through or total_nbytes(rows) <= LOOKED_NBYTES
        wanted, chosen_by = _with_data(rows, through=through), WITH_DATA
        if not through and not wanted.all():
            unread = np.flatnonzero(~wanted)
    else:
        wanted, chosen_by = _masked(dataset, layout, str(mask)), str(mask)
    if weights is not None:
        wanted &= weights != 0  # NaN passes, and is refused where there are data
    if not wanted.any():
        raise InvalidInput(f"no cell of {rows.describe()} is left: the mask and the weights leave none.")
    return np.flatnonzero(wanted), None if wanted.all() else chosen_by or WITH_DATA, unread


def _masked(dataset: xr.Dataset, layout: GridLayout, mask: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A variable over the grid as a mask of cells."""
    if mask not in dataset.variables:
        over = [str(name) for name, each in dataset.variables.items() if set(each.dims) == set(layout.feature_dims)]
        raise NotFound(
            f"the dataset has no mask {mask!r}; its variables over the grid are {', '.join(over) or 'none'}. Name one "
            f"that is true, or 1, in the cells to take. Or give {ALL} for all cells."
        )
    given = dataset[mask].load()
    if set(given.dims) != set(layout.feature_dims) or given.dtype.kind not in "fiub":
        raise InvalidInput(
            f"the mask {mask!r} is {given.dtype} over {given.dims}. It must be booleans, or 0 and 1, over "
            f"{_along(layout)}."
        )
    flat = np.asarray(given.transpose(*layout.feature_dims)).reshape(-1)
    if not np.isin(flat[flat == flat], (0, 1)).all():
        raise InvalidInput(f"the mask {mask!r} holds other numbers than 0 and 1. Store a mask of these, or booleans.")
    return np.asarray(flat == 1)


PARTS = ("year", "month", "day", "hour", "dayofyear", "dayofweek", "season", "days_in_month")
"""Parts of a date that conditions may name."""


def coordinate_names(path: str) -> list[str]:
    """Names of the coordinates along one dimension of a grid at a path, and of the parts of its dates."""
    found = []
    with _in_order(path, decode=True)[0][1] as stored:
        for name, coord in stored.coords.items():
            if coord.ndim == 1:
                found += [str(name), *(f"{name}.{part}" for part in PARTS if is_time(coord))]
    return found


def coordinates_in(path: str, names: Sequence[str]) -> list[np.ndarray[Any, np.dtype[Any]]]:
    """Coordinates of the samples of a grid at a path, or parts of dates such as ``time.month``.

    Raises
    ------
    NotFound
        If there is no such coordinate.
    InvalidInput
        If one has more dimensions than one.
    """
    parts: list[list[np.ndarray[Any, np.dtype[Any]]]] = []
    for file, stored in _in_order(path, decode=True):
        with stored:
            dataset, found = xr.decode_cf(stored, decode_timedelta=False), []
            for name in names:
                along = coordinate_of(dataset, name, file)
                if along.ndim != 1:
                    raise InvalidInput(
                        f"{name!r} of {file} is along {along.dims}. Give coordinates of the samples alone."
                    )
                found.append(np.asarray(along))
        parts.append(found)
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


def _refuse_large(rows: GridRows | GridFiles, budget: int) -> None:
    """Refuse chunks, or rows, that do not fit beside what is written."""
    left = READING_ONE - 3  # the band takes a share, and two while it is put together
    if 2 * rows.chunks_nbytes > left * share_of(budget):
        needed = format_nbytes(-(-2 * rows.chunks_nbytes * SHARES // left), up=True)
        raise MemoryBudgetExceeded(
            f"rows of {rows.describe()} need chunks that take {format_nbytes(rows.chunks_nbytes)} together, "
            f"but the budget is {format_nbytes(budget)}. Nothing was read. Give a budget of at least {needed}."
        )
    block_bands(rows, budget)


def _with_data(rows: GridRows | GridFiles, *, through: bool) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The cells that are a number at some time, by the first row block or until each has been one.

    Reading the first row block would decode most of the data where chunks are tall, so that all cells are taken there.
    """
    lacking = np.ones(rows.shape[1], dtype=bool)
    if not through and column_groups(rows) is not None:
        return np.ones_like(lacking)
    for number in range(len(rows.bounds) - 1 if through else 1):
        lacking &= np.isnan(rows.read(number)).all(axis=0)
        if not lacking.any():
            break
    if lacking.all():
        raise InvalidInput(
            f"{rows.describe()} is NaN in every cell {'at every time' if through else 'of the first row block'}, so "
            f"there is nothing to read.{'' if through else f' Name the cells with a mask, or give {ALL} for all.'}"
        )
    return ~lacking


def _opened(path: str, *, decode: bool, store: Any = None) -> xr.Dataset:
    options: dict[str, Any] = {"decode_times": False, "decode_timedelta": False, "chunks": None, "cache": False}
    options["mask_and_scale"] = decode
    if store is None and is_remote(path):
        store = open_remote(parse_address(path))
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
        where = store_at(path) if store is None else store
        if engine == "zarr":
            for name, member in zarr.open_group(where, mode="r").arrays():
                refuse_code(member, f"{path}/{name}")
        return xr.open_dataset(where, engine=engine, **options)
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
        f"{_listed(arrays)}. Name one with two dimensions or more: array=NAME (--array NAME)."
    )


def _listed(arrays: dict[str, xr.DataArray]) -> str:
    return "; ".join(f"{name} ({', '.join(map(str, array.dims))})" for name, array in arrays.items()) or "none"
