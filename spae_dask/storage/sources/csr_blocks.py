"""Row blocks of a CSR matrix in a Zarr or HDF5 group, as AnnData writes it: ``data``, ``indices`` and ``indptr``."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from spae_dask.blocks import in_canonical_form
from spae_dask.storage.sources.compressed_blocks import CompressedBlocks, Pointers
from spae_dask.storage.sources.runs import in_flight_nbytes, read_run
from spae_dask.storage.sources.zarr_blocks import MAX_BLOCK_NBYTES


def cut_rows(pieces: Iterable[tuple[int, Pointers]], block_entries: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cut rows into blocks; only a piece of the row pointers is looked at a time.

    Parameters
    ----------
    pieces : iterable of (int, ndarray of int64)
        The row pointers in order: the number of the first one, and some of them. Each piece begins with the pointer the
        one before ended with.
    block_entries : int
        Entries of a block, where a row counts as one more so that empty rows do not pile up without end.

    Returns
    -------
    bounds, entries : tuple of int
        Row bounds of the blocks, and the stored entries before each of them. A block has more than ``block_entries``
        only if it is a single row.
    """
    bounds, entries = [0], [0]
    last, n_before = 0, 0
    for start, pointers in pieces:
        load = pointers + np.arange(start, start + len(pointers))
        last, n_before = start + len(pointers) - 1, int(pointers[-1])
        fits = int(np.searchsorted(load, entries[-1] + bounds[-1] + block_entries, side="right")) - 1
        while start + fits < last:
            bounds.append(max(start + fits, bounds[-1] + 1))
            entries.append(int(pointers[bounds[-1] - start]))
            fits = int(np.searchsorted(load, entries[-1] + bounds[-1] + block_entries, side="right")) - 1
    if bounds[-1] < last:
        bounds.append(last)
        entries.append(n_before)
    return tuple(bounds), tuple(entries)


CHUNKS_PER_BLOCK = 8
"""A block ends in the middle of a chunk, which is decoded again for the next one: that is an eighth more."""


@dataclass(frozen=True, eq=False)
class CsrBlocks(CompressedBlocks):
    """A CSR matrix on disk, read in blocks of whole rows of about equal stored bytes.

    Choosing the blocks takes one read of the row pointers, at most 8 bytes a row, of which those at the bounds are
    kept: a few seconds for 10^8 rows. It is done once, and goes along when the source is pickled. Reading a block
    decodes the chunks of row pointers it lies in; if those are large beside a block, it is they that take the time.
    """

    encoding: ClassVar[str] = "csr_matrix"
    major: ClassVar[str] = "row"
    minor: ClassVar[str] = "column"

    @property
    def decodes_per_chunk(self) -> int:
        """Decodes of each chunk a pass: 1 (and 2 of one in `CHUNKS_PER_BLOCK`) unless chunks are huge."""
        return -(-self._chunk_entries // self._block_entries)

    @property
    def read_nbytes(self) -> int:
        """Row pointers, and the larger of what reading and ordering the entries takes beside the block.

        Chunks of values or of columns are in flight, and columns of another type than those of a block are converted.
        Entries that are out of order are copied.
        """
        converted = 0 if self.indices.dtype == self.index_dtype else self.indices.dtype.itemsize
        of_read = max(in_flight_nbytes(each, CHUNKS_PER_BLOCK + 2) for each in (self.data, self.indices))
        of_read += self._block_entries * int(converted)
        return 2 * self.pointer_nbytes + max(of_read, self._block_entries * self.entry_nbytes)

    @property
    def _block_entries(self) -> int:
        """Entries of a block: the target, or several chunks, but never more than may be held."""
        wanted = max(self.target_nbytes // self.entry_nbytes, CHUNKS_PER_BLOCK * self._chunk_entries)
        return max(1, min(wanted, MAX_BLOCK_NBYTES // self.entry_nbytes))

    @cached_property
    def _cut(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Row bounds of the blocks, and the entries before each of them."""
        bounds, entries = cut_rows(self._pointers(), self._block_entries)
        self._refuse_end(entries[-1])
        return bounds, entries

    def read(self, i: int) -> sp.csr_array:
        """Rows of block ``i``, columns sorted, entries given twice summed.

        Raises
        ------
        StorageError
            If a chunk cannot be read or decoded; it is named.
        InvalidInput
            If row pointers or column numbers make no matrix of this shape.
        """
        bounds, entries = self._cut
        (start, stop), (first, last) = bounds[i : i + 2], entries[i : i + 2]
        pointers = read_run(self.indptr, start, stop + 1).astype(np.int64) - first
        if pointers[0] != 0 or pointers[-1] != last - first or np.any(np.diff(pointers) < 0):
            raise self._corrupt(f"its row pointers {start} to {stop} changed since it was opened")
        columns = read_run(self.indices, first, last)
        self._refuse_outside(columns, pointers, major=start)
        values = read_run(self.data, first, last).astype(self.dtype, copy=False)
        index = self.index_dtype
        block = sp.csr_array(
            (values, columns.astype(index, copy=False), pointers.astype(index)), shape=(stop - start, self.shape[1])
        )
        return in_canonical_form(block)
