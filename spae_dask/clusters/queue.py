"""Workers that are jobs of Slurm, PBS, LSF or SGE. The only file that knows dask-jobqueue."""

import logging
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import dask
from distributed import Client
from distributed.security import Security

from spae_dask.clusters.certificates import ROLES, make_certificates
from spae_dask.clusters.job_options import certificates_folder, job_options, log_folder, make_writable
from spae_dask.clusters.queue_commands import HOLDINGS, check_taken, held_numbers, reason, remove_all
from spae_dask.clusters.specs import QueueSpec
from spae_dask.clusters.supervisor import jobs_replaced
from spae_dask.errors import ClusterUnavailable, SpaeWarning, warn
from spae_dask.leftovers import scratch_folder
from spae_dask.quantities import format_seconds
from spae_dask.workers import wait_for_worker

log = logging.getLogger(__name__)

LAST_WORDS = 300
"""Characters of a log that an error shows."""


def no_worker(spec: QueueSpec, name: str, cluster: Any, *, all_failed: bool) -> ClusterUnavailable:
    """The error for it.

    Parameters
    ----------
    spec : QueueSpec
        The queue.
    name : str
        Name of the jobs.
    cluster : JobQueueCluster
        That submitted them.
    all_failed : bool
        True if all of the jobs have ended.
    """
    ids = [job.job_id for job in cluster.workers.values() if job.job_id]
    said = reason(spec.kind, name, ids).rstrip(".")
    logs = log_folder(spec)
    words = last_words(logs, name)
    if all_failed:
        no_word = f"They left no output in {logs}. Perhaps not every node sees that folder or can write to it."
        why = f"One of them reported: {words}" if words else no_word
        return ClusterUnavailable(f"all {spec.jobs} {spec.kind} jobs ended before a worker started: {said}. {why}")
    says = f", and one of them reported: {words}" if words else "."
    return ClusterUnavailable(
        f"no worker of {spec.jobs} {spec.kind} jobs appeared within {format_seconds(spec.timeout)}: {said}. Give "
        "a longer 'timeout' in the cluster file, ask for fewer resources, or check 'interface'. The logs "
        f"of the jobs are in {logs}{says}"
    )


def last_words(logs: Path, name: str) -> str:
    """The end of the youngest log of these jobs that holds anything, on one line; else empty."""
    found: list[tuple[float, str]] = []
    with suppress(OSError):
        for path in logs.glob(f"{name}*"):
            with suppress(OSError):
                found.append((path.stat().st_mtime, path.read_bytes()[-LAST_WORDS:].decode(errors="replace")))
    texts = [" ".join(text.split()) for _, text in sorted(found) if text.strip()]
    return texts[-1] if texts else ""


SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Put back, after a ``with`` block in the main thread, the handlers there were before it."""
    before = {each: signal.getsignal(each) for each in SIGNALS}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for each, handler in before.items():
                signal.signal(each, handler)


with handlers_kept():  # it replaces the handler of SIGINT
    from dask_jobqueue import LSFCluster, PBSCluster, SGECluster, SLURMCluster

CLUSTERS = {"slurm": SLURMCluster, "pbs": PBSCluster, "lsf": LSFCluster, "sge": SGECluster}

LOST_WORKER_TIMEOUT = "365d"
"""Time after which dask itself replaces the job of a lost worker. `replacing` does it sooner, for all jobs."""

CLOSE_SECONDS = 30
"""Longest time, in seconds, for removing the jobs one by one."""

LEAST_PATIENCE = 300
"""Seconds that a run waits for other workers, when all are gone, at least."""

NO_WORKERS = "distributed.scheduler.no-workers-timeout"

PLAIN = (
    "the cluster file has tls = false: scheduler and workers use plain TCP. Anyone who reaches their "
    "ports can run code as you. Leave 'tls' out, unless you are alone on that network."
)


@contextmanager
def queue_cluster(spec: QueueSpec) -> Iterator[Client]:
    """Submit worker jobs, replace those that die, and take all of them out of the queue at the end.

    The scheduler lives in this process. If this process is killed, workers that run lose it and end within seconds, and
    those that start later end after ``DEATH_TIMEOUT`` seconds.

    Raises
    ------
    ClusterUnavailable
        If the queue refuses the jobs, none has started within the spec's ``timeout`` or all have ended before they had
        a worker; with the queue's reason.
    InvalidInput, StorageError
        If their logs, or their certificates, cannot be written.
    """
    name = f"spae-{secrets.token_hex(4)}"
    settings = {"distributed.deploy.lost-worker-timeout": LOST_WORKER_TIMEOUT}
    with (
        dask.config.set(settings),
        scratch_folder("spae-queue-") as folder,
        run_security(spec) as security,
    ):
        cluster = make_cluster(spec, name, security)
        try:
            check_taken(spec.kind, cluster.job_script(), folder)
            cluster.scale(jobs=spec.jobs)
            held = partial(held_numbers, spec.kind, name) if spec.kind in HOLDINGS else None
            with Client(cluster) as client, jobs_replaced(cluster, held) as jobs:

                def explained() -> ClusterUnavailable:
                    return no_worker(spec, name, cluster, all_failed=jobs.all_failed)

                wait_for_worker(client, spec.timeout, explained, lambda: jobs.all_failed)
                with dask.config.set(_patience(spec)):
                    yield client
        finally:
            close(cluster, spec.kind, name)


def close(cluster: Any, kind: str, name: str) -> None:
    """Take all jobs out of the queue; a fault of it is logged, and never hides the error or interrupt that led here.

    Parameters
    ----------
    cluster : JobQueueCluster
        That submitted them.
    kind : str
        Kind of the queue.
    name : str
        Name of all the jobs.
    """
    try:
        cluster.close(timeout=CLOSE_SECONDS)
    except Exception:
        log.warning("the jobs %s could not be removed one by one", name, exc_info=True)
    finally:
        remove_all(kind, name)


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
        If that folder cannot be named in a job script, or nothing can be written to it.
    """
    logs = certificates_folder(spec) if spec.tls else log_folder(spec)
    make_writable(logs)
    if not spec.tls:
        warn(PLAIN, SpaeWarning)
        yield None
        return
    with scratch_folder(".spae-tls-", logs) as name:
        folder = Path(name)
        make_certificates(folder)
        (folder / "ca-key.pem").unlink()  # no more certificates are made
        files = {f"tls_{role}_cert": str(folder / f"{role}.pem") for role in ROLES}
        files |= {f"tls_{role}_key": str(folder / f"{role}-key.pem") for role in ROLES}
        yield Security(require_encryption=True, tls_ca_file=str(folder / "ca.pem"), **files)


def job_script(spec: QueueSpec, scheduler: str, name: str) -> str:
    """The script of a worker's job, without starting anything."""
    job = CLUSTERS[spec.kind].job_cls(scheduler, name="worker", **job_options(spec, name))
    return str(job.job_script())


def _patience(spec: QueueSpec) -> dict[str, str]:
    """Return the wait of a pass for which all jobs have ended at once: as long as for the first, unless the user says.

    It is set when the scheduler has started, which reads it for something else.
    """
    if dask.config.get(NO_WORKERS, None) is not None:
        return {}
    return {NO_WORKERS: f"{max(spec.timeout, LEAST_PATIENCE)}s"}
