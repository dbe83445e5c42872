"""A task waits for the thread that reduces its span, until the task is cancelled."""

import gc
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from distributed import Reschedule

from spae_dask.blocks import ArrayBlocks
from spae_dask.engine import cancelling
from spae_dask.engine.cancelling import until_cancelled
from spae_dask.errors import StorageError
from spae_dask.passes.accumulators import Triangular
from spae_dask.passes.accumulators.base import Rows, State
from spae_dask.passes.spans import Span
from spae_dask.passes.sweep import Swept
from spae_dask.passes.tasks import Gate, PassTasks, leaf_task

pytestmark = pytest.mark.timeout(60)

OWN = Swept({"x": np.full(2, 1.0)})


@pytest.fixture(autouse=True)
def frequent_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancelling, "LOOK_SECONDS", 0.01)


def test_a_task_that_is_wanted_returns_what_was_made() -> None:
    def late(wanted: Callable[[], bool]) -> Swept:
        time.sleep(0.1)  # several looks
        assert wanted()
        return OWN

    assert until_cancelled(late, lambda: True) is OWN


@pytest.mark.parametrize("error", [StorageError("chunk 'c/3/0' cannot be read"), TimeoutError("the store is slow")])
def test_an_error_is_raised_as_it_is(error: Exception) -> None:
    def fail(wanted: Callable[[], bool]) -> Swept:
        raise error

    with pytest.raises(type(error)) as caught:
        until_cancelled(fail, lambda: True)
    assert caught.value is error


def test_a_cancelled_task_ends_while_its_read_hangs_and_the_read_is_told() -> None:
    begun, released, ended, cancelled = (threading.Event() for _ in range(4))
    told = []

    def stuck(wanted: Callable[[], bool]) -> Swept:
        told.append(wanted())
        begun.set()
        released.wait(60)
        told.append(wanted())
        ended.set()
        return OWN

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(until_cancelled, stuck, lambda: not cancelled.is_set())
        assert begun.wait(60)
        cancelled.set()
        with pytest.raises(Reschedule):
            first.result(60)
        released.set()
        assert ended.wait(60)
    assert told == [True, False]


def test_the_block_that_a_sweep_failed_on_is_not_kept_with_the_error() -> None:
    kept: list[weakref.ref[np.ndarray]] = []

    def fail(wanted: Callable[[], bool]) -> Swept:
        block = np.ones(1000)
        kept.append(weakref.ref(block))
        raise StorageError("chunk 'c/3/0' cannot be read")

    gc.disable()
    try:
        try:
            until_cancelled(fail, lambda: True)
        except StorageError:
            assert kept[0]() is not None  # the traceback shows it
        assert wait_until(lambda: kept[0]() is None)  # the thread may still be ending
    finally:
        gc.enable()


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_a_cancelled_span_ends_after_the_block_at_hand_and_gives_its_place_back() -> None:
    begun, released, cancelled, seen = threading.Event(), threading.Event(), threading.Event(), []

    @dataclass(frozen=True)
    class Slow(Triangular):
        def update(self, state: State, rows: Rows, first_row: int) -> State:
            seen.append(first_row)
            begun.set()
            released.wait(60)
            return super().update(state, rows, first_row)

    source, span, gate = ArrayBlocks(np.ones((40, 2)), 10), Span(0, 4, 0, 40), Gate("token", 1)

    def make(recipe: Triangular) -> Callable[..., Swept]:
        return partial(leaf_task, source, PassTasks(recipe, None, gate), (0, 0), span)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(until_cancelled, make(Slow(2)), lambda: not cancelled.is_set())
        assert begun.wait(60)
        cancelled.set()
        with pytest.raises(Reschedule):
            first.result(60)
        released.set()
        again = pool.submit(until_cancelled, make(Triangular(2)), lambda: True)
        assert int(again.result(60).state["count"]) == 40
    assert seen == [0]
