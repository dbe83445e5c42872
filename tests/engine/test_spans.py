"""The cut of a pass into spans and the tree that merges them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.blocks import uniform_bounds
from spae_dask.passes.options import PassOptions
from spae_dask.passes.spans import cut_spans, fan_in_for
from tests.engine.levels import merge_levels
from tests.generated import block_bounds

OPTIONS = PassOptions()

sizes = st.one_of(st.integers(1, 100), st.integers(OPTIONS.min_span_nbytes // 100, 50 * OPTIONS.min_span_nbytes))


@given(bounds=block_bounds(), row_nbytes=sizes, state_nbytes=st.integers(0, 4 * OPTIONS.min_span_nbytes))
def test_spans_cover_every_block_exactly_once_in_order(
    bounds: tuple[int, ...], row_nbytes: int, state_nbytes: int
) -> None:
    spans = cut_spans(bounds, row_nbytes, state_nbytes)
    assert [block for span in spans for block in range(span.first_block, span.last_block)] == list(
        range(len(bounds) - 1)
    )
    for span in spans:
        assert (span.first_row, span.last_row) == (bounds[span.first_block], bounds[span.last_block])
        assert span.n_rows > 0
    assert sum(span.n_rows for span in spans) == bounds[-1]


@given(bounds=block_bounds(), row_nbytes=sizes, state_nbytes=st.integers(0, 4 * OPTIONS.min_span_nbytes))
def test_no_span_is_larger_than_its_share_and_one_block(
    bounds: tuple[int, ...], row_nbytes: int, state_nbytes: int
) -> None:
    # a task of a dask array holds all the blocks of its span: a hoard of large ones must not end up in one span
    total = bounds[-1] * row_nbytes
    usual = min(-(-total // OPTIONS.max_spans), OPTIONS.large_span_nbytes)
    fewest = max(usual, -(-total // OPTIONS.most_spans))
    share = 2 * max(OPTIONS.min_span_nbytes, OPTIONS.states_per_span * state_nbytes, fewest)
    largest = max(stop - start for start, stop in pairwise(bounds)) * row_nbytes
    assert all(span.n_rows * row_nbytes <= share + largest for span in cut_spans(bounds, row_nbytes, state_nbytes))


@given(bounds=block_bounds(), state_nbytes=st.integers(0, 4 * OPTIONS.min_span_nbytes), seed=st.integers(0, 99))
def test_rows_of_unequal_bytes_are_cut_by_bytes(bounds: tuple[int, ...], state_nbytes: int, seed: int) -> None:
    sizes = np.random.default_rng(seed).integers(1, 5 * OPTIONS.min_span_nbytes, len(bounds) - 1)
    offsets = (0, *np.cumsum(sizes).tolist())
    spans = cut_spans(bounds, 1, state_nbytes, offsets=offsets)
    assert [span.first_block for span in spans] + [len(sizes)] == [0] + [span.last_block for span in spans]
    assert all(span.first_row == bounds[span.first_block] for span in spans)
    share = 2 * max(OPTIONS.min_span_nbytes, OPTIONS.states_per_span * state_nbytes)
    for span in spans:
        assert offsets[span.last_block] - offsets[span.first_block] <= share + sizes.max()


def test_large_blocks_among_many_small_ones_are_spread_over_the_spans() -> None:
    rows = [1] * 5000 + [10_000] * 10
    bounds = [0]
    for n in rows:
        bounds.append(bounds[-1] + n)
    spans = cut_spans(bounds, OPTIONS.min_span_nbytes // 10_000, 0)
    assert max(span.n_rows for span in spans) <= 20_000


@given(bounds=block_bounds(), row_nbytes=sizes, share=st.integers(1, 40))
def test_spans_of_a_big_state_are_worth_it(bounds: tuple[int, ...], row_nbytes: int, share: int) -> None:
    state_nbytes, total = share * OPTIONS.few_states_nbytes // 16, bounds[-1] * row_nbytes
    states_nbytes = len(cut_spans(bounds, row_nbytes, state_nbytes)) * state_nbytes
    few = states_nbytes <= min(OPTIONS.few_states_nbytes, total)
    assert states_nbytes == state_nbytes or few or OPTIONS.states_per_span * states_nbytes <= total


def test_data_of_a_few_states_keep_several_threads_busy() -> None:
    row_nbytes, state_nbytes = 2000 * 4, 2000 * 2000 * 8
    bounds = range(0, 100_001, 2500)  # 800 MB
    spans = cut_spans(bounds, row_nbytes, state_nbytes)
    assert len(spans) == 4
    assert all(span.n_rows * row_nbytes >= 2 * state_nbytes for span in spans)


class Looked(Sequence[int]):
    """Bounds that count how often one of them is looked at."""

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds, self.looks = bounds, 0

    def __len__(self) -> int:
        return len(self.bounds)

    def __getitem__(self, i: Any) -> Any:
        self.looks += 1
        return self.bounds[i]


@pytest.mark.parametrize("n_rows", [10**9, 10**9 + 7])
def test_a_million_blocks_are_cut_into_bounded_spans_without_a_look_at_each(n_rows: int) -> None:
    bounds = Looked(uniform_bounds(n_rows, 1000))
    spans = cut_spans(bounds, 512, 0)
    assert bounds.looks < 50 * OPTIONS.max_spans < len(bounds)
    assert OPTIONS.max_spans / 2 < len(spans) <= OPTIONS.max_spans
    assert spans[-1].last_row == n_rows


@pytest.mark.parametrize(("tib", "n_spans"), [(1, 4096), (4, 4096), (10, 10_240), (16, 16_384), (1000, 16_384)])
def test_huge_data_have_more_spans_that_stay_small_as_long_as_a_scheduler_bears_it(tib: int, n_spans: int) -> None:
    spans = cut_spans(uniform_bounds(tib << 20, 64), 1 << 20, 0)
    assert len(spans) == n_spans


@pytest.mark.parametrize(("n_rows", "step"), [(10, 10), (10, 3), (10, 1), (1, 1), (7, 100)])
def test_uniform_bounds_end_with_the_last_row(n_rows: int, step: int) -> None:
    bounds = list(uniform_bounds(n_rows, step))
    assert (bounds[0], bounds[-1]) == (0, n_rows)
    assert all(0 < b - a <= step for a, b in pairwise(bounds))
    assert len(bounds) == -(-n_rows // step) + 1


@given(n_states=st.integers(1, 600), fan_in=st.integers(2, 9))
def test_the_merge_tree_takes_every_state_once_and_keeps_their_order(n_states: int, fan_in: int) -> None:
    level = [[i] for i in range(n_states)]
    for groups in merge_levels(n_states, fan_in):
        taken = [i for group in groups for i in group]
        assert taken == list(range(len(level)))
        assert all(1 <= len(group) <= fan_in for group in groups)
        level = [[leaf for i in group for leaf in level[i]] for group in groups]
    assert level == [list(range(n_states))]


def test_a_single_state_is_not_merged() -> None:
    assert merge_levels(1, 8) == []


def test_big_states_are_merged_two_at_a_time() -> None:
    assert fan_in_for(1 << 10) == 8
    assert fan_in_for(1 << 30) == 2


@given(bounds=block_bounds(), row_nbytes=sizes)
def test_blocks_that_are_tasks_are_spans_of_their_own(bounds: tuple[int, ...], row_nbytes: int) -> None:
    spans = cut_spans(bounds, row_nbytes, 1, blocks_are_tasks=True)
    rows = [stop - start for start, stop in pairwise(bounds)]
    assert max(span.n_rows for span in spans) <= max(*rows, 2 * bounds[-1] // len(spans)) + max(rows)
    if len(set(rows)) == 1:
        assert len(spans) == len(rows)


def test_blocks_that_are_tasks_share_a_span_where_the_state_is_larger() -> None:
    spans = cut_spans(uniform_bounds(1000, 1), 1000, 10_000, blocks_are_tasks=True)
    assert [span.n_rows for span in spans] == [10] * 100
