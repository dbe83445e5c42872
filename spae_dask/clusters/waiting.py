"""Waiting for workers, with an end."""

from collections.abc import Callable

from distributed import Client

from spae_dask.errors import ClusterUnavailable


def wait_for_worker(client: Client, seconds: float, explain: Callable[[], ClusterUnavailable]) -> None:
    """Wait until a worker is there.

    Parameters
    ----------
    client : Client
        Of the scheduler.
    seconds : float
        How long at most.
    explain : callable
        Gives the error for when none came.

    Raises
    ------
    ClusterUnavailable
        What ``explain`` gives.
    """
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError as error:
        raise explain() from error
