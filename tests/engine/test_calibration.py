"""Measured rates: what is read for them, and the arithmetic of times, by a clock that only work moves."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from spae_dask.blocks import ArrayBlocks, uniform_bounds
from spae_dask.passes.accumulators import Gram, Moments
from spae_dask.passes.accumulators.whole_rows import WholeRows
from spae_dask.passes.calibration import (
    FLOP_RATE,
    MOST_CHUNKS,
    MOST_NBYTES,
    READ_RATE,
    Calibration,
    PassWork,
    UpdateRate,
    calibrate,
    nominal_work,
    update_rate,
)
from spae_dask.passes.layout import PassLayout
from tests.estimators.sources import Unreadable

READING, UPDATING = 3e-6, 5e-4


@dataclass
class Time:
    """Seconds that pass when somebody works."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(eq=False)
class Slow:
    """A source of ones whose every byte takes ``READING`` seconds."""

    shape: tuple[int, int]
    rows_per_block: int
    time: Time
    reads: list[int] = field(default_factory=list)
    dtype: Any = field(default_factory=lambda: np.dtype("f4"))
    read_nbytes: int = 0
    in_process: bool = False

    @property
    def bounds(self) -> Any:
        return uniform_bounds(self.shape[0], self.rows_per_block)

    def read(self, i: int) -> Any:
        self.reads.append(i)
        rows = np.ones((self.bounds[i + 1] - self.bounds[i], self.shape[1]), dtype=self.dtype)
        self.time.now += READING * rows.nbytes
        return rows

    def describe(self) -> str:
        return "slow ones"


@dataclass(frozen=True, eq=False)
class SlowMoments(Moments):
    """Moments that take ``UPDATING`` seconds a row."""

    time: Time = field(default_factory=Time)

    def update(self, state: Any, rows: Any, first_row: int) -> Any:
        self.time.now += UPDATING * rows.shape[0]
        return super().update(state, rows, first_row)


def test_rates_are_those_of_the_clock() -> None:
    time = Time()
    source = Slow((600, 10), 100, time)
    found = calibrate(
        source, {"some": [("one", SlowMoments(10, time=time))]}, threads=1, clock=time, cpu_clock=lambda: time.now / 2
    )
    assert found.waiting == pytest.approx(READING)
    assert found.reading == pytest.approx(READING / 2)
    (rate,) = found.updates
    assert (rate.strategy, rate.name) == ("some", "one")
    assert rate.seconds_per_byte == pytest.approx(UPDATING / 40)
    assert (found.n_reads, found.nbytes) == (3, 3 * 100 * 40)
    assert sorted(source.reads) == [1, 3, 5]
    assert found.seconds == pytest.approx(time.now)


@pytest.mark.parametrize(
    ("shape", "rows_per_block", "n_reads"),
    [
        ((10, 10), 10, 3),  # one small block, read again
        ((50, 10**6), 10, 1),  # two blocks are more than may be read
        ((50, 5 * 10**6), 5, 1),  # even one is
    ],
)
def test_reads_are_few_and_bounded_in_bytes(shape: tuple[int, int], rows_per_block: int, n_reads: int) -> None:
    source = Slow(shape, rows_per_block, Time())
    found = calibrate(source, {}, threads=1)
    assert found.n_reads == len(source.reads) == n_reads
    one = rows_per_block * shape[1] * 4
    assert found.nbytes == n_reads * one <= max(MOST_NBYTES, one)


def test_a_slow_store_is_read_once() -> None:
    time = Time()
    source = Slow((100_000, 10), 10_000, time)
    assert READING * 400_000 > 1
    found = calibrate(source, {}, threads=1, clock=time, cpu_clock=time)
    assert source.reads == [5]
    assert found.waiting == pytest.approx(READING)


OF_CHUNK, CHUNK_ROWS = 0.25, 4


@dataclass(eq=False)
class Chunked(Slow):
    """A source whose every chunk of ``CHUNK_ROWS`` rows takes ``OF_CHUNK`` seconds, however few bytes it has."""

    def read(self, i: int) -> Any:
        rows = super().read(i)
        self.time.now += OF_CHUNK * rows.shape[0] / CHUNK_ROWS - READING * rows.nbytes
        return rows

    def in_smaller_blocks(self, most_chunks: int) -> "Chunked":
        return Chunked(self.shape, most_chunks * CHUNK_ROWS, self.time, self.reads)


def test_of_blocks_of_many_chunks_few_are_read_and_all_are_priced() -> None:
    time = Time()
    source, recipe = Chunked((400_000, 5), 80_000, time), SlowMoments(5, time=time)
    found = calibrate(source, {"some": [("one", recipe)]}, threads=1, clock=time, cpu_clock=time)
    assert found.nbytes <= found.n_reads * MOST_CHUNKS * CHUNK_ROWS * 20
    n_chunks = 400_000 // CHUNK_ROWS
    layout = PassLayout.of(source, recipe)
    work = found.work("some", "one", layout.nbytes, nominal_work(source, layout))
    assert work.waiting == work.reading == pytest.approx(OF_CHUNK * n_chunks)
    assert work.updating == pytest.approx(UPDATING * 400_000)


def test_arithmetic_is_timed_on_as_many_rows_as_a_pass_has_at_once() -> None:
    seen = []

    @dataclass(frozen=True, eq=False)
    class Watched(Moments):
        def update(self, state: Any, rows: Any, first_row: int) -> Any:
            seen.append(rows.shape[0])
            return super().update(state, rows, first_row)

    calibrate(Chunked((400_000, 5), 80_000, Time()), {"some": [("one", Watched(5))]}, threads=1)
    assert max(seen) == Watched(5).panel_rows > MOST_CHUNKS * CHUNK_ROWS


def test_rows_in_memory_count_as_not_read() -> None:
    found = calibrate(ArrayBlocks(np.ones((100, 5)), 10), {"gram": [("core", Gram(5))]}, threads=2)
    assert (found.nbytes, found.reading, found.waiting) == (0, 0.0, 0.0)
    assert len(found.updates) == 1
    assert "in memory already" in str(found)


def test_what_would_take_too_much_room_or_time_is_not_tried() -> None:
    @dataclass(frozen=True, eq=False)
    class Endless(Moments):
        flops_per_row = 1e15

        def update(self, state: Any, rows: Any, first_row: int) -> Any:
            raise AssertionError("tried")

    rows = np.ones((1000, 20), dtype="f4")
    assert update_rate(Gram(20), rows, 1, room=Gram(20).state_nbytes) is None
    assert update_rate(Gram(20), rows, 1, room=2**30) is not None
    assert update_rate(Endless(20), rows, 1, room=2**30) is None


def test_strategies_that_were_not_tried_are_named() -> None:
    rows = ArrayBlocks(np.ones((100, 5)), 10)
    found = calibrate(rows, {"gram": [("core", Gram(5))], "moments": [("all", Moments(5))]}, 1, room=0)
    assert found.untried == ("gram", "moments")
    assert "arithmetic of gram, moments at nominal rates" in str(found)
    many = ArrayBlocks(np.ones((SlowMoments(5).panel_rows, 5)), 10**6)
    time = Time()
    slowest = {name: [("all", SlowMoments(5, time=time))] for name in map(str, range(40))}
    late = calibrate(many, slowest, 1, clock=time).untried
    assert late == tuple(map(str, range(40)))[-len(late) :]
    assert 0 < len(late) < 40


def test_of_a_panel_too_slow_to_time_the_rest_is_added_in_proportion() -> None:
    time = Time()
    recipe = SlowMoments(10, time=time)
    assert recipe.panel_rows * UPDATING > 1
    rows = np.ones((recipe.panel_rows, 10), dtype="f4")
    assert update_rate(recipe, rows, 1, 2**30, time) == pytest.approx(UPDATING / 40)
    assert time.now < recipe.panel_rows * UPDATING


def test_a_state_of_all_rows_is_not_given_more_of_them() -> None:
    source, recipe = Slow((160, 50), 160, Time()), WholeRows(50, 160)
    found = calibrate(source, {"tsqr": [("core", recipe)]}, threads=2)
    assert found.untried == ()
    assert found.updates[0].seconds_per_byte > 0


def test_sparse_rows_are_timed_by_the_bytes_that_are_stored() -> None:
    @dataclass(frozen=True, eq=False)
    class SlowSparse(SlowMoments):
        def update_sparse(self, state: Any, rows: Any, first_row: int) -> Any:
            self.time.now += UPDATING * rows.shape[0]
            return state

    time, rows = Time(), sp.csr_array(np.eye(10, dtype="f4"))
    seconds = update_rate(SlowSparse(10, time=time), rows, 1, 2**30, time)
    assert seconds == pytest.approx(10 * UPDATING / (rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes))


MEASURED = Calibration(100, 3, 0.5, 2, reading=1e-8, waiting=4e-8, updates=(UpdateRate("gram", "core", 2e-8),))


def test_a_pass_that_was_measured_is_priced_by_its_rates_and_another_at_nominal_ones() -> None:
    nominal = PassWork(1.0, 1.0, 7.0)
    known = MEASURED.work("gram", "core", 10**9, nominal)
    assert (known.reading, known.waiting, known.updating) == pytest.approx((10.0, 40.0, 20.0))
    assert known.measured
    other = MEASURED.work("tsqr", "core", 10**9, nominal)
    assert (other.reading, other.updating, other.measured) == (pytest.approx(10.0), 7.0, False)


def layout_of(rows_per_block: int = 2**14, in_process: bool = False) -> PassLayout:
    return PassLayout.of(Unreadable((2**18, 128), rows_per_block, in_process=in_process), Gram(128))


def test_time_is_bounded_by_the_cores_and_by_the_slowest_task() -> None:
    layout = layout_of()  # 128 MiB: four spans
    assert len(layout.spans) == 4
    work = PassWork(reading=8.0, waiting=8.0, updating=4.0)
    assert work.seconds(layout, cores=1, tasks=1) == 12.0
    assert work.seconds(layout, cores=2, tasks=2) == 6.0
    # three tasks: one of them has two of the four spans
    assert work.seconds(layout, cores=100, tasks=3) == 8.0 * 2 / 4
    assert work.seconds(layout, cores=100, tasks=100) == 8.0 / 4
    slow = PassWork(reading=1.0, waiting=100.0, updating=4.0)
    assert slow.seconds(layout, cores=4, tasks=4) == 25.0


def test_without_a_second_block_reading_and_arithmetic_take_turns() -> None:
    layout = layout_of(in_process=True)
    assert not layout.prefetches
    assert PassWork(8.0, 8.0, 4.0).seconds(layout, cores=100, tasks=4) == 3.0


def test_nominal_work_is_bytes_and_operations_at_nominal_rates() -> None:
    source = Unreadable((10**6, 100), 1000)
    layout = PassLayout.of(source, Gram(100))
    work = nominal_work(source, layout)
    assert work.reading == work.waiting == 4e8 / READ_RATE
    assert work.updating == Gram(100).flops_per_row * 1e6 / FLOP_RATE
    held = ArrayBlocks(np.ones((10, 2)), 5)
    assert nominal_work(held, PassLayout.of(held, Gram(2))).reading == 0
