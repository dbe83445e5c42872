"""Connection to a running scheduler."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import distributed
from distributed import Client, Scheduler
from distributed.core import rpc
from distributed.security import Security
from distributed.utils import LoopRunner, sync

from spae_dask.clusters.tls import client_security
from spae_dask.errors import ClusterUnavailable
from spae_dask.quantities import format_seconds
from spae_dask.workers import no_workers_seconds, wait_for_worker

TIMEOUT_SECONDS = 8
"""Longest time, in seconds, that a scheduler may take to answer, if no other time is given."""


@contextmanager
def running_scheduler(address: str, tls_folder: str | None = None, timeout: int | None = None) -> Iterator[Client]:
    """Connect to the scheduler at ``address`` and leave it running at the end.

    Parameters
    ----------
    address : str
        ``tcp://HOST:PORT`` or ``tls://HOST:PORT``.
    tls_folder : str, optional
        Holds the certificates for the latter, see ``tls.client_security``.
    timeout : int, optional
        Seconds that it may take to answer, and a worker to be there; `TIMEOUT_SECONDS` and `no_workers_seconds` if not
        given.

    Raises
    ------
    InvalidInput
        As ``client_security`` does.
    ClusterUnavailable
        If the scheduler does not answer, or has no worker, in time.
    """
    client = _connect(address, timeout or TIMEOUT_SECONDS, client_security(address, tls_folder))
    seconds = no_workers_seconds() if timeout is None else timeout
    try:
        wait_for_worker(client, seconds, lambda: _no_worker(address, seconds), tell=True)
        yield client
    finally:
        client.close(timeout=2)


def _connect(address: str, timeout: int, security: Security | None) -> Client:
    # the exception reports a refused connection, and the client's own log would repeat it
    log = logging.getLogger("distributed")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        ask(address, timeout, security)
        return Client(address, timeout=timeout, security=security)
    except TypeError as error:  # a scheduler of another release takes other arguments, and its error says so
        raise ClusterUnavailable(
            f"the scheduler at {address} does not understand this client ({error}). It runs another release "
            f"of distributed than {distributed.__version__}. Install the same release on both sides."
        ) from error
    except (OSError, TimeoutError, ValueError, MemoryError) as error:  # MemoryError if foreign bytes are read as sizes
        if security is not None:
            raise ClusterUnavailable(
                f"within {format_seconds(timeout)}, no Dask scheduler at {address} accepted this client's certificate "
                f"and showed one of the same authority ({error}). Check that it uses TLS, its address and its port. "
                "All certificates must come from one `spae certs` and must not have expired."
            ) from error
        raise ClusterUnavailable(
            f"no Dask scheduler answers at {address} within {format_seconds(timeout)} ({error}). Start one with `dask "
            "scheduler`, check address and port, or use --cluster local."
        ) from error
    finally:
        log.setLevel(level)


def ask(address: str, seconds: float, security: Security | None = None) -> None:
    """Have a scheduler say who it is: a client would wait without end for what takes connections and does not answer.

    Raises
    ------
    OSError, TimeoutError
        If it does not answer within ``seconds``.
    """

    async def identity() -> None:
        arguments = {} if security is None else security.get_connection_args("client")
        async with rpc(address, timeout=seconds, connection_args=arguments) as scheduler:
            await scheduler.identity()

    runner = LoopRunner(asynchronous=False)
    runner.start()
    try:
        sync(runner.loop, identity, callback_timeout=seconds)
    finally:
        runner.stop()


def _no_worker(address: str, seconds: float) -> ClusterUnavailable:
    return ClusterUnavailable(
        f"the scheduler at {address} has no workers after {format_seconds(seconds)}. Start some with `dask "
        f"worker {address}`. To wait longer, set distributed.scheduler.no-workers-timeout in dask's "
        "configuration, or 'timeout' in a cluster file."
    )


ANSWER_SECONDS = 10
"""Longest time, in seconds, that a scheduler may take to answer. The link is left out after that."""


def dashboard_link(client: Client) -> str | None:
    """Address of the dashboard of a client's scheduler; None if it has none, or does not say."""
    with suppress(Exception):  # the code that needs the scheduler reports its errors
        if client.sync(client._run_on_scheduler, _has_pages, callback_timeout=ANSWER_SECONDS):
            return str(client.dashboard_link)
    return None


def _has_pages(dask_scheduler: Scheduler) -> bool:
    """Return True if the scheduler serves bokeh's pages. Without bokeh it serves its health and metrics only."""
    applications = dask_scheduler.http_application.applications
    return any(kind.__name__ == "BokehTornado" for each in applications for kind in type(each).__mro__)
