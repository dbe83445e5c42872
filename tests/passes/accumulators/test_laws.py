"""The laws of DESIGN.md, for every accumulator there is."""

import pickle
import tracemalloc
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spae_dask.passes.accumulators import Accumulator, State
from spae_dask.passes.accumulators.base import merge_scratch_nbytes
from spae_dask.passes.sweep import update_by_panels
from tests.generated import csr_matrices, matrices, partitions
from tests.passes.accumulators.recipes import RECIPES, Recipe, assert_same_facts

every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)

NUMPY_BUFFERS = 256 << 10
"""Bytes of numpy's own small buffers, for casting and for strided sums."""

NAN_RECIPES = tuple(
    r for r in RECIPES if r.name in ("Moments", "Weighted Moments", "NonFinite", "RowTotals", "Imputed Gram")
)


def state_of(accumulator: Accumulator[Any], X: Any, start: int, stop: int) -> State:
    return accumulator.update(accumulator.zero(), X[start:stop], start)


def merged(accumulator: Accumulator[Any], X: Any, bounds: tuple[int, ...]) -> State:
    return reduce(accumulator.merge, (state_of(accumulator, X, a, b) for a, b in pairwise(bounds)))


def frozen_copy(state: State) -> tuple[State, State]:
    """A read-only state, as one that came over the network is, and a copy to compare it with."""
    kept = {name: array.copy() for name, array in state.items()}
    for array in state.values():
        array.flags.writeable = False
    return state, kept


def assert_same_bits(state: State, kept: State) -> None:
    assert state.keys() == kept.keys()
    for name, array in state.items():
        assert array.tobytes() == kept[name].tobytes(), name


@every_recipe
@given(X=matrices(), data=st.data())
def test_zero_is_neutral_on_both_sides(recipe: Recipe, X: NDArray[Any], data: st.DataObject) -> None:
    accumulator = recipe.make(X.shape[1])
    state = merged(accumulator, X, data.draw(partitions(len(X), max_parts=3)))
    expected = recipe.facts(accumulator.result(state))
    for neutral in (accumulator.merge(accumulator.zero(), state), accumulator.merge(state, accumulator.zero())):
        assert_same_facts(recipe.facts(accumulator.result(neutral)), expected, X)


@every_recipe
@given(X=matrices(), data=st.data())
def test_merge_is_associative(recipe: Recipe, X: NDArray[Any], data: st.DataObject) -> None:
    accumulator = recipe.make(X.shape[1])
    i, j = sorted(data.draw(st.tuples(st.integers(0, len(X)), st.integers(0, len(X)))))
    a, b, c = (state_of(accumulator, X, *part) for part in pairwise((0, i, j, len(X))))
    left = accumulator.merge(accumulator.merge(a, b), c)
    right = accumulator.merge(a, accumulator.merge(b, c))
    assert_same_facts(recipe.facts(accumulator.result(left)), recipe.facts(accumulator.result(right)), X)


@every_recipe
@given(X=matrices(), data=st.data())
def test_any_partition_gives_what_the_whole_matrix_gives(recipe: Recipe, X: NDArray[Any], data: st.DataObject) -> None:
    accumulator = recipe.make(X.shape[1])
    state = merged(accumulator, X, data.draw(partitions(len(X))))
    assert_same_facts(recipe.facts(accumulator.result(state)), recipe.oracle(X.astype(np.longdouble)), X)


@pytest.mark.parametrize("recipe", NAN_RECIPES, ids=lambda recipe: recipe.name)
@given(X=matrices(dtypes=("float16", "float32", "float64", ">f4")), data=st.data())
def test_any_partition_gives_the_same_with_missing_entries(
    recipe: Recipe, X: NDArray[Any], data: st.DataObject
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    X[rng.random(X.shape) < 0.3] = np.nan
    if recipe.name != "Imputed Gram":
        X[rng.random(X.shape) < 0.1] = np.inf
        X[rng.random(X.shape) < 0.1] = -np.inf
    accumulator = recipe.make(X.shape[1])
    state = merged(accumulator, X, data.draw(partitions(len(X))))
    assert_same_facts(recipe.facts(accumulator.result(state)), recipe.oracle(X.astype(np.longdouble)), X)


@every_recipe
@given(X=matrices(), data=st.data())
def test_updating_panel_by_panel_gives_what_one_update_gives(
    recipe: Recipe, X: NDArray[Any], data: st.DataObject
) -> None:
    accumulator = recipe.make(X.shape[1])
    state = accumulator.zero()
    for start, stop in pairwise(data.draw(partitions(len(X)))):
        state = accumulator.update(state, X[start:stop], start)
    at_once = state_of(accumulator, X, 0, len(X))
    assert_same_facts(recipe.facts(accumulator.result(state)), recipe.facts(accumulator.result(at_once)), X)


@every_recipe
@given(X=csr_matrices())
def test_csr_rows_give_what_dense_rows_give(recipe: Recipe, X: Any) -> None:
    accumulator = recipe.make(X.shape[1])
    dense = X.toarray()
    state = update_by_panels(accumulator, accumulator.zero(), X, 0)
    assert_same_facts(recipe.facts(accumulator.result(state)), recipe.oracle(dense.astype(np.longdouble)), dense)


@every_recipe
@given(X=matrices())
def test_column_major_and_strided_rows_give_what_row_major_rows_give(recipe: Recipe, X: NDArray[Any]) -> None:
    accumulator = recipe.make(X.shape[1])
    expected = recipe.facts(accumulator.result(state_of(accumulator, X, 0, len(X))))
    strided = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    for rows in (np.asfortranarray(X), strided):
        found = accumulator.result(accumulator.update(accumulator.zero(), rows, 0))
        assert_same_facts(recipe.facts(found), expected, X)


@every_recipe
@given(X=matrices(min_rows=2), data=st.data())
def test_merge_and_result_never_write_into_their_arguments(
    recipe: Recipe, X: NDArray[Any], data: st.DataObject
) -> None:
    accumulator = recipe.make(X.shape[1])
    cut = data.draw(st.integers(0, len(X)))
    a, a_kept = frozen_copy(state_of(accumulator, X, 0, cut))
    b, b_kept = frozen_copy(state_of(accumulator, X, cut, len(X)))
    first, first_kept = frozen_copy(accumulator.merge(a, b))
    again = accumulator.merge(a, b)
    accumulator.result(first)
    for state, kept in ((a, a_kept), (b, b_kept), (first, first_kept), (again, first_kept)):
        assert_same_bits(state, kept)


@every_recipe
@given(X=matrices(min_rows=2), data=st.data())
def test_a_merged_state_shares_no_memory_with_what_it_was_merged_from(
    recipe: Recipe, X: NDArray[Any], data: st.DataObject
) -> None:
    accumulator = recipe.make(X.shape[1])
    cut = data.draw(st.integers(0, len(X)))
    a, a_kept = frozen_copy(state_of(accumulator, X, 0, cut))
    b, b_kept = frozen_copy(state_of(accumulator, X, cut, len(X)))
    for merged_state in (accumulator.merge(a, b), accumulator.merge(a, accumulator.zero())):
        accumulator.update(merged_state, X, len(X))
        assert_same_bits(a, a_kept)
        assert_same_bits(b, b_kept)


@every_recipe
@given(X=matrices())
def test_update_never_writes_into_the_rows(recipe: Recipe, X: NDArray[Any]) -> None:
    accumulator = recipe.make(X.shape[1])
    kept = X.copy()
    X.flags.writeable = False
    state_of(accumulator, X, 0, len(X))
    assert X.tobytes() == kept.tobytes()


@every_recipe
@given(X=matrices(min_rows=2), data=st.data())
def test_a_state_that_was_stored_row_major_can_be_updated_further(
    recipe: Recipe, X: NDArray[Any], data: st.DataObject
) -> None:
    accumulator = recipe.make(X.shape[1])
    cut = data.draw(st.integers(0, len(X)))
    kept = state_of(accumulator, X, 0, cut)
    stored = {name: array.copy(order="C") for name, array in kept.items()}
    found = accumulator.update(stored, X[cut:], cut)
    expected = accumulator.update(kept, X[cut:], cut)
    assert_same_facts(recipe.facts(accumulator.result(found)), recipe.facts(accumulator.result(expected)), X)


@every_recipe
def test_a_state_is_a_plain_mapping_of_arrays_of_the_stated_size(recipe: Recipe) -> None:
    X = np.random.default_rng(0).standard_normal((50, 7)).astype(np.float32)
    X[:20, 1] = np.inf if recipe.name == "NonFinite" else 1.0
    accumulator = recipe.make(7)
    a, b = state_of(accumulator, X, 0, 20), state_of(accumulator, X, 20, 50)
    for state in (accumulator.zero(), a, b, accumulator.merge(a, b), accumulator.merge(a, accumulator.zero())):
        assert type(state) is dict
        assert all(type(array) is np.ndarray for array in state.values())
        assert state.keys() == accumulator.zero().keys()
        nbytes = sum(array.nbytes for array in state.values())
        assert nbytes == accumulator.state_nbytes if recipe.exact_nbytes else nbytes <= accumulator.state_nbytes


@every_recipe
def test_a_recipe_that_was_pickled_gives_the_same_bits(recipe: Recipe) -> None:
    X = np.random.default_rng(1).standard_normal((300, 5))
    accumulator = recipe.make(5)
    received = pickle.loads(pickle.dumps(accumulator))
    assert_same_bits(merged(received, X, (0, 100, 300)), merged(accumulator, X, (0, 100, 300)))
    assert received.state_nbytes == accumulator.state_nbytes
    assert received.panel_rows == accumulator.panel_rows


@every_recipe
@pytest.mark.parametrize("d", [3, 400])
@pytest.mark.parametrize("part", [1, 3])
def test_an_update_allocates_no_more_than_its_stated_scratch(recipe: Recipe, d: int, part: int) -> None:
    accumulator = recipe.make(d)
    n_rows = max(1, accumulator.panel_rows // part)
    X = np.random.default_rng(2).standard_normal((n_rows, d)).astype(np.float32)
    state = accumulator.update(accumulator.zero(), X, 0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        accumulator.update(state, X, len(X))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before <= 1.02 * accumulator.work_nbytes(n_rows) + NUMPY_BUFFERS


@every_recipe
def test_a_merge_allocates_no_more_than_a_state_and_its_stated_scratch(recipe: Recipe) -> None:
    accumulator = recipe.make(400)
    X = np.random.default_rng(2).standard_normal((600, 400)).astype(np.float32)
    parts = [accumulator.update(accumulator.zero(), X[first : first + 300], first) for first in (0, 300)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        accumulator.merge(*parts)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before <= 1.02 * (accumulator.state_nbytes + merge_scratch_nbytes(accumulator)) + NUMPY_BUFFERS


@every_recipe
def test_the_result_of_no_rows_is_finite_or_says_that_there_are_none(recipe: Recipe) -> None:
    accumulator = recipe.make(4)
    for state in (accumulator.zero(), accumulator.update(accumulator.zero(), np.zeros((0, 4)), 0)):
        facts = recipe.facts(accumulator.result(state))
        assert not any(np.isnan(np.asarray(value, dtype=np.float64)).any() for value in facts.values())
