"""Tells a task whether dask runs it again: then what it made before may be in the checkpoint.

A task does not know that it ran before, on a worker that is lost. The scheduler does, and this has it write so into
the annotations of the task, which go to the next worker with it. So no task asks the store in vain when it is first
run: on an object store every question costs some tens of milliseconds.
"""

from collections.abc import Hashable
from typing import Any

from distributed import Client, Scheduler, get_worker
from distributed.diagnostics.plugin import SchedulerPlugin

SWEEPS = "sweep-"
"""What the keys of tasks that read begin with; those that merge are told by these."""

AGAIN = "spae_dask-again"

ANSWER_SECONDS = 10.0
"""How long the scheduler may take to answer."""


class MarkReruns(SchedulerPlugin):  # type: ignore[misc] # distributed has no types
    """Marks sweeps that were given to a worker, or done by one, and must be run again; goes when its client does.

    Parameters
    ----------
    client : str
        Identity of the client whose passes it is for.
    """

    idempotent = True

    def __init__(self, client: str) -> None:
        self.client = client
        self.name = f"spae_dask-reruns-{client}"

    async def start(self, scheduler: Scheduler) -> None:
        """Be handed the scheduler."""
        self.scheduler = scheduler

    def transition(self, key: Hashable, start: str, finish: str, *_: Any, **__: Any) -> None:
        """Mark a task that a worker had; one that is lost passes through this state before it is given to another."""
        if finish == "released" and start in ("processing", "memory") and str(key).startswith(SWEEPS):
            task = self.scheduler.tasks[key]
            task.annotations = {**(task.annotations or {}), AGAIN: True}  # a new one: tasks may share the old

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Go with the client."""
        if client == self.client:
            scheduler.remove_plugin(self.name)


def marks_reruns(client: Client) -> bool:
    """Have the scheduler mark the tasks of this client that are run again; whether it has agreed."""
    try:
        plugin = MarkReruns(client.id)
        client.sync(
            client._register_scheduler_plugin, plugin, plugin.name, plugin.idempotent, callback_timeout=ANSWER_SECONDS
        )
    except (TimeoutError, OSError):
        return False  # if it is lost, the pass will say so
    return True


def runs_again() -> bool:
    """Whether the task that asks, in its own thread on a worker, is marked."""
    worker = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    return task is not None and AGAIN in (task.annotations or {})
