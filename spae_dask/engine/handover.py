"""How a task that is stuck comes to its end: it takes the state that another worker was faster to make.

A task cannot be stopped while a read does not come back. So it has its span swept by a thread beside its own, and waits
for that thread, or for a state that is handed to it from outside, whichever comes first. What is swept too late is
dropped, after the block at hand; until then its thread holds that block, its state and its place at the gate.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextvars import copy_context

from spae_dask.engine.kept_pass import Found

_WAITING: list[tuple[str, "Future[Found]"]] = []
"""Tasks of this process that wait, by key; a key is there twice if a task that was taken away has come back."""

_LOCK = threading.Lock()


class TooLate(Exception):
    """What a sweep ends with whose state is not wanted any more; nobody hears of it."""


def first_of(key: str, sweep: Callable[[Callable[[], bool]], Found]) -> Found:
    """What ``sweep`` makes, or what is handed to ``key`` before.

    Parameters
    ----------
    key : str
        Of the task.
    sweep : callable
        Is run in a thread of its own, and given a function that says whether its state is still wanted.

    Raises
    ------
    Exception
        What ``sweep`` raised.
    """
    outcome: Future[Found] = Future()
    entry = key, outcome
    with _LOCK:
        _WAITING.append(entry)
    try:
        # as daemon as dask's own threads: a read that never comes back must not keep a worker from leaving; and in the
        # task's own context, by which dask knows on which worker it is
        threading.Thread(
            target=copy_context().run, args=(_run, sweep, outcome), name=f"span-{key}", daemon=True
        ).start()
        return outcome.result()
    finally:
        with _LOCK:
            _WAITING[:] = [each for each in _WAITING if each is not entry]
        del entry, outcome  # an error in it leads back here, and a block that was at fault would stay in memory


def is_awaited(key: str) -> bool:
    """Whether tasks of this process wait under ``key``."""
    with _LOCK:
        return any(each == key for each, _ in _WAITING)


def hand(key: str, swept: Found) -> bool:
    """Give the state to the tasks of this process that wait under ``key``; whether there were any."""
    with _LOCK:
        waiting = [outcome for each, outcome in _WAITING if each == key]
    return sum(_settled(outcome.set_result, swept) for outcome in waiting) > 0  # all of them are told, so not any()


def _run(sweep: Callable[[Callable[[], bool]], Found], outcome: "Future[Found]") -> None:
    try:
        swept = sweep(lambda: not outcome.done())  # noqa: F821 - it is deleted when this is called no more
    except BaseException as error:
        _settled(outcome.set_exception, error)
    else:
        _settled(outcome.set_result, swept)
    finally:
        del outcome


def _settled(settle: Callable[..., None], *args: object) -> bool:
    try:
        settle(*args)
    except InvalidStateError:
        return False  # the other one was first
    return True
