"""Errors of totals that were measured on randomly drawn blocks, and whether blocks are alike."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from spae_dask.passes.accumulators import UnitSums
from spae_dask.strategies.sample_estimate import Draw, Moments, between_blocks, row_kurtosis


def units_of(values: NDArray[np.float64], rows: NDArray[np.int64]) -> UnitSums:
    """One number a row, all of a block in turn; blocks of ``rows`` rows."""
    cuts = np.cumsum(rows)[:-1]
    sums = np.array([[part.sum()] for part in np.split(values, cuts)])
    return UnitSums(rows, sums, np.array([np.sum(values**2)]), np.ones(1))


def half_width(draw: Draw, units: UnitSums, values: NDArray[np.float64], confidence: float = 0.95) -> float:
    return draw.half_width(int(units.rows.sum()), [draw.deviations(units, values)], confidence)


def test_the_squared_error_that_is_expected_is_the_one_of_all_samples_there_are() -> None:
    totals = np.array([3.0, 5.0, 4.0, 9.0, 1.0, 2.0])
    rows = np.full(3, 10)
    draw = Draw(3, 6, 60)
    errors, variances = [], []
    for chosen in combinations(range(6), 3):
        values = totals[list(chosen)]
        units = UnitSums(rows, values[:, None], np.zeros(1), np.ones(1))
        errors.append(draw.total(units, values) - totals.sum())
        variances.append(draw.standard_error(30, [draw.deviations(units, values)]) ** 2)
    np.testing.assert_allclose(np.mean(errors), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.mean(variances), np.mean(np.square(errors)), rtol=1e-12)


def test_totals_that_go_with_the_rows_have_no_error() -> None:
    rows = np.array([5, 7, 2, 11])
    units = UnitSums(rows, 3.0 * rows[:, None], np.zeros(1), np.ones(1))
    draw = Draw(4, 40, 250)
    np.testing.assert_allclose(draw.total(units, 3.0 * rows), 750.0, rtol=1e-14)
    assert half_width(draw, units, 3.0 * rows) < 1e-11


def test_one_unit_tells_nothing_of_its_error_and_all_blocks_leave_none() -> None:
    values = np.array([4.0])
    units = UnitSums(np.array([6]), values[:, None], np.zeros(1), np.ones(1))
    assert half_width(Draw(1, 2, 12), units, values) == np.inf
    assert half_width(Draw(1, 1, 6), units, values) == 0.0


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_errors_follow_the_magnitude_of_the_data(size: float) -> None:
    rows, values = np.array([5, 5, 5]), np.array([1.0, 2.0, 4.0])
    units = UnitSums(rows, values[:, None], np.zeros(1), np.ones(1))
    draw = Draw(3, 9, 45)
    np.testing.assert_allclose(
        half_width(draw, units, size * values), size * half_width(draw, units, values), rtol=1e-13
    )


def test_the_deviation_of_a_unit_is_that_of_one_of_its_blocks() -> None:
    rng = np.random.default_rng(1)
    totals = rng.standard_normal(4096)
    draw = Draw(4096, 10_000, 10_000)
    ones, eights = (UnitSums(np.full(4096 // b, b), np.zeros((4096 // b, 1)), np.zeros(1), np.ones(1)) for b in (1, 8))
    errors = [
        draw.standard_error(4096, [draw.deviations(units, values)])
        for units, values in ((ones, totals), (eights, totals.reshape(-1, 8).sum(axis=1)))
    ]
    np.testing.assert_allclose(errors[1], errors[0], rtol=0.1)


def test_gaussian_deviations_have_the_interval_of_student() -> None:
    spread = np.random.default_rng(2).standard_normal(20_000)
    spread = np.concatenate([spread, -spread])
    moments = Moments.of([spread])
    np.testing.assert_allclose(moments.kurtosis, stats.kurtosis(spread, fisher=False), rtol=1e-12)
    assert abs(moments.skewness) < 1e-12
    draw = Draw(40_000, 10**9, 10**9)
    found = draw.half_width(40_000, [spread], 0.95) / draw.standard_error(40_000, [spread])
    np.testing.assert_allclose(found, stats.norm.ppf(0.975), rtol=1e-3)


@pytest.mark.parametrize("u", [20, 50, 200])
def test_one_odd_unit_leaves_two_degrees_of_freedom_whatever_the_number_of_units(u: int) -> None:
    spread = np.full(u, -1.0 / u)
    spread[3] += 1.0
    moments = Moments.of([spread])
    np.testing.assert_allclose(moments.kurtosis, stats.kurtosis(spread, fisher=False), rtol=1e-12)
    np.testing.assert_allclose(moments.skewness, stats.skew(spread), rtol=1e-12)
    np.testing.assert_allclose(moments.freedom, 2.0, rtol=0.2)


@pytest.mark.parametrize("n_events", [1, 2, 4])
def test_the_interval_of_rare_blocks_reaches_as_far_as_the_exact_one_of_poisson(n_events: int) -> None:
    u = 1000
    values = np.zeros(u)
    values[:n_events] = 1.0
    units = UnitSums(np.ones(u, dtype=np.int64), values[:, None], np.zeros(1), np.ones(1))
    draw = Draw(u, 10**6, u)
    upper = draw.total(units, values) + half_width(draw, units, values)
    assert upper >= stats.chi2.ppf(0.975, 2 * (n_events + 1)) / 2


def test_an_odd_block_of_an_earlier_round_is_not_forgotten() -> None:
    draw = Draw(50, 500, 500)
    now = np.random.default_rng(3).standard_normal(50)
    before = np.random.default_rng(4).standard_normal(50)
    alone = draw.half_width(50, [now], 0.95)
    assert draw.half_width(50, [before, now], 0.95) == pytest.approx(alone, rel=0.3)
    before[7] = 50.0
    assert draw.half_width(50, [before, now], 0.95) > 5 * alone


def test_the_kurtosis_of_rows_is_that_of_their_residuals() -> None:
    residuals = np.random.default_rng(5).standard_normal(10_000) * np.repeat([1.0, 5.0], 5000)
    losses = residuals**2
    columns = np.column_stack([losses.reshape(100, 100).sum(axis=1)] * 2)
    units = UnitSums(np.full(100, 100), columns, np.full(2, np.sum(losses**2)), np.ones(2))
    np.testing.assert_allclose(row_kurtosis(units), np.mean(residuals**4) / np.mean(residuals**2) ** 2, rtol=1e-12)
    assert row_kurtosis(UnitSums(np.array([4]), np.zeros((1, 2)), np.zeros(2), np.ones(2))) == 0.0


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
