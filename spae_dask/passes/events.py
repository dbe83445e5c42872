"""Records that a runner emits for its watcher. A runner never prints."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class PassStarted:
    """A sweep over the data begins.

    Attributes
    ----------
    name : str
        Purpose of the pass.
    n_spans, n_rows, nbytes : int
        Its size: spans, rows and decoded bytes.
    """

    name: str
    n_spans: int
    n_rows: int
    nbytes: int


@dataclass(frozen=True)
class Resumed:
    """Part of the sweep that has just begun was done by a run before this one; those rows are not read again.

    Attributes
    ----------
    n_done, n_spans : int
        Spans done, of how many.
    n_rows, nbytes : int
        Rows of those, and their decoded bytes.
    """

    n_done: int
    n_spans: int
    n_rows: int
    nbytes: int


@dataclass(frozen=True)
class RowsDone:
    """Rows have been read and summarised.

    Attributes
    ----------
    n_rows, nbytes : int
        Number of rows since the last such record.
    """

    n_rows: int
    nbytes: int


@dataclass(frozen=True)
class RunAgain:
    """A span that takes far longer than others gets a backup task on another worker; the first to finish counts.

    Attributes
    ----------
    first_row, last_row : int
        The rows, ``[first_row, last_row)``.
    slow_worker, worker : str
        Address of the slow worker, and of the worker of the backup task.
    seconds : float
        Seconds since the pass made progress.
    usual_seconds : float
        Mean seconds of a finished span.
    """

    first_row: int
    last_row: int
    slow_worker: str
    worker: str
    seconds: float
    usual_seconds: float


@dataclass(frozen=True)
class PassEnded:
    """A sweep has ended and its states are merged.

    Attributes
    ----------
    name : str
        As in ``PassStarted``.
    seconds : float
        Wall time.
    read_seconds, compute_seconds : float
        Time spent waiting for blocks and updating states, summed over tasks.
    """

    name: str
    seconds: float
    read_seconds: float
    compute_seconds: float


@dataclass(frozen=True)
class Estimated:
    """Estimate of the encoder so far.

    Attributes
    ----------
    fraction_read : float
        Share of the rows read.
    ratio, lower, upper : float
        Its loss over PCA's, and the interval of that.
    """

    fraction_read: float
    ratio: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Searching:
    """The search for the encoder goes on, after the passes or between them. One record for every column visited.

    Attributes
    ----------
    n_nonzero : int
        Most nonzeros a component may have in this search; where a target is given, several are tried.
    n_done, n_rounds : int
        Rounds done, of how many at most.
    ratio : float or None
        Least loss so far over PCA's, as far as that is known; None while columns are proposed on a sketch.
    """

    n_nonzero: int
    n_done: int
    n_rounds: int
    ratio: float | None


Event = PassStarted | Resumed | RowsDone | RunAgain | PassEnded | Estimated | Searching
Watcher = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Watch nothing."""
    del event
