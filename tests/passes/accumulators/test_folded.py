"""Folds of rows: groups stay whole, every fold has rows, and folds are of similar size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.passes.accumulators import Folded, Gram, RowFolds


@st.composite
def groups_and_folds(draw: st.DrawFn) -> tuple[list[int], int]:
    n_groups = draw(st.integers(2, 9))
    rows = draw(st.lists(st.integers(0, n_groups - 1), max_size=60))
    return draw(st.permutations([*range(n_groups), *rows])), draw(st.integers(2, n_groups))


@given(given=groups_and_folds())
def test_a_group_stays_in_one_fold_and_no_fold_is_empty(given: tuple[list[int], int]) -> None:
    groups, n_folds = given
    folds = RowFolds.of_groups(np.array(groups), n_folds)
    of_rows = folds.of(0, len(groups)).tolist()
    assert len({(group, fold) for group, fold in zip(groups, of_rows, strict=True)}) == len(set(groups))
    sizes = [of_rows.count(fold) for fold in range(n_folds)]
    assert sizes == folds.sizes().tolist()
    assert min(sizes) > 0
    assert max(sizes) - min(sizes) <= max(groups.count(group) for group in groups)


@given(n_folds=st.integers(2, 12), more=st.integers(0, 3000), seed=st.integers(0, 5))
def test_runs_are_dealt_to_folds_of_nearly_one_size(n_folds: int, more: int, seed: int) -> None:
    n = n_folds + more
    folds = RowFolds.of_runs(n, n_folds, seed)
    of_rows = folds.of(0, n)
    assert of_rows.size == n
    assert folds.sizes().tolist() == [int(np.sum(of_rows == fold)) for fold in range(n_folds)]
    assert folds.sizes().min() > 0
    assert folds.sizes().max() - folds.sizes().min() <= folds.run
    for start in (0, n // 3, n - 1):
        assert folds.of(start, n).tolist() == of_rows[start:].tolist()
    assert all(len(set(of_rows[start : start + folds.run].tolist())) == 1 for start in range(0, n, folds.run))


def test_other_seeds_deal_other_folds() -> None:
    first, again, other = (RowFolds.of_runs(1000, 5, seed).numbers.tolist() for seed in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.parametrize("n_folds", [2, 7])
def test_a_state_is_as_large_as_that_of_each_fold(n_folds: int) -> None:
    recipe = Folded(Gram(6), RowFolds.of_runs(100, n_folds, 0), 6)
    assert recipe.state_nbytes == n_folds * Gram(6).state_nbytes
