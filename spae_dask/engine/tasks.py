"""What dask's tasks do, each in a worker or a thread: sweep a span, load a state, merge states, work on a span."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from spae_dask.accumulators.base import Accumulator
from spae_dask.blocks import Block, RowBlocks, nbytes_of_rows
from spae_dask.engine.handover import TooLate, first_of
from spae_dask.engine.kept_pass import Found, KeptPass, Merged
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
) -> Found:
    """The state of a span: swept, unless it is stored; and stored. Under a ``key`` it may be handed in as well.

    If a state is stored that it was merged into, that is told instead of reading the rows again.
    """
    # asked here, since only the task's own thread knows which task it is
    there = kept if kept is not None and kept.may_have() else None

    def swept(wanted: Callable[[], bool]) -> Found:
        with _gate(*gate), one_blas_thread():
            found = None if there is None else there.find(node, recipe)
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
) -> Found:
    """The same of blocks that are computed already, so there is nothing to be gained by looking for the state."""

    def swept(wanted: Callable[[], bool]) -> Found:
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


def load_task(kept: KeptPass, node: Node, recipe: Accumulator[Any]) -> Found:
    """A state that was stored by an earlier run; what it was merged into, if this task is run when that is done."""
    return kept.load_or_tell(node, recipe)


def merge_task(recipe: Accumulator[Any], kept: KeptPass | None, node: Node, *parts: Found) -> Found:
    """States of neighbours as one, which takes their place where they are stored.

    Parts that are merged already are in the state of this node, or of one above it: it was stored before it was lost.
    """
    states = [part for part in parts if isinstance(part, Swept)]
    if len(states) == len(parts):
        with one_blas_thread():
            found: Found = _kept(merge_swept(recipe, states), kept, node)
    else:
        assert kept is not None
        holder = max(part.into for part in parts if isinstance(part, Merged))
        found = kept.load_or_tell(node, recipe) if holder == node else Merged(holder)
    if kept is not None:
        kept.discard(
            child for child, part in zip(kept.tree.children(node), parts, strict=True) if isinstance(part, Swept)
        )
    return found


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


def seconds(swept: Found) -> tuple[float, float]:
    """Where the time of a sweep went."""
    return (swept.read_seconds, swept.compute_seconds) if isinstance(swept, Swept) else (0.0, 0.0)


def no_seconds(_: Any) -> tuple[float, float]:
    """That of anything else."""
    return 0.0, 0.0


def as_list(*results: Any) -> list[Any]:
    """Small results, in order."""
    return list(results)
