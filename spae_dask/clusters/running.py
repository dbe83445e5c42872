"""A scheduler that somebody else started."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client
from distributed.security import Security

from spae_dask.clusters.tls import client_security
from spae_dask.errors import ClusterUnavailable

TIMEOUT_SECONDS = 8
"""How long a scheduler may take to answer, and a first worker to appear."""


@contextmanager
def running_scheduler(address: str, tls_folder: str | None = None) -> Iterator[Client]:
    """Connect to the scheduler at ``address`` and leave it running at the end.

    Parameters
    ----------
    address : str
        ``tcp://HOST:PORT`` or ``tls://HOST:PORT``.
    tls_folder : str, optional
        Holds the certificates for the latter, see ``tls.client_security``.

    Raises
    ------
    InvalidInput
        As ``client_security`` does.
    ClusterUnavailable
        If nobody answers, or no worker is there, within ``TIMEOUT_SECONDS``.
    """
    client = _connect(address, client_security(address, tls_folder))
    try:
        _wait_for_worker(client, address)
        yield client
    finally:
        client.close(timeout=2)


def _connect(address: str, security: Security | None) -> Client:
    # a refused connection is reported by the exception; the client's own log would say it once more
    log = logging.getLogger("distributed")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=TIMEOUT_SECONDS, security=security)
    except (OSError, TimeoutError, ValueError) as error:
        if security is not None:
            raise ClusterUnavailable(
                f"no Dask scheduler at {address} takes this client's certificate, and shows one of the same authority, "
                f"within {TIMEOUT_SECONDS} seconds ({error}). Check that it runs with TLS, address and port, and that "
                "all certificates are of one `spae certs` and have not expired."
            ) from error
        raise ClusterUnavailable(
            f"no Dask scheduler answers at {address} within {TIMEOUT_SECONDS} seconds ({error}). Start one with "
            "`dask scheduler`, check address and port, or use --cluster local."
        ) from error
    finally:
        log.setLevel(level)


def _wait_for_worker(client: Client, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=TIMEOUT_SECONDS)
    except TimeoutError as error:
        raise ClusterUnavailable(
            f"the scheduler at {address} has no workers after {TIMEOUT_SECONDS} seconds. Start some with "
            f"`dask worker {address}`."
        ) from error
