"""Cost of a run, from the events that it emits. Pure, but for the clock."""

import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spae_dask.passes.events import Event, PassEnded, Watcher


@dataclass(frozen=True)
class Measured:
    """Cost of a run.

    Attributes
    ----------
    seconds : float
        Of all of it, from the plan on.
    passes : tuple of PassEnded
        Each sweep over the data.
    peak_nbytes : int
        Peak resident memory of the calling process since it started, its libraries and all that it did before
        included. Workers are other processes.
    """

    seconds: float
    passes: tuple[PassEnded, ...]
    peak_nbytes: int

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return asdict(self)


class Stopwatch:
    """A watcher that hands every event on and notes the passes.

    Parameters
    ----------
    watch : callable
        Next watcher of the events.
    """

    def __init__(self, watch: Watcher) -> None:
        self._watch = watch
        self._began = time.perf_counter()
        self._passes: list[PassEnded] = []

    def __call__(self, event: Event) -> None:
        """Take an event of the engine."""
        if isinstance(event, PassEnded):
            self._passes.append(event)
        self._watch(event)

    def read(self) -> Measured:
        """Measurements so far."""
        return Measured(time.perf_counter() - self._began, tuple(self._passes), peak_nbytes())


def peak_nbytes() -> int:
    """Peak resident memory of this process so far."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    except (
        OSError,
        IndexError,
        ValueError,
    ):  # not Linux; the value below may include the process that started this one
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
