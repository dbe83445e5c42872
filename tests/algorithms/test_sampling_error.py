"""Errors of totals that were measured on randomly drawn blocks, and whether blocks are alike."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from spae_dask.accumulators import UnitSums
from spae_dask.algorithms.sampling_error import Draw, between_blocks


def units_of(values: NDArray[np.float64], rows: NDArray[np.int64]) -> UnitSums:
    """One number a row, all of a block in turn; blocks of ``rows`` rows."""
    cuts = np.cumsum(rows)[:-1]
    sums = np.array([[part.sum()] for part in np.split(values, cuts)])
    return UnitSums(rows, sums, np.array([np.sum(values**2)]), np.ones(1))


def test_the_squared_error_that_is_expected_is_the_one_of_all_samples_there_are() -> None:
    totals = np.array([3.0, 5.0, 4.0, 9.0, 1.0, 2.0])
    rows = np.full(3, 10)
    draw = Draw(3, 6, 60)
    errors, variances = [], []
    for chosen in combinations(range(6), 3):
        values = totals[list(chosen)]
        units = UnitSums(rows, values[:, None], np.zeros(1), np.ones(1))
        errors.append(draw.total(units, values) - totals.sum())
        variances.append((draw.half_width(units, values, 0.9) / stats.t.ppf(0.95, 2)) ** 2)
    np.testing.assert_allclose(np.mean(errors), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.mean(variances), np.mean(np.square(errors)), rtol=1e-12)


def test_totals_that_go_with_the_rows_have_no_error() -> None:
    rows = np.array([5, 7, 2, 11])
    units = UnitSums(rows, 3.0 * rows[:, None], np.zeros(1), np.ones(1))
    draw = Draw(4, 40, 250)
    np.testing.assert_allclose(draw.total(units, 3.0 * rows), 750.0, rtol=1e-14)
    assert draw.half_width(units, 3.0 * rows, 0.95) < 1e-12


def test_one_unit_tells_nothing_of_its_error_and_all_blocks_leave_none() -> None:
    values = np.array([4.0])
    units = UnitSums(np.array([6]), values[:, None], np.zeros(1), np.ones(1))
    assert Draw(1, 2, 12).half_width(units, values, 0.95) == np.inf
    assert Draw(1, 1, 6).half_width(units, values, 0.95) == 0.0


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_errors_follow_the_magnitude_of_the_data(size: float) -> None:
    rows, values = np.array([5, 5, 5]), np.array([1.0, 2.0, 4.0])
    units = UnitSums(rows, values[:, None], np.zeros(1), np.ones(1))
    draw = Draw(3, 9, 45)
    np.testing.assert_allclose(
        draw.half_width(units, size * values, 0.95), size * draw.half_width(units, values, 0.95), rtol=1e-13
    )


@given(seed=st.integers(0, 1000), heavy=st.booleans())
def test_shuffled_rows_have_nothing_between_blocks(seed: int, heavy: bool) -> None:
    rng = np.random.default_rng(seed)
    values = np.exp(rng.standard_normal(3000)) if heavy else rng.standard_normal(3000)
    assert between_blocks(units_of(values, np.full(30, 100)), 100.0) < 0.1


def test_rows_that_are_the_same_within_blocks_have_all_between_them() -> None:
    values = np.repeat(np.arange(12.0), 20)
    np.testing.assert_allclose(between_blocks(units_of(values, np.full(12, 20)), 20.0), 1.0, atol=1e-12)


@pytest.mark.parametrize("blocks_in_unit", [1, 8])
def test_the_share_is_that_of_the_variances_whatever_makes_a_unit(blocks_in_unit: int) -> None:
    rng = np.random.default_rng(3)
    values = np.repeat(rng.standard_normal(2048), 50) + 2.0 * rng.standard_normal(2048 * 50)
    found = between_blocks(units_of(values, np.full(2048 // blocks_in_unit, 50 * blocks_in_unit)), 50.0)
    np.testing.assert_allclose(found, 0.2, atol=0.04)


def test_too_few_rows_to_compare_count_as_alike() -> None:
    assert between_blocks(units_of(np.arange(5.0), np.ones(5, dtype=np.int64)), 1.0) == 0.0
    assert between_blocks(units_of(np.arange(5.0), np.array([5])), 5.0) == 0.0
