"""Standard error as JSON Lines, for collectors of the logs of batch jobs: one object a line, nothing else."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TextIO

from spae_dask.cli.progress import SECONDS_BETWEEN_LINES, Clock, Meter


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
