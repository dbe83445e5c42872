"""Rates of one source on this machine, measured in about a second. Pure, but for the clock.

A few blocks, spread over the source, are read; on one of them the very accumulators of the candidate passes are run,
in as many threads at once as a pass would use. So the conversion of types, sparse rows, cache and the memory bandwidth
that threads share are all in the numbers, and nothing of it needs a model.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from spae_dask.blocks import ArrayBlocks, Block, RowBlocks, column_groups, in_smaller_blocks, nbytes_of_rows
from spae_dask.passes.accumulators.base import Accumulator, scratch_nbytes
from spae_dask.passes.accumulators.sparse import PANEL_ROWS, density_of, flops_per_sparse_row
from spae_dask.passes.layout import PassLayout
from spae_dask.passes.orientation import as_read, by_groups, oriented
from spae_dask.passes.sweep import block_nbytes, unchecked, update_by_panels
from spae_dask.passes.threads import one_blas_thread
from spae_dask.quantities import format_nbytes, format_seconds

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

        The larger of two bounds: all cores busy all the time; and the task with the most spans, which may read the
        next block while it works on the present one.
        """
        n_spans = len(layout.spans)
        most_spans = -(-n_spans // min(tasks, n_spans))
        alone = max(self.waiting, self.updating) if layout.prefetches else self.waiting + self.updating
        return max(self.thread_seconds / cores, alone * most_spans / n_spans)


def nominal_work(source: RowBlocks, layout: PassLayout) -> PassWork:
    """Work of a pass at nominal rates; rows that are in memory already are not read."""
    reading = 0.0 if isinstance(source, ArrayBlocks) else layout.decodes_per_chunk * layout.nbytes / READ_RATE
    return PassWork(reading, reading, layout.flops / FLOP_RATE)


MOST_READS = 3
"""Blocks read, and read times: the first loads codecs and opens connections, the others are timed."""

MOST_NBYTES = 64 << 20
"""Decoded bytes read, unless one block has more."""

MOST_CHUNKS = 512
"""Chunks of a block that is read, unless one row of chunks has more: of small ones each takes its own time."""

LONG_READ = 0.5
"""Seconds of a first read after which no other is made."""

MOST_STATE_NBYTES = 256 << 20
"""Bytes that states and scratch of all threads together may take at most: to touch more for the first time takes too
long for a plan."""

TURN = 0.03
"""Seconds of arithmetic to time at once, where a panel of rows does not take longer."""

LONGEST_TURN = 0.25
"""Seconds a panel of rows may take by a first guess from few of its rows, and half the seconds by a second guess; else
fewer rows are timed."""

TURNS = 3
"""Turns of which the fastest counts."""

MOST_SECONDS = 2.0
"""Seconds of arithmetic in all; passes left after that are priced at nominal rates."""

Clock = Callable[[], float]


@dataclass(frozen=True)
class UpdateRate:
    """Seconds that one thread takes for a byte of rows in one pass."""

    strategy: str
    name: str
    seconds_per_byte: float


@dataclass(frozen=True)
class Calibration:
    """Measured rates.

    Attributes
    ----------
    nbytes, n_reads : int
        Decoded bytes read for it, in so many reads.
    seconds : float
        Seconds of the update.
    threads : int
        At once, while arithmetic was timed.
    reading, waiting : float
        Processor and clock seconds of reading a decoded byte, see ``PassWork``.
    updates : tuple of UpdateRate
        Arithmetic of the passes that were measured.
    untried : tuple of str
        Strategies of passes that were not, as too large or too slow to try.
    """

    nbytes: int
    n_reads: int
    seconds: float
    threads: int
    reading: float
    waiting: float
    updates: tuple[UpdateRate, ...]
    untried: tuple[str, ...] = ()

    def work(self, strategy: str, name: str, nbytes: int, nominal: PassWork, decodes: int = 1) -> PassWork:
        """Work of a pass over ``nbytes`` decoded bytes; arithmetic that was not measured stays nominal.

        ``decodes`` is how often each byte is decoded for one that was decoded when rates were measured.
        """
        rate = next((u.seconds_per_byte for u in self.updates if (u.strategy, u.name) == (strategy, name)), None)
        updating = nominal.updating if rate is None else rate * nbytes
        read = decodes * nbytes
        return PassWork(self.reading * read, self.waiting * read, updating, measured=rate is not None)

    def __str__(self) -> str:
        """Blocks that were read, and their rate."""
        took = f"in {format_seconds(self.seconds)} on {self.threads} thread{'' if self.threads == 1 else 's'}"
        rest = (
            f"; arithmetic of {', '.join(self.untried)} at nominal rates, too large to measure" if self.untried else ""
        )
        if not self.nbytes:
            return f"measured {took}; the data are in memory already{rest}"
        speed = (
            f"{format_nbytes(1 / self.reading)}/s of processor time"
            if self.reading > 0
            else "negligible processor time"
        )
        return f"measured {took}; {format_nbytes(self.nbytes)} read in {self.n_reads} blocks, {speed}{rest}"


def calibrate(
    source: RowBlocks,
    passes: Mapping[str, Sequence[tuple[str, Accumulator[Any]]]],
    threads: int,
    *,
    room: int = MOST_STATE_NBYTES,
    clock: Clock = time.perf_counter,
    cpu_clock: Clock = time.process_time,
) -> Calibration:
    """Read a few blocks, and run every accumulator on some of their rows.

    Parameters
    ----------
    source : RowBlocks
        The data; its blocks can be read at once (not those of a task graph, which would be computed for it).
    passes : mapping of str to sequence of (str, Accumulator)
        Names and recipes of the passes of each strategy, those that matter most first.
    threads : int
        Tasks at once on this machine.
    room : int
        Bytes that states and scratch may take in all of them together.
    clock, cpu_clock : callable
        Seconds by the clock, and of processor time of this process.

    Raises
    ------
    StorageError
        If a block cannot be read: a pass would fail on it too.
    """
    began = clock()
    groups = column_groups(source)
    as_seen = source if groups is None else by_groups(source)
    block, read = _time_reads(in_smaller_blocks(as_seen, MOST_CHUNKS), threads, clock, cpu_clock)
    block = _as_long_as(block, as_seen)
    first_row = 0 if groups is None else as_seen.bounds[(len(as_seen.bounds) - 1) // 2]
    updates: dict[tuple[str, str], UpdateRate] = {}
    untried: dict[str, None] = {}
    started = clock()
    for strategy, members in passes.items():
        for name, recipe in as_read(source, members):
            if (strategy, name) in updates:
                continue
            seen, fed = oriented(source, recipe)
            in_time = clock() - started < MOST_SECONDS and (groups is None or seen is not source)
            at_once = min(threads, len(PassLayout.of(seen, fed).spans))
            rate = update_rate(fed, block, at_once, room, clock, first_row, seen.shape[0]) if in_time else None
            if rate is None:
                untried[strategy] = None
            else:
                updates[strategy, name] = UpdateRate(strategy, name, rate)
    return Calibration(
        nbytes=read.nbytes,
        n_reads=read.n_reads,
        seconds=clock() - began,
        threads=threads,
        reading=read.reading,
        waiting=read.waiting,
        updates=tuple(updates.values()),
        untried=tuple(untried),
    )


@dataclass(frozen=True)
class _Reads:
    nbytes: int
    n_reads: int
    reading: float
    waiting: float


def _as_long_as(block: Block, source: RowBlocks) -> Block:
    """The rows of a smaller block, repeated to as many as the middle block of a source has."""
    middle = (len(source.bounds) - 1) // 2
    n_rows = source.bounds[middle + 1] - source.bounds[middle]
    if sp.issparse(block) or block.shape[0] >= n_rows:
        return block
    return np.resize(np.asarray(block), (n_rows, block.shape[1]))


def _time_reads(source: RowBlocks, threads: int, clock: Clock, cpu_clock: Clock) -> tuple[Block, _Reads]:
    """A block from the middle, and the rates of reading; several at once, as decoding shares the memory's bandwidth."""
    n_blocks = len(source.bounds) - 1
    first, *others = [n_blocks // 2, n_blocks // 6, 5 * n_blocks // 6][:MOST_READS]
    cpu, began = cpu_clock(), clock()
    block = source.read(first)
    took, cpu_took, nbytes = clock() - began, cpu_clock() - cpu, block_nbytes(block)
    if isinstance(source, ArrayBlocks):
        return block, _Reads(0, 0, 0.0, 0.0)
    room, again = MOST_NBYTES - nbytes, []
    for number in others:
        room -= nbytes_of_rows(source, source.bounds[number + 1] - source.bounds[number])
        if room >= 0 and took < LONG_READ:
            again.append(number)
    if not again:
        return block, _Reads(nbytes, 1, cpu_took / nbytes, took / nbytes)
    at_once = min(threads, len(again))
    with ThreadPoolExecutor(at_once) as pool:
        cpu, began = cpu_clock(), clock()
        read = sum(pool.map(lambda number: block_nbytes(source.read(number)), again))
        took, cpu_took = clock() - began, cpu_clock() - cpu
    return block, _Reads(nbytes + read, 1 + len(again), cpu_took / read, at_once * took / read)


def update_rate(
    recipe: Accumulator[Any],
    block: Block,
    threads: int,
    room: int,
    clock: Clock = time.perf_counter,
    first_row: int = 0,
    most_rows: int | None = None,
) -> float | None:
    """Seconds a byte of ``block`` takes in one of ``threads`` threads; None if it would take too long or too much room.

    The rows timed are whole panels where that takes no longer than ``TURN``, else as much of one as ``LONGEST_TURN``
    allows, with the rest added in proportion. Everything is done once before it is timed, so that memory is there and
    libraries are awake. States are begun anew before they hold more than ``most_rows``: some have no room for more.
    """
    held = recipe.state_nbytes + scratch_nbytes(recipe, block.shape[0])
    threads = min(threads, min(room, MOST_STATE_NBYTES) // max(1, held))
    panel, flops = recipe.panel_rows, recipe.flops_per_row
    if sp.issparse(block):
        panel, flops = max(panel, PANEL_ROWS), flops_per_sparse_row(recipe, density_of(block))
    panel = min(panel, block.shape[0])
    few = max(1, panel // 16)
    if threads == 0 or few * flops / FLOP_RATE > LONGEST_TURN:
        return None
    states, held_rows = [recipe.zero() for _ in range(threads)], 0

    def turn(n_rows: int) -> float:
        nonlocal held_rows
        rows = block[:n_rows]
        if most_rows is not None and held_rows + n_rows > most_rows:
            states[:], held_rows = [recipe.zero() for _ in range(threads)], 0
        held_rows += n_rows

        def update(i: int) -> None:
            with unchecked():
                states[i] = update_by_panels(recipe, states[i], rows, first_row)

        began = clock()
        list(pool.map(update, range(threads)))
        return clock() - began

    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        turn(few)
        first = max(turn(few), 1e-9)
        row_seconds = first / few
        whole = math.floor(TURN / (row_seconds * panel)) * panel
        part = min(panel, math.floor(LONGEST_TURN / row_seconds))
        n_rows = min(block.shape[0], max(whole, part, few))
        # a kernel of sparse rows is loaded by the first turn that is worth it, which may be this one
        turns = TURNS if sp.issparse(block) or n_rows * row_seconds < 2 * TURN else 1
        best = min(turn(n_rows) for _ in range(turns))
        if few < n_rows < panel:  # the fixed cost of a slice, such as touching the state, counts once
            more = max(0.0, best - first) / (n_rows - few) * (panel - n_rows)
            best, n_rows = min(best + more, best * panel / n_rows), panel
            if best < 2 * LONGEST_TURN:
                best = turn(panel)
    return best / block_nbytes(block[:n_rows])
