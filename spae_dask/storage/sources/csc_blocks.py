"""Row blocks of a CSC matrix in a Zarr or HDF5 group: stored by columns, so each block takes a read of all entries."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.blocks import in_canonical_form
from spae_dask.storage.sources.compressed_blocks import CompressedBlocks
from spae_dask.storage.sources.csr_blocks import cut_rows
from spae_dask.storage.sources.runs import in_flight_nbytes, read_run
from spae_dask.storage.sources.zarr_blocks import MAX_BLOCK_NBYTES

BLOCK_NBYTES = MAX_BLOCK_NBYTES // 2
"""Stored bytes of a block: large, because each takes a read of all entries."""

ENTRIES_AT_ONCE = 1 << 22
"""Entries decoded at once, unless a chunk of them is larger."""


@dataclass(frozen=True, eq=False)
class CscBlocks(CompressedBlocks):
    """A CSC matrix on disk, read in blocks of whole rows.

    Choosing the blocks takes one read of the row numbers. Each block then takes a read of all entries, of which it
    keeps those of its rows, so blocks are as large as blocks may be. ``spae ingest`` writes the same matrix by rows.
    """

    encoding: ClassVar[str] = "csc_matrix"
    major: ClassVar[str] = "column"
    minor: ClassVar[str] = "row"

    @property
    def decodes_per_chunk(self) -> int:
        """Decodes of each chunk a pass: one for each block."""
        return len(self.bounds) - 1

    @property
    def read_nbytes(self) -> int:
        """Decoded chunks in flight, the entries looked at, the column pointers, and the block once more."""
        n_chunks = self._entries_at_once // self._chunk_entries + 1
        in_flight = max(in_flight_nbytes(each, n_chunks) for each in (self.data, self.indices))
        n_entries = int(self.data.shape[0])
        entries = min(n_entries, self._entries_at_once) * (self.entry_nbytes + 32)
        return in_flight + entries + 16 * self.indptr.shape[0] + min(n_entries * self.entry_nbytes, BLOCK_NBYTES)

    @property
    def _entries_at_once(self) -> int:
        return max(self._chunk_entries, ENTRIES_AT_ONCE // self._chunk_entries * self._chunk_entries)

    @cached_property
    def _cut(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        n = self.shape[0]
        stored = np.zeros(n + 1, dtype=np.int64)
        for _, rows in self._rows():
            stored += np.bincount(rows + 1, minlength=n + 1)
        return cut_rows([(0, np.cumsum(stored))], max(1, BLOCK_NBYTES // self.entry_nbytes))

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        """Entries before each column, and of all."""
        pieces = [piece if start == 0 else piece[1:] for start, piece in self._pointers()]
        starts = np.concatenate(pieces)
        self._refuse_end(int(starts[-1]))
        return starts

    def _rows(self) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Row numbers of all entries, in pieces, with the number of the first entry of each."""
        total = int(self._starts[-1])
        for first in range(0, total, self._entries_at_once):
            rows = read_run(self.indices, first, min(first + self._entries_at_once, total)).astype(np.int64)
            self._refuse_outside(rows, self._starts, entry=first)
            yield first, rows

    def read(self, i: int) -> sp.csr_array:
        """Rows of block ``i``, columns sorted, entries given twice summed; all entries are looked at.

        Raises
        ------
        StorageError
            If a chunk cannot be read or decoded; it is named.
        InvalidInput
            If column pointers or row numbers make no matrix of this shape.
        """
        (bounds, entries), index = self._cut, self.index_dtype
        start, stop = bounds[i : i + 2]
        kept: list[tuple[Any, Any, Any]] = []
        for first, rows in self._rows():
            at = np.flatnonzero((rows >= start) & (rows < stop))
            if at.size:
                values = read_run(self.data, first, first + rows.size)[at].astype(self.dtype, copy=False)
                columns = np.searchsorted(self._starts, first + at, side="right") - 1
                kept.append((values, (rows[at] - start).astype(index), columns.astype(index)))
        if sum(len(values) for values, *_ in kept) != entries[i + 1] - entries[i]:
            raise self._corrupt(f"the entries of its rows {start} to {stop - 1} changed since it was opened")
        nothing = (np.zeros(0, self.dtype), np.zeros(0, index), np.zeros(0, index))
        values, row, column = (np.concatenate(parts) for parts in zip(nothing, *kept, strict=True))
        order = np.argsort(row, kind="stable")
        pointers = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=stop - start))]).astype(index)
        return in_canonical_form(
            sp.csr_array((values[order], column[order], pointers), shape=(stop - start, self.shape[1]))
        )
