"""The work of one task: read the blocks of a span in turn, update one state, drop each block."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from spae_dask import retry
from spae_dask.blocks import Block, LazyRowBlocks, RowBlocks, block_shape, column_groups, in_canonical_form
from spae_dask.errors import DataChanged, StorageError, TransientStorageError
from spae_dask.passes.accumulators.base import Accumulator, State
from spae_dask.passes.accumulators.read_sum import MAGNITUDE, SUM, ReadEntries, ReadSum, without_sum
from spae_dask.passes.accumulators.sparse import SparseAccumulator, sparse_panels, update_csr, update_dense
from spae_dask.passes.spans import Span
from spae_dask.quantities import format_seconds


def read_again(source: RowBlocks, i: int) -> Block:
    """Block ``i`` of ``source``.

    Raises
    ------
    TransientStorageError
        If the store still falters after the last try.
    StorageError
        If it has other rows than when it was opened: a copy that is behind, or a file that was written again.
    """
    began, left, number = time.monotonic(), retry.POLICY.waits(), 1
    while True:
        try:
            block = source.read(i)
            break
        except TransientStorageError as error:
            wait = next(left, None)
            if wait is None:
                spent = time.monotonic() - began
                tries = f"It was tried {number} times within {format_seconds(spent)}."
                raise TransientStorageError(f"{error} {tries}") from error
        time.sleep(wait)
        number += 1
    expected = block_shape(source, i)
    if block.shape != expected:
        n, d = block.shape
        raise StorageError(
            f"rows {source.bounds[i]} to {source.bounds[i + 1] - 1} of {source.describe()} are {n} x {d} numbers, but "
            f"{expected[0]} x {expected[1]} were expected. The source was rewritten since it was opened, or this "
            "process sees an older copy. Give data that do not change, at a path where all workers see the same."
        )
    return block


BlockWatcher = Callable[[int, int], None]
"""Told the rows and bytes of every finished block."""


def unchecked() -> np.errstate:
    """Silence numpy on infinities and overflow: they are counted in every pass, and refused when it is over."""
    return np.errstate(over="ignore", invalid="ignore")


@dataclass(frozen=True)
class Swept:
    """The state of some rows and where the time went.

    Attributes
    ----------
    state : dict of arrays
        The accumulator's state.
    read_seconds, compute_seconds : float
        Waiting for blocks, and updating.
    """

    state: State
    read_seconds: float = 0.0
    compute_seconds: float = 0.0

    def __sizeof__(self) -> int:
        """With the arrays, so that a scheduler knows what moving or keeping it costs."""
        return object.__sizeof__(self) + sum(array.nbytes for array in self.state.values())


def sweep(
    source: RowBlocks, accumulator: Accumulator[Any], span: Span, prefetch: bool, watch: BlockWatcher | None = None
) -> Swept:
    """Sweep the blocks of ``span`` into one state.

    Reads that a store fails are tried again, see ``retrying``. With ``prefetch`` the next block is read while the
    present one is summarised; two blocks are then held.
    """
    numbers = range(span.first_block, span.last_block)
    blocks = read_ahead(source, numbers) if prefetch and len(numbers) > 1 else (read_again(source, i) for i in numbers)
    return sweep_blocks(blocks, accumulator, span.first_row, watch)


def sweep_blocks(
    blocks: Iterable[Block], accumulator: Accumulator[Any], first_row: int, watch: BlockWatcher | None = None
) -> Swept:
    """Sweep consecutive blocks, the first of which starts at ``first_row``, into one state."""
    state = accumulator.zero()
    read = compute = 0.0
    iterator = iter(blocks)
    while True:
        began = time.perf_counter()
        block = next(iterator, None)
        arrived = time.perf_counter()
        read += arrived - began
        if block is None:
            return Swept(state, read, compute)
        with unchecked():
            state = update_by_panels(accumulator, state, block, first_row)
        first_row += block.shape[0]
        compute += time.perf_counter() - arrived
        if watch is not None:
            watch(block.shape[0], block_nbytes(block))
        del block  # before the next one is asked for: a task holds one block, or two with prefetch


def update_by_panels(accumulator: Accumulator[Any], state: State, block: Block, first_row: int) -> State:
    """Feed a block to ``accumulator`` in panels that stay in cache; sparse rows as it takes them."""
    if sp.issparse(block):
        return _update_by_sparse_panels(accumulator, state, in_canonical_form(block), first_row)
    step = accumulator.panel_rows
    for start in range(0, block.shape[0], step):
        state = accumulator.update(state, block[start : start + step], first_row + start)
    return state


def _update_by_sparse_panels(accumulator: Accumulator[Any], state: State, block: sp.csr_array, first_row: int) -> State:
    if not isinstance(accumulator, SparseAccumulator):
        return update_dense(accumulator, state, block, first_row)
    for start, stop in sparse_panels(block.indptr):
        state = update_csr(accumulator, state, block[start:stop], first_row + start)
    return state


def block_nbytes(block: Block) -> int:
    """Bytes of a dense block, or of the three arrays of a CSR one."""
    held: Any = block
    if sp.issparse(held):
        return int(held.data.nbytes + held.indices.nbytes + held.indptr.nbytes)
    return int(held.nbytes)


def read_ahead(source: RowBlocks, numbers: range) -> Iterator[Block]:
    """Blocks in order, each read in another thread while the one before is worked on."""
    coming, reader = _begun(source, numbers[0])
    try:
        for number in numbers[1:]:
            block = coming.result()
            reader.join()  # it passed the block on, and may hold it for a moment longer
            coming, reader = _begun(source, number)
            yield block
            del block
        yield coming.result()
    finally:
        reader.join()  # after an error elsewhere, the block being read is still in memory


def _begun(source: RowBlocks, number: int) -> "tuple[Future[Block], threading.Thread]":
    """A block that is being read, and the thread that does: it keeps no process from ending, were it never to end."""
    outcome: Future[Block] = Future()

    def read() -> None:
        try:
            outcome.set_result(read_again(source, number))
        except BaseException as error:
            outcome.set_exception(error)

    reader = threading.Thread(target=copy_context().run, args=(read,), name="spae-read", daemon=True)
    reader.start()
    return outcome, reader


def merge_swept(accumulator: Accumulator[Any], parts: Iterable[Swept]) -> Swept:
    """Merge states in the order given; of an iterator only two are held at once."""

    def merge_two(a: Swept, b: Swept) -> Swept:
        with unchecked():
            state = accumulator.merge(a.state, b.state)
        return Swept(state, a.read_seconds + b.read_seconds, a.compute_seconds + b.compute_seconds)

    return reduce(merge_two, parts)


class SameRows:
    """The sum of the rows that the first pass of a run read, with which those of later passes must agree.

    Parameters
    ----------
    source : RowBlocks
        Source that the passes read.
    """

    def __init__(self, source: RowBlocks) -> None:
        self._source = source
        self._first: State | None = None

    def recipe(self, accumulator: Accumulator[Any]) -> ReadSum:
        """The accumulator with the sum beside it."""
        kind = ReadSum if column_groups(self._source) is None else ReadEntries
        return kind(accumulator, stored=not isinstance(self._source, LazyRowBlocks))

    def checked(self, state: State, name: str) -> State:
        """The state of the accumulator alone.

        Raises
        ------
        DataChanged
            If this pass read other rows than the first one.
        """
        if self._first is None:
            self._first = {key: state[key].copy() for key in (SUM, MAGNITUDE)}
        elif not ReadSum.agree(self._first, state):
            raise DataChanged.told(
                f"the pass {name!r} found other numbers in {self._source.describe()} than the pass before"
            )
        return without_sum(state)
