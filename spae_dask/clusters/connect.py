"""From what a user writes after ``--cluster`` to a client."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from dask.system import CPU_COUNT
from distributed import Client

from spae_dask.clusters.local import local_cluster
from spae_dask.clusters.running import running_scheduler
from spae_dask.clusters.specs import (
    SUFFIX,
    KubernetesSpec,
    LocalSpec,
    QueueSpec,
    SchedulerSpec,
    Spec,
    Started,
    read_cluster,
    required,
)
from spae_dask.errors import InvalidInput
from spae_dask.machine import memory_nbytes

ALLOWED = "none, local, local:N, tcp://HOST:PORT, tls://HOST:PORT, or a cluster file, FILE.toml"


@contextmanager
def connect(
    where: str | Spec, memory_limit: int | None = None, tls_folder: str | None = None
) -> Iterator[Client | None]:
    """Yield a client for ``where``; ``None`` for work in this process.

    Everything that this function starts ends with the ``with`` block, also after an error or an interrupt.

    Parameters
    ----------
    where : str or Spec
        ``"none"``, ``"local"`` (a worker process a core), ``"local:N"``, the address of a running scheduler, or the
        path of a cluster file, which ends in ``.toml``; or what such a file describes.
    memory_limit : int, optional
        Bytes of each worker process that is started on this machine; its memory shared out evenly if not given.
    tls_folder : str, optional
        Holds the certificates for a scheduler at ``tls://...``, see ``client_security``.

    Raises
    ------
    InvalidInput
        If ``where`` is none of these, the file has mistakes, a library is missing, or certificates are missing, not
        usable or for nothing.
    NotFound, StorageError
        If the file cannot be read.
    ClusterUnavailable
        If a scheduler does not answer, jobs are refused or no worker appears in time.
    """
    opened: AbstractContextManager[Client | None]
    spec = described(where)
    file = where if isinstance(where, str) else "FILE.toml"
    named = where if isinstance(where, str) else f"the cluster of kind {where.kind!r}"
    if isinstance(spec, Started) and not spec.n_workers:
        raise InvalidInput(f"{named} has no workers, which only `spae submit` allows. Give at least 1.")
    if isinstance(spec, QueueSpec | KubernetesSpec) and not spec.memory:
        raise InvalidInput(
            f"{named} takes the memory of its workers from a plan, but this call makes none. Give 'memory' in "
            "the cluster file."
        )
    if (
        tls_folder is not None
        and not isinstance(spec, SchedulerSpec)
        and not str(where).startswith(("tcp://", "tls://"))
    ):
        raise InvalidInput(
            f"--tls-dir {tls_folder} is for a scheduler at tls://HOST:PORT, but --cluster {file} needs none "
            "from you. Leave out --tls-dir."
        )
    if where == "none":
        opened = nullcontext(None)
    elif spec is None:
        assert isinstance(where, str)
        opened = running_scheduler(where, tls_folder)
    elif isinstance(spec, LocalSpec):
        opened = local_cluster(spec.workers, memory_limit or spec.memory or memory_nbytes() // spec.workers)
    elif isinstance(spec, SchedulerSpec):
        opened = running_scheduler(spec.address, tls_folder, spec.timeout)
    elif isinstance(spec, QueueSpec):
        opened = required("spae_dask.clusters.queue", "slurm").queue_cluster(spec)
    elif isinstance(spec, KubernetesSpec):
        opened = required("spae_dask.clusters.kubernetes", "kubernetes").kubernetes_cluster(spec)
    else:
        raise InvalidInput(
            f"{named} is for MPI ranks. Start the command with MPI: mpirun -n 4 spae mpi --cluster {file} fit ..."
        )
    with opened as client:
        yield client


def described(where: str | Spec) -> Spec | None:
    """Return the cluster that ``where`` describes; None for work in this process, and for an address.

    Raises
    ------
    InvalidInput, NotFound, StorageError
        As `connect` does.
    """
    if isinstance(where, Spec):
        return where
    if where == "none" or where.startswith(("tcp://", "tls://")):
        return None
    if where.endswith(SUFFIX):
        return read_cluster(where)
    kind, colon, number = where.partition(":")
    if kind == "local" and not colon:
        return LocalSpec(kind="local", workers=int(CPU_COUNT))
    if kind == "local" and number.isdecimal() and int(number) >= 1:
        return LocalSpec(kind="local", workers=int(number))
    raise InvalidInput(f"--cluster {where} is not allowed: give {ALLOWED}, with N at least 1.")
