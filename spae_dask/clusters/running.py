"""Connection to a running scheduler, over plain TCP or with certificates.

The certificates of a client are files of a folder that ``spae certs`` wrote, or those of dask's own configuration.
"""

import logging
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import distributed
from cryptography.x509 import load_pem_x509_certificate
from distributed import Client, Scheduler
from distributed.core import rpc
from distributed.security import Security
from distributed.utils import LoopRunner, sync

from spae_dask.errors import ClusterUnavailable, InvalidInput, NotFound
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
        Holds the certificates for the latter, see ``client_security``.
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


FILES = {"tls_ca_file": "ca.pem", "tls_client_cert": "client.pem", "tls_client_key": "client-key.pem"}
"""Files of the folder that a client needs. Keep the authority's key elsewhere."""


def client_security(address: str, folder: str | None) -> Security | None:
    """Return the certificates and checks for a client of the scheduler at ``address``; None over plain TCP.

    Parameters
    ----------
    address : str
        ``tcp://...`` or ``tls://...``.
    folder : str, optional
        Holds ``ca.pem``, ``client.pem`` and ``client-key.pem``. Dask's configuration ``distributed.comm.tls`` counts
        if it is not given.

    Raises
    ------
    InvalidInput
        If the address is not of TLS and a folder is given, or neither a folder nor dask's configuration names the
        files. If others can read the key, or the files cannot be used: garbled, of other folders, or out of their time.
    NotFound
        If a file is missing.
    """
    if not address.startswith("tls://"):
        if folder is not None:
            raise InvalidInput(
                f"--tls-dir {folder} needs a scheduler at tls://HOST:PORT, but the connection to {address} is not "
                "encrypted. Leave it out, or give the address of a scheduler that was started with --tls-ca-file."
            )
        return None
    return _configured(address) if folder is None else _of_folder(Path(folder))


def _configured(address: str) -> Security:
    security = Security(require_encryption=True)
    if not (security.tls_ca_file and security.tls_client_cert and security.tls_client_key):
        raise InvalidInput(
            f"{address} needs certificates. Give --tls-dir DIR, a folder that `spae certs` wrote. Or name "
            "them in dask's configuration under distributed.comm.tls (ca-file, client.cert, client.key)."
        )
    return security


def _of_folder(folder: Path) -> Security:
    paths = {option: folder / name for option, name in FILES.items()}
    for path in paths.values():
        if not path.is_file():
            raise NotFound(
                f"{path} does not exist. Give a folder that `spae certs` wrote, with {', '.join(FILES.values())}."
            )
    key = paths["tls_client_key"]
    if key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidInput(f"other users can read or change the key {key}. Restrict it to yourself: chmod 600 {key}.")
    for path in (folder, *paths.values()):
        if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not path.stat().st_mode & stat.S_ISVTX:
            raise InvalidInput(
                f"other users can change {path}, and so lead this client to a cluster of theirs. Restrict it to "
                f"yourself: chmod go-w {path}."
            )
    security = Security(require_encryption=True, **{option: str(path) for option, path in paths.items()})
    try:
        security.get_connection_args("client")
        for name in ("tls_ca_file", "tls_client_cert"):
            _refuse_out_of_time(paths[name])
    except (OSError, ValueError) as error:  # SSL's are OSErrors
        raise InvalidInput(
            f"the certificates in {folder} cannot be used: {error}. Give a folder as `spae certs` wrote it; "
            "its files belong together."
        ) from error
    return security


def _refuse_out_of_time(path: Path) -> None:
    """Refuse an own certificate that is not valid now. A scheduler would refuse it without a reason."""
    certificate, now = load_pem_x509_certificate(path.read_bytes()), datetime.now(UTC)
    if now > certificate.not_valid_after_utc:
        raise ValueError(f"{path.name} has expired on {certificate.not_valid_after_utc:%Y-%m-%d}; make new ones")
    if now < certificate.not_valid_before_utc:
        raise ValueError(
            f"{path.name} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC, but the clock "
            f"of this machine shows {now:%Y-%m-%d %H:%M}; set the clock"
        )
