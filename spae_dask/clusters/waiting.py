"""Waiting for workers, with an end."""

import time
from collections.abc import Callable

from distributed import Client

from spae_dask.errors import ClusterUnavailable

SECONDS = 1.0
"""Between two looks at whether there is any hope."""


def wait_for_worker(
    client: Client,
    seconds: float,
    explain: Callable[[], ClusterUnavailable],
    hopeless: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until a worker is there.

    Parameters
    ----------
    client : Client
        Of the scheduler.
    seconds : float
        How long at most.
    explain : callable
        Gives the error for when none came.
    hopeless : callable, optional
        Whether none will come, so that there is nothing to wait for.

    Raises
    ------
    ClusterUnavailable
        What ``explain`` gives.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            client.wait_for_workers(1, timeout=max(min(SECONDS, end - time.monotonic()), 0.01))
            return
        except TimeoutError as error:
            if time.monotonic() >= end or hopeless():
                raise explain() from error
