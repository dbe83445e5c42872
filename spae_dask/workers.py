"""Waiting for the first worker of a cluster, with an end."""

import time
from collections.abc import Callable
from uuid import uuid4

import dask
from dask.utils import parse_timedelta
from distributed import Client

from spae_dask.errors import ClusterUnavailable, SlowClusterWarning, warn
from spae_dask.passes.options import current_options
from spae_dask.quantities import format_seconds

SECONDS = 1.0
"""Seconds between two looks at the workers."""


def no_workers_seconds() -> float:
    """Return the number of seconds that a run waits for workers."""
    timeout = dask.config.get("distributed.scheduler.no-workers-timeout", None)
    return current_options().no_workers_seconds if timeout is None else float(parse_timedelta(timeout))


def warn_waiting(what: str, empty: float, limit: float) -> None:
    """Warn that a cluster has had no workers for ``empty`` seconds."""
    warn(
        f"{what} has been without workers for {format_seconds(empty)}. Waiting up to {format_seconds(limit)} for one.",
        SlowClusterWarning,
    )


def wait_for_worker(
    client: Client,
    seconds: float,
    explain: Callable[[], ClusterUnavailable],
    all_failed: Callable[[], bool] = lambda: False,
    *,
    tell: bool = False,
) -> None:
    """Wait until a worker is there.

    A task is submitted meanwhile: a cluster that adapts itself to its work starts no worker without any.

    Parameters
    ----------
    client : Client
        Client of the scheduler.
    seconds : float
        Longest wait, in seconds.
    explain : callable
        Gives the error for when none came.
    all_failed : callable, optional
        Function that returns True if no worker will come. The wait then ends at once.
    tell : bool
        Warn after ``restart_seconds`` of the options of passes that a worker is waited for.

    Raises
    ------
    ClusterUnavailable
        If no worker appears in time. ``explain`` returns the error.
    """
    began = time.monotonic()
    task = client.submit(int, key=f"spae-first-worker-{uuid4().hex}", pure=False)
    try:
        while True:
            try:
                client.wait_for_workers(1, timeout=max(min(SECONDS, began + seconds - time.monotonic()), 0.01))
                return
            except TimeoutError as error:
                empty = time.monotonic() - began
                if empty >= seconds or all_failed():
                    raise explain() from error
            if tell and empty > current_options().restart_seconds:
                tell = False
                warn_waiting(f"the cluster at {client.scheduler.address}", empty, seconds)
    finally:
        task.release()
