"""Lets a task of a worker end when dask cancels it, although a read of it may never come back.

No thread can be stopped while a read does not return. So the span is reduced by a thread beside the task's own thread.
The task waits for that thread, and looks every `LOOK_SECONDS` whether dask still wants the task. A cancelled task ends
and leaves the worker's thread to other tasks. The thread beside it holds its block, its state and its place at the gate
until the read returns, and ends then.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial
from typing import Any

from distributed import Reschedule, get_worker

from spae_dask.passes.sweep import Swept
from spae_dask.passes.tasks import Cancelled, leaf_task

LOOK_SECONDS = 0.5
"""Time between two looks at the state of the task."""

NOT_WANTED = ("cancelled", "resumed", "released", "forgotten")
"""States of a task on its worker, while it runs, in which dask drops its result."""


def leaf_on_worker(*args: Any) -> Swept:
    """Run `leaf_task` with these arguments until dask cancels the task."""
    worker = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    if task is None:
        raise Reschedule
    return until_cancelled(partial(leaf_task, *args), lambda: task.state not in NOT_WANTED)


def until_cancelled(make: Callable[..., Swept], wanted: Callable[[], bool]) -> Swept:
    """Give what ``make(wanted=wanted)`` returns in a thread of its own.

    Parameters
    ----------
    make : callable
        Makes a state, and asks ``wanted`` now and then.
    wanted : callable
        Tells whether the state is still wanted.

    Raises
    ------
    Reschedule
        If the state is not wanted any more. Dask drops it then, and would run the task anew if it changed its mind.
    Exception
        The error of ``make``.
    """
    outcome: Future[Swept] = Future()
    try:
        # a daemon thread as dask's own are: a read that never returns must not keep the worker from leaving. It runs in
        # the context of the task, by which dask knows its worker
        target = copy_context().run
        threading.Thread(target=target, args=(_run, make, wanted, outcome), name="spae-span", daemon=True).start()
        while wanted():
            wait((outcome,), LOOK_SECONDS)
            if outcome.done():
                return outcome.result()
    except Cancelled:
        pass
    finally:
        del outcome  # an error in it leads back here, and the block that was at fault would stay in memory
    raise Reschedule


def _run(make: Callable[..., Swept], wanted: Callable[[], bool], outcome: "Future[Swept]") -> None:
    try:
        outcome.set_result(make(wanted=wanted))
    except BaseException as error:
        outcome.set_exception(error)
    finally:
        del outcome
