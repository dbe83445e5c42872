"""Sizes and time limits of passes: one frozen object, replaced for a while by `pass_options`, as numpy's errstate is.

Tests and benchmarks cut small data into many spans with it, and let a monitor warn after a second.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class PassOptions:
    """Sizes and time limits of passes.

    Attributes
    ----------
    min_span_nbytes : int
        Decoded bytes below which a span is not worth a task of its own.
    max_spans : int
        Largest number of spans in a pass, unless spans would have more than ``large_span_nbytes``. It bounds the work
        of the scheduler, whatever the number of chunks.
    large_span_nbytes, most_spans : int
        A pass over more than ``max_spans`` spans of so many bytes, 4 TiB, has more spans of that size, so that clusters
        of thousands of threads are busy; at most ``most_spans``.
    states_per_span : int
        Smallest ratio of the bytes of a span to the bytes of its state. Merging stays cheap beside reading. Data that
        would be cut into few spans have up to this many.
    few_states_nbytes : int
        Bytes that the states of those few spans may take together.
    fan_in : int or None
        Number of states that one task merges; None for many small states or two large ones.
    check_seconds : float
        Seconds between two looks of the monitor at the cluster.
    answer_seconds : float
        Time limit of one question to the scheduler, in seconds.
    scheduler_seconds : float
        Seconds without an answer after which the scheduler counts as lost.
    backup_factor, backup_seconds : float
        A pass stalls after ``backup_seconds`` without progress and ``backup_factor`` times the mean time of a span.
        Its last spans then get backup tasks.
    max_backups : int
        Largest number of backup tasks in a pass. One would be too few: a span that waits at the gate for a stuck span
        is stuck too.
    slow_factor, slow_seconds : float
        A pass is reported as slow after ``slow_seconds`` without progress and ``slow_factor`` times the mean time of a
        span.
    silent_seconds : float
        Seconds without a heartbeat after which a warning names a worker.
    no_workers_seconds : float
        Seconds that a run waits for a first or a new worker, unless dask's
        ``distributed.scheduler.no-workers-timeout`` is set. A node can restart in that time, but a job may not get
        through a queue.
    restart_seconds : float
        Seconds after which a cluster without workers is reported. Nannies restart their workers sooner.
    """

    min_span_nbytes: int = 32 << 20
    max_spans: int = 4096
    large_span_nbytes: int = 1 << 30
    most_spans: int = 1 << 14
    states_per_span: int = 8
    few_states_nbytes: int = 128 << 20
    fan_in: int | None = None
    check_seconds: float = 2.0
    answer_seconds: float = 10.0
    scheduler_seconds: float = 40.0
    backup_factor: float = 4
    backup_seconds: float = 30.0
    max_backups: int = 8
    slow_factor: float = 10
    slow_seconds: float = 60.0
    silent_seconds: float = 30.0
    no_workers_seconds: float = 300.0
    restart_seconds: float = 15.0


_current: ContextVar[PassOptions] = ContextVar("pass_options", default=PassOptions())  # noqa: B039 - it is frozen


def current_options() -> PassOptions:
    """Return the options in force."""
    return _current.get()


@contextmanager
def pass_options(**changes: Any) -> Iterator[PassOptions]:
    """Change options within a ``with`` block.

    Examples
    --------
    >>> with pass_options(min_span_nbytes=1):
    ...     current_options().min_span_nbytes
    1
    """
    token = _current.set(replace(_current.get(), **changes))
    try:
        yield _current.get()
    finally:
        _current.reset(token)
