"""Peak resident memory of a worker process, sampled in the worker itself."""

import gc
import threading
from types import TracebackType

import psutil
from distributed import Client

SECONDS_BETWEEN_SAMPLES = 0.002


class _Sampler(threading.Thread):
    """Keeps the largest resident size of this process until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(name="resident-sampler", daemon=True)
        self.process = psutil.Process()
        self.idle = self.peak = self.process.memory_info().rss
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(SECONDS_BETWEEN_SAMPLES):
            self.peak = max(self.peak, self.process.memory_info().rss)


_SAMPLERS: list[_Sampler] = []


def _start() -> None:
    gc.collect()
    _SAMPLERS.append(_Sampler())
    _SAMPLERS[-1].start()


def _stop() -> int:
    sampler = _SAMPLERS.pop()
    sampler.over.set()
    sampler.join()
    return sampler.peak - sampler.idle


class PeakAboveIdle:
    """While this is open, every worker of ``client`` is sampled; afterwards ``nbytes`` has the largest peak."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.nbytes = 0

    def __enter__(self) -> "PeakAboveIdle":
        self.client.run(_start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.nbytes = max(self.client.run(_stop).values())
