"""Folds of rows: groups stay whole, every fold has rows, and folds are of similar size."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.passes.accumulators import Folded, FoldedByNumber, Gram, RowFolds, RowSketch
from spae_dask.passes.sweep import update_by_panels


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


@pytest.mark.parametrize("group", [1, 8])
@pytest.mark.parametrize("density", [1.0, 0.3, 0.02])
@pytest.mark.parametrize("grouped", [False, True])
def test_sketches_of_folds_are_parts_of_that_of_all_rows(grouped: bool, density: float, group: int) -> None:
    rng = np.random.default_rng(0)
    n, d, n_folds = 40_000, 7, 3
    X = np.where(rng.random((n, d)) < density, rng.normal(size=(n, d)) + 3, 0.0)
    folds = RowFolds.of_groups(rng.integers(0, 9, n), n_folds) if grouped else RowFolds.of_runs(n, n_folds, 0)
    recipe = RowSketch(d, 5, seed=1, group=group)

    def found(accumulator, blocks):
        state = accumulator.zero()
        for start in range(0, n, blocks):
            block = X[start : start + blocks]
            state = update_by_panels(accumulator, state, sp.csr_array(block) if density < 1 else block, start)
        return accumulator.result(state)

    whole, parts = found(recipe, n), found(FoldedByNumber(recipe, folds, d), 9_999)
    again = found(FoldedByNumber(recipe, folds, d), 1_234)
    zero = np.zeros(d)
    np.testing.assert_allclose(parts.whole().about(zero), whole.about(zero), atol=1e-8)
    for fold in range(n_folds):
        alone = X * (folds.of(0, n) == fold)[:, None]
        state = recipe.zero()
        wanted = recipe.result(update_by_panels(recipe, state, alone, 0)).about(zero)
        np.testing.assert_allclose(parts.only(fold).about(zero), wanted, atol=1e-8)
        np.testing.assert_allclose(again.only(fold).about(zero), wanted, atol=1e-8)
