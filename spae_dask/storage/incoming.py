"""Sources of `ingest`: each becomes a stream of dense bands of rows with the little that is known about it.

Sparse ones stay as they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any
from warnings import warn

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks, StoredEntries, stored_entries
from spae_dask.errors import InvalidInput, MissingChunksWarning
from spae_dask.storage.bands import BAND, block_bands, plan_zarr_bands, share_of
from spae_dask.storage.census import missing_chunks
from spae_dask.storage.csv_rows import SUFFIXES, open_csv
from spae_dask.storage.npy_blocks import NpyBlocks
from spae_dask.storage.open import open_matrix
from spae_dask.storage.zarr_blocks import ZarrBlocks

NOT_READ = (".parquet", ".nc", ".h5", ".hdf5", ".npz", ".mat", ".xlsx", ".mtx")


@dataclass(frozen=True)
class Incoming:
    """A source about to be written.

    Attributes
    ----------
    name : str
        How messages call it.
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
        What the output takes over.
    decodes_per_chunk : int
        How often each chunk of the source is decoded.
    sparse : (RowBlocks, StoredEntries), optional
        The source itself, if its rows are sparse; there are no bands then.
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


def open_incoming(source: Any, *, array: str | None, header: bool | None, budget: int) -> Incoming:
    """Open a source for one reading within a budget; of text the first rows are read, of all else only metadata.

    Parameters
    ----------
    source, array, header, budget
        As in :func:`spae_dask.storage.ingest.ingest`.
    """
    name = str(source).lower() if isinstance(source, str | Path) else ""
    if name.endswith(tuple(SUFFIXES)):
        if array is not None:
            raise InvalidInput(f"array={array!r} names a member of a Zarr group, but {source} is a text file.")
        return _from_text(Path(source), header, budget)
    if header is not None:
        raise InvalidInput(f"header={header} is about the first row of text files, and {source} is none. Leave it out.")
    if name.endswith(NOT_READ):
        raise InvalidInput(
            f"{source} is of a type that is not read. Allowed are {', '.join(('.npy', '.h5ad', *SUFFIXES))} and Zarr "
            "arrays: write it as one of these with the library that made it."
        )
    if name.endswith(".npy") and array is not None:
        raise InvalidInput(f"array={array!r} names a member of a Zarr group, but {source} is a single array.")
    return _from_blocks(open_matrix(source, array=array), budget)


def _from_text(path: Path, header: bool | None, budget: int) -> Incoming:
    """Read until the rows are known to be many, or are known."""
    table = open_csv(path, header=header)
    batches = table.batches()
    head: list[npt.NDArray[np.float64]] = []
    n_rows = 0
    while n_rows * table.d * 8 < share_of(budget) and (batch := next(batches, None)) is not None:
        head.append(batch)
        n_rows += len(batch)
    complete = n_rows * table.d * 8 < share_of(budget)
    if n_rows == 0:
        raise InvalidInput(f"{path} has a header but no rows. There is nothing to write.")
    return Incoming(
        name=str(path),
        n_rows=n_rows if complete else None,
        rows_expected=n_rows if complete else max(n_rows, table.rows_expected),
        d=table.d,
        dtype=np.dtype(np.float64),
        bands=chain(head, batches),
        attributes={} if table.feature_names is None else {"feature_names": list(table.feature_names)},
    )


def _from_blocks(blocks: RowBlocks, budget: int) -> Incoming:
    n, d = blocks.shape
    census = missing_chunks(blocks)
    if census is not None and census.n_missing:
        warn(
            f"{blocks.describe()}: {census.describe()}. They are written as such; if they were lost, restore them.",
            MissingChunksWarning,
            stacklevel=4,
        )
    stored = stored_entries(blocks)
    if stored is not None:
        return Incoming(blocks.describe(), n, n, d, blocks.dtype, iter(()), sparse=(blocks, stored))
    names = getattr(blocks, "feature_names", None)
    named = {} if names is None else {"feature_names": list(names)}
    if isinstance(blocks, ZarrBlocks):
        bands = plan_zarr_bands(blocks, budget)
        kept = {key: value for key, value in blocks.array.attrs.items() if key != "_ARRAY_DIMENSIONS"} | named
        return Incoming(blocks.describe(), n, n, d, blocks.dtype, iter(bands), kept, bands.n_parts)
    if isinstance(blocks, NpyBlocks):
        # long bands, so that a file in Fortran order is read in long runs
        blocks = replace(blocks, target_nbytes=BAND * share_of(budget))
    return Incoming(blocks.describe(), n, n, d, blocks.dtype, block_bands(blocks, budget), named)
