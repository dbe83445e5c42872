"""Runs of rows of stored arrays, in Zarr or HDF5, and which chunk is to blame if one cannot be read."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.buffer import default_buffer_prototype

from spae_dask.errors import SpaeError, StorageError, TransientStorageError
from spae_dask.storage.checks import refuse_odd_chunks
from spae_dask.storage.remote.faults import read_failed
from spae_dask.storage.sources.checked_store import base_of, place_of, refuse_invisible

if TYPE_CHECKING:
    from spae_dask.storage.sources.h5_arrays import H5Array

StoredArray: TypeAlias = "zarr.Array[Any] | H5Array"


IN_FLIGHT_NBYTES = 32 << 20
"""Decoded bytes of the chunks that one read has in flight, unless a single chunk takes more."""


def read_run(array: StoredArray, first: int, last: int) -> npt.NDArray[Any]:
    """Rows ``first`` to ``last - 1``: entries, of one-dimensional arrays.

    Raises
    ------
    StorageError
        If a chunk cannot be read or decoded; it is named. TransientStorageError if another try may succeed.
    """
    try:
        if isinstance(array, zarr.Array):
            length = int((array.shards or array.chunks)[0])
            numbers = range(first // length, -(-last // length))
            refuse_odd_chunks(array, base_of(array), (array.metadata.encode_chunk_key((number,)) for number in numbers))
        rows = _read(array, first, last)
        refuse_invisible(array)
        return rows
    except (MemoryError, SpaeError):  # our errors already say what to do
        raise
    except Exception as error:  # codecs and stores raise exceptions of any type
        raise _explain(array, first, last, error) from error


def place(array: StoredArray) -> str:
    """Path or URL of an array."""
    return place_of(array) if isinstance(array, zarr.Array) else array.place


def n_at_once(array: StoredArray) -> int:
    """Chunks of it that one read decodes at once: as many as Zarr does, or fewer large ones."""
    if not isinstance(array, zarr.Array):
        return 1
    return max(1, min(_zarr_at_once(), IN_FLIGHT_NBYTES // max(1, chunk_nbytes(array))))


def chunk_nbytes(array: StoredArray) -> int:
    """Bytes that a decoded chunk takes."""
    return int(np.prod(array.chunks)) * int(array.dtype.itemsize)


def takes_pieces(array: "zarr.Array[Any]", n_chunks: int) -> bool:
    """Return True if a read of so many chunks must be made in pieces: Zarr would decode more of them at once."""
    return n_at_once(array) < min(n_chunks, _zarr_at_once())


def in_flight_nbytes(array: StoredArray, n_chunks: int, decoded_nbytes: int | None = None) -> int:
    """Bytes of the chunks that a read of so many has in flight: decoded, and encoded, which may be as large.

    Decoded, a chunk takes ``decoded_nbytes``; by default the bytes of its entries.
    """
    copies = 2 if not isinstance(array, zarr.Array) or array.compressors else 1
    return min(n_at_once(array), n_chunks) * (decoded_nbytes or chunk_nbytes(array)) * copies


def read_into(out: npt.NDArray[Any], array: "zarr.Array[Any]", rows: slice, columns: Any = slice(None)) -> None:
    """Read some rows and columns to their places in a larger array; without a copy between."""
    buffer = default_buffer_prototype().nd_buffer.from_numpy_array(out)
    where = (rows, columns)[: array.ndim]
    if isinstance(columns, slice):
        array.get_basic_selection(where, out=buffer)
    else:
        array.get_orthogonal_selection(where, out=buffer)


def pieces_of(start: int, stop: int, step: int) -> list[tuple[int, int]]:
    """Parts of a range, cut at the multiples of a step."""
    cuts = [start, *range((start // step + 1) * step, stop, step), stop]
    return list(pairwise(cuts))


def _zarr_at_once() -> int:
    return int(zarr.config.get("async.concurrency") or 1)


def _read(array: StoredArray, first: int, last: int) -> npt.NDArray[Any]:
    n_chunks = -(-last // array.chunks[0]) - first // array.chunks[0]
    if not isinstance(array, zarr.Array) or not takes_pieces(array, n_chunks):
        return np.asarray(array[first:last])
    rows = np.empty((last - first, *array.shape[1:]), array.dtype)
    for start, stop in pieces_of(first, last, n_at_once(array) * array.chunks[0]):
        read_into(rows[start - first : stop - first], array, slice(start, stop))
    return rows


def _explain(array: StoredArray, first: int, last: int, error: Exception) -> StorageError:
    length = int((array.shards or array.chunks)[0])
    for number in range(first // length, -(-last // length)):
        start, stop = number * length, min((number + 1) * length, array.shape[0])
        try:
            array[start:stop]
        except Exception as found:
            key = array.metadata.encode_chunk_key((number,)) if isinstance(array, zarr.Array) else str(number)
            return read_failed(
                f"chunk {key!r} of {place(array)} ({_what(array)} {start:,} to {stop - 1:,}) cannot be read: "
                f"{type(found).__name__}: {found}.",
                "Restore the chunk from a copy of the data, or write the store again.",
                found,
            )
    return TransientStorageError(
        f"{_what(array)} {first:,} to {last - 1:,} of {place(array)} could not be read "
        f"({type(error).__name__}: {error}), although each of their chunks can be read now. Run again."
    )


def _what(array: StoredArray) -> str:
    return "entries" if array.ndim == 1 else "rows"
