"""A scheduler that somebody else started."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client

from spae_dask.clusters.waiting import wait_for_worker
from spae_dask.errors import ClusterUnavailable

TIMEOUT_SECONDS = 8
"""How long a scheduler may take to answer, and a first worker to appear, if no other time is given."""


@contextmanager
def running_scheduler(address: str, timeout: int = TIMEOUT_SECONDS) -> Iterator[Client]:
    """Connect to the scheduler at ``address`` and leave it running at the end.

    Raises
    ------
    ClusterUnavailable
        If nobody answers, or no worker is there, within ``timeout`` seconds.
    """
    client = _connect(address, timeout)
    try:
        wait_for_worker(client, timeout, lambda: _no_worker(address, timeout))
        yield client
    finally:
        client.close(timeout=2)


def _connect(address: str, timeout: int) -> Client:
    # a refused connection is reported by the exception; the client's own log would say it once more
    log = logging.getLogger("distributed")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=timeout)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterUnavailable(
            f"no Dask scheduler answers at {address} within {timeout} seconds ({error}). Start one with "
            "`dask scheduler`, check address and port, or use --cluster local."
        ) from error
    finally:
        log.setLevel(level)


def _no_worker(address: str, timeout: int) -> ClusterUnavailable:
    return ClusterUnavailable(
        f"the scheduler at {address} has no workers after {timeout} seconds. Start some with `dask worker {address}`."
    )
