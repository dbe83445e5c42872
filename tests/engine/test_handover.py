"""A task that waits for its own sweep or for a state from elsewhere, whichever comes first."""

import gc
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest

from spae_dask.accumulators import Triangular
from spae_dask.accumulators.base import Rows, State
from spae_dask.blocks import ArrayBlocks
from spae_dask.engine import handover
from spae_dask.engine.spans import Span
from spae_dask.engine.sweep import Swept
from spae_dask.engine.tasks import sweep_lazy_task, sweep_task
from spae_dask.errors import StorageError

pytestmark = pytest.mark.timeout(60)

OWN, OTHER = (Swept({"x": np.full(2, number)}) for number in (1.0, 2.0))


def test_what_the_sweep_makes_is_returned_if_nothing_is_handed_in() -> None:
    assert handover.first_of("a", lambda wanted: OWN) is OWN
    assert not handover.hand("a", OTHER)


def test_an_error_of_the_sweep_is_raised_as_it_is() -> None:
    def fail(wanted: Callable[[], bool]) -> Swept:
        raise StorageError("chunk 'c/3/0' cannot be read")

    with pytest.raises(StorageError, match=r"^chunk 'c/3/0' cannot be read$"):
        handover.first_of("a", fail)


def test_a_stuck_sweep_is_not_waited_for_and_is_told_that_it_is_too_late() -> None:
    begun, released, told = threading.Event(), threading.Event(), []
    ended = threading.Event()

    def stuck(wanted: Callable[[], bool]) -> Swept:
        told.append(wanted())
        begun.set()
        released.wait(60)
        told.append(wanted())
        ended.set()
        return OWN

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(handover.first_of, "a", stuck)
        assert begun.wait(60)
        assert not handover.hand("b", OWN)
        assert handover.hand("a", OTHER)
        assert first.result(60) is OTHER
        released.set()
        assert ended.wait(60)
    assert told == [True, False]
    assert not handover.hand("a", OTHER)


def test_a_task_that_came_back_to_the_same_process_is_handed_the_state_as_well() -> None:
    begun, released = threading.Semaphore(0), threading.Event()

    def stuck(wanted: Callable[[], bool]) -> Swept:
        begun.release()
        released.wait(60)
        return OWN

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(handover.first_of, "a", stuck) for _ in range(2)]
        for _ in runs:
            assert begun.acquire(timeout=60)
        assert handover.hand("a", OTHER)
        assert [run.result(60) for run in runs] == [OTHER, OTHER]
        released.set()


def test_the_block_that_a_sweep_failed_on_is_not_kept_with_the_error() -> None:
    kept: list[weakref.ref[np.ndarray]] = []

    def fail(wanted: Callable[[], bool]) -> Swept:
        block = np.ones(1000)
        kept.append(weakref.ref(block))
        raise StorageError("chunk 'c/3/0' cannot be read")

    gc.disable()
    try:
        try:
            handover.first_of("a", fail)
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


@pytest.mark.parametrize("lazy", [False, True])
def test_a_sweep_that_is_too_late_ends_after_the_block_at_hand_and_gives_its_place_back(lazy: bool) -> None:
    begun, released, seen = threading.Event(), threading.Event(), []

    @dataclass(frozen=True)
    class Slow(Triangular):
        def update(self, state: State, rows: Rows, first_row: int) -> State:
            seen.append(first_row)
            begun.set()
            released.wait(60)
            return super().update(state, rows, first_row)

    source = ArrayBlocks(np.ones((40, 2)), 10)
    span = Span(0, 4, 0, 40)
    blocks = [source.read(i) for i in range(4)]
    gate = ("token", 1)
    with ThreadPoolExecutor(1) as pool:
        if lazy:
            first = pool.submit(sweep_lazy_task, Slow(2), span, gate, None, None, (0, 0), "a", *blocks)
        else:
            first = pool.submit(sweep_task, source, Slow(2), span, False, gate, None, None, (0, 0), "a")
        assert begun.wait(60)
        assert handover.hand("a", OTHER)
        assert first.result(60) is OTHER
        released.set()
        again = pool.submit(sweep_task, source, Triangular(2), span, False, gate, None, None, (0, 0), "a")
        assert int(again.result(60).state["count"]) == 40
    assert seen == [0]
