"""Retry policy of the package: the number of tries of what fails for a moment, and the waits between them.

Requests to object stores follow the policy one by one. The task that reads a block follows it for all other sources.
Nothing above them retries again. Pure.
"""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class RetryPolicy:
    """Number of tries, and exponential backoff between them.

    Attributes
    ----------
    tries : int
        Largest number of tries, the first included.
    first_wait : float
        Seconds before the second try, doubled for each later one.
    total_seconds : float
        Seconds after which no further try begins.
    """

    tries: int = 7
    first_wait: float = 0.2
    total_seconds: float = 120.0

    @property
    def longest_wait(self) -> float:
        """Seconds before the last try."""
        return float(self.first_wait * 2 ** max(self.tries - 2, 0))

    def waits(self) -> Iterator[float]:
        """Yield the seconds before the second try, the third and so on, until no further try is to be made.

        Each wait is drawn from the upper half of its range, so that many refused tasks do not retry together.
        """
        began = time.monotonic()
        for number in range(self.tries - 1):
            if time.monotonic() - began > self.total_seconds:
                return
            yield self.first_wait * 2**number * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


POLICY = RetryPolicy()
"""Policy of the package."""
