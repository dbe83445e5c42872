"""Side by side in one run: the sides take turns, and ratios are of turns that were neighbours in time.

A shared or throttled machine changes speed from minute to minute; two neighbours mostly saw the same speed. Processor
time (user and system, all threads of this process) is reported beside the clock, because a busy machine stretches the
clock only.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spae_dask.passes.events import Event, PassEnded, PassStarted


@dataclass(frozen=True)
class Timed:
    """Seconds of one turn.

    Attributes
    ----------
    wall : float
        By the clock.
    cpu : float
        User and system time.
    """

    wall: float
    cpu: float

    def __add__(self, other: "Timed") -> "Timed":
        return Timed(self.wall + other.wall, self.cpu + other.cpu)

    def times(self, factor: float) -> "Timed":
        """As long as ``factor`` turns."""
        return Timed(self.wall * factor, self.cpu * factor)


def processor_seconds() -> float:
    """User and system time of this process so far."""
    return time.process_time()


def timed(turn: Callable[[], object], cpu_clock: Callable[[], float] = processor_seconds) -> Timed:
    """Seconds that ``turn`` takes."""
    cpu, wall = cpu_clock(), time.perf_counter()
    turn()
    wall = time.perf_counter() - wall
    return Timed(wall, cpu_clock() - cpu)


def take_turns(sides: Mapping[str, Callable[[], Timed]], repetitions: int) -> dict[str, list[Timed]]:
    """One untimed turn each to warm caches and imports, then A B A B ..."""
    for side in sides.values():
        side()
    turns: dict[str, list[Timed]] = {name: [] for name in sides}
    for _ in range(repetitions):
        for name, side in sides.items():
            turns[name].append(side())
    return turns


@dataclass(frozen=True)
class Ratio:
    """Median, least and largest of paired ratios."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, above: Sequence[float], below: Sequence[float]) -> "Ratio":
        """Ratios of neighbours."""
        ratios = [a / b for a, b in zip(above, below, strict=True)]
        return cls(statistics.median(ratios), min(ratios), max(ratios))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def wall_ratio(above: Sequence[Timed], below: Sequence[Timed]) -> Ratio:
    """Ratio by the clock."""
    return Ratio.of([t.wall for t in above], [t.wall for t in below])


def cpu_ratio(above: Sequence[Timed], below: Sequence[Timed]) -> Ratio:
    """Ratio of processor time."""
    return Ratio.of([t.cpu for t in above], [t.cpu for t in below])


def typical(turns: Sequence[Timed]) -> Timed:
    """Median seconds."""
    return Timed(statistics.median(t.wall for t in turns), statistics.median(t.cpu for t in turns))


class PassClock:
    """A watcher of engine events that times the passes alone, without the planning before and the algebra after."""

    def __init__(self) -> None:
        self.seconds = Timed(0.0, 0.0)
        self._began = (0.0, 0.0)

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        now = (time.perf_counter(), processor_seconds())
        if isinstance(event, PassStarted):
            self._began = now
        elif isinstance(event, PassEnded):
            self.seconds += Timed(now[0] - self._began[0], now[1] - self._began[1])
