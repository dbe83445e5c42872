"""The work of one task: what it holds, and the panels it hands to an accumulator."""

import gc
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from spae_dask.blocks import ArrayBlocks, Block
from spae_dask.passes.accumulators import Gram, State
from spae_dask.passes.spans import Span
from spae_dask.passes.sweep import Swept, block_nbytes, merge_swept, read_ahead, sweep, update_by_panels


class Watched(np.ndarray[Any, Any]):
    """An array that can be told from its views."""


@dataclass(frozen=True, eq=False)
class Lent(ArrayBlocks):
    """An array whose blocks are copies, counted while anybody holds them."""

    alive: list[int] = field(default_factory=lambda: [0])
    most: list[int] = field(default_factory=lambda: [0])

    def read(self, i: int) -> Block:
        block = np.array(super().read(i)).view(Watched)
        self.alive[0] += 1
        self.most[0] = max(self.most[0], self.alive[0])
        weakref.finalize(block, self._back)
        return block

    def _back(self) -> None:
        self.alive[0] -= 1


@pytest.mark.parametrize(("prefetch", "held"), [(False, 1), (True, 2)])
def test_a_task_holds_one_block_or_two_with_prefetch(prefetch: bool, held: int) -> None:
    gc.disable()  # no cycle may keep a block either
    try:
        source = Lent(np.random.default_rng(0).standard_normal((900, 20)), 100)
        sweep(source, Gram(20), Span(0, 9, 0, 900), prefetch)
        assert source.most[0] <= held  # the second may come when the first is done with
        assert source.alive[0] == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("prefetch", [False, True])
def test_a_span_starts_and_ends_where_it_says(prefetch: bool) -> None:
    X = np.random.default_rng(0).standard_normal((90, 4))
    swept = sweep(ArrayBlocks(X, 10), Gram(4), Span(3, 6, 30, 60), prefetch)
    np.testing.assert_allclose(Gram(4).result(swept.state).mean, X[30:60].mean(axis=0), rtol=1e-13)


def test_reading_ahead_gives_blocks_in_order_and_passes_errors_on() -> None:
    X = np.arange(20.0).reshape(10, 2)

    class Broken(ArrayBlocks):
        def read(self, i: int) -> Block:
            if i == 3:
                raise OSError("lost")
            return super().read(i)

    assert [block[0, 0] for block in read_ahead(ArrayBlocks(X, 2), range(1, 4))] == [4.0, 8.0, 12.0]
    seen = []
    with pytest.raises(OSError, match="lost"):
        seen.extend(read_ahead(Broken(X, 2), range(5)))


def test_leaving_early_reads_no_further() -> None:
    read = []

    class Noted(ArrayBlocks):
        def read(self, i: int) -> Block:
            read.append(i)
            return super().read(i)

    blocks = read_ahead(Noted(np.zeros((10, 1)), 1), range(10))
    next(blocks)
    blocks.close()
    assert read == [0, 1]


@dataclass(frozen=True)
class Panels:
    """Accumulator that notes the panels it is handed."""

    panel_rows: int
    seen: list[tuple[int, tuple[int, ...], type]] = field(default_factory=list)
    state_nbytes: int = 0
    flops_per_row: float = 0.0

    def work_nbytes(self, n_rows: int) -> int:
        return 0

    def zero(self) -> State:
        return {}

    def update(self, state: State, rows: NDArray[Any], first_row: int) -> State:
        self.seen.append((first_row, rows.shape, type(rows)))
        return state

    def merge(self, a: State, b: State) -> State:
        return a | b

    def result(self, state: State) -> State:
        return state


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_panels_are_dense_consecutive_and_numbered_by_row(make: Any) -> None:
    accumulator = Panels(4)
    update_by_panels(accumulator, {}, make(np.eye(10)), first_row=100)
    assert accumulator.seen == [
        (100, (4, 10), np.ndarray),
        (104, (4, 10), np.ndarray),
        (108, (2, 10), np.ndarray),
    ]


def test_rows_are_numbered_on_from_block_to_block() -> None:
    accumulator = Panels(4)
    sweep(ArrayBlocks(np.zeros((30, 2)), 6), accumulator, Span(1, 4, 6, 24), prefetch=True)
    assert [first for first, _, _ in accumulator.seen] == [6, 10, 12, 16, 18, 22]


def test_states_are_merged_in_order_and_their_seconds_add_up() -> None:
    parts = iter([Swept({"a": np.zeros(1)}, 1.0, 2.0), Swept({"b": np.zeros(2)}, 10.0, 20.0)])
    merged = merge_swept(Panels(1), parts)
    assert list(merged.state) == ["a", "b"]
    assert (merged.read_seconds, merged.compute_seconds) == (11.0, 22.0)


def test_a_state_tells_a_scheduler_its_size() -> None:
    # without it every state counts as 48 bytes, and a scheduler moves large ones about for nothing
    small, large = (sys.getsizeof(Swept(Gram(d).zero())) for d in (2, 500))
    assert large - small == Gram(500).state_nbytes - Gram(2).state_nbytes


def test_bytes_of_a_block_are_those_it_holds() -> None:
    assert block_nbytes(np.zeros((3, 4), dtype=np.float32)) == 48
    sparse = sp.csr_array(np.eye(3))
    assert block_nbytes(sparse) == 3 * 8 + 3 * sparse.indices.itemsize + 4 * sparse.indptr.itemsize


LEAVE = """
import sys, threading, time
from functools import partial
import numpy as np
from spae_dask.passes.accumulators import Triangular
from spae_dask.blocks import ArrayBlocks
from spae_dask.passes.spans import Span
from spae_dask.engine.cancelling import until_cancelled
from spae_dask.passes.tasks import Gate, PassTasks, leaf_task

begun = threading.Event()

class Hangs(ArrayBlocks):
    def read(self, i):
        if i == 1:
            begun.set()
            time.sleep(300)
        return super().read(i)

shared = PassTasks(Triangular(2), None, Gate("t", 1), sys.argv[1] == "ahead")
make = partial(leaf_task, Hangs(np.ones((40, 2)), 10), shared, (0, 0), Span(0, 4, 0, 40))
threading.Thread(target=until_cancelled, args=(make, lambda: True), daemon=True).start()
assert begun.wait(60)
"""


@pytest.mark.parametrize("how", ["ahead", "one by one"])
def test_a_read_that_never_comes_back_keeps_no_process_from_ending(how: str) -> None:
    assert subprocess.run([sys.executable, "-c", LEAVE, how], timeout=90, check=False).returncode == 0


def test_after_an_error_the_block_that_is_being_read_is_waited_for() -> None:
    ended = threading.Event()

    class Slow(ArrayBlocks):
        def read(self, i: int) -> Block:
            if i == 1:
                time.sleep(0.3)
                ended.set()
            return super().read(i)

    blocks = read_ahead(Slow(np.ones((40, 2)), 10), range(4))
    next(blocks)
    blocks.close()
    assert ended.is_set()
