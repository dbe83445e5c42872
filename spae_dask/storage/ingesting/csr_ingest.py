"""A sparse matrix, block by block, into a CSR group of the AnnData layout, with chunks and a codec made for reading."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import zarr

from spae_dask.blocks import RowBlocks, StoredEntries, in_canonical_form, largest_block_nbytes, total_nbytes
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, StorageError
from spae_dask.quantities import format_nbytes
from spae_dask.storage.ingesting.ingest_report import SparseIngestReport
from spae_dask.storage.sources.checked_store import ZarrArray
from spae_dask.storage.writing.chunking import CODECS, MAX_OBJECTS, choose_codec
from spae_dask.storage.writing.outputs import publish_store

CHUNK_ENTRIES = 1 << 18
"""Entries of a chunk: a row block of the reader is then several of them."""

SHARD_CHUNKS = 32
"""Chunks of a shard, where chunks alone would be too many objects."""

Watch = Callable[[int, int | None], None]


@dataclass(eq=False)
class RunWriter:
    """Appends to a one-dimensional Zarr array in whole chunks or shards, each read back and compared.

    Parameters
    ----------
    array : zarr.Array
        Empty; it grows.
    """

    array: ZarrArray
    _held: list[npt.NDArray[Any]] = field(default_factory=list)
    _n_held: int = 0

    def append(self, values: npt.NDArray[Any]) -> None:
        """Take more values; whole units of them are written."""
        unit = int((self.array.shards or self.array.chunks)[0])
        self._held.append(values)
        self._n_held += len(values)
        if self._n_held >= unit:
            self._write(self._n_held // unit * unit)

    def close(self) -> None:
        """Write what is left."""
        if self._n_held:
            self._write(self._n_held)

    def _write(self, n: int) -> None:
        joined = np.concatenate(self._held)
        start, stop = self.array.shape[0], self.array.shape[0] + n
        self._held, self._n_held = [joined[n:].copy()], self._n_held - n
        self.array.resize((stop,))
        self.array[start:stop] = joined[:n]
        if zlib.crc32(joined[:n].data) != zlib.crc32(np.ascontiguousarray(self.array[start:stop]).data):
            raise StorageError(
                f"entries {start} to {stop - 1} of {self.array.store_path} read back differently from what was "
                "written. Nothing was left under that name. Check the disk and run again, or use another disk."
            )


def ingest_csr(
    blocks: RowBlocks,
    stored: StoredEntries,
    path: str,
    *,
    codec: str | None,
    dtype: np.dtype[Any],
    overwrite: bool,
    budget: int,
    watch: Watch | None,
) -> SparseIngestReport:
    """Write a source of CSR rows; see :func:`spae_dask.storage.ingesting.ingest.ingest`.

    Raises
    ------
    MemoryBudgetExceeded
        If a block of the source is too large for the budget.
    InvalidInput
        If values do not fit the type asked for.
    StorageError
        If what was written does not read back the same.
    """
    needed = 2 * (largest_block_nbytes(blocks) + blocks.read_nbytes)
    if not blocks.in_process and needed > budget:
        raise MemoryBudgetExceeded(
            f"a row block of {blocks.describe()} takes {format_nbytes(needed)} while it is written, but the "
            f"budget is {format_nbytes(budget)}. Nothing was read. Give a budget of at least "
            f"{format_nbytes(needed, up=True)}."
        )
    n, d = blocks.shape
    expected = round(stored.density * n * d)
    kinds = {"data": dtype, "indices": np.dtype(np.int32 if d < 2**31 else np.int64), "indptr": np.dtype(np.int64)}
    sharded = 2 * expected > MAX_OBJECTS * CHUNK_ENTRIES
    names = getattr(blocks, "feature_names", None)
    with publish_store(path, overwrite=overwrite) as output:
        attributes: dict[str, Any] = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [n, d]}
        group = zarr.create_group(
            output.store,
            zarr_format=3,
            attributes=attributes | ({} if names is None else {"feature_names": list(names)}),
        )
        chosen = {key: choose_codec(kind, codec) for key, kind in kinds.items()}
        writers = {
            key: RunWriter(
                group.create_array(
                    key,
                    shape=(0,),
                    dtype=kind,
                    chunks=(CHUNK_ENTRIES,),
                    shards=(CHUNK_ENTRIES * SHARD_CHUNKS,) if sharded else None,
                    compressors=CODECS[chosen[key][0]],
                    # a lost chunk must be noticed: neither a column nor a row pointer is ever -1
                    fill_value=-1 if key != "data" else np.nan if kind.kind == "f" else 0,
                    config={"write_empty_chunks": True},
                )
            )
            for key, kind in kinds.items()
        }
        n_entries = _write_blocks(blocks, writers, dtype, watch)
        stored_nbytes = output.stored_nbytes()
        n_objects = sum(-(-w.array.shape[0] // int((w.array.shards or w.array.chunks)[0])) for w in writers.values())
    return SparseIngestReport(
        source=blocks.describe(),
        path=path,
        shape=(n, d),
        dtype=str(dtype),
        n_entries=n_entries,
        chunk_entries=CHUNK_ENTRIES,
        codec=chosen["data"][0],
        reason=chosen["data"][1],
        n_objects=n_objects,
        nbytes=sum(kind.itemsize * n_entries for key, kind in kinds.items() if key != "indptr") + 8 * (n + 1),
        read_nbytes=total_nbytes(blocks),
        stored_nbytes=stored_nbytes,
    )


def _write_blocks(blocks: RowBlocks, writers: dict[str, RunWriter], dtype: np.dtype[Any], watch: Watch | None) -> int:
    """Write all rows in canonical form; returns how many entries there were."""
    writers["indptr"].append(np.zeros(1, dtype=np.int64))
    n_entries = 0
    for number in range(len(blocks.bounds) - 1):
        block = in_canonical_form(sp.csr_array(blocks.read(number)))
        writers["data"].append(_converted(block.data, dtype, blocks.describe()))
        writers["indices"].append(block.indices.astype(writers["indices"].array.dtype))
        writers["indptr"].append(block.indptr[1:].astype(np.int64) + n_entries)
        n_entries += block.nnz
        if watch is not None:
            watch(blocks.bounds[number + 1], blocks.shape[0])
    for writer in writers.values():
        writer.close()
    return n_entries


def _converted(values: npt.NDArray[Any], dtype: np.dtype[Any], name: str) -> npt.NDArray[Any]:
    converted, changed = convert(values, dtype)
    if changed is not None and changed.any():
        raise InvalidInput(
            f"{name} holds {values[changed][0]}, which {dtype} cannot hold. Give a wider type with "
            "dtype=..., or leave it out to keep the type of the source."
        )
    return converted


def convert(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """Values in another type, and where an integer changed or a float overflowed; None if they are of it already."""
    if values.dtype == dtype:
        return values, None
    with np.errstate(all="ignore"):
        converted = values.astype(dtype)
    changed = np.isinf(converted) & ~np.isinf(values) if dtype.kind == "f" else converted != values
    return converted, changed
