"""The dask tasks of a pass: one a span and a fixed merge tree. The only file that makes tasks; nothing is run here.

The source and the recipe are one graph node each, so a task carries nothing but its span; nothing n-sized is ever
gathered.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import dask
from dask.delayed import Delayed, delayed

from spae_dask.accumulators.base import Accumulator
from spae_dask.blocks import LazyRowBlocks, RowBlocks
from spae_dask.engine.alike import run_alike, software
from spae_dask.engine.kept_pass import KeptPass
from spae_dask.engine.layout import PassLayout
from spae_dask.engine.merge_tree import MergeTree, Node
from spae_dask.engine.spans import Span
from spae_dask.engine.stragglers import Again
from spae_dask.engine.sweep import BlockWatcher
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
from spae_dask.engine.work import HeldBlocks, SpanWork


@dataclass(frozen=True)
class TaskGraph:
    """Tasks that are computed together.

    Attributes
    ----------
    root : Delayed
        What is wanted of them.
    spans : tuple of Span
        Those that are swept or worked on.
    dones : tuple of Delayed
        Where the time of each of these went.
    again : callable or None
        Makes the second run of a span.
    """

    root: Delayed
    spans: tuple[Span, ...]
    dones: tuple[Delayed, ...]
    again: Again | None = None


@dataclass(frozen=True)
class Tasks:
    """How tasks over one source are made.

    Parameters
    ----------
    source : RowBlocks
        The matrix.
    at_once : int
        Span tasks that run at once in one process.
    watch : callable or None
        Told by tasks of every block, where they run in this process; None if they are to run on a cluster.
    """

    source: RowBlocks
    at_once: int
    watch: BlockWatcher | None

    def of_pass(
        self,
        name: str,
        accumulator: Accumulator[Any],
        layout: PassLayout,
        tree: MergeTree,
        kept: KeptPass | None,
        stored: frozenset[Node] = frozenset(),
        only: frozenset[int] | None = None,
    ) -> TaskGraph:
        """Tasks whose root is the state of all rows, from those that are stored and sweeps of the others.

        With ``only`` these spans are swept and merged as far as they go, and what comes of it is stored and is not the
        root.
        """
        token = _token(name)
        sweeps = _Sweeps(self, accumulator, layout, kept, token, self._lazy_blocks())
        done = tree.covered(stored)
        swept = [i for i in range(tree.n_spans) if i not in done and (only is None or i in only)]
        recipe, keeper = sweeps.recipe_and_keeper(token)
        state_of_span = dict(zip(swept, sweeps.first_runs(swept, recipe, keeper), strict=True))

        def state_of(node: Node) -> Delayed:
            level, number = node
            if node in stored:
                return _call(load_task, f"load-{token}-{level}-{number:05d}", keeper, node, recipe)
            if level == 0:
                return state_of_span[number]
            parts = [state_of(each) for each in tree.children(node)]
            return _call(merge_task, f"merge-{token}-{level}-{number:05d}", recipe, keeper, node, *parts)

        dones = tuple(_call(seconds, f"done-{token}-{i:05d}", state_of_span[i]) for i in swept)
        if only is None:
            root = state_of(tree.root)
        else:
            tops = [node for node in tree.tops(done | only) if node not in stored]
            ends = [_call(no_seconds, f"top-{token}-{i:05d}", state_of(node)) for i, node in enumerate(tops)]
            root = _call(as_list, f"tops-{token}", *ends)
        return TaskGraph(root, tuple(layout.spans[i] for i in swept), dones, sweeps.second_run)

    def of_work(self, work: SpanWork[Any], spans: tuple[Span, ...], name: str) -> TaskGraph:
        """Tasks whose root is the list of what ``work`` makes of each span."""
        token = _token(name)
        lazy = self._lazy_blocks()
        seen = self.source if lazy is None else HeldBlocks.like(self.source)
        source = delayed(seen, name=f"source-{token}", traverse=False)
        node = delayed(work, name=f"work-{token}", traverse=False)
        gate = (token, self.at_once)
        outs = [
            _call(work_task, f"{token}-{i:05d}", source, node, span, gate, self.watch, *_blocks_of(span, lazy))
            for i, span in enumerate(spans)
        ]
        dones = tuple(_call(no_seconds, f"done-{token}-{i:05d}", out) for i, out in enumerate(outs))
        return TaskGraph(_call(as_list, f"gather-{token}", *outs), spans, dones)

    def _lazy_blocks(self) -> list[Delayed] | None:
        # once a graph, since their keys are new ones every time, and a second run must not compute its blocks anew
        return self.source.lazy_blocks() if isinstance(self.source, LazyRowBlocks) else None


@dataclass(frozen=True)
class _Sweeps:
    """Makes the sweeps of one pass, and second runs of them."""

    tasks: Tasks
    accumulator: Accumulator[Any]
    layout: PassLayout
    kept: KeptPass | None
    token: str
    lazy: list[Delayed] | None

    def recipe_and_keeper(self, token: str) -> tuple[Delayed, Delayed | None]:
        keeper = None if self.kept is None else delayed(self.kept, name=f"kept-{token}", traverse=False)
        return delayed(self.accumulator, name=f"recipe-{token}", traverse=False), keeper

    def first_runs(self, numbers: list[int], recipe: Delayed, keeper: Delayed | None) -> list[Delayed]:
        """One delayed state for each of these spans."""
        source = self._source(self.token)
        keys = [f"sweep-{self.token}-{i:05d}" for i in numbers]
        # on a cluster it takes the state of a second run, if that comes first
        on_cluster = self.tasks.watch is None
        return [
            self._sweep(key, i, source, recipe, keeper, key if on_cluster else None)
            for key, i in zip(keys, numbers, strict=True)
        ]

    def second_run(self, key: str, worker: str) -> Delayed:
        """The sweep of the first run's ``key`` on a worker, with nodes of its own: it waits for none on a stuck one."""
        own = f"again-{key}"
        # looks for the state: the stuck worker may have stored it
        sweeps = self if self.kept is None else replace(self, kept=replace(self.kept, fresh=False))
        with dask.annotate(workers=[worker], allow_other_workers=False):
            recipe, keeper = sweeps.recipe_and_keeper(own)
            return self._sweep(own, int(key.rpartition("-")[2]), self._source(own), recipe, keeper, None)

    def _source(self, token: str) -> Delayed | None:
        return None if self.lazy is not None else delayed(self.tasks.source, name=f"source-{token}", traverse=False)

    def _sweep(
        self, key: str, i: int, source: Delayed | None, recipe: Delayed, keeper: Delayed | None, awaited: str | None
    ) -> Delayed:
        span, node, watch = self.layout.spans[i], (0, i), self.tasks.watch
        gate = (self.token, self.tasks.at_once)
        if source is None:
            blocks = _blocks_of(span, self.lazy)
            return _call(sweep_lazy_task, key, recipe, span, gate, watch, keeper, node, awaited, *blocks)
        prefetch = self.layout.footprint.n_blocks_held > 1
        return _call(sweep_task, key, source, recipe, span, prefetch, gate, watch, keeper, node, awaited)


def _token(name: str) -> str:
    return f"{name.replace(' ', '-')}-{uuid.uuid4().hex[:8]}"


def _call(function: Callable[..., Any], key: str, *args: Any) -> Delayed:
    # no argument is a list of delayed objects: dask would copy the whole graph below each of them
    return delayed(run_alike, pure=False)(function, software(), *args, dask_key_name=key)


def _blocks_of(span: Span, blocks: list[Delayed] | None) -> list[Delayed]:
    return [] if blocks is None else blocks[span.first_block : span.last_block]
