"""Requests that failed for a passing reason, made again: a bounded number of times, after growing, random waits."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from spae_dask.errors import SpaeError
from spae_dask.storage.address import Address
from spae_dask.storage.faults import Kind, fault_of

TRIES = 7

FIRST_WAIT = 0.2
"""Seconds before the second try, doubled for each later one; the wait is drawn from the upper half of that."""

LOUD = 3
"""Failures of one request from which on each is a warning; before, it is told to those who ask for more."""

PATIENCE = 120.0
"""Seconds after which no further try is begun."""

LOG = logging.getLogger("spae_dask.storage")

T = TypeVar("T")


async def tried(address: Address, key: str, request: Callable[[], Awaitable[T]], done: str = "read") -> T:
    """What the request gives, tried up to `TRIES` times.

    Parameters
    ----------
    address, key
        For messages: where it goes.
    request : callable
        Makes the request.
    done : str
        For messages: what was to be done to the key.

    Raises
    ------
    FileNotFoundError
        As it came, if the server says that there is nothing.
    NotFound
        If there is not even the bucket.
    StorageError
        If it failed for good.
    """
    began = time.monotonic()
    for number in range(1, TRIES + 1):
        try:
            return await request()
        except (SpaeError, MemoryError):
            raise
        except Exception as error:  # clients raise what they please
            fault = fault_of(error)
            if isinstance(error, FileNotFoundError) and fault.kind is not Kind.BUCKET:
                raise
            spent = time.monotonic() - began
            if not fault.passing or number == TRIES or spent > PATIENCE:
                made = f"; {number} tries in {spent:.1f} s" if fault.passing else ""
                raise fault.error(address, key, done, made) from error
            wait = FIRST_WAIT * 2 ** (number - 1) * random.uniform(0.5, 1.0)  # noqa: S311 - not for secrecy
            LOG.log(
                logging.WARNING if number >= LOUD else logging.INFO,
                "%s/%s: %s (%s); try %d of %d in %.1f s",
                address,
                key,
                fault.kind.value,
                fault.detail,
                number + 1,
                TRIES,
                wait,
            )
            await asyncio.sleep(wait)
    raise AssertionError("the last try returns or raises; please report this")
