"""Explanation of a queue without workers, from the queue's state and the logs of its jobs."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from spae_dask.clusters.log_folder import log_folder
from spae_dask.clusters.questions import reason
from spae_dask.clusters.specs import QueueSpec
from spae_dask.errors import ClusterUnavailable

LAST_WORDS = 300
"""Characters of a log that an error shows."""


def no_worker(spec: QueueSpec, name: str, cluster: Any, *, hopeless: bool) -> ClusterUnavailable:
    """The error for it.

    Parameters
    ----------
    spec : QueueSpec
        The queue.
    name : str
        Name of the jobs.
    cluster : JobQueueCluster
        That submitted them.
    hopeless : bool
        True if all of the jobs have ended.
    """
    ids = [job.job_id for job in cluster.workers.values() if job.job_id]
    said = reason(spec.kind, name, ids).rstrip(".")
    logs = log_folder(spec)
    words = last_words(logs, name)
    if hopeless:
        no_word = f"They left no word in {logs}: perhaps not every node sees that folder, or can write to it."
        why = f"One of them says: {words}" if words else no_word
        return ClusterUnavailable(f"all {spec.jobs} {spec.kind} jobs ended before they had a worker: {said}. {why}")
    says = f", and one of them says: {words}" if words else "."
    return ClusterUnavailable(
        f"no worker of {spec.jobs} {spec.kind} jobs appeared within {spec.timeout} seconds: {said}. Give a longer "
        f"'timeout' in the cluster file, ask for less, or look at 'interface'. Their logs are in {logs}{says}"
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
