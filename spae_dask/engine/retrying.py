"""Reading again what a store could not give: a few times, with growing waits, within the task that reads.

Only faults of the store that may pass are met so. Errors of the data (NaN, words, damaged chunks) end a run at once,
and tasks of workers that died are run again by dask.
"""

import random
import time

from spae_dask.blocks import Block, RowBlocks
from spae_dask.errors import StorageFaltered

WAITS = (0.5, 2.0, 8.0)
"""Seconds before the second, third and fourth try, at most: each is shortened at random, by up to a half, so that
many tasks that a store has refused do not come back together."""


def read_again(source: RowBlocks, i: int) -> Block:
    """Block ``i`` of ``source``.

    Raises
    ------
    StorageFaltered
        If the store still falters after the last try.
    """
    began = time.monotonic()
    for wait in WAITS:
        try:
            return source.read(i)
        except StorageFaltered:
            time.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
    try:
        return source.read(i)
    except StorageFaltered as error:
        raise StorageFaltered(
            f"{error} It was tried {len(WAITS) + 1} times within {time.monotonic() - began:.0f} seconds."
        ) from error
