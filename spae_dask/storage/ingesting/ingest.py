"""Any supported table or matrix, once, into a Zarr array with chunks and a codec made for reading rows fast."""

import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, SpaeWarning, StorageError, warn
from spae_dask.quantities import format_nbytes
from spae_dask.storage.ingesting.csr_ingest import convert, ingest_csr
from spae_dask.storage.ingesting.incoming import Incoming, open_incoming
from spae_dask.storage.ingesting.ingest_report import IngestReport, SparseIngestReport
from spae_dask.storage.readable import check_real
from spae_dask.storage.sources.bounded_reader import SHARES, UNIT, regroup, share_of
from spae_dask.storage.sources.stored_chunks import count_stored
from spae_dask.storage.writing.chunking import CHUNK_NBYTES, CODECS, MAX_OBJECTS, Layout, choose_codec, choose_layout
from spae_dask.storage.writing.output_paths import refuse_same
from spae_dask.storage.writing.outputs import Output, check_destination, publish_store

BUDGET = 256 << 20
"""Bytes a process may take for an ingest, beside what the libraries themselves take."""

Rows = npt.NDArray[Any]
Watch = Callable[[int, int | None], None]


def ingest(
    source: Any,
    destination: str | Path,
    *,
    chunks: tuple[int, int] | None = None,
    codec: str | None = None,
    array: str | None = None,
    columns: Sequence[str] | None = None,
    mask: str | None = None,
    dtype: Any = None,
    header: bool | None = None,
    variable: str | None = None,
    sample_dim: str | Sequence[str] | None = None,
    decode: bool = True,
    overwrite: bool = False,
    budget: int = BUDGET,
    watch: Watch | None = None,
) -> IngestReport | SparseIngestReport:
    """Write a matrix as a Zarr v3 array that is fast to read by rows; a sparse one as a group of its CSR arrays.

    The source is read in one pass within ``budget`` bytes. Grids with cells without data take one more pass. Every
    chunk is read back and compared before the array appears, which it does only when it is complete.

    Parameters
    ----------
    source : object
        Data to write, as one of:

        - path of an ``.npy``, ``.h5ad``, ``.h5``, ``.csv`` or ``.tsv`` file (the latter two also as ``.gz``)
        - path of Parquet or Arrow files, of genotypes, or of a Zarr array with chunks of any kind
        - path of a netCDF file or a Zarr dataset, one variable of which becomes a matrix of samples by the cells of its
          grid; cells without any data are left out
        - anything else that :func:`spae_dask.open_matrix` opens
    destination : str or Path
        Target of the new store: a local path, or a URL of s3 or gs.
    chunks : tuple of int, optional
        Rows and columns of a chunk of a dense matrix; by default full-width chunks of about 8 MiB.
    codec : str, optional
        Codec of the chunks: ``lz4-shuffle``, ``lz4-bitshuffle``, ``zstd-bitshuffle`` or ``none``; by default chosen by
        type.
    array : str, optional
        Member to read, if the source is a Zarr group or of AnnData, such as ``layers/counts``.
    columns : sequence of str, optional
        Columns of a table to read, text or not: names, patterns such as ``expr_*``, ``@numeric`` for all columns of
        numbers, and ``!name`` or ``!pattern`` for all but those.
    mask : str, optional
        Boolean column of AnnData's ``var`` that chooses the columns, such as ``var/highly_variable``; by default all
        columns.
    dtype : numpy type, optional
        Type to store; by default the source's own (float64 for text). Rounding to a shorter float is allowed. A change
        of value to fit an integer, or an overflow, is not.
    header : bool, optional
        True if the first row of a text file holds names, False if it does not. By default it must hold names, and a row
        of numbers only is refused. The names of any table become the attribute ``feature_names``.
    variable : str, optional
        Variable of a netCDF file or a Zarr dataset. It may be left out if only one variable has its number of
        dimensions.
    sample_dim : str or sequence of str, optional
        Dimension of that variable along which the rows are; by default the one of time. Columns are named after their
        places along the others, like ``lat=52.5, lon=13.4``.
    decode : bool, default True
        True to decode Zarr arrays and netCDF files that declare the coding of their numbers, as
        :func:`spae_dask.open_matrix` does. False to write stored numbers. The output is a plain array in both cases.
    overwrite : bool
        True to replace an existing store at ``destination``.
    budget : int
        Memory limit of the work in bytes, beside the libraries. About half of it is planned for arrays.
    watch : callable, optional
        Function that receives the rows done so far, and the rows in all (None if not known), after each step.

    Returns
    -------
    IngestReport or SparseIngestReport

    Raises
    ------
    InvalidInput, NotFound, OutputExists
        If a source, an option or a destination cannot be used; nothing is written then. Also if a cell is no number.
    MemoryBudgetExceeded
        If a chunk of the source, or of the output, is too large for the budget.
    StorageError
        If the source cannot be read, the output cannot be written, or the output does not read back the same.
    """
    place = check_destination(destination, overwrite=overwrite)
    path = str(place)
    incoming = open_incoming(
        source,
        array=array,
        columns=columns,
        mask=mask,
        header=header,
        budget=budget,
        variable=variable,
        sample_dim=sample_dim,
        decode=decode,
    )
    refuse_same(incoming.name, path)
    kept = _storable(incoming.dtype if dtype is None else dtype, incoming.name)
    if incoming.sparse is not None:
        if chunks is not None:
            raise InvalidInput(
                f"chunks={chunks} are for dense matrices, but {incoming.name} is sparse. Leave them out."
            )
        return ingest_csr(
            *incoming.sparse, path, codec=codec, dtype=kept, overwrite=overwrite, budget=budget, watch=watch
        )
    codec_name, reason = choose_codec(kept, codec)
    layout = _layout(incoming, kept, chunks, budget)
    unit_rows, row_nbytes = layout.unit[0], incoming.d * kept.itemsize
    steps = regroup(
        map(partial(_converted, dtype=kept, name=incoming.name), incoming.bands),
        unit_rows * max(1, share_of(budget) // (unit_rows * row_nbytes)),
    )
    with publish_store(path, overwrite=overwrite) as output:
        if isinstance(place, Path):
            _warn_of_disk(place, incoming.rows_expected * row_nbytes)
        written = zarr.create_array(
            output.store,
            shape=(incoming.n_rows or 0, incoming.d),
            dtype=kept,
            chunks=layout.chunks,
            shards=layout.shards,
            compressors=CODECS[codec_name],
            # a lost chunk must be noticed, so an all-zero chunk is stored like any other
            fill_value=np.nan if kept.kind == "f" else 0,
            config={"write_empty_chunks": True},
            dimension_names=("sample", "feature"),
            attributes=incoming.attributes,
            zarr_format=3,
        )
        n = _write(written, steps, incoming.n_rows, path, watch)
        _check_complete(output, path)
        stored_nbytes = output.stored_nbytes()
    return IngestReport(
        source=incoming.name,
        path=path,
        shape=(n, incoming.d),
        dtype=str(kept),
        chunks=layout.chunks,
        shards=layout.shards,
        codec=codec_name,
        reason=reason,
        n_objects=layout.n_objects((n, incoming.d)),
        nbytes=n * row_nbytes,
        stored_nbytes=stored_nbytes,
        decodes_per_chunk=incoming.decodes_per_chunk,
        notes=incoming.notes,
    )


def _storable(dtype: Any, name: str) -> np.dtype[Any]:
    """The type as it is stored: native byte order, known to Zarr."""
    try:
        kept = np.dtype(dtype)
    except TypeError as error:
        raise InvalidInput(
            f"dtype={dtype!r} is not a type of numbers ({error}). Give one such as 'float32'."
        ) from error
    check_real(kept, name)
    if kept.itemsize > 8:
        raise InvalidInput(f"{name} is {kept}, which Zarr does not store. Convert it: dtype='float64'.")
    native: np.dtype[Any] = kept.newbyteorder("=")
    return native


def _layout(incoming: Incoming, dtype: np.dtype[Any], chunks: tuple[int, int] | None, budget: int) -> Layout:
    share = share_of(budget)
    shape = (incoming.rows_expected, incoming.d)
    layout = choose_layout(
        shape, dtype.itemsize, chunks=chunks, max_chunk_nbytes=min(CHUNK_NBYTES, share), max_shard_nbytes=UNIT * share
    )
    nbytes = layout.unit[0] * incoming.d * dtype.itemsize
    if nbytes > UNIT * share:
        raise MemoryBudgetExceeded(
            f"chunks of {layout.unit[0]:,} row(s) are written full width and take {format_nbytes(nbytes)}, but "
            f"a budget of {format_nbytes(budget)} allows {format_nbytes(UNIT * share)}. Nothing was written. "
            f"Use chunks of fewer rows, or a budget of {format_nbytes(-(-nbytes * SHARES // UNIT), up=True)}."
        )
    if layout.n_objects(shape) > MAX_OBJECTS:
        warn(
            f"{layout.n_objects(shape):,} objects will be stored, which may exceed file quotas; a larger "
            "budget allows larger shards",
            SpaeWarning,
        )
    return layout


def _warn_of_disk(path: Path, nbytes: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < nbytes:
        warn(
            f"{path}: the disk has {format_nbytes(free)} free, but the matrix takes {format_nbytes(nbytes)} "
            "before compression. If it does not fit, nothing will be left there.",
            SpaeWarning,
        )


def _converted(rows: Rows, dtype: np.dtype[Any], name: str) -> Rows:
    """The rows in the type to be stored; refused if an integer would change or a float overflow."""
    converted, changed = convert(rows, dtype)
    if changed is not None and changed.any():
        row, column = np.argwhere(changed)[0]
        raise InvalidInput(
            f"{name} holds {rows[row, column]} (column {column}), which {dtype} cannot hold. Give a wider "
            "type with dtype=..., or leave it out to keep the type of the source."
        )
    return converted


def _write(output: Any, steps: Iterator[Rows], n_rows: int | None, path: str, watch: Watch | None) -> int:
    """Write the rows step by step, each read back and compared by checksum; returns how many there were."""
    done = 0
    for rows in steps:
        end = done + len(rows)
        if n_rows is None:
            output.resize((end, rows.shape[1]))
        output[done:end] = rows
        if _checksum(rows) != _checksum(output[done:end]):
            raise StorageError(
                f"rows {done} to {end - 1} of {path} read back differently from what was written. Nothing was left "
                "under that name. Check the disk and run again, or give a path on another disk."
            )
        done = end
        del rows  # or its band would be held while the next one is read
        if watch is not None:
            watch(done, n_rows)
    assert n_rows in (None, done), f"{done} of {n_rows} rows came; please report this, with the source's chunks"
    return done


def _checksum(rows: Rows) -> int:
    # of the bytes, since NaN equals NaN here and -0.0 is not 0.0
    return zlib.crc32(np.ascontiguousarray(rows).data)


def _check_complete(output: Output, path: str) -> None:
    chunks = count_stored(zarr.open_array(output.store, mode="r"))
    if chunks is not None and chunks.n_missing:
        raise StorageError(
            f"{path}: {chunks.describe()} after writing. Nothing was left under that name. Check the disk and run "
            "again."
        )
