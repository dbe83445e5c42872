"""Row blocks of a two-dimensional Zarr array, format 2 or 3, chunked in any way, and of some of its columns."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks, uniform_bounds
from spae_dask.errors import StorageError, TransientStorageError
from spae_dask.storage.checks import refuse_odd_chunks
from spae_dask.storage.remote.faults import read_failed
from spae_dask.storage.sources.checked_store import (
    ArrayChange,
    ZarrArray,
    base_of,
    grid_of,
    is_in_process,
    place_of,
    refuse_invisible,
)
from spae_dask.storage.sources.declared import declared_range
from spae_dask.storage.sources.dosages import Dosages
from spae_dask.storage.sources.runs import (
    chunk_nbytes,
    in_flight_nbytes,
    n_at_once,
    pieces_of,
    read_into,
    takes_pieces,
)

TARGET_BLOCK_NBYTES = 16 << 20
"""Decoded bytes of a row block: large beside the price of a read, small beside a worker's memory."""

FEWEST_ROWS = 64
"""Rows that a block of wide ones should have, within `MAX_BLOCK_NBYTES`: a product of fewer waits for the memory of its
result, which is as wide as they are and higher."""

MAX_BLOCK_NBYTES = 256 << 20
"""A row of chunks larger than this is read in parts, its chunks decoded once for each part."""

GROUP_NBYTES = 64 << 20
"""Bytes of a group of columns, in one row of chunks: where chunks are too tall for rows, groups are read in turn."""

MOST_GROUPS = 1000
"""Groups of columns, at most."""

Coordinates = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ZarrBlocks:
    """A Zarr array read in row blocks aligned with its chunks.

    Parameters
    ----------
    array : zarr.Array or Dosages
        Two-dimensional, real.
    target_nbytes : int, optional
        Decoded bytes of a block, where the chunks leave the choice: `TARGET_BLOCK_NBYTES` if not given, or as many as
        `FEWEST_ROWS` take.
    names : tuple of str, optional
        Names of the columns, where they are stored apart from the array.
    entry_nbytes : int, optional
        Bytes of an entry of the data that blocks are converted to after they are read, if they are.
    passed_over : tuple of str
        Attributes that declare the coding of the numbers, if the stored numbers are read.
    """

    array: "ZarrArray | Dosages"
    target_nbytes: int | None = None
    names: tuple[str, ...] | None = None
    entry_nbytes: int | None = None
    passed_over: tuple[str, ...] = ()

    @property
    def in_store(self) -> ZarrArray:
        """The array as the store has it."""
        return self.array.calls if isinstance(self.array, Dosages) else self.array

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        n, d = self.array.shape
        return int(n), int(d)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries."""
        return np.dtype(self.array.dtype)

    @cached_property
    def rows_per_block(self) -> int:
        """Whole rows of chunks up to the target; a part of one where a single row of chunks is too large."""
        n = self.shape[0]
        row_nbytes = self._row_nbytes
        chunk_rows = min(self.array.chunks[0], n)
        band = chunk_rows * row_nbytes
        if band <= MAX_BLOCK_NBYTES or self.n_chunk_columns == 1:
            # a full-width chunk is decoded whole however few of its rows are wanted
            wide = min(FEWEST_ROWS * row_nbytes, MAX_BLOCK_NBYTES)
            target = self.target_nbytes or max(TARGET_BLOCK_NBYTES, wide)
            return int(min(n, chunk_rows * max(1, target // band)))
        return max(1, chunk_rows // -(-band // MAX_BLOCK_NBYTES))

    @property
    def _row_nbytes(self) -> int:
        return self.shape[1] * max(self.dtype.itemsize, self.entry_nbytes or 0)

    @property
    def bounds(self) -> range | tuple[int, ...]:
        """Row bounds of the blocks."""
        return uniform_bounds(self.shape[0], self.rows_per_block)

    def in_smaller_blocks(self, most_chunks: int) -> "ZarrBlocks":
        """The same rows in blocks of at most so many chunks, or of one row of chunks; itself if it has such blocks."""
        rows = self.array.chunks[0] * max(1, most_chunks // self.n_chunk_columns)
        if self.rows_per_block <= rows:
            return self
        return replace(self, target_nbytes=rows * self._row_nbytes)

    @property
    def n_chunk_columns(self) -> int:
        """Chunks across the columns."""
        return int(-(-self.shape[1] // self.array.chunks[1]))

    @property
    def decodes_per_chunk(self) -> int:
        """Largest number of times that a pass decodes each chunk: 1 unless a row of chunks is read in parts."""
        return _most_touched(self.array.chunks[0], self.rows_per_block, self.shape[0])

    @cached_property
    def column_groups(self) -> tuple[npt.NDArray[np.intp], ...] | None:
        """Whole columns of chunks, of about ``GROUP_NBYTES`` a row of chunks; None if whole rows are decoded once."""
        if self.decodes_per_chunk == 1:
            return None
        (n, d), (rows, columns) = self.shape, self.array.chunks
        piece = min(rows, n) * columns * max(self.dtype.itemsize, self.entry_nbytes or 0)
        width = columns * max(1, GROUP_NBYTES // piece, -(-self.n_chunk_columns // MOST_GROUPS))
        return None if width >= d else tuple(np.arange(at, min(at + width, d)) for at in range(0, d, width))

    @property
    def read_nbytes(self) -> int:
        """Bytes of the chunks of a block that are in flight."""
        rows_of_chunks = _most_touched(self.rows_per_block, self.array.chunks[0], self.shape[0])
        return self.in_flight_nbytes(rows_of_chunks * self.n_chunk_columns)

    def in_flight_nbytes(self, n_chunks: int) -> int:
        """Bytes that a read of so many chunks holds beside the block."""
        return in_flight_nbytes(self.in_store, n_chunks, self.chunk_nbytes)

    @property
    def chunk_nbytes(self) -> int:
        """Bytes that a decoded chunk takes."""
        return self.array.chunk_nbytes if isinstance(self.array, Dosages) else chunk_nbytes(self.array)

    @property
    def in_process(self) -> bool:
        """True for an array kept in a dictionary of this process."""
        return is_in_process(self.in_store)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns: those given, or the array's attribute ``feature_names`` if that is one string each."""
        return self.names or names_of(self.array.attrs.get("feature_names"), self.shape[1])

    @property
    def valid_range(self) -> dict[str, Any] | None:
        """The range of valid numbers that the array declares, which is not applied."""
        return None if isinstance(self.array, Dosages) else declared_range(self.array)

    def describe(self) -> str:
        """Return the place of the array."""
        return place_of(self.in_store)

    def of_columns(self, columns: npt.NDArray[np.intp]) -> RowBlocks | None:
        """Some columns alone, ascending, if there are chunks that hold none of them."""
        chosen = ZarrColumns(self, columns, self.target_nbytes or TARGET_BLOCK_NBYTES)
        return chosen if chosen.n_chunk_columns < self.n_chunk_columns else None

    def read(self, i: int) -> npt.NDArray[np.generic]:
        """Rows of block ``i``.

        Raises
        ------
        StorageError
            If a chunk cannot be read or decoded; it is named. TransientStorageError if another try may succeed.
        """
        start = i * self.rows_per_block
        stop = min(start + self.rows_per_block, self.shape[0])
        try:
            return self.rows(start, stop)
        except (MemoryError, StorageError):  # a StorageError already says what to do
            raise
        except Exception as error:  # codecs and stores raise exceptions of any type
            raise self.explain(start, stop, error) from error

    def rows(self, start: int, stop: int, columns: npt.NDArray[np.intp] | None = None) -> npt.NDArray[np.generic]:
        """Some rows, of all columns or of some, from chunks that were looked at before."""
        array = self.in_store
        refuse_odd_chunks(array, base_of(array), self.keys_of(start, stop, columns))
        wanted = np.arange(self.shape[1]) if columns is None else columns
        height, width = self.array.chunks
        across = np.unique(wanted // width)
        n_chunks = (-(-stop // height) - start // height) * across.size
        if isinstance(self.array, Dosages) or not takes_pieces(array, n_chunks):
            chosen = neighbours(wanted)
            rows = (
                self.array[start:stop, chosen] if isinstance(chosen, slice) else self.array.oindex[start:stop, chosen]
            )
        else:
            rows, n = np.empty((stop - start, wanted.size), self.dtype), n_at_once(array)
            cuts = np.searchsorted(wanted, across[n::n] * width)
            for first, last in pieces_of(start, stop, height * max(1, n // across.size)):
                for left, right in pairwise([0, *cuts.tolist(), wanted.size]):
                    piece = rows[first - start : last - start, left:right]
                    read_into(piece, array, slice(first, last), neighbours(wanted[left:right]))
        refuse_invisible(array)
        return np.asarray(rows)

    def explain(
        self, start: int, stop: int, error: Exception, columns: npt.NDArray[np.intp] | None = None
    ) -> StorageError:
        """Name the chunk to blame, among those that hold some of these rows and columns."""
        for coordinates in self._chunks_of_rows(start, stop):
            if columns is not None and not np.isin(coordinates[1], columns // self.stored_unit[1]):
                continue
            try:
                self.array[self._region(coordinates)]
            except Exception as found:
                key = next(self._keys(coordinates))
                return read_failed(
                    f"chunk {key!r} of {self.describe()} (rows {self._region(coordinates)[0].start} to "
                    f"{self._region(coordinates)[0].stop - 1}) cannot be read: {type(found).__name__}: {found}.",
                    "Restore the chunk from a copy of the data, or write the store again.",
                    found,
                )
        return TransientStorageError(
            f"rows {start} to {stop - 1} of {self.describe()} could not be read ({type(error).__name__}: "
            f"{error}), although each of their chunks can be read now. Run again."
        )

    @property
    def stored_unit(self) -> tuple[int, int]:
        """Rows and columns of one stored object: a shard if there are shards, else a chunk."""
        rows, columns = self.array.shards or self.array.chunks
        return int(rows), int(columns)

    @property
    def n_objects(self) -> int:
        """Objects the array has if all are stored."""
        return math.prod(grid_of(self.in_store))

    def with_arrays(self, change: ArrayChange) -> "ZarrBlocks":
        """The same with another array."""
        array = self.array.with_array(change) if isinstance(self.array, Dosages) else change(self.array)
        return replace(self, array=array)

    def keys_of(self, start: int, stop: int, columns: npt.NDArray[np.intp] | None = None) -> Iterator[str]:
        """Store keys, below the array, of the objects that hold some of these rows, and of these columns."""
        units = None if columns is None else set(np.unique(columns // self.stored_unit[1]).tolist())
        for coordinates in self._chunks_of_rows(start, stop):
            if units is None or coordinates[1] in units:
                yield from self._keys(coordinates)

    def _keys(self, coordinates: Coordinates) -> Iterator[str]:
        if isinstance(self.array, Dosages):
            yield from self.array.keys(coordinates)
        else:
            yield self.array.metadata.encode_chunk_key(coordinates)

    def _chunks_of_rows(self, start: int, stop: int) -> Iterator[Coordinates]:
        rows = self.stored_unit[0]
        yield from product(range(start // rows, -(-stop // rows)), range(-(-self.shape[1] // self.stored_unit[1])))

    def _region(self, coordinates: Coordinates) -> tuple[slice, slice]:
        (n, d), (rows, columns) = self.shape, self.stored_unit
        i, j = coordinates
        return (
            slice(i * rows, min((i + 1) * rows, n)),
            slice(j * columns, min((j + 1) * columns, d)),
        )


def neighbours(columns: npt.NDArray[np.intp]) -> slice | npt.NDArray[np.intp]:
    """Ascending columns as a slice, if no other is between them: Zarr reads that faster."""
    first, last = int(columns[0]), int(columns[-1]) + 1
    return slice(first, last) if last - first == columns.size else columns


def names_of(listed: object, n_features: int) -> tuple[str, ...] | None:
    """Names of columns from an attribute of a store, if it holds a string for each."""
    if not isinstance(listed, list) or len(listed) != n_features or not all(isinstance(n, str) for n in listed):
        return None
    return tuple(listed)


def _most_touched(length: int, step: int, total: int) -> int:
    """Intervals of ``step`` that one of ``length`` touches at most, both kinds laid end to end from 0 to ``total``."""
    length, step = min(length, total), min(step, total)
    if total in (length, step) or length % step == 0 or step % length == 0:
        return -(-length // step)
    return -(-(length - 1) // step) + 1  # chunks may cross the ends of blocks


@dataclass(frozen=True, eq=False)
class ZarrColumns:
    """Row blocks of some columns.

    Parameters
    ----------
    blocks : ZarrBlocks
        The whole array.
    columns : ndarray (r,) of int
        Columns wanted, ascending.
    target_nbytes : int
        Decoded bytes of a block, where the chunks leave the choice.
    """

    blocks: "ZarrBlocks"
    columns: npt.NDArray[np.intp]
    target_nbytes: int

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, r)``."""
        return self.blocks.shape[0], int(self.columns.size)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries."""
        return self.blocks.dtype

    @cached_property
    def n_chunk_columns(self) -> int:
        """Columns of chunks that hold any of the columns."""
        return int(np.unique(self.columns // self.blocks.array.chunks[1]).size)

    @cached_property
    def rows_per_block(self) -> int:
        """Whole chunks; as many as decode to the usual size of a block."""
        n = self.shape[0]
        rows, columns = self.blocks.array.chunks
        decoded = min(rows, n) * columns * self.n_chunk_columns * self.dtype.itemsize
        return int(min(n, rows * max(1, self.target_nbytes // decoded)))

    @property
    def bounds(self) -> range | tuple[int, ...]:
        """Row bounds of the blocks."""
        return uniform_bounds(self.shape[0], self.rows_per_block)

    @property
    def read_nbytes(self) -> int:
        """Bytes of the chunks of a block that are in flight."""
        rows_of_chunks = -(-self.rows_per_block // self.blocks.array.chunks[0])
        return self.blocks.in_flight_nbytes(rows_of_chunks * self.n_chunk_columns)

    @property
    def in_process(self) -> bool:
        """That of the array."""
        return self.blocks.in_process

    def describe(self) -> str:
        """Return the place of the array."""
        return self.blocks.describe()

    def read(self, i: int) -> npt.NDArray[Any]:
        """The columns of block ``i``.

        Raises
        ------
        StorageError
            If a chunk cannot be read or decoded; it is named.
        """
        start = i * self.rows_per_block
        stop = min(start + self.rows_per_block, self.shape[0])
        try:
            return self.blocks.rows(start, stop, self.columns)
        except (MemoryError, StorageError):  # a StorageError already says what to do
            raise
        except Exception as error:  # codecs and stores raise exceptions of any type
            raise self.blocks.explain(start, stop, error, self.columns) from error
