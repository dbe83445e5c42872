"""Watches a pass from the client, so that nothing is waited for without end and nothing slow goes untold.

Asked every `CHECK_SECONDS`, the scheduler must answer within `SCHEDULER_SECONDS`, and a cluster may be without workers
for `no_workers_seconds`: dask itself would wait for ever. The last spans of a pass are run a second time elsewhere if
they take far longer than the others, see `stragglers`; slow spans that this does not help are told of.
"""

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from distributed import Client, Future, as_completed

from spae_dask import workers as waiting_for
from spae_dask.engine import stragglers
from spae_dask.engine.events import RunAgain
from spae_dask.engine.holders import Holder, holders_of
from spae_dask.engine.silence import Silence
from spae_dask.engine.spans import Span
from spae_dask.engine.stragglers import Again, Stragglers
from spae_dask.errors import ClusterUnavailable, SlowClusterWarning

CHECK_SECONDS = 2.0
"""Between two looks at the cluster."""

ANSWER_SECONDS = 10.0
"""How long one question may take."""

SCHEDULER_SECONDS = 40.0
"""How long a scheduler may answer nothing; with one question more it is found lost within a minute."""

SLOW_FACTOR = 10
SLOW_SECONDS = 60.0
"""Nothing done for this long, and for `SLOW_FACTOR` times what half the spans take at most, is told."""

NAMED = 3
"""Spans, or workers, that a message names."""


def rows_of(spans: Sequence[Span]) -> str:
    """The rows of the first few of them, in words."""
    named = [f"{span.first_row:,} to {span.last_row - 1:,}" for span in spans[:NAMED]]
    more = f" and of {len(spans) - NAMED} more spans" if len(spans) > NAMED else ""
    return f"rows {', '.join(named)}{more}"


def _first_row(span: Span) -> int:
    return span.first_row


class Watchdog:
    """Looks after one pass.

    Parameters
    ----------
    client : distributed.Client
        Where it runs.
    name : str
        Of the pass.
    spans : mapping of str to Span
        The span that each task key stands for.
    n_spans : int
        There are.
    again : callable or None
        Makes the second run of a span, see ``Stragglers``.
    tell : callable
        Told of second runs.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        spans: Mapping[str, Span],
        n_spans: int,
        again: Again | None,
        tell: Callable[[RunAgain], None],
    ) -> None:
        self.client = client
        self.name = name
        self.spans = spans
        self.n_spans = n_spans
        self._stragglers = Stragglers(client, spans, again, tell, self._ask)
        self._silence = Silence(client, self._ask)
        now = time.monotonic()
        self._looked = self._answered = self._progress = now
        self._empty_since: float | None = None
        self._seconds: list[float] = []
        self._told = False

    def completed(self, futures: Sequence[Future]) -> Iterator[tuple[Future, Any]]:
        """Futures and their results as they come.

        Raises
        ------
        ClusterUnavailable
            If the scheduler does not answer, or no worker is there, for too long.
        Exception
            That of the first task that failed.
        """
        # by default the loop of the client made last would be taken, and two threads would write to one socket
        waiting = as_completed(futures, loop=self.client.loop, with_results=True)
        while not waiting.is_empty():
            if waiting.has_ready():
                future, value = next(waiting)
                self._stragglers.is_done(future.key)
                yield future, value
                continue
            self._stragglers.hand_over()
            with waiting.thread_condition:
                waiting.thread_condition.wait(timeout=0.1)
            if time.monotonic() - self._looked >= CHECK_SECONDS:
                self._look()

    def done(self, seconds: float) -> None:
        """Be told that a span is done, and what it took."""
        self._seconds.append(seconds)
        self._progress = time.monotonic()
        self._told = False

    def _look(self) -> None:
        workers = self._ask(self.client.scheduler.ncores)
        self._looked = now = time.monotonic()
        if workers is None:
            if now - self._answered > SCHEDULER_SECONDS:
                raise ClusterUnavailable(
                    f"{self.name}: the scheduler at {self.client.scheduler.address} has not answered for "
                    f"{now - self._answered:.0f} seconds. See whether it runs, and the network, and run again."
                )
            return
        self._answered = now
        self._look_for_workers(workers, now)
        if workers and now - self._progress > self._patience(stragglers.STRAGGLER_SECONDS, stragglers.STRAGGLER_FACTOR):
            self._look_at_stragglers(now)
        if workers and not self._told and now - self._progress > self._patience(SLOW_SECONDS, SLOW_FACTOR):
            self._told = True
            self._tell_slow(now)

    def end(self) -> None:
        """Give up what was begun beside the pass."""
        self._stragglers.end()

    def _look_at_stragglers(self, now: float) -> None:
        holders = holders_of(self.client, self._ask)
        silent = self._silence.take_out(holders)
        if silent:
            self._tell_silent(silent)
            self._progress = time.monotonic()  # what they had begins anew
        elif 2 * len(self._seconds) >= self.n_spans:  # so that it is known what a span takes
            self._stragglers.run_again(holders, now - self._progress, statistics.median(self._seconds))

    def _tell_silent(self, silent: Sequence[Holder]) -> None:
        lost = sorted((self.spans[key] for each in silent for key in each.work if key in self.spans), key=_first_row)
        warnings.warn(
            f"{self.name}: nothing has been heard for {min(each.silence for each in silent):.0f} seconds of "
            f"{', '.join(each.address for each in silent)}: taken for dead. What was there"
            f"{f' ({rows_of(lost)})' if lost else ''} is run again by others.",
            SlowClusterWarning,
            stacklevel=2,
        )

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
                f"{self.name}: the cluster at {self.client.scheduler.address} has had no workers for {limit:.0f} "
                "seconds. Start some and run again; dask's setting distributed.scheduler.no-workers-timeout is how "
                "long to wait for them."
            )
        if empty > waiting_for.RESTART_SECONDS and not self._told:
            self._told = True
            waiting_for.tell_waiting(f"{self.name}: the cluster", empty, limit)

    def _patience(self, least: float, factor: float) -> float:
        if not self._seconds:
            # nobody knows yet how long a span takes; and a worker that loads libraries from a slow disk is silent too
            return factor * least
        return max(least, factor * statistics.median(self._seconds))

    def _tell_slow(self, now: float) -> None:
        processing = self._ask(self.client.scheduler.processing) or {}
        held = [(self.spans[key], worker) for worker, keys in processing.items() for key in keys if key in self.spans]
        held.sort(key=lambda pair: pair[0].first_row)
        usual = f", where half the spans take {statistics.median(self._seconds):.1f} at most" if self._seconds else ""
        where = ""
        if held:
            workers = sorted({worker for _, worker in held})
            more = f" and {len(workers) - NAMED} more" if len(workers) > NAMED else ""
            where = f" Unfinished: {rows_of([span for span, _ in held])}, on {', '.join(workers[:NAMED])}{more}."
        faults = self._stragglers.faults()
        again = f" Run again elsewhere, one failed: {faults[0].rstrip('.')}." if faults else ""
        warnings.warn(
            f"{self.name}: no span has been finished for {now - self._progress:.0f} seconds{usual}.{where}{again} "
            "Still waiting: look at the store and at these workers.",
            SlowClusterWarning,
            stacklevel=2,
        )

    def _ask(self, question: Any) -> Any:
        """What the scheduler says; None if it does not within `ANSWER_SECONDS`."""
        try:
            return self.client.sync(question, callback_timeout=ANSWER_SECONDS)
        except (TimeoutError, OSError):  # distributed's comm errors are OSErrors
            return None
