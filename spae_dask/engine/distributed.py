"""The dask runner: one task a span and a fixed merge tree, on threads of this process or on a cluster's workers.

The only file that builds dask tasks. The source and the recipe are one graph node each, so a task carries nothing but
its span; nothing n-sized is ever gathered.
"""

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import dask
from dask.delayed import Delayed, delayed
from distributed import Client
from distributed.scheduler import KilledWorker

from spae_dask.accumulators.base import Accumulator, State
from spae_dask.blocks import Block, LazyRowBlocks, RowBlocks, nbytes_of_rows
from spae_dask.engine.deaths import died_too_often
from spae_dask.engine.events import PassEnded, PassStarted, RowsDone, Watcher, ignore
from spae_dask.engine.layout import PassLayout, Tally
from spae_dask.engine.spans import Span, merge_levels
from spae_dask.engine.sweep import BlockWatcher, Swept, merge_swept, sweep, sweep_blocks, unchecked
from spae_dask.engine.threads import one_blas_thread
from spae_dask.engine.watchdog import Watchdog
from spae_dask.engine.work import HeldBlocks, SpanWork
from spae_dask.errors import ClusterUnavailable

Result = TypeVar("Result")

_GATES: WeakValueDictionary[str, threading.BoundedSemaphore] = WeakValueDictionary()
_GATES_LOCK = threading.Lock()


def _gate(token: str, tasks: int) -> threading.BoundedSemaphore:
    """Semaphore of one run in this process: lets ``tasks`` span tasks hold their blocks and states at once."""
    with _GATES_LOCK:
        gate = _GATES.get(token)
        if gate is None:  # nobody holds it or waits for it
            gate = _GATES[token] = threading.BoundedSemaphore(tasks)
        return gate


class DaskRunner:
    """Runs passes over ``source`` on dask.

    Parameters
    ----------
    source : RowBlocks
        The matrix.
    client : distributed.Client or None
        Where to run; ``None`` is the threaded scheduler of this process.
    tasks_per_worker : int
        Span tasks that run at once in one process.
    watch : callable
        Receives events, from one thread at a time.

    Attributes
    ----------
    tally : Tally
        Passes made and bytes read so far.
    """

    def __init__(
        self, source: RowBlocks, client: Client | None, tasks_per_worker: int, watch: Watcher = ignore
    ) -> None:
        self.source = source
        self.client = client
        self.tasks_per_worker = tasks_per_worker
        self.watch = watch
        self.tally = Tally()
        self._watch_lock = threading.Lock()

    def run_pass(self, accumulator: Accumulator[Result], name: str = "pass") -> Result:
        """Sweep the source once and return what ``accumulator`` makes of it."""
        state = self.run_state(accumulator, name)
        with one_blas_thread(), unchecked():
            return accumulator.result(state)

    def run_state(self, accumulator: Accumulator[Any], name: str = "pass") -> State:
        """Sweep the source once and return the state of all its rows, to which more can be added."""
        layout = PassLayout.of(self.source, accumulator)
        token = f"{name.replace(' ', '-')}-{uuid.uuid4().hex[:8]}"
        recipe = delayed(accumulator, name=f"recipe-{token}", traverse=False)
        tops = self._sweeps(recipe, layout, token)
        dones = [_call(_seconds, f"done-{token}-{i:05d}", top) for i, top in enumerate(tops)]
        for level, groups in enumerate(merge_levels(len(tops), layout.fan_in)):
            tops = [
                _call(_merge_task, f"merge-{token}-{level}-{i:05d}", recipe, *(tops[j] for j in group))
                for i, group in enumerate(groups)
            ]
        swept: Swept = self._run(name, layout.spans, tops[0], dones)
        return swept.state

    def run_spans(self, work: SpanWork[Result], spans: tuple[Span, ...], name: str = "pass") -> list[Result]:
        """Run ``work`` on every span and return the (small) results in order."""
        token = f"{name.replace(' ', '-')}-{uuid.uuid4().hex[:8]}"
        lazy = self.source.lazy_blocks() if isinstance(self.source, LazyRowBlocks) else None
        seen = self.source if lazy is None else HeldBlocks.like(self.source)
        source = delayed(seen, name=f"source-{token}", traverse=False)
        node = delayed(work, name=f"work-{token}", traverse=False)
        gate = (token, self.tasks_per_worker)
        watch = self._emit_rows if self.client is None else None
        outs = [
            _call(_work_task, f"{token}-{i:05d}", source, node, span, gate, watch, *_blocks_of(span, lazy))
            for i, span in enumerate(spans)
        ]
        dones = [_call(_no_seconds, f"done-{token}-{i:05d}", out) for i, out in enumerate(outs)]
        gathered = _call(_as_list, f"gather-{token}", *outs)
        return list(self._run(name, spans, gathered, dones))

    def _sweeps(self, recipe: Delayed, layout: PassLayout, token: str) -> list[Delayed]:
        """One delayed state a span."""
        watch = self._emit_rows if self.client is None else None
        gate = (token, self.tasks_per_worker)
        if isinstance(self.source, LazyRowBlocks):
            blocks = self.source.lazy_blocks()
            return [
                _call(
                    _sweep_lazy_task,
                    f"sweep-{token}-{i:05d}",
                    recipe,
                    span,
                    gate,
                    watch,
                    *_blocks_of(span, blocks),
                )
                for i, span in enumerate(layout.spans)
            ]
        source = delayed(self.source, name=f"source-{token}", traverse=False)
        prefetch = layout.footprint.n_blocks_held > 1
        return [
            _call(_sweep_task, f"sweep-{token}-{i:05d}", source, recipe, span, prefetch, gate, watch)
            for i, span in enumerate(layout.spans)
        ]

    def _run(self, name: str, spans: tuple[Span, ...], root: Delayed, dones: list[Delayed]) -> Any:
        """Compute ``root`` while telling the watcher which spans are done."""
        n_rows = sum(span.n_rows for span in spans)
        nbytes = nbytes_of_rows(self.source, n_rows)
        self._emit(PassStarted(name, len(spans), n_rows, nbytes))
        began = time.perf_counter()
        if self.client is None:
            with one_blas_thread():
                result, *seconds = dask.compute(
                    root, *dones, scheduler="threads", num_workers=self.tasks_per_worker, optimize_graph=False
                )
        else:
            result, seconds = self._run_on_cluster(self.client, name, spans, root, dones)
        self.tally.add(nbytes)
        read, compute = (sum(s[i] for s in seconds) for i in (0, 1))
        self._emit(PassEnded(name, time.perf_counter() - began, read, compute))
        return result

    def _run_on_cluster(
        self, client: Client, name: str, spans: tuple[Span, ...], root: Delayed, dones: list[Delayed]
    ) -> tuple[Any, list[tuple[float, float]]]:
        futures = client.compute([root, *dones], optimize_graph=False)
        span_of = {future.key: span for future, span in zip(futures[1:], spans, strict=True)}
        tasks = {
            f"{kind}{key.removeprefix('done-')}": s for key, s in span_of.items() for kind in ("", "done-", "sweep-")
        }
        watchdog = Watchdog(client, name, tasks)
        result, seconds = None, []
        try:
            for future, value in watchdog.completed(futures):
                if isinstance(value, CancelledError):
                    raise value
                if future.key not in span_of:
                    result = value
                    continue
                seconds.append(value)
                watchdog.done(sum(value))
                n_rows = span_of[future.key].n_rows
                self._emit(RowsDone(n_rows, nbytes_of_rows(self.source, n_rows)))
            return result, seconds
        except KilledWorker as error:
            raise died_too_often(client, name, tasks, error) from error
        except (TimeoutError, ConnectionError, CancelledError) as error:
            if any(future.status == "error" for future in futures):
                raise  # a task's own, such as that of a dask array's storage
            raise ClusterUnavailable(f"{name}: the scheduler stopped answering: {error}") from error
        finally:
            client.cancel(futures, force=True)

    def _emit_rows(self, n_rows: int, nbytes: int) -> None:
        self._emit(RowsDone(n_rows, nbytes))

    def _emit(self, event: PassStarted | RowsDone | PassEnded) -> None:
        with self._watch_lock:
            self.watch(event)


def _call(function: Callable[..., Any], key: str, *args: Any) -> Delayed:
    # no argument is a list of delayed objects: dask would copy the whole graph below each of them
    return delayed(function, pure=False)(*args, dask_key_name=key)


def _blocks_of(span: Span, blocks: list[Delayed] | None) -> list[Delayed]:
    return [] if blocks is None else blocks[span.first_block : span.last_block]


def _sweep_task(
    source: RowBlocks,
    recipe: Accumulator[Any],
    span: Span,
    prefetch: bool,
    gate: tuple[str, int],
    watch: BlockWatcher | None,
) -> Swept:
    with _gate(*gate), one_blas_thread():
        return sweep(source, recipe, span, prefetch, watch)


def _sweep_lazy_task(
    recipe: Accumulator[Any], span: Span, gate: tuple[str, int], watch: BlockWatcher | None, *blocks: Block
) -> Swept:
    with _gate(*gate), one_blas_thread():
        return sweep_blocks(blocks, recipe, span.first_row, watch)


def _merge_task(recipe: Accumulator[Any], *parts: Swept) -> Swept:
    with one_blas_thread():
        return merge_swept(recipe, parts)


def _work_task(
    source: RowBlocks,
    work: SpanWork[Result],
    span: Span,
    gate: tuple[str, int],
    watch: BlockWatcher | None,
    *blocks: Block,
) -> Result:
    if isinstance(source, HeldBlocks):
        source = source.holding(blocks, span.first_block)
    with _gate(*gate), one_blas_thread():
        result = work(source, span)
    if watch is not None:
        watch(span.n_rows, nbytes_of_rows(source, span.n_rows))
    return result


def _seconds(swept: Swept) -> tuple[float, float]:
    return swept.read_seconds, swept.compute_seconds


def _no_seconds(_: Any) -> tuple[float, float]:
    return 0.0, 0.0


def _as_list(*results: Any) -> list[Any]:
    return list(results)
