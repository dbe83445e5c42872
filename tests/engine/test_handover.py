"""A task that waits for its own sweep or for a state from elsewhere, whichever comes first."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from spae_dask.engine import handover
from spae_dask.engine.sweep import Swept
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
