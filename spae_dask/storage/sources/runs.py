"""Runs of rows of stored arrays, in Zarr or HDF5, and which chunk is to blame if one cannot be read."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import zarr

from spae_dask.errors import SpaeError, StorageError, TransientStorageError
from spae_dask.storage.checks import refuse_odd_chunks
from spae_dask.storage.remote.faults import read_failed
from spae_dask.storage.sources.checked_store import base_of, place_of, refuse_invisible

if TYPE_CHECKING:
    from spae_dask.storage.sources.h5_arrays import H5Array

StoredArray: TypeAlias = "zarr.Array[Any] | H5Array"


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
        rows = np.asarray(array[first:last])
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
    """Chunks of it that a process decodes at once."""
    return int(zarr.config.get("async.concurrency") or 1) if isinstance(array, zarr.Array) else 1


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
