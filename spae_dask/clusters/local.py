"""Worker processes on this machine."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client, LocalCluster
from distributed.security import Security

from spae_dask.errors import ClusterUnavailable
from spae_dask.leftovers import scratch_folder
from spae_dask.settings import text_setting

START_TRIES = 2
"""Starts of a cluster before its failure is reported."""

LAST_WORDS = 4
"""Lines of the nannies' log that the error shows."""


@contextmanager
def local_cluster(n_workers: int, memory_limit: int) -> Iterator[Client]:
    """Start ``n_workers`` single-threaded processes, each limited to ``memory_limit`` bytes; stop them at the end.

    They speak TLS with certificates made for this run, which are nowhere but in their memory: whoever can connect to a
    scheduler runs code as its user, and every user of a machine can connect to its loopback.

    Raises
    ------
    ClusterUnavailable
        If a process dies or fails while it starts, twice.
    """
    with (
        scratch_folder("spae-workers-") as scratch,
        _started(n_workers, memory_limit, scratch) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _started(n_workers: int, memory_limit: int, scratch: str) -> LocalCluster:
    """A cluster whose workers have started. A start that fails is tried once more: memory may have been short."""
    for tries_left in range(START_TRIES - 1, -1, -1):
        with _words_of_nannies() as words:
            try:
                return LocalCluster(
                    n_workers=n_workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=memory_limit,
                    dashboard_address=text_setting("dashboard-address"),
                    local_directory=scratch,
                    silence_logs=logging.CRITICAL,
                    security=Security.temporary(),
                )
            except (RuntimeError, OSError) as error:  # an error of a nanny, caused by that of its worker
                if not tries_left:
                    raise _not_started(n_workers, error, words) from error
    raise AssertionError


def _not_started(n_workers: int, error: BaseException, words: list[str]) -> ClusterUnavailable:
    first = error
    while (earlier := first.__cause__ or first.__context__) is not None:
        first = earlier
    last = [*words[-LAST_WORDS:], f"{type(first).__name__}: {first}".rstrip(".")]
    return ClusterUnavailable(
        f"a local cluster of {n_workers} worker processes did not start, {START_TRIES} times. The last "
        f"lines of the workers: {' | '.join(last)}. Their own output is above. Check memory, /dev/shm and "
        "the limit of open files (`ulimit -n`). Or use fewer workers (--cluster local:1) or none "
        "(--cluster none)."
    )


class _Words(logging.Handler):
    """Keeps what is logged of worker processes, not of the nannies themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        said = " ".join(record.getMessage().split()).rstrip(".")
        if "Nanny at" not in said:
            self.words.append(said if record.exc_info is None else f"{said}: {record.exc_info[1]!r}")


@contextmanager
def _words_of_nannies() -> Iterator[list[str]]:
    """Collect the messages in which nannies report the ends of their workers, to show if the cluster does not start."""
    logger, handler = logging.getLogger("distributed.nanny"), _Words()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield handler.words
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
