"""Sources of `ingest`: each becomes a stream of dense bands of rows with the little that is known about it.

Sparse ones stay as they are.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from spae_dask.blocks import RowBlocks, StoredEntries, stored_entries
from spae_dask.errors import InvalidInput, MissingChunksWarning, warn
from spae_dask.plain_files import refuse_pipes
from spae_dask.storage.groups import means_grid
from spae_dask.storage.masks import ALL, refuse_mask
from spae_dask.storage.open import open_matrix
from spae_dask.storage.readable import NETCDF, grid_files
from spae_dask.storage.remote.address import refuse_secrets
from spae_dask.storage.sources.bounded_reader import BAND, READING_ONE, block_bands, plan_zarr_bands, share_of
from spae_dask.storage.sources.declared import CODING, DIMENSIONS, RANGE
from spae_dask.storage.sources.npy_blocks import NpyBlocks
from spae_dask.storage.sources.sentinel import SentinelBlocks
from spae_dask.storage.sources.stored_chunks import check_chunks
from spae_dask.storage.sources.variant_blocks import VariantBlocks
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from spae_dask.storage.tables.csv_rows import SUFFIXES, open_csv


@dataclass(frozen=True)
class Incoming:
    """A source about to be written.

    Attributes
    ----------
    name : str
        Name of the source in messages.
    n_rows : int, optional
        Rows, if they are known before all are read.
    rows_expected : int
        The same, or an estimate.
    d : int
        Columns.
    dtype : numpy.dtype
        Type of the entries.
    bands : iterator of ndarray
        The rows in order (rows, d).
    attributes : dict
        Attributes that the output takes over.
    decodes_per_chunk : int
        Number of times that each chunk of the source is decoded.
    sparse : (RowBlocks, StoredEntries), optional
        The source itself, if its rows are sparse; there are no bands then.
    notes : tuple of str
        Findings about the source, for the user.
    """

    name: str
    n_rows: int | None
    rows_expected: int
    d: int
    dtype: np.dtype[Any]
    bands: Iterator[npt.NDArray[Any]]
    attributes: dict[str, Any] = field(default_factory=dict)
    decodes_per_chunk: int = 1
    sparse: tuple[RowBlocks, StoredEntries] | None = None
    notes: tuple[str, ...] = ()


def open_incoming(
    source: Any,
    *,
    array: str | None,
    columns: Sequence[str] | None = None,
    mask: str | None = None,
    header: bool | None,
    budget: int,
    variable: str | None = None,
    sample_dim: str | Sequence[str] | None = None,
    decode: bool = True,
) -> Incoming:
    """Open a source for one reading within a budget; of text the first rows are read, of all else only metadata.

    Of grids some or all rows are read as well, to find the cells without data.

    Parameters
    ----------
    source, array, columns, mask, header, budget, variable, sample_dim, decode
        As in :func:`spae_dask.storage.ingesting.ingest.ingest`.
    """
    if isinstance(source, os.PathLike):
        source = os.fsdecode(source)
    name = source.lower() if isinstance(source, str) else ""
    if name:
        refuse_secrets(source)
        refuse_pipes(source.removeprefix("file://"))
    of_grid = variable is not None or sample_dim is not None or (name and _is_dataset(source, array))
    if name.endswith(NETCDF) or of_grid:
        if header is not None or (array is not None and variable is not None):
            raise InvalidInput(
                f"{source} is read as a grid. Name its variable once, with array=NAME (--array NAME), and leave header "
                "out."
            )
        return _from_grid(source, variable or array, sample_dim, mask, budget, decode=decode)
    if name.endswith(tuple(SUFFIXES)):
        if array is not None:
            raise InvalidInput(f"array={array!r} names a member of a Zarr group, but {source} is a text file.")
        refuse_mask(mask, source)
        return _from_text(Path(source), columns, header, budget)
    if header is not None:
        raise InvalidInput(
            f"header={header} is about the first row of text files, but {source} is not a text file. Leave it out."
        )
    if name.endswith(".npy") and array is not None:
        raise InvalidInput(f"array={array!r} names a member of a Zarr group, but {source} is a single array.")
    blocks = open_matrix(source, array=array, columns=columns, mask=mask or ALL, decode=decode)
    return _from_blocks(blocks, budget)


def _is_dataset(path: str, array: str | None) -> bool:
    """Return True if a grid of a local Zarr dataset is meant, or of several files."""
    if grid_files(path) is not None:
        return True
    if "://" in path or not Path(path).is_dir():
        return False
    try:
        group = zarr.open(path, mode="r")
        return isinstance(group, zarr.Group) and means_grid(group, array)
    except Exception:  # opening it as a matrix reports any error
        return False


def _from_grid(
    source: Any,
    variable: str | None,
    sample_dim: str | Sequence[str] | None,
    mask: str | None,
    budget: int,
    *,
    decode: bool,
) -> Incoming:
    if not isinstance(source, str):
        raise InvalidInput(
            f"variable and sample_dim are for netCDF files and Zarr datasets, but a {type(source).__name__} "
            "was given. Give a path, or leave them out."
        )
    try:
        from spae_dask.storage.grids.xarray_files import open_grid
    except ImportError as error:
        raise InvalidInput(
            f'{source} needs xarray, which is not installed. Run `pip install "spae-dask[xarray]"`.'
        ) from error

    path = source.removeprefix("file://")
    opened = open_grid(path, variable=variable, sample_dim=sample_dim, mask=mask, budget=budget, decode=decode)
    rows = opened.rows
    n, d = rows.shape
    return Incoming(
        name=rows.describe(),
        n_rows=n,
        rows_expected=n,
        d=d,
        dtype=rows.dtype,
        bands=block_bands(rows, budget),
        attributes={"feature_names": list(rows.feature_names or ())},
        decodes_per_chunk=rows.decodes_per_chunk,
        notes=opened.notes,
    )


def _from_text(path: Path, columns: Sequence[str] | None, header: bool | None, budget: int) -> Incoming:
    """Read until the rows are known to be many, or are known."""
    table = open_csv(path, header=header, columns=columns)
    d = table.d if table.chosen is None else len(table.chosen)
    batches = table.batches()
    head: list[npt.NDArray[np.float64]] = []
    n_rows = 0
    while n_rows * d * 8 < share_of(budget) and (batch := next(batches, None)) is not None:
        head.append(batch)
        n_rows += len(batch)
    complete = n_rows * d * 8 < share_of(budget)
    if n_rows == 0:
        raise InvalidInput(f"{path} has a header but no rows, so there is nothing to write.")
    return Incoming(
        name=str(path),
        n_rows=n_rows if complete else None,
        rows_expected=n_rows if complete else max(n_rows, table.rows_expected),
        d=d,
        dtype=np.dtype(np.float64),
        bands=chain(head, batches),
        attributes={} if table.names_read is None else {"feature_names": list(table.names_read)},
    )


def _from_blocks(blocks: RowBlocks, budget: int) -> Incoming:
    n, d = blocks.shape
    blocks, chunks, _ = check_chunks(blocks)
    if chunks is not None and chunks.n_absent:
        warn(
            f"{blocks.describe()}: {chunks.describe()}. They are written with that value. If they were lost, "
            "restore them.",
            MissingChunksWarning,
        )
    stored = stored_entries(blocks)
    if stored is not None:
        return Incoming(blocks.describe(), n, n, d, blocks.dtype, iter(()), sparse=(blocks, stored))
    names = getattr(blocks, "feature_names", None)
    named = {} if names is None else {"feature_names": list(names)}
    conversion = blocks.conversion if isinstance(blocks, SentinelBlocks) else None
    stored_blocks = blocks.source if isinstance(blocks, SentinelBlocks) else blocks
    if isinstance(stored_blocks, ZarrBlocks):
        bands = plan_zarr_bands(stored_blocks, budget, conversion)
        # the output holds plain numbers: those that were read, decoded or not
        coded = {DIMENSIONS, *CODING} | (set() if conversion is None else set(RANGE))
        kept = {key: value for key, value in stored_blocks.array.attrs.items() if key not in coded} | named
        notes = [] if conversion is None else [conversion.describe(stored_blocks.dtype)]
        if stored_blocks.passed_over:
            left_out = ", ".join(stored_blocks.passed_over)
            notes.append(f"the stored numbers are written; attributes that decode them are left out: {left_out}")
        return Incoming(blocks.describe(), n, n, d, blocks.dtype, iter(bands), kept, bands.n_parts, notes=tuple(notes))
    if isinstance(stored_blocks, NpyBlocks | VariantBlocks):
        # long bands, so that a file in Fortran order, or of one variant after another, is read in long runs
        longer = replace(stored_blocks, target_nbytes=BAND * share_of(budget))
        blocks = longer if conversion is None else SentinelBlocks(longer, conversion)
    # tables in files come a few rows at a time, however large their row groups are
    streamed: Callable[[int], Iterator[npt.NDArray[Any]]] | None = getattr(blocks, "bands", None)
    rows = block_bands(blocks, budget) if streamed is None else streamed(READING_ONE * share_of(budget))
    return Incoming(blocks.describe(), n, n, d, blocks.dtype, rows, named)
