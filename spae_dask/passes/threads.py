"""One BLAS thread per worker thread.

Dask's nanny sets this through the environment; the threaded scheduler and workers without a nanny do not. BLAS
libraries that start a thread per core inside each of several worker threads slow everything down, and their results
depend on how many they start. The limit is a property of the process, so the guard counts who is inside.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import scipy.linalg  # noqa: F401 - loads scipy's own BLAS, so that the controller sees it
from threadpoolctl import ThreadpoolController

from spae_dask.errors import PassFailed


class _BlasGuard:
    """Holds all BLAS libraries of this process at one thread while anybody is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._controller: ThreadpoolController | None = None
        self._limiter: Any = None

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._controller = self._controller or _libraries()
                self._limiter = self._controller.limit(limits=1, user_api="blas")
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._limiter is not None:
                self._limiter.restore_original_limits()
                self._limiter = None


def _libraries() -> ThreadpoolController:
    """The BLAS libraries of this process.

    Raises
    ------
    PassFailed
        If the system does not list them.
    """
    try:
        return ThreadpoolController()
    except OSError as error:
        raise PassFailed(
            f"the libraries of this process cannot be listed ({error}), so BLAS cannot be kept to one thread and "
            "results could differ between machines. Make /proc readable."
        ) from error


_GUARD = _BlasGuard()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the body with single-threaded BLAS in this process; nests, and is safe in several threads."""
    _GUARD.enter()
    try:
        yield
    finally:
        _GUARD.leave()
