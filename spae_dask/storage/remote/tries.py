"""Requests that failed for a passing reason, made again: a bounded number of times, after growing, random waits."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from spae_dask import patience
from spae_dask.errors import SpaeError
from spae_dask.storage.remote.address import Address
from spae_dask.storage.remote.faults import Kind, fault_of

LOUD = 3
"""Number of failures of one request from which on each is a warning. Earlier ones are logged at a lower level."""

LOG = logging.getLogger("spae_dask.storage")

T = TypeVar("T")


async def tried(
    address: Address,
    key: str,
    request: Callable[[], Awaitable[T]],
    done: str = "read",
    *,
    repeats_itself: bool = False,
) -> T:
    """Return the result of a request, which is retried by the policy of `patience`.

    Parameters
    ----------
    address, key
        Address and key of the request, for messages.
    request : callable
        Makes the request.
    done : str
        Participle for messages, such as "read", that names the action on the key.
    repeats_itself : bool
        True if many such requests are made, and each of them is retried already. The request is then made only once
        here.

    Raises
    ------
    FileNotFoundError
        If the server says that there is no object. The error is raised unchanged.
    NotFound
        If there is not even the bucket.
    StorageError
        If it failed for good.
    """
    began, waits, number = time.monotonic(), patience.waits(), 1
    while True:
        try:
            return await request()
        except (SpaeError, MemoryError):
            raise
        except Exception as error:  # clients raise what they please
            fault = fault_of(error)
            if isinstance(error, FileNotFoundError) and fault.kind is not Kind.BUCKET:
                raise
            wait = next(waits, None) if fault.passing and not repeats_itself else None
            if wait is None:
                made = patience.TRIES if repeats_itself else number
                spent = f"; {made} tries in {time.monotonic() - began:.1f} s" if fault.passing else ""
                raise fault.error(address, key, done, spent) from error
            LOG.log(
                logging.WARNING if number >= LOUD else logging.INFO,
                "%s/%s: %s (%s); try %d of %d in %.1f s",
                address,
                key,
                fault.kind.value,
                fault.detail,
                number + 1,
                patience.TRIES,
                wait,
            )
        await asyncio.sleep(wait)
        number += 1
