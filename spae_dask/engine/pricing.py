"""Time of a pass: the work of one thread, and its share among several threads. Pure."""

import math
from dataclasses import dataclass

from spae_dask.blocks import ArrayBlocks, RowBlocks
from spae_dask.engine.layout import PassLayout

READ_RATE = 0.25e9
"""Decoded bytes a second and thread of a compressed store: nominal, for a first idea of the time."""

FLOP_RATE = 15e9
"""Float64 operations a second and thread: nominal."""


@dataclass(frozen=True)
class PassWork:
    """Work of one pass, in seconds.

    Attributes
    ----------
    reading : float
        Processor time of reading and decoding all blocks.
    waiting : float
        Clock time of reading all blocks one after another: more than ``reading`` where storage is slow, less where one
        read decodes several chunks at once.
    updating : float
        Arithmetic on all blocks, in one thread while the others are busy as well.
    measured : bool
        True if ``updating`` was measured; False if it follows from nominal rates.
    """

    reading: float
    waiting: float
    updating: float
    measured: bool = False

    @property
    def thread_seconds(self) -> float:
        """All of it on one core."""
        return self.reading + self.updating

    def seconds(self, layout: PassLayout, cores: int, tasks: int) -> float:
        """Clock time on ``cores`` cores with ``tasks`` span tasks at once.

        The larger of two bounds: all cores busy all the time; and the task with the most spans, which reads the next
        block while it works on the present one if it holds two.
        """
        n_spans = len(layout.spans)
        most_spans = -(-n_spans // min(tasks, n_spans))
        overlapped = layout.footprint.n_blocks_held > 1
        alone = max(self.waiting, self.updating) if overlapped else self.waiting + self.updating
        return max(self.thread_seconds / cores, alone * most_spans / n_spans)


def nominal_work(source: RowBlocks, layout: PassLayout) -> PassWork:
    """Work of a pass at nominal rates; rows that are in memory already are not read."""
    reading = 0.0 if isinstance(source, ArrayBlocks) else layout.nbytes / READ_RATE
    return PassWork(reading, reading, layout.flops / FLOP_RATE)


def format_seconds(seconds: float) -> str:
    """Seconds for people: ``0.4 s``, ``40 s``, ``12 min``, ``3.4 h``, ``5.0 d``."""
    units = ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h"), (math.inf, 86_400, "d"))
    _, length, unit = next(each for each in units if seconds <= each[0])
    number = seconds / length
    return f"{max(0.1, number):.1f} {unit}" if number < 9.95 else f"{number:.0f} {unit}"
