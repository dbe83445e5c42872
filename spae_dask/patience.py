"""Retry policy of the package: the number of retries after a transient error, and the waits between them.

Requests to object stores follow it one by one, blocks of all other sources in the task that reads them; what has been
tried as often as this says is never tried again above it. Pure.
"""

import random
import time
from collections.abc import Iterator

TRIES = 7

FIRST_WAIT = 0.2
"""Seconds before the second try, doubled for each later one."""

PATIENCE = 120.0
"""Seconds after which no further try is begun."""


def waits() -> Iterator[float]:
    """Seconds to wait before the second try, the third and so on; it ends when no other try is to be made.

    Each wait is drawn from the upper half of its range, so that many refused tasks do not retry together.
    """
    began = time.monotonic()
    for number in range(TRIES - 1):
        if time.monotonic() - began > PATIENCE:
            return
        yield FIRST_WAIT * 2**number * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
