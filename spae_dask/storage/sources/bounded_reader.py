"""Bands: the rows of a source in order, read within a budget of memory whatever the source's chunks are.

A Zarr array is read along its own chunks. Small chunks are gathered; a row of chunks too large to hold is read in
parts, which decodes its chunks once for each part. Zarr decodes several chunks at once; how many depends on their size.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import zarr

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, StorageError
from spae_dask.quantities import format_nbytes
from spae_dask.storage.sources.conversion import Conversion
from spae_dask.storage.sources.runs import n_at_once
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks

SHARES = 16
"""A budget is spent in sixteenths, of which arrays take about half.

The allocator keeps as much again: freed buffers of the threads in which Zarr decodes chunks (measured 1.0 to 2.1 times
the arrays). While a band is read: 2 on the band, 1 on rows carried over, 5 on chunks in flight, or 10 on a single large
one. While rows are written: 2 on the band, 1 on the step, 1 on the rows it is put together from, 4 on chunks being
encoded, read back and decoded.
"""

BAND = 2
READING = 5
READING_ONE = 10

UNIT = 2
"""Shares that a row of shards, or of chunks asked for, may take: it must be written at once."""


def share_of(budget: int) -> int:
    """A sixteenth of a budget."""
    return budget // SHARES


@dataclass(frozen=True)
class ZarrBands:
    """Bounded reader of a Zarr array: it reads the array in bands of rows, within a memory budget.

    Attributes
    ----------
    blocks : ZarrBlocks
        The array.
    rows : int
        Rows of a band; bands begin anew at each row of chunks if a row of chunks is cut.
    n_parts : int
        Bands that a row of chunks is cut into; each chunk is decoded that often.
    at_once : int
        Chunks decoded at once.
    conversion : Conversion, optional
        Arithmetic that makes data of what is stored.
    """

    blocks: ZarrBlocks
    rows: int
    n_parts: int
    at_once: int
    conversion: Conversion | None = None

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """Bands (rows, d) from first to last."""
        n = self.blocks.shape[0]
        stride = self.blocks.array.chunks[0] if self.n_parts > 1 else self.rows
        for top in range(0, n, stride):
            bottom = min(n, top + stride)
            for start in range(top, bottom, self.rows):
                with zarr.config.set({"async.concurrency": self.at_once}):
                    band = [self._read(start, min(bottom, start + self.rows))]
                yield band.pop()  # nothing here holds it while the next one is read

    def _read(self, start: int, stop: int) -> npt.NDArray[Any]:
        try:
            rows = self.blocks.rows(start, stop)
            return rows if self.conversion is None else self.conversion.values(rows)
        except StorageError:  # it already says what to do
            raise
        except Exception as error:  # codecs and stores raise exceptions of any type
            raise self.blocks.explain(start, stop, error) from error


def plan_zarr_bands(blocks: ZarrBlocks, budget: int, conversion: Conversion | None = None) -> ZarrBands:
    """Choose the bands of a Zarr array, converted as they are read if that is wanted.

    Raises
    ------
    MemoryBudgetExceeded
        If a single chunk, encoded and decoded, does not fit beside what is written.
    """
    n, d = blocks.shape
    share = share_of(budget)
    chunk_rows = min(n, blocks.array.chunks[0])
    # an edge chunk is stored and decoded at full size, and may not have been compressed
    chunk_nbytes = 2 * blocks.chunk_nbytes
    if chunk_nbytes > READING_ONE * share:
        needed = format_nbytes(-(-chunk_nbytes * SHARES // READING_ONE), up=True)
        raise MemoryBudgetExceeded(
            f"one chunk of {blocks.describe()} decodes to {format_nbytes(chunk_nbytes // 2)}, but the budget "
            f"is {format_nbytes(budget)}. Nothing was read. Give a budget of at least {needed}."
        )
    at_once = min(n_at_once(blocks.in_store), max(1, READING * share // chunk_nbytes))
    row_nbytes = d * blocks.dtype.itemsize
    if conversion is not None:  # stored numbers, data and a mask are in memory at the same time
        row_nbytes += d * (conversion.dtype.itemsize + 1)
    if chunk_rows * row_nbytes <= BAND * share:
        rows = min(n, chunk_rows * (BAND * share // (chunk_rows * row_nbytes)))
        return ZarrBands(blocks, rows, 1, at_once, conversion)
    rows = max(1, BAND * share // row_nbytes)
    return ZarrBands(blocks, rows, -(-chunk_rows // rows), at_once, conversion)


def block_bands(blocks: RowBlocks, budget: int) -> Iterator[npt.NDArray[Any]]:
    """Bands of any other source: its own row blocks, dense.

    Raises
    ------
    MemoryBudgetExceeded
        If a row block is too large.
    InvalidInput
        If the rows are sparse.
    """
    bounds = blocks.bounds
    largest = int(max(np.diff(bounds))) * blocks.shape[1] * blocks.dtype.itemsize + blocks.read_nbytes
    if not blocks.in_process and largest > READING_ONE * share_of(budget):
        needed = format_nbytes(largest * SHARES // READING_ONE + 1, up=True)
        raise MemoryBudgetExceeded(
            f"a row block of {blocks.describe()} takes {format_nbytes(largest)}, but the budget is "
            f"{format_nbytes(budget)}. Nothing was read. Give a budget of at least {needed}, or smaller blocks."
        )
    return (_dense(blocks, i) for i in range(len(bounds) - 1))


def _dense(blocks: RowBlocks, i: int) -> npt.NDArray[Any]:
    block = blocks.read(i)
    if sp.issparse(block):
        raise InvalidInput(
            f"{blocks.describe()} has sparse blocks, but its meta is dense. Give the dask array a sparse "
            "meta: x.map_blocks(scipy.sparse.csr_array, meta=scipy.sparse.csr_array((0, 0)))."
        )
    return np.asarray(block)


def regroup(bands: Iterator[npt.NDArray[Any]], rows: int) -> Iterator[npt.NDArray[Any]]:
    """The same rows in groups of exactly ``rows``, the last of which may be shorter.

    Nothing of a band is held while the next one is read, save a copy of the rows left over.
    """
    held: list[npt.NDArray[Any]] = []
    n_held = 0
    while (band := next(bands, None)) is not None:
        start = 0
        while len(band) - start >= rows - n_held:
            end = start + rows - n_held
            held.append(band[start:end])
            yield _joined(held)
            start, n_held = end, 0
        if start < len(band):
            held.append(band[start:].copy())
            n_held += len(held[-1])
        del band
    if held:
        yield _joined(held)


def _joined(pieces: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """One array of all pieces; the list is left empty."""
    joined = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    pieces.clear()
    return joined
