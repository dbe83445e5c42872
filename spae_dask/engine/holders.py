"""The workers of a cluster as its scheduler sees them: what each has to do, and when it was heard of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from distributed import Client, Scheduler

SILENT_SECONDS = 30.0
"""A worker says every few seconds that it is there."""

WAITS = ("merge-", "done-", "top-")
"""Tasks that take a moment, unless what they need is on a worker that is stuck: no reason to call theirs busy."""

Ask = Callable[..., Any]
"""Asks the scheduler; None if there is no answer."""


@dataclass(frozen=True)
class Holder:
    """A worker and what it has to do.

    Attributes
    ----------
    address : str
        Of the worker.
    n_threads : int
        It has.
    keys : tuple
        Tasks it was given and has not finished.
    silence : float
        Seconds by which it was heard of earlier than the worker that was heard of last.
    running : bool
        Whether it takes tasks; one that is out of memory, or leaving, does not.
    last_seen : float
        When it was heard of last, by the scheduler's clock.
    """

    address: str
    n_threads: int
    keys: tuple[Any, ...] = ()
    silence: float = 0.0
    running: bool = True
    last_seen: float = 0.0

    @property
    def is_silent(self) -> bool:
        """Whether to take it for dead."""
        return self.silence > SILENT_SECONDS

    @property
    def work(self) -> tuple[Any, ...]:
        """Its tasks without those of `WAITS`."""
        return tuple(key for key in self.keys if not str(key).startswith(WAITS))

    @property
    def n_idle(self) -> int:
        """Threads that could take a span at once."""
        return max(0, self.n_threads - len(self.work)) if self.running else 0

    @property
    def n_busy(self) -> int:
        """Threads at work."""
        return min(self.n_threads, len(self.work))


def idle_places(holders: Sequence[Holder]) -> list[str]:
    """Workers that could take a span, one for each idle thread; none if more threads that are heard of are at work."""
    heard = [holder for holder in holders if not holder.is_silent]
    places = [holder.address for holder in heard for _ in range(holder.n_idle)]
    return places if len(places) >= sum(holder.n_busy for holder in heard) else []


def holders_of(client: Client, ask: Ask) -> list[Holder]:
    """The workers as the scheduler knows them; none if it does not say."""
    identity = ask(client.scheduler.identity)
    processing = ask(client.scheduler.processing)
    if not identity or processing is None:
        return []
    workers = identity["workers"]
    latest = max((about["last_seen"] for about in workers.values()), default=0.0)
    return [
        Holder(
            address,
            about["nthreads"],
            tuple(processing.get(address, ())),
            latest - about["last_seen"],
            about["status"] == "running",
            about["last_seen"],
        )
        for address, about in workers.items()
    ]


def allowed_places(client: Client, ask: Ask, keys: Sequence[str]) -> dict[str, frozenset[str] | None]:
    """Addresses of the workers that each task may run on, None for all; tasks of which nothing is known are left out.

    A user says so by ``dask.annotate(workers=..., resources=...)``: by addresses, hosts, names or functions, of which
    the scheduler alone knows what they mean.
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
