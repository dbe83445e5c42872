"""Runs of entries of one-dimensional Zarr arrays, and which chunk is to blame if one cannot be read."""

from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.errors import StorageError, StorageFaltered
from spae_dask.storage.passing import read_failed
from spae_dask.storage.zarr_blocks import ZarrArray, place_of


def read_run(array: ZarrArray, first: int, last: int) -> npt.NDArray[Any]:
    """Entries ``first`` to ``last - 1``.

    Raises
    ------
    StorageError
        If a chunk cannot be read or decoded; it is named. StorageFaltered if another try may succeed.
    """
    try:
        return np.asarray(array[first:last])
    except MemoryError:
        raise
    except Exception as error:  # codecs and stores raise what they please
        raise _explain(array, first, last, error) from error


def _explain(array: ZarrArray, first: int, last: int, error: Exception) -> StorageError:
    length = int((array.shards or array.chunks)[0])
    for number in range(first // length, -(-last // length)):
        start, stop = number * length, min((number + 1) * length, array.shape[0])
        try:
            array[start:stop]
        except Exception as found:
            key = array.metadata.encode_chunk_key((number,))
            return read_failed(
                f"chunk {key!r} of {place_of(array)} (entries {start:,} to {stop - 1:,}) cannot be read: "
                f"{type(found).__name__}: {found}.",
                "Restore the chunk from a copy of the data, or write the store again.",
                found,
            )
    return StorageFaltered(
        f"entries {first:,} to {last - 1:,} of {place_of(array)} could not be read "
        f"({type(error).__name__}: {error}), although each of their chunks now can. Run again."
    )
