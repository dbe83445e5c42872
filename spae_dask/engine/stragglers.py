"""What is done about the last spans of a pass when these do not come: they are run a second time, elsewhere.

A span's state has the same bits whoever makes it, so whichever run is first counts. A second reader makes a slow store
slower; so a span is only run again if the others were fast, and if at least half of the threads have nothing to do:
what keeps most of them busy is no fault of one worker. Each span is run again once, and `MOST_SECOND_RUNS` in a pass.

A worker that was not heard of for `SILENT_SECONDS` while others were is taken for dead: not only its span is waited
for then, but the states that it holds. Dask does the same, after five minutes. But many a routine of LAPACK lets no
other thread of its process run, not even the one that says that the worker is there; so its nanny is asked whether it
computes, and what made one worker silent is left alone on the next.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psutil
from dask.delayed import Delayed
from distributed import Client, Future, Nanny, Worker
from distributed.utils_comm import gather_from_workers

from spae_dask.engine.events import RunAgain
from spae_dask.engine.handover import hand, is_awaited
from spae_dask.engine.spans import Span

STRAGGLER_FACTOR = 4
STRAGGLER_SECONDS = 30.0
"""Nothing done for this long, and for `STRAGGLER_FACTOR` times what half the spans take at most, is done about."""

SILENT_SECONDS = 30.0
"""A worker says every few seconds that it is there."""

SURE_SECONDS = 8.0
"""It must stay so for this long: after a computer has slept, or its clock was set, each looks silent for a moment."""

NANNY_SECONDS = 5.0
"""How long a nanny may take to answer."""

WORK_SECONDS = 1.0
WORK_SHARE = 0.1
"""A process computes if it uses this share of a processor in this time."""

KILL_SECONDS = 10.0
"""How long a nanny may take to end its worker; without an answer the worker is taken out all the same."""

MOST_SECOND_RUNS = 8
"""In a pass; and workers taken for dead. Several, since a span that waits at the gate for a stuck one is stuck too."""

HAND_SECONDS = 2.0
"""Between two tries to hand over a state: the task may begin later, or on another worker."""

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
    _handed: float = 0.0
    _handing: set[tuple[str, str]] = field(default_factory=set)
    _silent: dict[tuple[str, float], float] = field(default_factory=dict)
    _suspect: set[Any] = field(default_factory=set)
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
                tuple(processing.get(address, ())),
                latest - about["last_seen"],
                about["status"] == "running",
                about["last_seen"],
            )
            for address, about in workers.items()
        ]

    def take_out_silent(self, holders: Sequence[Holder]) -> list[Holder]:
        """Have workers that are not heard of ended, or forgotten; these. What they had, others are given."""
        now = time.monotonic()
        known = ((each.address, each.last_seen) for each in holders if each.is_silent)
        self._silent = {one: self._silent.get(one, now) for one in known}
        if not self._silent or not idle_places(holders):
            return []
        dead = [
            each
            for each in holders
            if each.is_silent
            and now - self._silent[each.address, each.last_seen] >= SURE_SECONDS
            and self._suspect.isdisjoint(each.keys)
        ][: MOST_SECOND_RUNS - self._n_silent]
        at_work = self._try(partial(self._at_work, [each.address for each in dead])) if dead else None
        dead = [each for each in dead if each.address not in (at_work or ())]
        if dead:
            self._n_silent += len(dead)
            self._suspect.update(*(each.keys for each in dead))
            self._try(
                partial(
                    self.client.scheduler.restart_workers,
                    workers=[each.address for each in dead],
                    timeout=KILL_SECONDS,
                    wait_for_workers=False,
                    on_error="return",
                    stimulus_id=f"spae-silent-{time.time()}",
                )
            )
        return dead

    async def _at_work(self, addresses: Sequence[str]) -> list[str]:
        """Those of these workers of which a nanny says that they compute."""

        async def answer(address: str) -> bool:
            with suppress(Exception):
                said = self.client._run(_is_at_work, workers=[address], nanny=True, on_error="ignore")
                return any((await asyncio.wait_for(said, NANNY_SECONDS)).values())
            return False

        said = await asyncio.gather(*map(answer, addresses))
        return [address for address, computes in zip(addresses, said, strict=True) if computes]

    def _try(self, question: Any) -> Any:
        # what is asked for here is help, without which the pass goes on
        with suppress(Exception):
            return self.ask(question)
        return None

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
        slow = [(key, each.address) for each in holders if not each.is_silent for key in each.work if key in self.spans]
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
        due = {key for key, run in self._runs.items() if run.status == "finished"}
        if not due or time.monotonic() - self._handed < HAND_SECONDS:
            return
        for address, keys in (self.ask(self.client.scheduler.processing) or {}).items():
            for key in due.intersection(keys):
                if (key, address) not in self._handing:
                    self._handing.add((key, address))
                    # in a thread, since the worker's answer need not come soon
                    threading.Thread(target=self._hand, args=(key, address), daemon=True).start()
        self._handed = time.monotonic()

    def _hand(self, key: str, address: str) -> None:
        # what fails here is no loss: it is tried again, and the first run goes on
        with suppress(Exception, asyncio.CancelledError):
            second = self._runs[key].key
            places = self.client.who_has([self._runs[key]])[second]
            self.client.run(_take, key, second, places, workers=[address])
        self._handing.discard((key, address))

    def is_done(self, key: str) -> None:
        """Be told that a task is done; of its span no second state is needed, nor kept in the memory of a worker."""
        for each, run in self._runs.items():
            if self.spans[each] == self.spans.get(key) and not run.cancelled():
                self.client.cancel([run], force=True)

    def end(self) -> None:
        """Give up those that are still running."""
        if self._runs:
            self.client.cancel(list(self._runs.values()), force=True)


async def _is_at_work(dask_worker: Nanny) -> bool:
    """Whether the worker of this nanny uses a processor."""
    process = psutil.Process(dask_worker.pid)
    began = sum(process.cpu_times()[:2])
    await asyncio.sleep(WORK_SECONDS)
    return bool(sum(process.cpu_times()[:2]) - began > WORK_SHARE * WORK_SECONDS)


async def _take(key: str, second: str, places: Sequence[str], dask_worker: Worker) -> bool:
    """Have the state of a second run come to this worker, which is stuck with the first; whether that was of use.

    It comes from the worker that has made it: the client, and the scheduler, may have no room for it.
    """
    if not is_awaited(key):
        return False  # not begun yet, or over
    found, *_ = await gather_from_workers({second: places}, rpc=dask_worker.rpc, who=dask_worker.address)
    return second in found and hand(key, found[second])
