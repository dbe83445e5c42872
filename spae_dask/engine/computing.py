"""Computes tasks on threads of this process or on a cluster's workers, and tells the watcher how far they are."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import dask
from distributed import Client
from distributed.scheduler import KilledWorker

from spae_dask.blocks import RowBlocks, nbytes_of_rows
from spae_dask.engine.deaths import died_too_often
from spae_dask.engine.events import PassEnded, PassStarted, Resumed, RowsDone, RunAgain, Watcher
from spae_dask.engine.spans import Span
from spae_dask.engine.task_graphs import TaskGraph
from spae_dask.engine.threads import one_blas_thread
from spae_dask.engine.watchdog import Watchdog
from spae_dask.errors import ClusterUnavailable


@dataclass(frozen=True)
class Computing:
    """Where tasks over a source are computed.

    Parameters
    ----------
    source : RowBlocks
        The matrix.
    client : distributed.Client or None
        Of the cluster; ``None`` is the threaded scheduler of this process.
    n_threads : int
        Tasks that run at once in this process.
    watch : callable
        Receives events, from one thread at a time.
    """

    source: RowBlocks
    client: Client | None
    n_threads: int
    watch: Watcher
    _watch_lock: threading.Lock = field(default_factory=threading.Lock)

    def compute(self, name: str, graph: TaskGraph, resumed: Resumed | None = None) -> Any:
        """What is wanted of the tasks, while the watcher is told which spans are done.

        Raises
        ------
        PassFailed
            If workers die of a task, one after the other.
        ClusterUnavailable
            If the scheduler does not answer, or no worker is there, for too long.
        Exception
            That of a task.
        """
        n_rows, n_spans = sum(span.n_rows for span in graph.spans), len(graph.spans)
        if resumed is not None:
            n_rows, n_spans = n_rows + resumed.n_rows, n_spans + resumed.n_done
        self._emit(PassStarted(name, n_spans, n_rows, nbytes_of_rows(self.source, n_rows)))
        if resumed is not None:
            self._emit(resumed)
        began = time.perf_counter()
        if self.client is None:
            result, times = self._on_threads(graph)
        else:
            result, times = self._on_cluster(self.client, name, graph)
        read, compute = (sum(s[i] for s in times) for i in (0, 1))
        self._emit(PassEnded(name, time.perf_counter() - began, read, compute))
        return result

    def rows_done(self, n_rows: int, nbytes: int) -> None:
        """Be told of a block by a task of this process."""
        self._emit(RowsDone(n_rows, nbytes))

    def _on_threads(self, graph: TaskGraph) -> tuple[Any, list[tuple[float, float]]]:
        # A pool of our own: an interrupt while dask's own pool starts a thread would leave one that nobody ends.
        with one_blas_thread(), ThreadPoolExecutor(self.n_threads) as pool:
            result, *times = dask.compute(
                graph.root, *graph.dones, scheduler="threads", pool=pool, optimize_graph=False
            )
        return result, times

    def _on_cluster(self, client: Client, name: str, graph: TaskGraph) -> tuple[Any, list[tuple[float, float]]]:
        futures = client.compute([graph.root, *graph.dones], optimize_graph=False)
        span_of = {future.key: span for future, span in zip(futures[1:], graph.spans, strict=True)}
        tasks = _spans_of_tasks(span_of)
        watchdog = Watchdog(client, name, tasks, len(graph.spans), graph.again, self._emit)
        result, times = None, []
        try:
            for future, value in watchdog.completed(futures):
                if isinstance(value, CancelledError):
                    raise value
                if future.key not in span_of:
                    result = value
                    continue
                # its worker may be lost: dask would sweep the span again for what is known here
                future.release()
                times.append(value)
                watchdog.done(sum(value))
                n_rows = span_of[future.key].n_rows
                self._emit(RowsDone(n_rows, nbytes_of_rows(self.source, n_rows)))
            return result, times
        except KilledWorker as error:
            raise died_too_often(client, name, tasks, error) from error
        except (TimeoutError, ConnectionError, CancelledError) as error:
            if any(future.status == "error" for future in futures):
                raise  # a task's own, such as that of a dask array's storage
            raise ClusterUnavailable(f"{name}: the scheduler stopped answering: {error}") from error
        finally:
            watchdog.end()
            client.cancel(futures, force=True)

    def _emit(self, event: PassStarted | Resumed | RowsDone | RunAgain | PassEnded) -> None:
        with self._watch_lock:
            self.watch(event)


def _spans_of_tasks(span_of: Mapping[str, Span]) -> dict[str, Span]:
    """The span of each task that reads, and of the one that tells that it is done, whose spans are given."""
    return {f"{kind}{key.removeprefix('done-')}": s for key, s in span_of.items() for kind in ("", "done-", "sweep-")}
