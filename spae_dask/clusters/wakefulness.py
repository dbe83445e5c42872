"""A scheduler that is not taken for deserted while its client works by itself."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from distributed import Client, Scheduler


@contextmanager
def kept_awake(client: Client, seconds: float) -> Iterator[None]:
    """Send the scheduler a message at intervals, in a ``with`` block, so that it does not count as idle.

    Without a client and without tasks it is idle, for which whoever watches it may take it away.

    Parameters
    ----------
    client : Client
        Client of the scheduler.
    seconds : float
        Seconds between two messages.
    """
    over = threading.Event()

    def tell() -> None:
        while not over.wait(seconds):
            with suppress(Exception):  # a scheduler that does not answer is found out by whoever works on it
                client.run_on_scheduler(_wake)

    thread = threading.Thread(target=tell, name="spae-awake", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _wake(dask_scheduler: Scheduler) -> None:
    dask_scheduler.idle_since = None
