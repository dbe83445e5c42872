"""What is done about the last spans of a pass when these do not come: they are run a second time, elsewhere.

A span's state has the same bits whoever makes it, so whichever run is first counts. A second reader makes a slow store
slower; so a span is only run again if the others were fast, and if at least half of the threads have nothing to do:
what keeps most of them busy is no fault of one worker. Each span is run again once, `MOST_SECOND_RUNS` in a pass, and
where the user lets its first run be: other workers may lack its data, or what it needs.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from dask.delayed import Delayed
from distributed import Client, Future, Worker
from distributed.utils_comm import gather_from_workers

from spae_dask.engine.events import RunAgain
from spae_dask.engine.handover import hand, is_awaited
from spae_dask.engine.holders import Ask, Holder, allowed_places, idle_places
from spae_dask.engine.spans import Span

STRAGGLER_FACTOR = 4
STRAGGLER_SECONDS = 30.0
"""Nothing done for this long, and for `STRAGGLER_FACTOR` times what half the spans take at most, is done about."""

MOST_SECOND_RUNS = 8
"""In a pass. Several, since a span that waits at the gate for a stuck one is stuck too."""

HAND_SECONDS = 2.0
"""Between two tries to hand over a state: the task may begin later, or on another worker."""

Again = Callable[[str, str], Delayed]
"""Makes the second run of the task with this key, on the worker at this address."""


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
    _handed_at: float = 0.0
    _handing: set[tuple[str, str]] = field(default_factory=set)

    def run_again(self, holders: Sequence[Holder], seconds: float, usual: float) -> None:
        """Run unfinished spans a second time, as far as there are idle threads where they may run.

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
        slow = [(key, at) for key, at in slow if key not in self._runs]
        if not slow or not places or len(self._runs) >= MOST_SECOND_RUNS:
            return
        allowed = allowed_places(self.client, self.ask, [key for key, _ in slow])
        for key, at in sorted(slow, key=lambda pair: self.spans[pair[0]].first_row):
            mine = allowed.get(key, frozenset())
            elsewhere = [place for place in places if place != at and (mine is None or place in mine)]
            if not elsewhere or len(self._runs) >= MOST_SECOND_RUNS:
                continue
            places.remove(elsewhere[0])
            self._runs[key] = self.client.compute(self.again(key, elsewhere[0]), optimize_graph=False)
            span = self.spans[key]
            self.tell(RunAgain(span.first_row, span.last_row, at, elsewhere[0], seconds, usual))

    def hand_over(self) -> None:
        """Hand the states of second runs that have ended well to the tasks that are stuck."""
        due = {key for key, run in self._runs.items() if run.status == "finished"}
        if not due or time.monotonic() - self._handed_at < HAND_SECONDS:
            return
        for address, keys in (self.ask(self.client.scheduler.processing) or {}).items():
            for key in due.intersection(keys):
                if (key, address) not in self._handing:
                    self._handing.add((key, address))
                    # in a thread, since the worker's answer need not come soon
                    threading.Thread(target=self._hand, args=(key, address), daemon=True).start()
        self._handed_at = time.monotonic()

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

    def faults(self) -> list[str]:
        """What second runs have failed with."""
        return [f"{run.exception()}" for run in self._runs.values() if run.status == "error"]

    def end(self) -> None:
        """Give up those that are still running."""
        if self._runs:
            self.client.cancel(list(self._runs.values()), force=True)


async def _take(key: str, second: str, places: Sequence[str], dask_worker: Worker) -> bool:
    """Have the state of a second run come to this worker, which is stuck with the first; whether that was of use.

    It comes from the worker that has made it: the client, and the scheduler, may have no room for it.
    """
    if not is_awaited(key):
        return False  # not begun yet, or over
    found, *_ = await gather_from_workers({second: places}, rpc=dask_worker.rpc, who=dask_worker.address)
    return second in found and hand(key, found[second])
