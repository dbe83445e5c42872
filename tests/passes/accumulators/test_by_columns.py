"""Recipes fed some columns at a time: the state of whole rows, whatever the groups of columns and the cut of rows."""

import io
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spae_dask.passes.accumulators import Accumulator, CrossProducts, Imputed, Moments, NonFinite, RowSketch, Together
from spae_dask.passes.accumulators.by_columns import ByColumns, separated
from spae_dask.passes.accumulators.codes import codes_before, unknown_codes, with_codes
from spae_dask.passes.accumulators.read_sum import MAGNITUDE, SUM, ReadEntries, ReadSum
from spae_dask.passes.state_file import UnusableState, read_state, state_bytes
from spae_dask.passes.sweep import Swept
from tests.generated import matrices, partitions
from tests.passes.accumulators.recipes import RECIPES, Recipe, assert_same_facts, chosen, directions, origin, scale

SEPARABLE = [each for each in RECIPES if separated(each.make(4), np.arange(2)) is not None]
TWO_READS = [each for each in RECIPES if each.name.startswith("CrossProducts")]


def groups_of(data: st.DataObject, d: int) -> tuple[NDArray[np.intp], ...]:
    """Any groups of columns, each of them ascending."""
    order = np.array(data.draw(st.permutations(range(d))), dtype=np.intp)
    return tuple(np.sort(order[a:b]) for a, b in pairwise(data.draw(partitions(d))) if b > a)


def fed(recipe: Accumulator[Any], X: NDArray[Any], data: st.DataObject) -> tuple[ByColumns, Any]:
    """Recipe and state after rows of one group after another, cut anywhere and merged."""
    n = len(X)
    by_columns = ByColumns(recipe, groups_of(data, X.shape[1]), n)
    states: list[Any] = []
    for group, columns in enumerate(by_columns.groups):
        for start, stop in pairwise(data.draw(partitions(n))):
            if stop > start:  # blocks have rows
                # some are swept into the state of those before them, as the blocks of a span are
                state = states.pop() if states and data.draw(st.booleans()) else by_columns.zero()
                states.append(by_columns.update(state, X[start:stop, columns], group * n + start))
    return by_columns, reduce(by_columns.merge, states)


@pytest.mark.parametrize("recipe", SEPARABLE, ids=lambda recipe: recipe.name)
@given(X=matrices(min_rows=1), data=st.data())
def test_groups_of_columns_give_what_whole_rows_give(recipe: Recipe, X: NDArray[Any], data: st.DataObject) -> None:
    by_columns, state = fed(recipe.make(X.shape[1]), X, data)
    assert_same_facts(recipe.facts(by_columns.result(state)), recipe.oracle(X.astype(np.longdouble)), X)
    assert sum(array.nbytes for array in state.values()) <= by_columns.state_nbytes


def test_the_recipes_that_a_sketch_reads_with_are_among_them() -> None:
    names = {each.name.partition(",")[0] for each in SEPARABLE}
    assert {"Moments", "NonFinite", "RowSketch"} <= names
    assert not {"Gram", "Triangular", "FrequentDirections", "Gram beside covariates"} & names


@pytest.mark.parametrize("name", ["Moments", "NonFinite"])
@given(X=matrices(min_rows=1, dtypes=("float32", "float64")), data=st.data())
def test_missing_entries_are_counted_and_placed(name: str, X: NDArray[Any], data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    X[rng.random(X.shape) < 0.3] = np.nan
    X[rng.random(X.shape) < 0.1] = np.inf
    recipe = next(each for each in RECIPES if each.name == name)
    by_columns, state = fed(recipe.make(X.shape[1]), X, data)
    assert_same_facts(recipe.facts(by_columns.result(state)), recipe.oracle(X.astype(np.longdouble)), X)


@pytest.mark.parametrize("recipe", TWO_READS, ids=lambda recipe: recipe.name)
@given(X=matrices(min_rows=1), data=st.data())
def test_products_take_two_reads(recipe: Recipe, X: NDArray[Any], data: st.DataObject) -> None:
    whole = recipe.make(X.shape[1])
    before = codes_before(whole, len(X), X.dtype)
    assert before is not None
    known = before.result(before.zero())
    placeholder = unknown_codes(before)
    assert (known.chosen.shape, known.codes.shape) == (placeholder.chosen.shape, placeholder.codes.shape)
    first, state = fed(before, X, data)
    np.testing.assert_array_equal(first.result(state).chosen, X[:, chosen(X.shape[1])])
    by_columns, state = fed(with_codes(whole, first.result(state)), X, data)
    assert_same_facts(recipe.facts(by_columns.result(state)), recipe.oracle(X.astype(np.longdouble)), X)


@pytest.mark.parametrize("single", [False, True])
def test_products_of_filled_rows_and_in_float32_are_those_of_whole_rows(single: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6)).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = np.nan
    whole = Imputed(CrossProducts(chosen(6), origin(6), scale(6), directions(6), single=single), np.arange(6.0))
    before = codes_before(whole, 50, X.dtype)
    assert before is not None
    groups = (np.array([0, 3, 4]), np.array([1, 2, 5]))

    def found(recipe: Accumulator[Any]) -> Any:
        by_columns = ByColumns(recipe, groups, 50)
        state = by_columns.zero()
        for group, columns in enumerate(groups):
            state = by_columns.update(state, X[:, columns], 50 * group)
        return by_columns.result(state)

    known = found(with_codes(whole, found(before)))
    wanted = whole.result(whole.update(whole.zero(), X, 0))
    for name in ("gram", "cross", "directions", "column_norms"):
        np.testing.assert_allclose(getattr(known, name), getattr(wanted, name), rtol=2e-5 if single else 1e-12)
    assert known.error == wanted.error


def test_recipes_of_whole_rows_have_no_parts_and_no_read_before() -> None:
    columns = np.arange(2)
    for recipe in RECIPES:
        made = recipe.make(4)
        if recipe not in TWO_READS:
            assert codes_before(made, 9, np.dtype("f4")) is None
        if recipe not in SEPARABLE:
            assert separated(Together({"a": Moments(4), "b": made}), columns) is None
            assert separated(Imputed(made, np.zeros(4)), columns) is None


SUMMED = Together({"nonfinite": NonFinite(5), "moments": Moments(5), "sketch": RowSketch(5, 3)})


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u2", "i8", "?", "g"])
@given(data=st.data())
def test_the_sum_of_entries_is_that_of_whole_rows_and_sees_any_change(dtype: str, data: st.DataObject) -> None:
    X = (np.random.default_rng(0).normal(size=(70, 5)) * 3).astype(dtype)
    recipe = ReadEntries(Moments(5))
    whole = recipe.update(recipe.zero(), X, 0)
    by_columns, state = fed(recipe, X, data)
    joined = by_columns.joined(state)
    assert ReadSum.agree(whole, joined)
    row, column = data.draw(st.integers(0, 69)), data.draw(st.integers(0, 4))
    X[row, column] = X[row, column] + 1 if X.dtype.kind == "f" else X[row, column] ^ 1
    by_columns, state = fed(recipe, X, data)
    assert not ReadSum.agree(whole, by_columns.joined(state))
    assert joined.keys() == whole.keys() >= {SUM, MAGNITUDE}


def test_a_state_of_some_groups_is_stored_and_read_back_and_others_are_refused() -> None:
    X = np.random.default_rng(0).standard_normal((7, 5))
    groups = (np.array([0, 1]), np.array([2, 3]), np.array([4]))
    recipe = ByColumns(ReadEntries(SUMMED), groups, 7)
    state = recipe.update(recipe.zero(), X[:, 2:4], 7)
    stored = b"".join(state_bytes(Swept(state), "key", (0, 1)))
    found = read_state(io.BytesIO(stored), "key", (0, 1), recipe).state
    assert found.keys() == state.keys()
    assert all(found[name].tobytes() == state[name].tobytes() for name in state)
    fewer = ByColumns(recipe.whole, groups[:1], 7)
    with pytest.raises(UnusableState, match="header cannot be understood"):
        read_state(io.BytesIO(stored), "key", (0, 1), fewer)
    foreign = b"".join(state_bytes(Swept({"1|read:bits": np.zeros(1, np.uint64)}), "key", (0, 1)))
    with pytest.raises(UnusableState, match="other arrays"):
        read_state(io.BytesIO(foreign), "key", (0, 1), recipe)
