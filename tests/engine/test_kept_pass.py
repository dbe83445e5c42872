"""The stored states of a pass as its tasks find them: a state itself, or what it was merged into."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spae_dask.accumulators import Triangular
from spae_dask.blocks import ArrayBlocks
from spae_dask.engine.kept_pass import KeptPass, LostState, Merged
from spae_dask.engine.merge_tree import MergeTree
from spae_dask.engine.spans import Span
from spae_dask.engine.sweep import Swept, sweep
from spae_dask.engine.tasks import load_task, merge_task, seconds, sweep_task
from spae_dask.storage.checkpoints.local_states import LocalStates
from tests.engine.bits import bits
from tests.estimators.sources import Watched

D, ROWS, N_SPANS, FAN_IN = 3, 5, 9, 3
RECIPE = Triangular(D)


@pytest.fixture
def rows() -> Watched:
    return Watched(np.random.default_rng(0).standard_normal((N_SPANS * ROWS, D)), ROWS)


@pytest.fixture
def kept(tmp_path: Path) -> KeptPass:
    (tmp_path / "f").mkdir()
    return KeptPass(LocalStates(tmp_path), "f", "key", MergeTree(N_SPANS, FAN_IN))


def swept(rows: Watched, number: int, kept: KeptPass) -> Swept | Merged:
    span = Span(number, number + 1, number * ROWS, (number + 1) * ROWS)
    return sweep_task(rows, RECIPE, span, False, ("token", 1), None, kept, (0, number))


def state(rows: Watched, first: int, last: int) -> Swept:
    return sweep(ArrayBlocks(rows.X, ROWS), RECIPE, Span(first, last, first * ROWS, last * ROWS), False)


def files(kept: KeptPass) -> list[str]:
    return sorted(kept.store.files("f"))


def test_tasks_that_are_run_again_find_their_states_wherever_these_were_merged(rows: Watched, kept: KeptPass) -> None:
    level_one = [merge_task(RECIPE, kept, (1, i), *(swept(rows, 3 * i + j, kept) for j in range(3))) for i in range(2)]
    assert files(kept) == ["1-00000.state", "1-00001.state"]
    assert sorted(rows.reads) == list(range(6))
    # the worker that had both is lost: dask runs all again that led to them
    again = [swept(rows, i, kept) for i in range(6)]
    assert again == 3 * [Merged((1, 0))] + 3 * [Merged((1, 1))]
    merged = [merge_task(RECIPE, kept, (1, i), *again[3 * i : 3 * i + 3]) for i in range(2)]
    assert [bits(each.state) for each in merged] == [bits(each.state) for each in level_one]
    # and once more, when the whole is stored
    third = merge_task(RECIPE, kept, (1, 2), *(swept(rows, i, kept) for i in range(6, 9)))
    whole = merge_task(RECIPE, kept, (2, 0), *merged, third)
    assert files(kept) == ["2-00000.state"]
    again = [swept(rows, i, kept) for i in range(9)]
    parts = [merge_task(RECIPE, kept, (1, i), *again[3 * i : 3 * i + 3]) for i in range(3)]
    assert again == 9 * [Merged((2, 0))]
    assert parts == 3 * [Merged((2, 0))]
    assert bits(merge_task(RECIPE, kept, (2, 0), *parts).state) == bits(whole.state)
    assert sorted(rows.reads) == list(range(9))
    assert seconds(again[0]) == (0.0, 0.0)


def test_a_state_that_comes_beside_one_that_is_merged_is_in_the_merged_one(rows: Watched, kept: KeptPass) -> None:
    parts = [swept(rows, i, kept) for i in range(3)]
    merged = merge_task(RECIPE, kept, (1, 0), *parts)
    kept.save((0, 1), parts[1])  # by a worker that was slow, or taken for dead
    found = merge_task(RECIPE, kept, (1, 0), Merged((1, 0)), parts[1], Merged((1, 0)))
    assert bits(found.state) == bits(merged.state)
    assert files(kept) == ["1-00000.state"]


def test_a_state_that_was_merged_after_it_was_listed_is_told_and_one_that_is_nowhere_is_lost(
    rows: Watched, kept: KeptPass
) -> None:
    kept.save((2, 0), state(rows, 0, 9))
    assert load_task(kept, (1, 1), RECIPE) == Merged((2, 0))
    assert merge_task(RECIPE, kept, (1, 0), Merged((1, 0)), Merged((1, 0)), Merged((1, 0))) == Merged((2, 0))
    kept.discard([(2, 0)])
    for load in (load_task, KeptPass.load_or_tell):
        with pytest.raises(LostState) as caught:
            load(kept, (1, 1), RECIPE)
        assert caught.value.args == ((1, 1), None)
    with pytest.raises(LostState):
        merge_task(RECIPE, kept, (1, 0), Merged((1, 0)), Merged((1, 0)), Merged((1, 0)))


def test_a_damaged_state_of_its_own_is_made_anew_by_the_task(rows: Watched, kept: KeptPass) -> None:
    made = swept(rows, 0, kept)
    path = Path(kept.store.describe()) / kept.path((0, 0))
    path.write_bytes(path.read_bytes()[:-1])
    assert bits(swept(rows, 0, kept).state) == bits(made.state)
    assert rows.reads == [0, 0]
    assert bits(swept(rows, 0, kept).state) == bits(made.state)
    assert rows.reads == [0, 0]


@pytest.mark.parametrize(
    ("fresh", "again", "looks"), [(True, False, False), (True, True, True), (False, False, True), (False, True, True)]
)
def test_a_task_looks_unless_it_is_the_first_run_of_a_pass_that_is_new(
    fresh: bool, again: bool, looks: bool, rows: Watched, kept: KeptPass
) -> None:
    kept.save((0, 4), state(rows, 4, 5))
    swept(rows, 4, replace(kept, fresh=fresh, runs_again=lambda: again))
    assert (rows.reads == []) == looks


def test_a_lost_state_says_which_and_why(kept: KeptPass) -> None:
    (Path(kept.store.describe()) / "f" / "0-00000.state").write_bytes(b"?")
    with pytest.raises(LostState) as caught:
        kept.load((0, 0), RECIPE)
    assert caught.value.args == ((0, 0), "it is cut off")
    assert kept.find((0, 1), RECIPE) is None
