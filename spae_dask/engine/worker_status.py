"""The workers of a cluster as its scheduler sees them: the tasks of each, and its last sign of life."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from distributed import Client, Scheduler

from spae_dask.passes.options import current_options

WAITS = ("merge-",)
"""Start of the keys of tasks that take a moment, unless they wait for states on a stuck worker: theirs is not busy."""

Ask = Callable[..., Any]
"""Asks the scheduler a question; gives None if there is no answer."""


@dataclass(frozen=True)
class WorkerStatus:
    """A worker and its tasks.

    Attributes
    ----------
    address : str
        Address of the worker.
    n_threads : int
        Number of its threads.
    keys : tuple
        Tasks that it was given and has not finished.
    silence : float
        Seconds from its last sign of life to the last one of any worker.
    running : bool
        True if it takes tasks; a worker that is out of memory, or leaving, does not.
    """

    address: str
    n_threads: int
    keys: tuple[Any, ...] = ()
    silence: float = 0.0
    running: bool = True

    @property
    def is_silent(self) -> bool:
        """True if the worker is unresponsive."""
        return self.silence > current_options().silent_seconds

    @property
    def work(self) -> tuple[Any, ...]:
        """Tasks of the worker without those of `WAITS`."""
        return tuple(key for key in self.keys if not str(key).startswith(WAITS))

    @property
    def n_idle(self) -> int:
        """Number of threads that could take a span at once."""
        return max(0, self.n_threads - len(self.work)) if self.running else 0

    @property
    def n_busy(self) -> int:
        """Number of threads at work."""
        return min(self.n_threads, len(self.work))


def idle_workers(statuses: Sequence[WorkerStatus]) -> list[str]:
    """Workers that could take a span, one entry for each idle thread; none if more threads are at work than idle."""
    heard = [status for status in statuses if not status.is_silent]
    places = [status.address for status in heard for _ in range(status.n_idle)]
    return places if len(places) >= sum(status.n_busy for status in heard) else []


def worker_statuses(client: Client, ask: Ask) -> list[WorkerStatus]:
    """Ask the scheduler for its workers; none if it does not answer."""
    identity = ask(client.scheduler.identity)
    processing = ask(client.scheduler.processing)
    if not identity or processing is None:
        return []
    workers = identity["workers"]
    latest = max((about["last_seen"] for about in workers.values()), default=0.0)
    return [
        WorkerStatus(
            address,
            about["nthreads"],
            tuple(processing.get(address, ())),
            latest - about["last_seen"],
            about["status"] == "running",
        )
        for address, about in workers.items()
    ]


def allowed_workers(client: Client, ask: Ask, keys: Sequence[str]) -> dict[str, frozenset[str] | None]:
    """Ask for the addresses of the workers that each task may run on, None for all; unknown tasks are left out.

    A user restricts tasks with ``dask.annotate(workers=..., resources=...)``, by addresses, hosts, names or functions.
    Only the scheduler knows the workers that match.
    """
    found: dict[str, frozenset[str] | None] | None = ask(partial(client._run_on_scheduler, _allowed, tuple(keys)))
    return found or {}


def _allowed(keys: Sequence[str], dask_scheduler: Scheduler) -> dict[str, frozenset[str] | None]:
    tasks = {key: dask_scheduler.tasks[key] for key in keys if key in dask_scheduler.tasks}
    found: dict[str, frozenset[str] | None] = {}
    for key, task in tasks.items():
        workers = dask_scheduler.valid_workers(task)
        # others are allowed too; which have the resources that it needs as well, the scheduler does not tell
        anywhere = workers is None or (task.loose_restrictions and not task.resource_restrictions)
        found[key] = None if anywhere else frozenset(each.address for each in workers)
    return found
