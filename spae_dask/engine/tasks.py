"""What dask's tasks do, each in a worker or a thread: sweep a span, load a state, merge states, work on a span."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from spae_dask.accumulators.base import Accumulator
from spae_dask.blocks import Block, RowBlocks, nbytes_of_rows
from spae_dask.engine.checkpoint import KeptPass
from spae_dask.engine.handover import TooLate, first_of
from spae_dask.engine.merge_tree import Node
from spae_dask.engine.spans import Span
from spae_dask.engine.sweep import BlockWatcher, Swept, merge_swept, sweep, sweep_blocks
from spae_dask.engine.threads import one_blas_thread
from spae_dask.engine.work import HeldBlocks, SpanWork

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


def sweep_task(
    source: RowBlocks,
    recipe: Accumulator[Any],
    span: Span,
    prefetch: bool,
    gate: tuple[str, int],
    watch: BlockWatcher | None,
    kept: KeptPass | None,
    node: Node,
    key: str | None = None,
) -> Swept:
    """The state of a span: swept, unless it is stored; and stored. Under a ``key`` it may be handed in as well."""

    def swept(wanted: Callable[[], bool]) -> Swept:
        with _gate(*gate), one_blas_thread():
            # found, if the worker that stored it died before the state was merged, or another run was faster
            found = None if kept is None else kept.find(node, recipe)
            if found is None:
                made = sweep(source, recipe, span, prefetch, _while(wanted, watch))
                return _kept(made, kept, node) if wanted() else made
        if watch is not None:
            watch(span.n_rows, nbytes_of_rows(source, span.n_rows))
        return found

    return swept(_always) if key is None else first_of(key, swept)


def sweep_lazy_task(
    recipe: Accumulator[Any],
    span: Span,
    gate: tuple[str, int],
    watch: BlockWatcher | None,
    kept: KeptPass | None,
    node: Node,
    key: str | None,
    *blocks: Block,
) -> Swept:
    """The same of blocks that are computed already."""

    def swept(wanted: Callable[[], bool]) -> Swept:
        with _gate(*gate), one_blas_thread():
            made = sweep_blocks(blocks, recipe, span.first_row, _while(wanted, watch))
            return _kept(made, kept, node) if wanted() else made

    return swept(_always) if key is None else first_of(key, swept)


def _while(wanted: Callable[[], bool], watch: BlockWatcher | None) -> BlockWatcher:
    """A watcher of blocks that ends the sweep when its state is not wanted any more, and else tells ``watch``."""

    def told(n_rows: int, nbytes: int) -> None:
        if not wanted():
            raise TooLate
        if watch is not None:
            watch(n_rows, nbytes)

    return told


def _always() -> bool:
    return True


def load_task(kept: KeptPass, node: Node, recipe: Accumulator[Any]) -> Swept:
    """A state that was stored by an earlier run."""
    return kept.load(node, recipe)


def merge_task(recipe: Accumulator[Any], kept: KeptPass | None, node: Node, *parts: Swept) -> Swept:
    """States of neighbours as one, which takes their place where they are stored."""
    with one_blas_thread():
        merged = _kept(merge_swept(recipe, parts), kept, node)
    if kept is not None:
        kept.discard(kept.tree.children(node))
    return merged


def _kept(swept: Swept, kept: KeptPass | None, node: Node) -> Swept:
    if kept is not None:
        kept.save(node, swept)
    return swept


def work_task(
    source: RowBlocks,
    work: SpanWork[Result],
    span: Span,
    gate: tuple[str, int],
    watch: BlockWatcher | None,
    *blocks: Block,
) -> Result:
    """What ``work`` makes of a span."""
    if isinstance(source, HeldBlocks):
        source = source.holding(blocks, span.first_block)
    with _gate(*gate), one_blas_thread():
        result = work(source, span)
    if watch is not None:
        watch(span.n_rows, nbytes_of_rows(source, span.n_rows))
    return result


def seconds(swept: Swept) -> tuple[float, float]:
    """Where the time of a sweep went."""
    return swept.read_seconds, swept.compute_seconds


def no_seconds(_: Any) -> tuple[float, float]:
    """That of anything else."""
    return 0.0, 0.0


def as_list(*results: Any) -> list[Any]:
    """Small results, in order."""
    return list(results)
