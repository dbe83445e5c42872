"""From what a user writes after ``--cluster`` to a client."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from dask.system import CPU_COUNT
from distributed import Client
from distributed.system import MEMORY_LIMIT

from spae_dask.clusters.local import local_cluster
from spae_dask.clusters.running import running_scheduler
from spae_dask.errors import InvalidInput

ALLOWED = "none, local, local:N, tcp://HOST:PORT or tls://HOST:PORT"


@contextmanager
def connect(where: str, memory_limit: int | None = None, tls_folder: str | None = None) -> Iterator[Client | None]:
    """Yield a client for ``where``; ``None`` for work in this process.

    Parameters
    ----------
    where : str
        ``"none"``, ``"local"`` (a worker process a core), ``"local:N"``, or the address of a running scheduler.
    memory_limit : int, optional
        Bytes of each worker process that is started here; the machine's memory shared out evenly if not given.
    tls_folder : str, optional
        Holds the certificates for a scheduler at ``tls://...``, see ``tls.client_security``.

    Raises
    ------
    InvalidInput
        If ``where`` is none of these, or certificates are missing, not usable or for nothing.
    ClusterUnavailable
        If a scheduler does not answer.
    """
    opened: AbstractContextManager[Client | None]
    if tls_folder is not None and not where.startswith(("tcp://", "tls://")):
        raise InvalidInput(
            f"--tls-dir {tls_folder} is for a scheduler at tls://HOST:PORT; --cluster {where} works without "
            "certificates, on this machine. Leave it out."
        )
    if where == "none":
        opened = nullcontext(None)
    elif where.startswith(("tcp://", "tls://")):
        opened = running_scheduler(where, tls_folder)
    else:
        n_workers = _local_workers(where)
        opened = local_cluster(n_workers, memory_limit or MEMORY_LIMIT // n_workers)
    with opened as client:
        yield client


def _local_workers(where: str) -> int:
    kind, _, number = where.partition(":")
    if kind == "local" and not number and ":" not in where:
        return int(CPU_COUNT)
    if kind == "local" and number.isdecimal() and int(number) >= 1:
        return int(number)
    raise InvalidInput(f"--cluster {where} is not understood. Allowed: {ALLOWED}; N is at least 1.")
