"""Watches a pass on a cluster from the client, so that no wait is endless and slow spans are reported.

The options of passes hold all limits. The monitor asks the scheduler every ``check_seconds``; the scheduler must answer
within ``scheduler_seconds``. Its answer has the tasks of each worker, and their last signs of life. A cluster may be
without workers for ``no_workers_seconds``: dask itself would wait for ever. When a pass stalls, the last spans get
backup tasks on idle workers. A warning names the spans that are still slow and the workers that do not respond. The
scheduler itself replaces those after its setting ``worker-ttl``.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from distributed import Client, Scheduler, as_completed
from distributed.scheduler import KilledWorker
from distributed.utils import key_split_group

from spae_dask import workers as waiting_for
from spae_dask.errors import ClusterUnavailable, PassFailed, SlowClusterWarning, warn
from spae_dask.passes.events import RunAgain
from spae_dask.passes.options import current_options
from spae_dask.passes.spans import Span
from spae_dask.quantities import format_seconds

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


NAMED = 3
"""Spans, or workers, that a message names."""

LOG_LINES = 3
LINE_LENGTH = 200
LOG_SECONDS = 5.0
"""Last lines of the logs that an error shows, their length, and the time limit to fetch them."""

_END = re.compile(r"killed by|exceeded|exited|died|memory|restarting", re.IGNORECASE)


def rows_of(spans: Sequence[Span]) -> str:
    """The rows of the first few spans, in words."""
    named = [f"{span.first_row:,} to {span.last_row - 1:,}" for span in spans[:NAMED]]
    more = f" and of {len(spans) - NAMED} more spans" if len(spans) > NAMED else ""
    return f"rows {', '.join(named)}{more}"


class Monitor:
    """Watches one pass.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.
    name : str
        Name of the pass.
    spans : mapping of str to Span
        Spans of the tasks that read, by key; it may grow.
    n_spans : int
        Number of spans to finish.
    emit : callable
        Receives an event for every backup task.

    Attributes
    ----------
    back_up : callable or None
        Begins a second task for a key on a worker, unless it has one; tells whether it did. None for work that must not
        be done by two tasks at once, such as writing.
    faults : list of str
        Errors of backup tasks.
    """

    def __init__(
        self, client: Client, name: str, spans: Mapping[str, Span], n_spans: int, emit: Callable[[RunAgain], None]
    ) -> None:
        self.client = client
        self.name = name
        self.spans = spans
        self.n_spans = n_spans
        self.options = current_options()
        self.back_up: Callable[[str, str], bool] | None = None
        self.faults: list[str] = []
        self._emit = emit
        now = time.monotonic()
        self._looked = self._answered = self._progress = now
        self._empty_since: float | None = None
        self._n_done = self._n_backups = 0
        self._reported = False

    def completed(self, waiting: as_completed) -> Iterator[Any]:
        """Futures of ``waiting`` as they end, with their results if it has them; more may be added meanwhile.

        Raises
        ------
        ClusterUnavailable
            If the scheduler does not answer, or no worker is there, for too long.
        Exception
            The error of the first task that failed, if results are asked for.
        """
        while not waiting.is_empty():
            if waiting.has_ready():
                yield next(waiting)
                continue
            with waiting.thread_condition:
                if not waiting.has_ready():
                    waiting.thread_condition.wait(timeout=0.1)
            if time.monotonic() - self._looked >= self.options.check_seconds:
                self._look()

    def progressed(self, n_spans: int) -> None:
        """Note that so many spans are finished, or that other work of the pass is."""
        self._n_done += n_spans
        self._progress = time.monotonic()
        self._reported = False

    def _look(self) -> None:
        workers = self._ask(self.client.scheduler.ncores)
        self._looked = now = time.monotonic()
        if workers is None:
            if now - self._answered > self.options.scheduler_seconds:
                raise ClusterUnavailable(
                    f"{self.name}: the scheduler at {self.client.scheduler.address} has not answered for "
                    f"{format_seconds(now - self._answered)}. Check that it runs, check the network, and run again."
                )
            return
        self._answered = now
        self._look_for_workers(workers, now)
        stalled = now - self._progress
        if not workers or stalled <= min(self.options.backup_seconds, self.options.slow_seconds):
            return
        statuses = worker_statuses(self.client, self._ask)
        usual = self._mean_seconds()
        half_done = 2 * self._n_done >= self.n_spans
        options = self.options
        if usual is not None and half_done and stalled > max(options.backup_seconds, options.backup_factor * usual):
            self._start_backups(statuses, stalled, usual)
        if not self._reported and stalled > _limit(options.slow_seconds, options.slow_factor, usual):
            self._reported = True
            self._warn_slow(statuses, stalled, usual)

    def _start_backups(self, statuses: Sequence[WorkerStatus], stalled: float, usual: float) -> None:
        """Give unfinished spans a second task on idle workers, where the user lets their first task run.

        A second reader makes a slow store slower. So at least half of the threads must be idle: whatever keeps most of
        them busy is not the fault of one worker.
        """
        idle = idle_workers(statuses)
        slow = [(key, each.address) for each in statuses for key in each.work if key in self.spans]
        if self.back_up is None or not slow or not idle or self._n_backups >= self.options.max_backups:
            return
        allowed = allowed_workers(self.client, self._ask, [key for key, _ in slow])
        for key, at in sorted(slow, key=lambda pair: self.spans[pair[0]].first_row):
            mine = allowed.get(key, frozenset())
            elsewhere = [each for each in idle if each != at and (mine is None or each in mine)]
            if elsewhere and self._n_backups < self.options.max_backups and self.back_up(key, elsewhere[0]):
                idle.remove(elsewhere[0])
                self._n_backups += 1
                span = self.spans[key]
                self._emit(RunAgain(span.first_row, span.last_row, at, elsewhere[0], stalled, usual))

    def _look_for_workers(self, workers: Mapping[str, int], now: float) -> None:
        if workers:
            self._empty_since = None
            return
        limit = waiting_for.no_workers_seconds()
        if self._empty_since is None:
            self._empty_since = now
        empty = now - self._empty_since
        if empty > limit:
            raise ClusterUnavailable(
                f"{self.name}: the cluster at {self.client.scheduler.address} has been without workers for "
                f"{format_seconds(limit)}. Start some and run again. To wait longer, set "
                "distributed.scheduler.no-workers-timeout in dask's configuration."
            )
        if empty > self.options.restart_seconds and not self._reported:
            self._reported = True
            waiting_for.warn_waiting(f"{self.name}: the cluster", empty, limit)

    def _warn_slow(self, statuses: Sequence[WorkerStatus], stalled: float, usual: float | None) -> None:
        held = [(self.spans[key], each.address) for each in statuses for key in each.keys if key in self.spans]
        held.sort(key=lambda pair: pair[0].first_row)
        mean = f"; a span takes {format_seconds(usual)} on average" if usual is not None else ""
        where = ""
        if held:
            workers = sorted({worker for _, worker in held})
            more = f" and {len(workers) - NAMED} more" if len(workers) > NAMED else ""
            where = f" Unfinished: {rows_of([span for span, _ in held])}, on {', '.join(workers[:NAMED])}{more}."
        silent = [each for each in statuses if each.is_silent]
        if silent:
            where += (
                f" No response for {format_seconds(min(each.silence for each in silent))} from "
                f"{', '.join(each.address for each in silent[:NAMED])}. The scheduler replaces a worker after "
                "distributed.scheduler.worker-ttl."
            )
        again = f" Run again on another worker; one failure: {self.faults[0].rstrip('.')}." if self.faults else ""
        warn(
            f"{self.name}: no span has finished for {format_seconds(stalled)}{mean}.{where}{again} The pass is "
            "still waiting. Check the store and these workers.",
            SlowClusterWarning,
        )

    def _mean_seconds(self) -> float | None:
        """Mean seconds that the finished spans took, as the scheduler knows; None before the first."""
        if not self._n_done:
            return None
        group = key_split_group(next(iter(self.spans)))
        mean: float | None = self._ask(partial(self.client._run_on_scheduler, _mean_seconds, group))
        return mean

    def _ask(self, question: Any) -> Any:
        """Give the answer of the scheduler; None if it does not answer within ``answer_seconds``."""
        try:
            return self.client.sync(question, callback_timeout=self.options.answer_seconds)
        except (TimeoutError, OSError):  # distributed's comm errors are OSErrors
            return None


def _limit(least: float, factor: float, usual: float | None) -> float:
    # before the first span ends its time is unknown, and a worker may still load libraries from a slow disk
    return factor * least if usual is None else max(least, factor * usual)


def _mean_seconds(name: str, dask_scheduler: Scheduler) -> float | None:
    """Mean seconds of the finished tasks of a group, asked of the scheduler."""
    group = dask_scheduler.task_groups.get(name)
    if group is None:
        return None
    done = sum(group.states[state] for state in ("memory", "released", "forgotten"))
    return float(group.all_durations["compute"] / done) if done else None


def killed_worker(client: Client, name: str, spans: Mapping[str, Span], error: KilledWorker) -> PassFailed:
    """The error for a task that killed its workers: the task, its rows, the last worker, and the end of the logs."""
    key = str(error.task)
    rows = f" ({rows_of([spans[key]])})" if key in spans else ""
    lines = _last_lines(client)
    logs = f" The cluster logged last: {' | '.join(lines)}" if lines else ""
    return PassFailed(
        f"{name}: workers died {error.allowed_failures + 1} times while they ran task {key!r}{rows} "
        f"(last: {getattr(error.last_worker, 'address', error.last_worker)}). The usual cause is too "
        "little memory: compare `spae plan` with the workers' limit. Or the jobs end before the task "
        f"does: give them a longer walltime.{logs}"
    )


def _last_lines(client: Client) -> list[str]:
    """The last lines in the logs of the scheduler and of the nannies that tell of an end, oldest first."""
    found: list[str] = []
    for question in (
        partial(client.scheduler.logs, n=50),
        partial(client.scheduler.worker_logs, n=50, nanny=True),
    ):
        try:
            answer = client.sync(question, callback_timeout=LOG_SECONDS)
        except Exception:  # noqa: S112 - an error is being reported already, and is worth more than its logs
            continue
        for records in answer.values() if isinstance(answer, Mapping) else (answer,):
            found.extend(str(line) for _, line in records if _END.search(str(line)))
    # each begins with its time, so this is their order
    return [" ".join(line.split())[:LINE_LENGTH] for line in sorted(set(found))[-LOG_LINES:]]
