"""What is done about the last spans of a pass when these do not come: they are run a second time, elsewhere.

A span's state has the same bits whoever makes it, so whichever run is first counts. A second reader makes a slow store
slower; so a span is only run again if the others were fast, and if at least half of the threads have nothing to do:
what keeps most of them busy is no fault of one worker. Each span is run again once, and `MOST_SECOND_RUNS` in a pass.

A worker that was not heard of for `SILENT_SECONDS` while others were is taken for dead: not only its span is waited
for then, but the states that it holds. Dask does the same, after five minutes.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dask.delayed import Delayed
from distributed import Client, Future

from spae_dask.engine.events import RunAgain
from spae_dask.engine.handover import hand
from spae_dask.engine.spans import Span

STRAGGLER_FACTOR = 4
STRAGGLER_SECONDS = 30.0
"""Nothing done for this long, and for `STRAGGLER_FACTOR` times what half the spans take at most, is done about."""

SILENT_SECONDS = 30.0
"""A worker says every few seconds that it is there."""

KILL_SECONDS = 10.0
"""How long a nanny may take to end its worker; without an answer the worker is taken out all the same."""

MOST_SECOND_RUNS = 8
"""In a pass; and workers taken for dead. Several, since a span that waits at the gate for a stuck one is stuck too."""

HAND_SECONDS = 30.0
"""A state is sent again if the task still runs after this: it may have begun later, or on another worker."""

WAITS = ("merge-", "done-", "top-")
"""Tasks that take a moment, unless what they need is on a worker that is stuck: no reason to call theirs busy."""

Again = Callable[[str, str], Delayed]
"""Makes the second run of the task with this key, on the worker at this address."""

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
        Tasks it was given and has not finished, without those of `WAITS`.
    silence : float
        Seconds by which it was heard of earlier than the worker that was heard of last.
    running : bool
        Whether it takes tasks; one that is out of memory, or leaving, does not.
    """

    address: str
    n_threads: int
    keys: tuple[Any, ...] = ()
    silence: float = 0.0
    running: bool = True

    @property
    def is_silent(self) -> bool:
        """Whether to take it for dead."""
        return self.silence > SILENT_SECONDS

    @property
    def n_idle(self) -> int:
        """Threads that could take a span at once."""
        return max(0, self.n_threads - len(self.keys)) if self.running else 0

    @property
    def n_busy(self) -> int:
        """Threads at work."""
        return min(self.n_threads, len(self.keys))


def idle_places(holders: Sequence[Holder]) -> list[str]:
    """Workers that could take a span, one for each idle thread; none if more threads that are heard of are at work."""
    heard = [holder for holder in holders if not holder.is_silent]
    places = [holder.address for holder in heard for _ in range(holder.n_idle)]
    return places if len(places) >= sum(holder.n_busy for holder in heard) else []


@dataclass
class Stragglers:
    """Second runs of a pass.

    Parameters
    ----------
    client : distributed.Client
        Where the pass runs.
    spans : mapping of str to Span
        The span that each task key stands for.
    again : callable or None
        Makes a second run; None for work that must not be done by two at once, such as writing.
    tell : callable
        Told of each.
    ask : callable
        Asks the scheduler a question, and gives up after a while.
    """

    client: Client
    spans: Mapping[str, Span]
    again: Again | None
    tell: Callable[[RunAgain], None]
    ask: Ask
    _runs: dict[str, Future] = field(default_factory=dict)
    _next: dict[str, float] = field(default_factory=dict)
    _n_silent: int = 0

    def holders(self) -> list[Holder]:
        """The workers as the scheduler knows them; none if it does not say."""
        identity = self.ask(self.client.scheduler.identity)
        processing = self.ask(self.client.scheduler.processing)
        if not identity or processing is None:
            return []
        workers = identity["workers"]
        latest = max((about["last_seen"] for about in workers.values()), default=0.0)
        return [
            Holder(
                address,
                about["nthreads"],
                tuple(key for key in processing.get(address, ()) if not str(key).startswith(WAITS)),
                latest - about["last_seen"],
                about["status"] == "running",
            )
            for address, about in workers.items()
        ]

    def take_out_silent(self, holders: Sequence[Holder]) -> list[Holder]:
        """Have workers that are not heard of ended, or forgotten; these. What they had, others are given."""
        silent = [holder for holder in holders if holder.is_silent][: MOST_SECOND_RUNS - self._n_silent]
        if not silent or not idle_places(holders):
            return []
        self._n_silent += len(silent)
        self.ask(
            partial(
                self.client.scheduler.restart_workers,
                workers=[holder.address for holder in silent],
                timeout=KILL_SECONDS,
                wait_for_workers=False,
                on_error="return",
                stimulus_id=f"spae-silent-{time.time()}",
            )
        )
        return silent

    def run_again(self, holders: Sequence[Holder], seconds: float, usual: float) -> None:
        """Run unfinished spans a second time, as far as there are idle threads.

        Parameters
        ----------
        holders : sequence of Holder
            The workers.
        seconds : float
            That nothing has been finished.
        usual : float
            Median seconds of a span.
        """
        if self.again is None:
            return
        places = idle_places(holders)
        slow = [(key, each.address) for each in holders if not each.is_silent for key in each.keys if key in self.spans]
        for key, at in sorted(slow, key=lambda pair: self.spans[pair[0]].first_row):
            elsewhere = [place for place in places if place != at]
            if key in self._runs or not elsewhere or len(self._runs) >= MOST_SECOND_RUNS:
                continue
            places.remove(elsewhere[0])
            self._runs[key] = self.client.compute(self.again(key, elsewhere[0]), optimize_graph=False)
            span = self.spans[key]
            self.tell(RunAgain(span.first_row, span.last_row, at, elsewhere[0], seconds, usual))

    def hand_over(self) -> None:
        """Hand the states of second runs that have ended well to the tasks that are stuck."""
        now = time.monotonic()
        due = [key for key, run in self._runs.items() if run.status == "finished" and self._next.get(key, now) <= now]
        if not due:
            return
        self._next |= dict.fromkeys(due, now + HAND_SECONDS)
        for address, keys in (self.ask(self.client.scheduler.processing) or {}).items():
            for key in set(due).intersection(keys):
                # in a thread, since neither the state nor the worker's answer need come soon
                threading.Thread(target=_send, args=(self.client, self._runs[key], key, address), daemon=True).start()

    def end(self) -> None:
        """Give up those that are still running."""
        if self._runs:
            self.client.cancel(list(self._runs.values()), force=True)


def _send(client: Client, run: Future, key: str, address: str) -> None:
    # what fails here is no loss: the first run goes on
    with suppress(Exception, CancelledError):
        client.run(hand, key, run.result(), workers=[address])
