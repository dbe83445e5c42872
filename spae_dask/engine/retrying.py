"""Reading again what a store could not give: a few times, with growing waits, within the task that reads.

Only faults of the store that may pass are met so. Errors of the data (NaN, words, damaged chunks) end a run at once,
and so do requests to object stores, which were repeated one by one; tasks of workers that died are run again by dask.
"""

import time

from spae_dask.blocks import Block, RowBlocks
from spae_dask.errors import StorageError, StorageFaltered
from spae_dask.patience import waits


def read_again(source: RowBlocks, i: int) -> Block:
    """Block ``i`` of ``source``.

    Raises
    ------
    StorageFaltered
        If the store still falters after the last try.
    StorageError
        If it has other rows than when it was opened: a copy that is behind, or a file that was written again.
    """
    began, left, number = time.monotonic(), waits(), 1
    while True:
        try:
            block = source.read(i)
            break
        except StorageFaltered as error:
            wait = next(left, None)
            if wait is None:
                spent = time.monotonic() - began
                raise StorageFaltered(f"{error} It was tried {number} times within {spent:.0f} seconds.") from error
        time.sleep(wait)
        number += 1
    start, stop = source.bounds[i], source.bounds[i + 1]
    if block.shape != (stop - start, source.shape[1]):
        n, d = block.shape
        raise StorageError(
            f"rows {start} to {stop - 1} of {source.describe()} are {n} x {d} numbers where {stop - start} x "
            f"{source.shape[1]} were expected: it was written again since it was opened, or this is an older copy. "
            "Give data that stay as they are, at a path where all workers see the same."
        )
    return block
