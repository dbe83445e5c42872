"""Worker jobs that are gone are replaced by new ones.

Dask's own adaptivity does not do that for queues. It replaces a job only when a worker of the job's own name leaves the
scheduler. But workers of a job of several processes have names with suffixes, and a job that ends while it is pending,
cannot be launched or was refused never had a worker; all these count as present for ever (dask-jobqueue 0.9,
distributed 2026.8, ``SpecCluster._update_worker_status``).
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from spae_dask.errors import ClusterUnavailable

log = logging.getLogger(__name__)

SECONDS = 1.0
"""Seconds between two looks at the workers."""

LOST_SECONDS = 2.0
"""Seconds after which a job without any workers left is taken out of the queue and replaced."""

ASK_SECONDS = (2.0, 30.0)
"""Seconds between two queries of the queue about jobs without a worker: the first wait is doubled up to the last."""

WAIT_SECONDS = (1.0, 60.0)
"""Seconds between two replacements of jobs that ended without a worker, doubled likewise until one has a worker."""

Waiting = dict[str, Any]
"""Jobs that have no worker now, by name."""


class Replacing:
    """State of the jobs of a cluster.

    Parameters
    ----------
    cluster : SpecCluster
        Cluster whose processes are jobs with a ``job_id``. It replaces a process that is missing.
    in_queue : callable, optional
        Gives the numbers of the jobs that the queue holds; without it, jobs that never had a worker are not missed.
    """

    def __init__(self, cluster: Any, in_queue: Callable[[], set[str]] | None) -> None:
        self.cluster = cluster
        self.in_queue = in_queue
        self.all_failed = False
        """All jobs have ended, and none had a worker."""
        self._had_worker: set[str] = set()
        self._lost_since: dict[str, float] = {}
        self._missed: set[str] = set()
        self._wait = WAIT_SECONDS[0]
        self._not_before = 0.0
        self._ask_again = ASK_SECONDS[0]
        self._ask_at = 0.0

    def look(self) -> None:
        """Replace what is gone; called every so often, by one thread."""
        if self.all_failed:
            return
        waiting: Waiting = self.cluster.sync(self._waiting)
        now = time.monotonic()
        lost = self._lost(waiting, now)
        failed = self._failed_before_start(waiting, now)
        if failed and not self._had_worker and len(failed) == len(self.cluster.worker_spec):
            self.all_failed = True
            return
        if now < self._not_before:
            failed = {}
        elif failed:
            self._not_before = now + self._wait
            self._wait = min(2 * self._wait, WAIT_SECONDS[1])
            log.warning("replacing jobs that ended without a worker: %s", _numbers(failed))
        if lost:
            log.info("replacing jobs whose workers are gone: %s", _numbers(lost))
        if lost or failed:
            self._ask_again, self._ask_at = ASK_SECONDS[0], now + ASK_SECONDS[0]
        self.cluster.sync(self._replace, lost | failed)

    def _lost(self, waiting: Waiting, now: float) -> Waiting:
        """Those that had workers, and have none for a while."""
        lost: Waiting = {}
        for name, job in waiting.items():
            if job.job_id in self._had_worker:
                since = self._lost_since.setdefault(job.job_id, now)
                if now - since >= LOST_SECONDS:
                    lost[name] = job
        return lost

    def _failed_before_start(self, waiting: Waiting, now: float) -> Waiting:
        """Those that never had a worker and are not in the queue, twice in a row; or were never taken."""
        new = {name: job for name, job in waiting.items() if job.job_id not in self._had_worker}
        failed = {name: job for name, job in new.items() if job.job_id is None}
        if len(new) > len(failed) and self.in_queue is not None and now >= self._ask_at:
            self._ask_at = now + self._ask_again
            self._ask_again = min(2 * self._ask_again, ASK_SECONDS[1])
            try:
                held = self.in_queue()
            except ClusterUnavailable as error:  # a busy controller does not report jobs
                log.info("the queue did not list its jobs: %s", error)
                return failed
            missed = {job.job_id for job in new.values() if job.job_id is not None} - held
            if missed - self._missed:
                self._ask_at = now + SECONDS
            failed |= {name: job for name, job in new.items() if job.job_id in missed & self._missed}
            self._missed = missed
        return failed

    async def _waiting(self) -> Waiting:
        there = {str(each.name) for each in self.cluster.scheduler.workers.values()}
        waiting: Waiting = {}
        for name, job in self.cluster.workers.items():
            if there.isdisjoint(self._names(name)):
                waiting[name] = job
            elif job.job_id is not None:
                if job.job_id not in self._had_worker:
                    self._wait = WAIT_SECONDS[0]
                self._had_worker.add(job.job_id)
                self._lost_since.pop(job.job_id, None)
        return waiting

    def _names(self, name: str) -> list[str]:
        """Return the names of the workers of a job."""
        return [f"{name}{suffix}" for suffix in self.cluster.worker_spec.get(name, {}).get("group", [""])]

    async def _replace(self, gone: Waiting) -> None:
        still = await self._waiting()
        wanted = self.cluster.worker_spec
        for name, job in gone.items():
            if still.get(name) is job:  # a worker may have come since
                # under another name: the old one may be held by processes that outlived their job
                wanted.update(self.cluster.new_worker_spec())
                del wanted[name]
        if wanted.keys() != self.cluster.workers.keys():
            try:
                await (
                    self.cluster._correct_state()
                )  # the method that its own adaptivity calls; it also removes old jobs
            except RuntimeError as error:
                log.warning("the queue refused a job: %s", error)


def _numbers(jobs: Waiting) -> str:
    return ", ".join(str(each.job_id or "one that was refused") for each in jobs.values())


@contextmanager
def jobs_replaced(cluster: Any, in_queue: Callable[[], set[str]] | None) -> Iterator[Replacing]:
    """Replace jobs that are gone while the ``with`` block runs.

    Parameters
    ----------
    cluster, in_queue
        As of `Replacing`.
    """
    replacing = Replacing(cluster, in_queue)
    over = threading.Event()

    def keep() -> None:
        while not over.wait(SECONDS):
            try:
                replacing.look()
            except Exception:
                if not over.is_set():  # else the cluster is closed under it
                    log.exception("the supervisor failed to check the jobs")

    thread = threading.Thread(target=keep, name="spae-replacing", daemon=True)
    thread.start()
    try:
        yield replacing
    finally:
        over.set()
        thread.join(timeout=10)
