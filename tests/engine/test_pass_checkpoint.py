"""The stored states of a pass as its tasks find them."""

from pathlib import Path

import numpy as np
import pytest

from spae_dask.blocks import ArrayBlocks
from spae_dask.passes.accumulators import Triangular
from spae_dask.passes.checkpoint import MissingNode, PassCheckpoint
from spae_dask.passes.merge_tree import MergeTree
from spae_dask.passes.spans import Span
from spae_dask.passes.sweep import Swept, sweep
from spae_dask.passes.tasks import Gate, PassTasks, leaf_task, merge_task
from spae_dask.storage.checkpoints.local_states import LocalStates
from tests.engine.bits import bits
from tests.estimators.sources import Watched

D, ROWS, N_SPANS, FAN_IN = 3, 5, 9, 3
RECIPE = Triangular(D)


@pytest.fixture
def rows() -> Watched:
    return Watched(np.random.default_rng(0).standard_normal((N_SPANS * ROWS, D)), ROWS)


@pytest.fixture
def kept(tmp_path: Path) -> PassCheckpoint:
    (tmp_path / "f").mkdir()
    return PassCheckpoint(LocalStates(tmp_path), "f", "key", MergeTree(N_SPANS, FAN_IN))


def swept(rows: Watched, number: int, kept: PassCheckpoint) -> Swept:
    span = Span(number, number + 1, number * ROWS, (number + 1) * ROWS)
    return leaf_task(rows, PassTasks(RECIPE, kept, Gate("token", 1)), (0, number), span)


def loaded(rows: Watched, node: tuple[int, int], kept: PassCheckpoint) -> Swept:
    return leaf_task(rows, PassTasks(RECIPE, kept, Gate("token", 1)), node, None)


def merged(kept: PassCheckpoint, node: tuple[int, int], *parts: Swept) -> Swept:
    return merge_task(PassTasks(RECIPE, kept, Gate("token", 1)), node, *parts)


def state(rows: Watched, first: int, last: int) -> Swept:
    return sweep(ArrayBlocks(rows.X, ROWS), RECIPE, Span(first, last, first * ROWS, last * ROWS), False)


def files(kept: PassCheckpoint) -> list[str]:
    return sorted(kept.store.files("f"))


def test_a_span_that_dask_runs_again_loads_its_state_or_ends_if_that_was_merged(
    rows: Watched, kept: PassCheckpoint
) -> None:
    parts = [swept(rows, i, kept) for i in range(3)]
    assert [bits(swept(rows, i, kept).state) for i in range(3)] == [bits(each.state) for each in parts]
    whole = merged(kept, (1, 0), *parts)
    assert files(kept) == ["1-00000.state"]
    for number in range(3):
        with pytest.raises(MissingNode) as caught:
            swept(rows, number, kept)
        assert caught.value.args == ((0, number), None)
    assert sorted(rows.reads) == [0, 1, 2]
    assert bits(loaded(rows, (1, 0), kept).state) == bits(whole.state)


def test_a_state_that_was_stored_again_beside_the_merged_one_counts_as_merged(
    rows: Watched, kept: PassCheckpoint
) -> None:
    parts = [swept(rows, i, kept) for i in range(3)]
    merged(kept, (1, 0), *parts)
    kept.save((0, 1), parts[1])  # by a worker that was slow, or taken for dead
    with pytest.raises(MissingNode):
        swept(rows, 1, kept)
    assert kept.stored() == {(1, 0)}
    assert files(kept) == ["1-00000.state"]


def test_a_state_that_is_nowhere_cannot_be_loaded(rows: Watched, kept: PassCheckpoint) -> None:
    kept.save((2, 0), state(rows, 0, 9))
    with pytest.raises(MissingNode) as caught:
        loaded(rows, (1, 1), kept)
    assert caught.value.args == ((1, 1), None)


def test_the_end_of_a_part_is_stored_and_its_task_returns_no_arrays(rows: Watched, kept: PassCheckpoint) -> None:
    shared = PassTasks(RECIPE, kept, Gate("token", 1), ends=frozenset({(1, 0), (0, 8)}))
    span = Span(8, 9, 8 * ROWS, 9 * ROWS)
    for end in (
        merge_task(shared, (1, 0), *(swept(rows, i, kept) for i in range(3))),
        leaf_task(rows, shared, (0, 8), span),
    ):
        assert end.state == {}
        assert end.compute_seconds > 0.0
    assert files(kept) == ["0-00008.state", "1-00000.state"]
    assert int(loaded(rows, (1, 0), kept).state["count"]) == 3 * ROWS


def test_a_damaged_state_of_its_own_is_made_anew_by_the_task(rows: Watched, kept: PassCheckpoint) -> None:
    made = swept(rows, 0, kept)
    path = Path(kept.store.describe()) / kept.path((0, 0))
    path.write_bytes(path.read_bytes()[:-1])
    assert bits(swept(rows, 0, kept).state) == bits(made.state)
    assert rows.reads == [0, 0]
    assert bits(swept(rows, 0, kept).state) == bits(made.state)
    assert rows.reads == [0, 0]


def test_threads_of_this_process_do_not_look(rows: Watched, kept: PassCheckpoint) -> None:
    """Nothing there runs a task twice, and the store was listed when the pass began."""
    kept.save((0, 4), state(rows, 4, 5))
    shared = PassTasks(RECIPE, kept, Gate("token", 1), watch=lambda n_rows, nbytes: None)
    leaf_task(rows, shared, (0, 4), Span(4, 5, 4 * ROWS, 5 * ROWS))
    assert rows.reads == [4]


def test_a_missing_node_says_which_and_why(kept: PassCheckpoint) -> None:
    (Path(kept.store.describe()) / "f" / "0-00000.state").write_bytes(b"?")
    with pytest.raises(MissingNode) as caught:
        kept.load((0, 0), RECIPE)
    assert caught.value.args == ((0, 0), "it is truncated")
    assert kept.find((0, 1), RECIPE) is None
