"""What a pass is projected to hold, against a simulation of one worker."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.blocks import ArrayBlocks
from spae_dask.passes.accumulators import Gram
from spae_dask.passes.layout import PassLayout, Tally
from spae_dask.passes.memory import Footprint, tasks_that_fit
from spae_dask.passes.merge_tree import MergeTree, Node
from spae_dask.passes.spans import most_waiting
from spae_dask.storage.sources.dask_blocks import DaskBlocks
from tests.engine.levels import merge_levels
from tests.engine.sources import Counted


@given(n_spans=st.integers(1, 300), fan_in=st.sampled_from([2, 3, 8]))
def test_states_that_wait_on_one_worker_are_as_many_as_projected(n_spans: int, fan_in: int) -> None:
    # one worker sweeps the spans in order and merges a group as soon as it is complete
    levels = merge_levels(n_spans, fan_in)
    waiting = {(-1, i): False for i in range(n_spans)}
    most = 0
    for i in range(n_spans):
        waiting[-1, i] = True
        most = max(most, sum(waiting.values()))
        for level, groups in enumerate(levels):
            for number, group in enumerate(groups):
                children = [(level - 1, j) for j in group]
                if all(waiting.get(child, False) for child in children):
                    for child in children:
                        waiting[child] = False
                    waiting[level, number] = True
    assert most == most_waiting(n_spans, fan_in)


@pytest.mark.parametrize("n_rows", [1, 10_000, 4_000_000])
def test_a_layout_covers_the_data_and_counts_its_bytes(n_rows: int) -> None:
    source = Counted(n_rows, 64, rows_per_block=5000)
    layout = PassLayout.of(source, Gram(64))
    assert layout.nbytes == n_rows * 64 * 4
    assert layout.spans[-1].last_row == n_rows
    assert layout.footprint.block_nbytes == min(n_rows, 5000) * 64 * 4
    assert layout.footprint.state_nbytes == Gram(64).state_nbytes
    assert (layout.fan_in > 1) == (len(layout.spans) > 1)


def test_the_footprint_of_a_task_does_not_grow_with_the_rows() -> None:
    small, large = (PassLayout.of(Counted(n, 64, 5000), Gram(64)) for n in (4_000_000, 4_000_000_000))
    assert large.footprint.task_nbytes == small.footprint.task_nbytes
    # the states that wait grow by the depth of the tree only
    assert large.footprint.worker_nbytes(4) < 1.2 * small.footprint.worker_nbytes(4)


def test_arrays_of_this_process_are_read_without_prefetch() -> None:
    layout = PassLayout.of(ArrayBlocks(np.zeros((1000, 3)), 10), Gram(3))
    assert layout.footprint.n_blocks_held == 1


@pytest.mark.parametrize(("rows", "held"), [(8 * 8192, 2), (8192, 1)])
def test_a_block_of_a_dask_array_may_wait_for_its_release_while_the_next_one_is_made(rows: int, held: int) -> None:
    layout = PassLayout.of(DaskBlocks(da.zeros((rows, 512), chunks=(8192, -1))), Gram(512))
    assert len(layout.spans) == rows // 8192
    assert layout.footprint.n_blocks_held == held
    assert not layout.prefetches


def test_more_tasks_than_spans_never_run() -> None:
    one_span = PassLayout.of(Counted(1000, 64, 100), Gram(64)).footprint
    assert one_span.worker_nbytes(8) == one_span.worker_nbytes(1)


@given(budget=st.integers(1 << 20, 1 << 30))
def test_the_number_of_tasks_is_the_most_that_fits(budget: int) -> None:
    footprint = PassLayout.of(Counted(40_000_000, 64, 50_000), Gram(64)).footprint
    tasks = tasks_that_fit(footprint, 16, budget)
    assert tasks == 0 or footprint.worker_nbytes(tasks) <= budget
    assert tasks == 16 or footprint.worker_nbytes(tasks + 1) > budget


def test_a_tally_adds_up() -> None:
    tally = Tally()
    tally.add(3)
    tally.add(4)
    assert (tally.passes, tally.nbytes) == (2, 7)


def test_a_footprint_without_merges_counts_no_waiting_states() -> None:
    layout = PassLayout.of(Counted(1000, 64, 100), Gram(64))
    assert isinstance(layout.footprint, Footprint)
    assert layout.footprint.n_states_waiting == 0


@given(
    n_spans=st.integers(2, 100),
    fan_in=st.sampled_from([2, 3, 8]),
    tasks=st.integers(1, 4),
    in_process=st.booleans(),
)
def test_states_of_a_process_are_no_more_than_projected(
    n_spans: int, fan_in: int, tasks: int, *, in_process: bool
) -> None:
    # spans end in order; a worker begins the next span before a merge, threads of the calling process begin it after
    state = 1 << 40
    footprint = Footprint(0, 1, 0, 0, state, most_waiting(n_spans, fan_in), fan_in, n_spans)
    tree, waiting, most = MergeTree(n_spans, fan_in), set[Node](), 0
    for span in range(n_spans):
        most = max(most, len(waiting) + min(tasks, n_spans - span))
        at_work = min(tasks - in_process, n_spans - span - 1)
        node = (0, span)
        waiting.add(node)
        while node != tree.root and waiting.issuperset(children := tree.children(tree.parent(node))):
            node = tree.parent(node)
            most = max(most, at_work + len(waiting) + min(len(children) - 1, 2))
            waiting = (waiting - set(children)) | {node}
    assert most * state <= footprint.worker_nbytes(tasks, 1.0, in_process=in_process)
    assert footprint.worker_nbytes(tasks, 1.0, in_process=in_process) < (most + 2) * state


def test_blocks_of_fewer_rows_than_a_panel_take_less_scratch() -> None:
    tall, short = (PassLayout.of(Counted(4000, 5000, rows), Gram(5000)).footprint for rows in (400, 100))
    assert tall.work_nbytes == Gram(5000).work_nbytes(256)
    assert short.work_nbytes == Gram(5000).work_nbytes(100) < tall.work_nbytes / 2
