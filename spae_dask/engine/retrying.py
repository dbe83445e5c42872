"""Reading again what a store could not give: a few times, with growing waits, within the task that reads.

Only faults of the store that may pass are met so. Errors of the data (NaN, words, damaged chunks) end a run at once,
and so do requests to object stores, which were repeated one by one; tasks of workers that died are run again by dask.
"""

import time

from spae_dask.blocks import Block, RowBlocks
from spae_dask.errors import StorageFaltered
from spae_dask.patience import waits


def read_again(source: RowBlocks, i: int) -> Block:
    """Block ``i`` of ``source``.

    Raises
    ------
    StorageFaltered
        If the store still falters after the last try.
    """
    began, left, number = time.monotonic(), waits(), 1
    while True:
        try:
            return source.read(i)
        except StorageFaltered as error:
            wait = next(left, None)
            if wait is None:
                spent = time.monotonic() - began
                raise StorageFaltered(f"{error} It was tried {number} times within {spent:.0f} seconds.") from error
        time.sleep(wait)
        number += 1
