"""One door for every kind of data: what is given becomes row blocks. Format libraries are imported when used."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from spae_dask.blocks import ArrayBlocks, RowBlocks, as_csr, asked_of, check_unmasked, remember
from spae_dask.errors import InvalidInput, NotNumbers
from spae_dask.flags import flags_checked
from spae_dask.machine import memory_nbytes
from spae_dask.plain_files import refuse_pipes
from spae_dask.storage.chosen import Numbers, under_columns, under_rows
from spae_dask.storage.held_files import is_held, read_whole
from spae_dask.storage.masks import ALL, Usual, refuse_mask
from spae_dask.storage.open_stored import InGrid, open_address, open_path, open_table_file, open_zarr_object
from spae_dask.storage.readable import READABLE, check_real, check_two_dimensional
from spae_dask.storage.remote.address import is_remote, parse_address, refuse_secrets, without_secrets
from spae_dask.storage.remote.icechunk_address import is_icechunk, parse_icechunk, pinned
from spae_dask.storage.sources.submatrix import Submatrix
from spae_dask.storage.tables.columns import choose_columns
from spae_dask.storage.tables.frames import is_frame, matrix_of
from spae_dask.storage.tables.table_files import is_table

BLOCK_NBYTES = 4 << 20
"""Bytes of a row block of an array in memory: blocks are views, so they only set the interval of progress reports."""


@flags_checked
def open_matrix(
    x: Any,
    *,
    array: str | None = None,
    columns: Sequence[str] | Numbers | None = None,
    mask: str | None = None,
    rows: str | Numbers | None = None,
    sample_dim: str | Sequence[str] | None = None,
    weights: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    decode: bool = True,
    memory_limit: int | None = None,
) -> RowBlocks:
    """Open a matrix for reading in row blocks. Only metadata are read.

    Of CSR matrices on disk, row pointers are read as well. Text tables are read whole. Of grids that may hold NaN the
    first row block is read, or up to 256 MiB, to leave out cells that are NaN throughout.

    Parameters
    ----------
    x : object
        Matrix (n, d), as one of:

        - path (str or path-like) or URL of a Zarr array, a Zarr group, an AnnData store (its ``X``), a VCF Zarr group
          (its genotypes), a Parquet file or folder, or an Arrow (Feather) or ``.npy`` file
        - ``icechunk://`` and the path or URL of an Icechunk repository, with ``?branch=``, ``?tag=`` or ``?snapshot=``
        - path of a zipped Zarr store (``.zip``), or of a JSON file of kerchunk references (``.json``)
        - path of an ``.h5ad`` file, or of another HDF5 file (``.h5``, ``.hdf5``), such as of Cell Ranger
        - path of genotypes: a ``.bed`` or ``.pgen`` file with those beside it
        - path of a netCDF file, or path or URL of a Zarr dataset with named dimensions: a variable of it, samples along
          one dimension and a column for each cell of the others
        - path of a text table (``.csv``, ``.tsv``, also ``.gz``), which is held in memory
        - AnnData object (its ``X``), in memory, backed, lazy or a view
        - ``zarr.Array``, ``zarr.Group``, ``h5py.Dataset`` or ``h5py.Group``
        - numpy array or memory map, scipy.sparse matrix, DataFrame of pandas or polars, or ``pyarrow.Table``
        - dask array, or dask DataFrame of numbers; an unknown number of rows is counted in a pass of its own
        - ``xarray.DataArray`` of two dimensions, the first of which are the rows (for more, use ``GridEncoder``)
        - anything else that ``numpy.asarray`` turns into a 2-d array
    array : str, optional
        Member to read, if ``x`` is a group of Zarr or HDF5, or of AnnData: such as ``layers/counts`` or ``raw/X``.
        Of a netCDF file or a dataset: the variable. ``dosages`` of a ``.pgen`` file, in place of hard calls.
    columns : sequence of str or int, or ndarray of bool, optional
        Columns to read, in that order. Of tables, and of AnnData by the names of its variables: names, patterns such as
        ``expr_*``, and ``!name`` or ``!pattern`` for all but those. Of tables also ``@numeric``, for all columns of
        numbers. Of other matrices: numbers of columns, or a boolean for each.
    mask : str, optional
        Boolean column of AnnData's ``var`` that chooses the columns, or a condition on columns of ``var``, such as
        ``"n_cells > 10 and not mt"``. ``var/highly_variable`` is the default if it
        exists, as in scanpy; ``none`` uses all columns. For ``raw/X`` it is a column of ``raw/var``, and all columns
        are the default. Of grids: a variable that is true, or 1, in the cells to use. The default leaves out cells that
        are NaN throughout.
    rows : str, sequence of int or ndarray of bool, optional
        Rows to read: a condition on columns of AnnData's ``obs``, such as ``"n_counts > 500 and batch in ['a', 'b']"``,
        ascending numbers of rows, or a boolean for each row. A condition compares columns, or ``index``, the names of
        the rows, with literals. No code is run. Of a table at a path it compares any of its columns, and of a grid at
        one its coordinates, such as ``"time >= '1990' and time.season == 'DJF'"``. Times are texts there.
    sample_dim : str or sequence of str, optional
        Dimension of a grid that makes the rows, or several, also with commas between. By default the one of time.
    weights : str, optional
        Multiply the cells of a grid: ``coslat``, by the square root of the cosine of their latitude, or by a variable
        over the grid. Cells of weight 0 are left out. Recipes and missing values come before weights.
    storage_options : mapping, optional
        Access to a URL of s3, gs, http or https. ``anon`` (bool) asks for unsigned requests, for public buckets. For s3
        there are ``endpoint_url``, ``region`` and ``profile`` (str) as well. Missing options come from the environment
        and from AWS's profile files; credentials always do.
    decode : bool, default True
        True to decode dense Zarr arrays as xarray does, if their attributes declare it, and to read missing genotypes
        as NaN. ``_FillValue`` and ``missing_value`` become NaN, and ``_Unsigned`` is applied. Numbers are multiplied by
        ``scale_factor`` and added to ``add_offset``. In Zarr format 2 the fill value of arrays that xarray wrote means
        missing. False to read stored numbers.
    memory_limit : int, optional
        Memory limit of a process, in bytes; by default this machine's memory. It decides if a text table can be held.

    Returns
    -------
    RowBlocks
        Source of rows. ``SparseEncoder.fit``, ``plan`` and ``evaluate`` accept it as well.

    Raises
    ------
    NotFound
        If the path or URL does not exist.
    MemoryBudgetExceeded
        If a text table is too large for the memory.
    InvalidInput
        If the matrix is not two-dimensional, is empty, does not hold real numbers, or is stored by columns on disk. If
        it lacks one of the columns; columns of a table that are no numbers are named. If a URL or an option is not
        allowed (URLs hold no passwords and no queries). If attributes that declare the coding of numbers make no sense.
    StorageError
        If a file or a store cannot be opened, or a server does not answer or refuses.
    """
    how = InGrid(sample_dim, weights)
    return open_as(x, how, array, columns, mask, rows, storage_options, decode=decode, memory_limit=memory_limit)


def open_as(
    x: Any,
    how: InGrid,
    array: str | None = None,
    columns: Sequence[str] | Numbers | None = None,
    mask: str | None = None,
    rows: str | Numbers | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    decode: bool = True,
    memory_limit: int | None = None,
) -> RowBlocks:
    """Open a matrix as `open_matrix` does; ``how`` says what makes rows and columns of a grid."""
    if isinstance(x, os.PathLike):
        x = os.fsdecode(x)
    if storage_options is not None and not (isinstance(x, str) and is_remote(x)):
        raise InvalidInput("storage_options are for URLs of s3, gs, http and https. Leave them out.")
    if isinstance(x, str) and is_icechunk(x):
        x = str(pinned(parse_icechunk(x)))  # what is recorded, and opened below, is the snapshot
    if isinstance(x, str) and not is_remote(x) and is_held(x):
        refuse_mask(mask, x)
        how.refuse(x)
        blocks: RowBlocks = _held(x.removeprefix("file://"), array, columns, memory_limit)
    else:
        blocks = _dispatch(x, array, columns, mask, how, storage_options, decode)
    n, d = blocks.shape
    check_real(blocks.dtype, blocks.describe())
    if n == 0 or d == 0:
        raise InvalidInput(
            f"{blocks.describe()} is empty: found array with {'0 sample(s)' if n == 0 else '0 feature(s)'} "
            f"(shape=({n}, {d})) while a minimum of 1 is required. Give data with entries."
        )
    if how.weights is not None and isinstance(blocks, Submatrix) and blocks is not x:
        raise InvalidInput(
            f"weights={how.weights!r} cannot be combined with columns in another order than the cells. Choose cells "
            "with a mask, or select them with xarray, and fit a GridEncoder."
        )
    if rows is not None:
        blocks = under_rows(blocks, rows, x, storage_options)
    if blocks is not x:  # otherwise it was opened before, with its chosen columns
        path = _full_path(x) if isinstance(x, str) else None
        told = None if isinstance(mask, Usual) else mask
        listed = None if columns is None or "columns" in asked_of(blocks) else list(columns)
        remember(blocks, path=path, array=array, columns=listed, mask=told)
    return blocks


def _full_path(path: str) -> str:
    return (
        without_secrets(path)
        if "://" in path.removeprefix("file://")
        else str(Path(path.removeprefix("file://")).resolve())
    )


def _held(path: str, array: str | None, columns: Any, memory_limit: int | None) -> ArrayBlocks:
    """The rows of a text table, all of them read."""
    refuse_secrets(path)
    refuse_pipes(path)
    memory = memory_nbytes() if memory_limit is None else memory_limit
    values, names = read_whole(path, array, columns, memory)
    return replace(_in_memory(values), name=str(Path(path).resolve()), feature_names=names)


def dask_rows(x: Any) -> Any:
    """The dask array of a dask array or DataFrame, whose rows are not counted; None for anything else."""
    if dask_kind(x) is None:
        return None
    array = _dask_array(x, counted=False)
    check_real(array.dtype, "the dask array")
    return array


def _dispatch(
    x: Any,
    array: str | None,
    columns: Any,
    mask: str | None,
    how: InGrid,
    storage_options: Mapping[str, Any] | None,
    decode: bool,
) -> RowBlocks:
    if isinstance(x, str):
        refuse_secrets(x)
        refuse_pipes(x.removeprefix("file://"))
    if isinstance(x, str) and is_table(x.removeprefix("file://")):
        how.refuse(x)
        refuse_mask(mask, x)
        return open_table_file(x.removeprefix("file://"), array, columns)
    if not isinstance(x, str | RowBlocks):
        how.refuse(f"a {type(x).__name__}")
    if is_frame(x):
        refuse_mask(mask, f"a {type(x).__name__}")
        if array is not None:
            raise InvalidInput(f"array={array!r} names a member of a Zarr group, but a {type(x).__name__} was given.")
        values, names = matrix_of(x, columns)
        return replace(_in_memory(values), name=f"the {type(x).__name__}", feature_names=names)
    if columns is not None and dask_kind(x) == "dataframe":
        from spae_dask.storage.tables.dask_frames import is_numeric

        refuse_mask(mask, "the dask DataFrame")
        places = choose_columns(
            [str(name) for name in x.columns],
            columns,
            "the dask DataFrame",
            is_numeric=lambda place: is_numeric(x.dtypes.iloc[place]),
        )
        return _open_dask(x[[x.columns[place] for place in places]])
    if columns is not None:
        if mask is not None and mask != ALL and not isinstance(mask, Usual):
            raise InvalidInput(f"columns={list(columns)} and mask={mask!r} both choose columns. Give one of them.")
        return under_columns(_dispatch(x, array, None, Usual(ALL), how, storage_options, decode), columns)
    if isinstance(x, str) and is_remote(x):
        return open_address(parse_address(x, storage_options), array, mask, how, decode=decode)
    if isinstance(x, str):
        return open_path(x, array, mask, how, decode=decode)
    kind = type(x).__module__.partition(".")[0]
    if kind == "zarr":
        name = "the Zarr group" if hasattr(x, "arrays") else "the Zarr array"
        return open_zarr_object(x, array, name, mask, decode=decode)
    if is_anndata(x):
        from spae_dask.storage.anndata_objects import open_anndata

        # AnnData uses the content of its arrays unchanged
        return open_anndata(x, array, partial(open_matrix, mask=ALL, decode=False), mask)
    if array is not None:
        raise InvalidInput(f"array={array!r} names a member of a Zarr group, but a {type(x).__name__} was given.")
    if kind != "h5py":
        refuse_mask(mask, f"a {type(x).__name__}")
    if isinstance(x, np.ndarray):
        check_unmasked(x)
        return _in_memory(np.asarray(x))  # a plain view, also of a memory map or a numpy.matrix
    if sp.issparse(x):
        check_two_dimensional(x.ndim, x.shape, "the sparse matrix")
        return _in_memory(as_csr(x))
    if kind == "h5py" and type(x).__name__ in ("Dataset", "File", "Group"):
        from spae_dask.storage.h5_files import open_h5_object

        return open_h5_object(x, f"the HDF5 object {x.name if x else '(closed)'}", mask=mask)
    if dask_kind(x) is not None:
        return _open_dask(x)
    if kind == "dask":  # numpy would compute it, and a Delayed claims to have every attribute
        raise InvalidInput(
            f"a {type(x).__name__} of dask is not a matrix. Give a dask array, as da.from_delayed(part, "
            f"shape=(n, d), dtype=float) makes of a Delayed, or {READABLE}."
        )
    if isinstance(x, RowBlocks):
        return x
    if kind == "xarray":
        from spae_dask.storage.grids.xarray_blocks import open_data_array

        return open_data_array(x)
    return _in_memory(_as_array(x))


def is_anndata(x: Any) -> bool:
    """Return True if ``x`` is an AnnData object. Nothing is imported to find out."""
    module = sys.modules.get("anndata")
    return module is not None and isinstance(x, module.AnnData)


def _as_array(x: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(x)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"a {type(x).__name__} cannot be read as a matrix ({error}). Give {READABLE}.") from error


def _in_memory(x: Any) -> ArrayBlocks:
    check_two_dimensional(x.ndim, x.shape, f"the {'sparse matrix' if sp.issparse(x) else 'array'}")
    if x.dtype == object:
        x = _numbers_of_objects(x)
    n, d = x.shape
    row_nbytes = d * x.dtype.itemsize
    if sp.issparse(x):
        row_nbytes = -(-x.nnz * (x.data.itemsize + x.indices.itemsize) // max(1, n)) + x.indptr.itemsize
    return ArrayBlocks(x, rows_per_block=max(1, min(n, BLOCK_NBYTES // max(1, row_nbytes))))


def _numbers_of_objects(x: Any) -> np.ndarray[Any, Any]:
    """Python numbers in an object array, as tables of mixed number types give them."""
    try:
        return np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise NotNumbers(
            f"the array contains Python objects that are not all numbers ({error}). argument must be a string "
            "or a real number: convert or drop the columns that are not numeric first."
        ) from error


def dask_kind(x: Any) -> str | None:
    """``"array"`` or ``"dataframe"`` if ``x`` is dask's; nothing is imported to find out."""
    for kind, name in (("array", "Array"), ("dataframe", "DataFrame")):
        module = sys.modules.get(f"dask.{kind}")
        if module is not None and isinstance(x, getattr(module, name)):
            return kind
    return None


def _open_dask(x: Any) -> RowBlocks:
    from spae_dask.storage.sources.dask_blocks import DaskBlocks, has_unknown_rows, refuse_asynchronous

    refuse_asynchronous()
    unknown = dask_kind(x) == "dataframe" or has_unknown_rows(x)
    return DaskBlocks(_dask_array(x, counted=True), n_counts=int(unknown))


def _dask_array(x: Any, *, counted: bool) -> Any:
    """A dask array of rows; of unknown length only if they need not be counted."""
    from spae_dask.storage.sources.dask_blocks import counted_rows
    from spae_dask.storage.tables.dask_frames import array_of_frame

    if dask_kind(x) == "dataframe":
        return array_of_frame(x, counted=counted)
    check_two_dimensional(x.ndim, x.shape, "the dask array")
    return counted_rows(x) if counted else x
