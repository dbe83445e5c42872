"""Workers that are jobs of Slurm, PBS, LSF or SGE. The only file that knows dask-jobqueue."""

import secrets
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dask
from distributed import Client
from distributed.security import Security

from spae_dask.clusters.certificates import ROLES, make_certificates
from spae_dask.clusters.commands import run_program
from spae_dask.clusters.handlers import handlers_kept
from spae_dask.clusters.job_options import certificates_folder, job_options
from spae_dask.clusters.specs import QueueSpec
from spae_dask.clusters.waiting import wait_for_worker
from spae_dask.errors import ClusterUnavailable, SpaeWarning, StorageError

with handlers_kept():  # it takes SIGINT for itself
    from dask_jobqueue import LSFCluster, PBSCluster, SGECluster, SLURMCluster

CLUSTERS = {"slurm": SLURMCluster, "pbs": PBSCluster, "lsf": LSFCluster, "sge": SGECluster}

LOST_WORKER_TIMEOUT = "2s"
"""After which a worker that is gone counts as dead, and its job is replaced."""

PLAIN = (
    "the cluster file has tls = false: scheduler and workers speak plain TCP, and whoever reaches their ports can run "
    "code as you. Leave 'tls' out, unless nobody else is on that network."
)

CHECK_INTERVAL = "1s"
"""Between two looks at whether all jobs are there."""


@contextmanager
def queue_cluster(spec: QueueSpec) -> Iterator[Client]:
    """Submit worker jobs, replace those that die, and take all of them out of the queue at the end.

    The scheduler lives in this process. If this process is killed, workers that run lose it and end within seconds, and
    those that start later end after ``DEATH_TIMEOUT`` seconds.

    Raises
    ------
    ClusterUnavailable
        If the queue refuses the jobs, or none has started within the spec's ``timeout``; with the queue's reason.
    """
    name = f"spae-{secrets.token_hex(4)}"
    settings = {"distributed.deploy.lost-worker-timeout": LOST_WORKER_TIMEOUT}
    with (
        dask.config.set(settings),
        TemporaryDirectory(prefix="spae-queue-") as folder,
        run_security(spec) as security,
    ):
        cluster = make_cluster(spec, name, security)
        try:
            if spec.kind == "slurm":
                _ask_slurm(cluster.job_script(), folder)
            cluster.adapt(minimum_jobs=spec.jobs, maximum_jobs=spec.jobs, interval=CHECK_INTERVAL)
            with Client(cluster) as client:
                wait_for_worker(client, spec.timeout, lambda: _no_worker(spec, name, cluster))
                yield client
        finally:
            cluster.close(timeout=30)
            if spec.kind == "slurm":  # a job that was being submitted when the work was interrupted
                with suppress(ClusterUnavailable):
                    run_program(["scancel", "--name", name])


def make_cluster(spec: QueueSpec, name: str, security: Security | None) -> Any:
    """A cluster without workers, whose scheduler listens."""
    return CLUSTERS[spec.kind](
        **job_options(spec, name),
        scheduler_options={"dashboard_address": "127.0.0.1:0"},
        security=security,
        silence_logs="critical",
    )


@contextmanager
def run_security(spec: QueueSpec) -> Iterator[Security | None]:
    """Certificates for one run, in the folder of the logs while it lasts, for their owner only; None without ``tls``.

    Raises
    ------
    InvalidInput, StorageError
        If that folder cannot be named in a job script, or cannot be made.
    """
    if not spec.tls:
        warnings.warn(PLAIN, SpaeWarning, stacklevel=4)
        yield None
        return
    logs = certificates_folder(spec)
    with ExitStack() as stack:
        try:
            logs.mkdir(parents=True, exist_ok=True)
            folder = Path(stack.enter_context(TemporaryDirectory(prefix=".spae-tls-", dir=logs)))
        except OSError as error:
            raise StorageError(f"nothing can be written to {logs}: {error.strerror}. Give other 'logs'.") from error
        make_certificates(folder)
        (folder / "ca-key.pem").unlink()  # no more are made
        files = {f"tls_{role}_cert": str(folder / f"{role}.pem") for role in ROLES}
        files |= {f"tls_{role}_key": str(folder / f"{role}-key.pem") for role in ROLES}
        yield Security(require_encryption=True, tls_ca_file=str(folder / "ca.pem"), **files)


def job_script(spec: QueueSpec, scheduler: str, name: str) -> str:
    """The script of a worker's job, without starting anything."""
    job = CLUSTERS[spec.kind].job_cls(scheduler, name="worker", **job_options(spec, name))
    return str(job.job_script())


def _ask_slurm(script: str, folder: str) -> None:
    """Have Slurm say whether it would take the job; later on its refusal would only be logged."""
    path = f"{folder}/worker.sh"
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(script)
    run_program(["sbatch", "--test-only", path])


def _no_worker(spec: QueueSpec, name: str, cluster: Any) -> ClusterUnavailable:
    ids = [job.job_id for job in cluster.workers.values() if job.job_id]
    questions = {
        "slurm": ["squeue", "--noheader", "--name", name, "--format", "job %i is %T (%r)"],
        "pbs": ["qstat", *ids],
        "sge": ["qstat", "-j", ",".join(ids)],
        "lsf": ["bjobs", *ids],
    }
    try:
        said = (
            "; ".join(run_program(questions[spec.kind]).split("\n")).strip("; ") or "the queue holds none of its jobs"
        )
    except ClusterUnavailable as error:
        said = str(error)
    return ClusterUnavailable(
        f"no worker of {spec.jobs} {spec.kind} jobs appeared within {spec.timeout} seconds: {said}. Their logs are in "
        f"{spec.logs}. Give a longer 'timeout' in the cluster file, ask for less, or look at 'interface'."
    )
