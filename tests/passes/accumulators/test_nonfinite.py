"""Counting and locating NaN and infinite entries."""

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.blocks import ArrayBlocks
from spae_dask.passes.accumulators import Moments, NonFinite
from spae_dask.passes.accumulators.nonfinite import all_finite
from spae_dask.passes.accumulators.wrapped import fill_missing
from spae_dask.passes.serial import SerialRunner
from tests.generated import partitions


@given(
    seed=st.integers(0, 9999),
    n=st.integers(1, 60),
    share=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    data=st.data(),
)
def test_the_first_ten_positions_in_row_order_and_exact_counts_whatever_the_partition(
    seed: int, n: int, share: float, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    X[rng.random(X.shape) < share] = np.nan
    X[rng.random(X.shape) < share / 2] = -np.inf
    accumulator = NonFinite(4)
    parts = [
        accumulator.update(accumulator.zero(), X[a:b], a) for a, b in pairwise(data.draw(partitions(n, max_parts=9)))
    ]
    found = accumulator.result(reduce(accumulator.merge, parts))
    expected = [(i, j) for i in range(n) for j in range(4) if not np.isfinite(X[i, j])]
    assert [tuple(position) for position in found.first.tolist()] == expected[:10]
    assert found.n_nan == sum(np.isnan(X[i, j]) for i, j in expected)
    assert found.n_inf == len(expected) - found.n_nan
    np.testing.assert_array_equal(found.nan_by_column, np.isnan(X).sum(axis=0))


@pytest.mark.parametrize(("dtype", "size"), [("float32", 3e38), ("float16", 6e4), ("float64", 1.7e308)])
def test_finite_entries_whose_sum_overflows_are_not_reported(dtype: str, size: float) -> None:
    X = np.full((64, 3), size, dtype=dtype)
    X[::2, 0] *= -1  # inf - inf on the way
    assert all_finite(X)
    found = SerialRunner(ArrayBlocks(X, 7)).run_pass(NonFinite(3))
    assert found.n_nan == found.n_inf == 0
    X[63, 2] = np.inf
    found = SerialRunner(ArrayBlocks(X, 7)).run_pass(NonFinite(3))
    assert (found.n_inf, found.first.tolist()) == (1, [[63, 2]])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool"])
def test_integers_and_booleans_are_finite_without_a_look(dtype: str) -> None:
    class Untouchable(np.ndarray[Any, Any]):
        def sum(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("looked at")

    assert all_finite(np.ones((3, 2), dtype=dtype).view(Untouchable))


def test_positions_are_those_of_the_whole_matrix_not_of_the_panel() -> None:
    X = np.zeros((5000, 2))
    X[4321, 1] = np.nan
    found = SerialRunner(ArrayBlocks(X, 1000)).run_pass(NonFinite(2, n_first=1))
    assert found.first.tolist() == [[4321, 1]]


def test_columns_without_finite_entries_are_constant_of_mean_zero() -> None:
    X = np.array([[np.nan, 1.0, np.inf], [np.nan, 1.0, -np.inf], [np.nan, 1.0, 3.0]])
    moments = SerialRunner(ArrayBlocks(X, 1)).run_pass(Moments(3))
    np.testing.assert_array_equal(moments.count, [0, 3, 1])
    np.testing.assert_array_equal(moments.mean, [0.0, 1.0, 3.0])
    np.testing.assert_array_equal(moments.standard_deviation, [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(moments.constant, [True, True, True])


def test_missing_entries_are_filled_and_infinite_ones_left_alone() -> None:
    X = np.array([[np.nan, np.inf], [1.0, np.nan]], dtype=np.float32)
    np.testing.assert_array_equal(fill_missing(X, np.array([0.1, 5.0])), [[0.1, np.inf], [1.0, 5.0]])
    clean = np.ones((2, 2))
    assert fill_missing(clean, np.zeros(2)) is clean
