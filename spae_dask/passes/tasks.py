"""The work of dask's tasks, each in a worker or a thread: make the state of a leaf, merge states, work on a span."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from spae_dask.blocks import Block, RowBlocks, StoredEntries, nbytes_of_rows, stored_entries
from spae_dask.passes.accumulators.base import Accumulator
from spae_dask.passes.checkpoint import PassCheckpoint
from spae_dask.passes.merge_tree import Node
from spae_dask.passes.spans import Span
from spae_dask.passes.sweep import BlockWatcher, Swept, merge_swept, sweep
from spae_dask.passes.threads import one_blas_thread

Result_co = TypeVar("Result_co", covariant=True)


class SpanWork(Protocol[Result_co]):
    """A picklable callable; running it again on the same span must do no harm.

    It reads no other blocks than those of its span.
    """

    def __call__(self, source: RowBlocks, span: Span) -> Result_co: ...


@dataclass(frozen=True, eq=False)
class HeldBlocks:
    """A lazy source as the work on one span sees it: its shape, and the span's blocks already computed.

    Parameters
    ----------
    shape, dtype, bounds, name, stored
        Those of the lazy source.
    blocks : tuple of Block
        Blocks ``first_block``, ``first_block + 1``, ...
    first_block : int
        Number of the first one.
    """

    shape: tuple[int, int]
    dtype: np.dtype[np.generic]
    bounds: Sequence[int]
    name: str
    stored: StoredEntries | None = None
    blocks: tuple[Block, ...] = ()
    first_block: int = 0
    read_nbytes: int = 0
    in_process: bool = True

    @classmethod
    def like(cls, source: RowBlocks) -> "HeldBlocks":
        """With no blocks yet."""
        return cls(source.shape, source.dtype, source.bounds, source.describe(), stored_entries(source))

    def holding(self, blocks: tuple[Block, ...], first_block: int) -> "HeldBlocks":
        """With these blocks."""
        return replace(self, blocks=blocks, first_block=first_block)

    def read(self, i: int) -> Block:
        """Block ``i``, one of those held."""
        return self.blocks[i - self.first_block]

    def describe(self) -> str:
        """Name of the lazy source."""
        return self.name


Result = TypeVar("Result")

_GATES: WeakValueDictionary[str, threading.BoundedSemaphore] = WeakValueDictionary()
_GATES_LOCK = threading.Lock()


class Cancelled(Exception):
    """Ends a task whose result nobody waits for any more."""


@dataclass(frozen=True)
class Gate:
    """Limit of the span tasks of one pass that hold their blocks and states at once in one process.

    Attributes
    ----------
    token : str
        Identity of the pass.
    at_once : int
        Number of tasks inside.
    """

    token: str
    at_once: int

    def semaphore(self) -> threading.BoundedSemaphore:
        """Semaphore that all tasks of the pass share in this process."""
        with _GATES_LOCK:
            gate = _GATES.get(self.token)
            if gate is None:  # no task holds it or waits for it
                gate = _GATES[self.token] = threading.BoundedSemaphore(self.at_once)
            return gate


@dataclass(frozen=True)
class PassTasks:
    """Everything but the source that the tasks of a pass share.

    Attributes
    ----------
    recipe : Accumulator
        Accumulator of the pass.
    kept : PassCheckpoint or None
        Stored states.
    gate : Gate
        Limit of tasks at once.
    prefetch : bool
        Read the next block while the present one is reduced.
    watch : callable or None
        Receives the rows and bytes of every finished block, if the tasks run in this process.
    ends : frozenset of Node
        Nodes whose tasks return no arrays, because nothing but the stored state is wanted.
    """

    recipe: Accumulator[Any]
    kept: PassCheckpoint | None
    gate: Gate
    prefetch: bool = False
    watch: BlockWatcher | None = None
    ends: frozenset[Node] = frozenset()

    def returned(self, node: Node, swept: Swept) -> Swept:
        """Result of the task of a node."""
        return Swept({}, swept.read_seconds, swept.compute_seconds) if node in self.ends else swept

    def looked_up(self, node: Node) -> Swept | None:
        """State of a span that a worker finds in the store before it reads the span.

        Dask may run the task again after it lost the worker that had the state, and a backup task runs beside another.
        """
        return None if self.kept is None or self.watch is not None else self.kept.find(node, self.recipe)


def _always() -> bool:
    return True


def leaf_task(
    source: RowBlocks,
    shared: PassTasks,
    node: Node,
    span: Span | None,
    *blocks: Block,
    wanted: Callable[[], bool] = _always,
) -> Swept:
    """Make a state that is not merged from others: load a stored node, or reduce a span and store its state.

    Parameters
    ----------
    source : RowBlocks
        The matrix.
    shared : PassTasks
        The pass.
    node : Node
        Node of the merge tree.
    span : Span or None
        Span of the leaf; None to load the node.
    *blocks : ndarray
        Blocks of the span, if dask computes them.
    wanted : callable
        Tells whether the state is still wanted; asked after every block.

    Raises
    ------
    MissingNode
        If the node cannot be loaded from the store, or is merged into a stored one.
    Cancelled
        If the state is not wanted any more.
    """
    if span is None:
        assert shared.kept is not None
        return shared.returned(node, shared.kept.load(node, shared.recipe))

    def watch(n_rows: int, nbytes: int) -> None:
        if not wanted():
            raise Cancelled
        if shared.watch is not None:
            shared.watch(n_rows, nbytes)

    with shared.gate.semaphore(), one_blas_thread():
        swept = shared.looked_up(node)
        if swept is None:
            swept = sweep(_with_blocks(source, span, blocks), shared.recipe, span, shared.prefetch, watch)
            if shared.kept is not None:
                shared.kept.save(node, swept)
        return shared.returned(node, swept)


def merge_task(shared: PassTasks, node: Node, *parts: Swept) -> Swept:
    """Merge the states of a node's children; the merged state replaces theirs in the store."""
    with one_blas_thread():
        merged = merge_swept(shared.recipe, parts)
    if shared.kept is not None:
        shared.kept.save(node, merged)
        shared.kept.discard(shared.kept.tree.children(node))
    return shared.returned(node, merged)


def work_task(
    source: RowBlocks, work: SpanWork[Result], gate: Gate, watch: BlockWatcher | None, span: Span, *blocks: Block
) -> Result:
    """Do ``work`` on a span."""
    source = _with_blocks(source, span, blocks)
    with gate.semaphore(), one_blas_thread():
        result = work(source, span)
    if watch is not None:
        watch(span.n_rows, nbytes_of_rows(source, span.n_rows))
    return result


def _with_blocks(source: RowBlocks, span: Span, blocks: tuple[Block, ...]) -> RowBlocks:
    return source.holding(blocks, span.first_block) if isinstance(source, HeldBlocks) else source
