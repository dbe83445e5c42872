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

import dask
from dask.delayed import Delayed, delayed
from distributed import Client
from distributed.scheduler import KilledWorker

from spae_dask.accumulators.base import Accumulator, State
from spae_dask.blocks import LazyRowBlocks, RowBlocks, nbytes_of_rows
from spae_dask.engine.alike import run_alike, software
from spae_dask.engine.checkpoint import Checkpoint, KeptPass, LostState, NotWhole
from spae_dask.engine.deaths import died_too_often
from spae_dask.engine.events import PassEnded, PassStarted, Resumed, RowsDone, RunAgain, Watcher, ignore
from spae_dask.engine.layout import PassLayout, Tally
from spae_dask.engine.merge_tree import MergeTree, Node
from spae_dask.engine.spans import Span
from spae_dask.engine.stragglers import Again
from spae_dask.engine.sweep import unchecked
from spae_dask.engine.tasks import (
    as_list,
    load_task,
    merge_task,
    no_seconds,
    seconds,
    sweep_lazy_task,
    sweep_task,
    work_task,
)
from spae_dask.engine.threads import one_blas_thread
from spae_dask.engine.watchdog import Watchdog
from spae_dask.engine.work import HeldBlocks, SpanWork
from spae_dask.errors import ClusterUnavailable

Result = TypeVar("Result")


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
    checkpoint : Checkpoint, optional
        Keeps the states of spans; a run that was cut short goes on from them.

    Attributes
    ----------
    tally : Tally
        Passes made and bytes read so far.
    """

    def __init__(
        self,
        source: RowBlocks,
        client: Client | None,
        tasks_per_worker: int,
        watch: Watcher = ignore,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.checkpoint = checkpoint
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
        tree = MergeTree(len(layout.spans), layout.fan_in)
        kept, state = None, None
        if self.checkpoint is not None:
            kept = self.checkpoint.begin(name, accumulator, layout, self.source)
        while state is None:
            try:
                state = self._run_kept(accumulator, name, layout, tree, kept)
            except LostState as lost:
                assert self.checkpoint is not None
                assert kept is not None
                self.checkpoint.lost(kept, lost, accumulator)
        self.tally.add(layout.nbytes)
        if self.checkpoint is not None:
            self.checkpoint.end()
        return state

    def _run_kept(
        self, accumulator: Accumulator[Any], name: str, layout: PassLayout, tree: MergeTree, kept: KeptPass | None
    ) -> State:
        """Sweep what is not stored, or this process's share of it, and put all states together."""
        stored: frozenset[Node] = frozenset()
        if kept is not None:
            assert self.checkpoint is not None
            share, stored = self.checkpoint.share, kept.stored()
            missing = set(range(tree.n_spans)) - tree.covered(stored)
            if share is not None and missing:
                mine = missing.intersection(share.spans(tree.n_spans))
                self.checkpoint.n_swept += len(mine)
                if mine:
                    self._run_tree(accumulator, name, layout, tree, kept, stored, frozenset(mine))
                lacking = self.checkpoint.lacking(name, kept)
                if lacking.missing:
                    raise NotWhole(lacking)
                stored = kept.stored()
        state: State = self._run_tree(accumulator, name, layout, tree, kept, stored).state
        return state

    def _run_tree(
        self,
        accumulator: Accumulator[Any],
        name: str,
        layout: PassLayout,
        tree: MergeTree,
        kept: KeptPass | None,
        stored: frozenset[Node] = frozenset(),
        only: frozenset[int] | None = None,
    ) -> Any:
        """The state of all rows, from those that are stored and sweeps of the others.

        With ``only`` these spans are swept and merged as far as they go, and what comes of it is stored and not
        returned.
        """
        token = f"{name.replace(' ', '-')}-{uuid.uuid4().hex[:8]}"
        recipe = delayed(accumulator, name=f"recipe-{token}", traverse=False)
        keeper = None if kept is None else delayed(kept, name=f"kept-{token}", traverse=False)
        done = tree.covered(stored)
        swept = [i for i in range(tree.n_spans) if i not in done and (only is None or i in only)]
        # once, since their keys are new ones every time, and a second run must not compute its blocks anew
        lazy = self.source.lazy_blocks() if isinstance(self.source, LazyRowBlocks) else None
        sweeps = dict(zip(swept, self._sweeps(recipe, layout, lazy, token, swept, keeper), strict=True))

        def again(key: str, worker: str) -> Delayed:
            # with nodes of its own, so that it waits for nothing that a stuck worker holds
            own = f"again-{key}"
            with dask.annotate(workers=[worker], allow_other_workers=False):
                its_recipe = delayed(accumulator, name=f"recipe-{own}", traverse=False)
                its_keeper = None if kept is None else delayed(kept, name=f"kept-{own}", traverse=False)
                return self._sweeps(its_recipe, layout, lazy, token, [int(key.rpartition("-")[2])], its_keeper, own)[0]

        def state_of(node: Node) -> Delayed:
            level, number = node
            if node in stored:
                return _call(load_task, f"load-{token}-{level}-{number:05d}", keeper, node, recipe)
            if level == 0:
                return sweeps[number]
            parts = [state_of(each) for each in tree.children(node)]
            return _call(merge_task, f"merge-{token}-{level}-{number:05d}", recipe, keeper, node, *parts)

        dones = [_call(seconds, f"done-{token}-{i:05d}", sweeps[i]) for i in swept]
        if only is None:
            root = state_of(tree.root)
        else:
            tops = [node for node in tree.tops(done | only) if node not in stored]
            ends = [_call(no_seconds, f"top-{token}-{i:05d}", state_of(node)) for i, node in enumerate(tops)]
            root = _call(as_list, f"tops-{token}", *ends)
        already = sum(layout.spans[i].n_rows for i in done)
        resumed = Resumed(len(done), tree.n_spans, already, nbytes_of_rows(self.source, already)) if done else None
        return self._run(name, tuple(layout.spans[i] for i in swept), root, dones, resumed, again)

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
            _call(work_task, f"{token}-{i:05d}", source, node, span, gate, watch, *_blocks_of(span, lazy))
            for i, span in enumerate(spans)
        ]
        dones = [_call(no_seconds, f"done-{token}-{i:05d}", out) for i, out in enumerate(outs)]
        gathered = _call(as_list, f"gather-{token}", *outs)
        results = list(self._run(name, spans, gathered, dones))
        self.tally.add(nbytes_of_rows(self.source, sum(span.n_rows for span in spans)))
        return results

    def _sweeps(
        self,
        recipe: Delayed,
        layout: PassLayout,
        lazy: list[Delayed] | None,
        token: str,
        numbers: list[int],
        kept: Delayed | None,
        again: str | None = None,
    ) -> list[Delayed]:
        """One delayed state for each of these spans; under the key ``again`` if it is a second run of the only one."""
        watch = self._emit_rows if self.client is None else None
        gate = (token, self.tasks_per_worker)
        keys = [f"sweep-{token}-{i:05d}" if again is None else again for i in numbers]
        # a first run on a cluster takes the state of a second one, if that comes first
        tasks = [
            (key, (0, i), layout.spans[i], key if self.client is not None and again is None else None)
            for key, i in zip(keys, numbers, strict=True)
        ]
        if lazy is not None:
            return [
                _call(sweep_lazy_task, key, recipe, span, gate, watch, kept, node, own, *_blocks_of(span, lazy))
                for key, node, span, own in tasks
            ]
        source = delayed(self.source, name=f"source-{again or token}", traverse=False)
        prefetch = layout.footprint.n_blocks_held > 1
        return [
            _call(sweep_task, key, source, recipe, span, prefetch, gate, watch, kept, node, own)
            for key, node, span, own in tasks
        ]

    def _run(
        self,
        name: str,
        spans: tuple[Span, ...],
        root: Delayed,
        dones: list[Delayed],
        resumed: Resumed | None = None,
        again: Again | None = None,
    ) -> Any:
        """Compute ``root`` while telling the watcher which spans are done."""
        n_rows, n_spans = sum(span.n_rows for span in spans), len(spans)
        if resumed is not None:
            n_rows, n_spans = n_rows + resumed.n_rows, n_spans + resumed.n_done
        nbytes = nbytes_of_rows(self.source, n_rows)
        self._emit(PassStarted(name, n_spans, n_rows, nbytes))
        if resumed is not None:
            self._emit(resumed)
        began = time.perf_counter()
        if self.client is None:
            with one_blas_thread():
                result, *times = dask.compute(
                    root, *dones, scheduler="threads", num_workers=self.tasks_per_worker, optimize_graph=False
                )
        else:
            result, times = self._run_on_cluster(self.client, name, spans, root, dones, again)
        read, compute = (sum(s[i] for s in times) for i in (0, 1))
        self._emit(PassEnded(name, time.perf_counter() - began, read, compute))
        return result

    def _run_on_cluster(
        self,
        client: Client,
        name: str,
        spans: tuple[Span, ...],
        root: Delayed,
        dones: list[Delayed],
        again: Again | None,
    ) -> tuple[Any, list[tuple[float, float]]]:
        futures = client.compute([root, *dones], optimize_graph=False)
        span_of = {future.key: span for future, span in zip(futures[1:], spans, strict=True)}
        tasks = {
            f"{kind}{key.removeprefix('done-')}": s for key, s in span_of.items() for kind in ("", "done-", "sweep-")
        }
        watchdog = Watchdog(client, name, tasks, len(spans), again, self._emit)
        result, times = None, []
        try:
            for future, value in watchdog.completed(futures):
                if isinstance(value, CancelledError):
                    raise value
                if future.key not in span_of:
                    result = value
                    continue
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

    def _emit_rows(self, n_rows: int, nbytes: int) -> None:
        self._emit(RowsDone(n_rows, nbytes))

    def _emit(self, event: PassStarted | Resumed | RowsDone | RunAgain | PassEnded) -> None:
        with self._watch_lock:
            self.watch(event)


def _call(function: Callable[..., Any], key: str, *args: Any) -> Delayed:
    # no argument is a list of delayed objects: dask would copy the whole graph below each of them
    return delayed(run_alike, pure=False)(function, software(), *args, dask_key_name=key)


def _blocks_of(span: Span, blocks: list[Delayed] | None) -> list[Delayed]:
    return [] if blocks is None else blocks[span.first_block : span.last_block]
