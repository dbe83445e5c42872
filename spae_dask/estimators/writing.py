"""Codes of a matrix written to a Zarr store that may be larger than memory."""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from spae_dask import __version__
from spae_dask.blocks import RowBlocks, columns_alone, nbytes_of_rows
from spae_dask.engine.runner import DaskRunner
from spae_dask.errors import PassFailed
from spae_dask.estimators.applying import code_dtype, open_rows
from spae_dask.estimators.covariates import adjustment_of
from spae_dask.estimators.fitting import report_missing_chunks
from spae_dask.estimators.runtime import active_client, resources_for, with_listing
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.flags import flags_checked
from spae_dask.maths.encoders.codes import RowEncoder, SelectedRowEncoder
from spae_dask.passes.events import Event, ignore
from spae_dask.passes.layout import write_footprint
from spae_dask.passes.planner import tasks_or_refuse
from spae_dask.passes.write import RowMap, WriteRows, unit_spans
from spae_dask.storage.writing.output_paths import refuse_same
from spae_dask.storage.writing.outputs import publish_store
from spae_dask.storage.writing.zarr_sink import create_sink, unit_rows_for


@dataclass(frozen=True)
class WriteReport:
    """Summary of a written array of codes.

    Attributes
    ----------
    path : str
        Path or URL of the store.
    shape : tuple of int
        ``(n, k)``.
    dtype : str
        Type of the codes.
    chunk_rows, n_chunks : int
        Number of rows of a chunk, and number of chunks.
    rows_verified : int
        Number of rows that were read back and found equal.
    """

    path: str
    shape: tuple[int, int]
    dtype: str
    chunk_rows: int
    n_chunks: int
    rows_verified: int

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return asdict(self)

    def describe(self) -> str:
        """One line for people."""
        n, k = self.shape
        return (
            f"{self.path}: codes {n:,} x {k} {self.dtype} in {self.n_chunks:,} chunks of {self.chunk_rows:,} rows, "
            f"{self.rows_verified:,} rows read back and verified"
        )


@flags_checked
def transform_to_zarr(
    x: Any,
    encoder: SparseEncoder,
    path: str | Path,
    *,
    covariates: Any = None,
    overwrite: bool = False,
    memory_limit: int | str | None = None,
    progress: Callable[[Event], None] | None = None,
) -> WriteReport:
    """Write the codes of all rows of ``x`` to a Zarr array, in one pass.

    No process holds anything of size n. One task writes each chunk, reads it back and compares it. The store appears
    only when all chunks are complete.

    Parameters
    ----------
    x : object
        Matrix (n, d): anything that :func:`spae_dask.open_matrix` opens.
    encoder : SparseEncoder
        Fitted or loaded encoder.
    path : str or Path
        Target of the Zarr array (n, k): a local path, or a URL of s3 or gs.
    covariates : object, optional
        Covariates of the rows, as for ``SparseEncoder.transform``.
    overwrite : bool
        True to replace an existing store of that name.
    memory_limit : int or str, optional
        Memory limit of a process, in bytes or as text such as ``"2GB"``.
    progress : callable, optional
        Function that receives the engine's events.

    Returns
    -------
    WriteReport
        Summary of the written array.

    Raises
    ------
    OutputExists
        If ``path`` exists and ``overwrite`` is False.
    InvalidInput
        If the output is the input, or the data do not fit the encoder.
    StorageError
        If writing fails, or a chunk reads back differently.
    """
    check_is_fitted(encoder)
    given = open_rows(encoder, x)
    row_encoder = encoder.row_encoder(adjustment_of(encoder, x, given, covariates))
    refuse_same(given.describe(), path)
    source, _ = _as_read(given, row_encoder)
    n, k = source.shape[0], encoder.n_components_
    dtype = code_dtype(source.dtype)
    unit = unit_rows_for(n, k * dtype.itemsize, source.bounds[1] - source.bounds[0])
    spans = unit_spans(source.bounds, max(1, nbytes_of_rows(source, 1)), unit)
    client = active_client(source)
    footprint = write_footprint(source, spans, unit * k * dtype.itemsize, row_encoder.columns.size)
    resources = with_listing(resources_for(client, memory_limit), given)
    tasks = tasks_or_refuse(f"one task of writing codes of {source.describe()}", footprint, resources)
    with publish_store(path, overwrite=overwrite) as output:
        attributes = {"spae": {"kind": "codes", "version": __version__, "source": source.describe()}}
        sink = create_sink(output.store, (n, k), dtype, unit, attributes)
        checked = report_missing_chunks(given)
        source, row_map = _as_read(checked.source, row_encoder)
        runner = DaskRunner(source, client, tasks, progress or ignore, refuse_changed=checked.refuse_changed)
        verified = sum(runner.run_spans(WriteRows(row_map, sink), spans, "transform"))
        if verified != n:
            raise PassFailed(
                f"{verified} of {n} rows were written. This is a bug of spae_dask. Please report it, with the "
                "shape and the chunks"
            )
    return WriteReport(os.fsdecode(path), (n, k), str(dtype), unit, -(-n // unit), verified)


def _as_read(given: RowBlocks, encoder: RowEncoder) -> tuple[RowBlocks, RowMap]:
    """Return the source to read and its row map. The used columns are read alone if that is less."""
    alone = columns_alone(given, encoder.columns)
    return (given, encoder) if alone is None else (alone, SelectedRowEncoder(encoder))
