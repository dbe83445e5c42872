"""Progress on stderr: a bar on a terminal, a line every few seconds elsewhere, or records.

Records are JSON Lines, for collectors of the logs of batch jobs: one object a line, nothing else.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from spae_dask.markup import interval
from spae_dask.passes.events import Estimated, Event, PassEnded, PassStarted, Resumed, RowsDone, RunAgain, Searching
from spae_dask.quantities import format_nbytes, format_seconds

SECONDS_BETWEEN_LINES = 5.0

Clock = Callable[[], float]


class Display(Protocol):
    """Shows a meter while rows come in, and a line when they have all come."""

    def update(self, meter: "Meter") -> None: ...

    def end(self, line: str) -> None: ...

    def note(self, line: str, event: str = "note") -> None:
        """Show a line on the way; records name the event."""
        ...

    def stop(self) -> None:
        """Give the terminal back."""
        ...


class Meter:
    """Counts rows and bytes, and knows the rates: a watcher of the engine's events.

    Parameters
    ----------
    display : Display
        Display that shows the progress.
    clock : callable
        Seconds, from any origin.
    """

    def __init__(self, display: Display, clock: Clock = time.monotonic) -> None:
        self.display = display
        self.clock = clock
        self.searching: Searching | None = None
        self.search_began = clock()
        self.begin("")

    def __call__(self, event: Event) -> None:
        """Take an event of the engine."""
        if isinstance(event, PassStarted):
            self.begin(event.name, event.n_rows, event.nbytes)
        elif isinstance(event, Resumed):
            self.display.note(f"resumed: {event.n_done:,} of {event.n_spans:,} spans already done", "resumed")
            self.resume(event.n_rows, event.nbytes)
        elif isinstance(event, RowsDone):
            self.add(event.n_rows, event.nbytes)
        elif isinstance(event, RunAgain):
            rows = f"rows {event.first_row:,} to {event.last_row - 1:,}"
            self.display.note(
                f"{self.name}: {rows} run again on {event.worker}. {event.slow_worker} has not finished them, and "
                f"nothing else finished for {format_seconds(event.seconds)}. A span takes "
                f"{format_seconds(event.usual_seconds)} on average"
            )
        elif isinstance(event, Searching):
            self.search(event)
        elif isinstance(event, Estimated):
            ratio = f"ratio {event.ratio:.4f} ({interval(f'{event.lower:.4f}', f'{event.upper:.4f}')})"
            self.display.note(f"{100 * event.fraction_read:.3g} % read: {ratio}", "estimated")
        elif isinstance(event, PassEnded):
            self.end()

    def search(self, now: Searching) -> None:
        """The search after a pass, or between passes, has come so far."""
        if self.searching is None:
            self.search_began = self.clock()
        self.searching = now
        self.display.update(self)

    def begin(self, name: str, n_rows: int | None = None, total_nbytes: int = 0) -> None:
        """Rows will come in, so many if that is known, which take so many bytes."""
        self.name, self.n_rows, self.total_nbytes = name, n_rows, total_nbytes
        self.rows = self.nbytes = self.rows_before = self.nbytes_before = 0
        self.began = self.clock()
        self.searching = None
        if name:
            self.display.update(self)

    def add(self, rows: int, nbytes: int = 0) -> None:
        """Some have."""
        self.rows += rows
        self.nbytes += nbytes
        self.display.update(self)

    def resume(self, rows: int, nbytes: int) -> None:
        """Some had, before it began: they count for how far it is, not for how fast."""
        self.rows_before, self.nbytes_before = rows, nbytes
        self.add(rows, nbytes)

    def stand_at(self, rows: int, n_rows: int | None) -> None:
        """So many have so far, of so many if that is known by now."""
        self.n_rows = n_rows
        self.add(rows - self.rows)

    def end(self) -> None:
        """All have."""
        self.rows, self.nbytes = self.n_rows or self.rows, self.total_nbytes or self.nbytes
        amount = f", {format_nbytes(self.nbytes)}" if self.nbytes else ""
        took = format_seconds(self.seconds)
        speed = f" ({self.speed})" if self.rows > self.rows_before else ""
        self.display.end(f"{self.name}: {self.rows:,} rows{amount} in {took}{speed}")

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return max(self.clock() - self.began, 1e-3)

    @property
    def speed(self) -> str:
        """Averages since the beginning."""
        rows, nbytes = self.rows - self.rows_before, self.nbytes - self.nbytes_before
        speed = f"{rows / self.seconds:,.0f} rows/s"
        return f"{speed}, {format_nbytes(nbytes / self.seconds)}/s" if nbytes else speed

    @property
    def place(self) -> tuple[str, int, int | None, str]:
        """Name of the pass, or "search"; rows or rounds done, of how many if that is known; and which of both."""
        if self.searching is not None:
            return "search", self.searching.n_done, self.searching.n_rounds, "rounds"
        return self.name, self.rows, self.n_rows, "rows"

    @property
    def status(self) -> str:
        """The averages, and the time that is left at these; of a search the best ratio so far."""
        if self.searching is not None:
            ratio = self.searching.ratio
            best = "on a sketch" if ratio is None else f"best ratio so far {ratio:.6f}"
            return f"r = {self.searching.n_nonzero}, {best}, {format_seconds(self.clock() - self.search_began)}"
        rows = self.rows - self.rows_before
        if not rows:
            return "starting"
        if not self.n_rows:
            return self.speed
        left = self.seconds * (self.n_rows - self.rows) / rows
        return f"{self.speed}, {format_seconds(left)} left"


class Silence:
    """Shows nothing."""

    def update(self, meter: Meter) -> None:
        """Nothing."""

    def end(self, line: str) -> None:
        """Nothing."""

    def note(self, line: str, event: str = "note") -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing to give back."""


class Lines:
    """A plain line, at most one every few seconds, and one at the end.

    Parameters
    ----------
    stream : text stream
        Stream that the lines are written to.
    clock : callable
        Seconds, from any origin.
    """

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self.stream = stream
        self.clock = clock
        self._last: tuple[float, float] | None = None

    def update(self, meter: Meter) -> None:
        """Print where the meter stands, unless that was done a moment ago."""
        began, said = self._last or (None, 0.0)
        if began != meter.began:
            said = meter.began
        if (now := self.clock()) - said >= SECONDS_BETWEEN_LINES:
            said = now
            name, done, n, unit = meter.place
            of = f"{done / n:.0%}, {done:,} of {n:,}" if n else done
            self.end(f"{name}: {of} {unit}, {meter.status}")
        self._last = (meter.began, said)

    def end(self, line: str) -> None:
        """Print a line."""
        print(line, file=self.stream, flush=True)

    def note(self, line: str, event: str = "note") -> None:  # noqa: ARG002 - of records
        """Print it."""
        self.end(line)

    def stop(self) -> None:
        """Nothing to give back."""


class Bar:
    """A bar that redraws itself, and one line at the end.

    Parameters
    ----------
    console : rich.console.Console
        Console of a terminal.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._progress: Progress | None = None

    def update(self, meter: Meter) -> None:
        """Move the bar, which starts with the first rows."""
        if self._progress is None:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[s]}", markup=False),
            )
            self._progress = Progress(*columns, console=self.console, transient=True)
            self._progress.add_task("", s="")
            self._progress.start()
        task = self._progress.task_ids[0]
        name, done, n, _ = meter.place
        self._progress.update(task, description=name, total=n, completed=done, s=meter.status)

    def end(self, line: str) -> None:
        """Put a line in the bar's place."""
        self.stop()
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def note(self, line: str, event: str = "note") -> None:  # noqa: ARG002 - of records
        """Print it; the bar comes back with the next rows."""
        self.end(line)

    def stop(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
        self._progress = None


class JsonLog:
    """Writes records of what happens.

    Each has ``time`` (ISO 8601, UTC), ``level`` (``debug``, ``info``, ``warning`` or ``error``), ``event`` (``note``,
    ``log``, ``warning``, ``error``, ``progress``, ``pass``, ``search``, ``resumed`` or ``estimated``) and ``message``.
    Events of a pass also have numbers: its position, its end, and the part that an earlier run had done. They also
    report the quality of the encoder so far, and notes such as that rows are run again. Events of a search report its
    rounds and the best ratio so far.

    Parameters
    ----------
    stream : text stream
        Stream that the lines are written to.
    command : callable
        Gives the verb that runs, for the record.
    """

    def __init__(self, stream: TextIO, command: Callable[[], str]) -> None:
        self._stream = stream
        self._command = command

    def write(self, level: str, event: str, message: str, **numbers: Any) -> None:
        """Write one record."""
        record = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "event": event,
            "command": self._command(),
            "message": message,
        }
        print(json.dumps(record | numbers, allow_nan=False), file=self._stream, flush=True)


class JsonProgress:
    """Shows a meter as records: one every few seconds, and one when its rows have all come.

    Parameters
    ----------
    log : JsonLog
        Log that writes the events.
    clock : callable
        Seconds, from any origin.
    """

    def __init__(self, log: JsonLog, clock: Clock = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._meter: Meter | None = None
        self._said = clock()

    def update(self, meter: Meter) -> None:
        """Write where the meter stands, unless that was done a moment ago."""
        if self._meter is not meter or (meter.rows == 0 and meter.searching is None):
            self._meter, self._said = meter, self._clock()
        elif self._clock() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = self._clock()
            event = "progress" if meter.searching is None else "search"
            self._log.write("info", event, f"{meter.place[0]}: {meter.status}", **_numbers(meter))

    def end(self, line: str) -> None:
        """Write a line, with the numbers of the pass that has ended."""
        self._log.write("info", "pass", line, **({} if self._meter is None else _numbers(self._meter)))

    def note(self, line: str, event: str = "note") -> None:
        """Write a line, with the numbers of the pass at hand."""
        self._log.write("info", event, line, **({} if self._meter is None else _numbers(self._meter)))

    def stop(self) -> None:
        """Nothing to give back."""


def _numbers(meter: Meter) -> dict[str, Any]:
    return {
        "pass": meter.name,
        "rows": meter.rows,
        "n_rows": meter.n_rows,
        "bytes": meter.nbytes,
        "seconds": round(meter.seconds, 3),
        **({} if meter.searching is None else asdict(meter.searching)),
    }
