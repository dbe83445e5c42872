"""Sums of small integers are exact: the plain sums of numpy's 64-bit integers, however the rows are cut and merged."""

import tracemalloc
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spae_dask.errors import InvalidInput
from spae_dask.passes.accumulators import Gram, IntegerGram, State, integer_gram
from spae_dask.passes.accumulators.base import has_exact_sums
from tests.generated import partitions

TYPES = ("bool", "int8", "uint8", "int16", "uint16", ">i2", ">u2")

every_type = pytest.mark.parametrize("dtype", TYPES)


def entries(dtype: str, n: int, d: int, seed: int, kind: str = "any") -> NDArray[Any]:
    """Entries over the whole range of the type; at its ends; or near one end, where a mean is large."""
    rng, of = np.random.default_rng(seed), np.dtype(dtype)
    least, most = (0, 1) if of.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    match kind:
        case "ends":
            X = np.where(rng.random((n, d)) < 0.5, least, most)
        case "least":
            X = np.full((n, d), least)
        case "near the most":
            X = most - rng.integers(0, 2, (n, d))
        case _:
            X = rng.integers(least, most + 1, (n, d))
    return X.astype(of)


KINDS = ("any", "ends", "least", "near the most")


def recipe_for(X: NDArray[Any]) -> IntegerGram:
    recipe = integer_gram(X.shape[1], X.dtype, len(X))
    assert recipe is not None
    return recipe


def state_of(recipe: IntegerGram, X: NDArray[Any], bounds: tuple[int, ...]) -> list[State]:
    return [recipe.update(recipe.zero(), X[a:b], a) for a, b in pairwise(bounds)]


def assert_plain_sums(state: State, X: NDArray[Any], origin: int) -> None:
    about = X.astype(np.int64) - origin
    assert int(state["count"]) == len(X)
    assert {name: array.dtype for name, array in state.items()} == dict.fromkeys(state, np.dtype(np.int64))
    np.testing.assert_array_equal(state["sum"], about.sum(axis=0))
    np.testing.assert_array_equal(np.triu(state["gram"]), np.triu(about.T @ about))


@pytest.mark.parametrize("kind", KINDS)
@every_type
@given(n=st.integers(1, 60), d=st.integers(1, 6), seed=st.integers(0, 999), data=st.data())
def test_states_are_plain_sums_whatever_the_cut_and_the_order_of_merging(
    kind: str, dtype: str, n: int, d: int, seed: int, data: st.DataObject
) -> None:
    X = entries(dtype, n, d, seed, kind)
    recipe = recipe_for(X)
    parts = state_of(recipe, X, data.draw(partitions(n)))
    assert_plain_sums(reduce(recipe.merge, data.draw(st.permutations(parts))), X, recipe.origin)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [3, 130])
@every_type
def test_long_panels_are_exact_at_the_ends_of_the_type(kind: str, dtype: str, d: int) -> None:
    # many more rows than a float32 or float64 sum could hold if panels were not cut
    X = entries(dtype, 2500 if d > 3 else 200_000, d, 1, kind)
    recipe = recipe_for(X)
    state = recipe.update(recipe.zero(), X, 0)
    assert_plain_sums(state, X, recipe.origin)
    assert recipe.single == (np.dtype(dtype).itemsize == 1 and (d > 3 or dtype == "bool"))


@pytest.mark.parametrize("kind", KINDS)
@every_type
@given(n=st.integers(1, 30), d=st.integers(1, 4), seed=st.integers(0, 999))
def test_the_scatter_and_the_mean_are_the_nearest_floats(kind: str, dtype: str, n: int, d: int, seed: int) -> None:
    X = entries(dtype, n, d, seed, kind)
    recipe = recipe_for(X)
    found = recipe.result(recipe.update(recipe.zero(), X, 0))
    rows = [[int(x) for x in row] for row in X]
    means = [Fraction(sum(column), n) for column in zip(*rows, strict=True)]
    for i in range(d):
        assert found.mean[i] == float(means[i])
        assert abs(Fraction(found.center[0, i]) + Fraction(found.center[1, i]) - means[i]) <= abs(means[i]) / 2**105
        for j in range(d):
            exact = sum((row[i] - means[i]) * (row[j] - means[j]) for row in rows)
            assert found.scatter[i, j] == float(exact)
            # what it promises to err by holds of what was rounded once
            assert abs(Fraction(found.scatter[i, j]) - exact) <= found.error * found.lengths[i] * found.lengths[j]


def test_the_mean_is_taken_out_where_products_need_more_than_64_bits() -> None:
    # a state of 2^32 rows at the ends of 16 bits, which no test can read: n times a sum of squares has 94 bits
    recipe, n = IntegerGram(2, 32768, 32768), 2**32
    low, high = -32768, 32767
    state = recipe.zero()
    state["count"][...] = n
    state["sum"][...] = n // 2 * (low + high), n * high - 1
    state["gram"][0, 0] = n // 2 * (low**2 + high**2)
    state["gram"][1, 1] = n * high**2 - 2 * high + 1
    state["gram"][0, 1] = n // 2 * (low + high) * high - low  # one row of column 1, with `low` beside it, has one less
    found = recipe.result(state)
    assert found.scatter[0, 0] == float(Fraction(n * (high - low) ** 2, 4))
    assert found.scatter[1, 1] == float(1 - Fraction(1, n))
    assert found.scatter[0, 1] == found.scatter[1, 0] == float(Fraction(low + high, 2) - low)
    assert found.center[0, 1] + found.center[1, 1] == 65535 - 2.0**-32


def test_a_constant_column_is_zero_and_a_near_constant_one_is_not() -> None:
    X = np.full((4097, 2), 65535, dtype=np.uint16)
    X[77, 1] = 65534
    recipe = recipe_for(X)
    found = recipe.result(recipe.update(recipe.zero(), X, 0))
    assert not found.scatter[0].any()
    assert found.scatter[1, 1] == float(Fraction(4096, 4097))
    assert found.exact_sums


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("d", [3, 400])
def test_an_update_of_integers_allocates_no_more_than_its_stated_scratch(dtype: str, d: int) -> None:
    recipe = integer_gram(d, np.dtype(dtype), 10**6)
    assert recipe is not None
    X = entries(dtype, recipe.panel_rows, d, 0)
    state = recipe.update(recipe.zero(), X, 0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        recipe.update(state, X, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before <= 1.02 * recipe.work_nbytes(recipe.panel_rows) + (256 << 10)


@pytest.mark.parametrize(
    ("dtype", "n_rows"), [("f4", 10), ("i4", 10), ("u8", 10), ("c8", 10), ("u2", 2**32 + 1), ("i1", 2**48 + 1)]
)
def test_sums_that_need_more_bits_are_left_to_floats(dtype: str, n_rows: int) -> None:
    assert integer_gram(5, np.dtype(dtype), n_rows) is None


@pytest.mark.parametrize(("dtype", "n_rows"), [("u2", 2**32), ("i1", 2**48), ("?", 2**62)])
def test_no_sum_of_the_most_rows_overflows(dtype: str, n_rows: int) -> None:
    recipe = integer_gram(5, np.dtype(dtype), n_rows)
    assert recipe is not None
    assert n_rows * recipe.largest**2 < 2**63


@pytest.mark.parametrize("wrong", ["f4", "i1", "u2"])
def test_rows_of_a_wider_type_than_announced_are_refused(wrong: str) -> None:
    recipe = recipe_for(np.zeros((4, 3), dtype=np.uint8))
    with pytest.raises(InvalidInput, match="rows are of type"):
        recipe.update(recipe.zero(), np.ones((4, 3), dtype=wrong), 0)
    assert int(recipe.update(recipe.zero(), np.ones((4, 3), dtype=bool), 0)["count"]) == 4


def test_sums_of_floats_are_not_called_exact() -> None:
    assert has_exact_sums(IntegerGram(3, 0, 128))
    assert not has_exact_sums(Gram(3))
