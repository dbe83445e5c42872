"""Sketch rows depend on the seed and the row alone, and have the moments they claim."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.maths.linalg.sketch import exponential_draws, gaussian_rows, grouped_rows, row_signs, sign_rows

DRAWS = pytest.mark.parametrize("draw", [gaussian_rows, sign_rows, partial(grouped_rows, gaussian_rows, group=3)])


@DRAWS
@given(start=st.integers(0, 10**12), cut=st.integers(0, 30), size=st.integers(1, 9))
def test_rows_do_not_depend_on_the_range_they_are_drawn_in(draw, start, cut, size):
    whole = draw(7, 3, start, 30, size)
    parts = np.concatenate([draw(7, 3, start, cut, size), draw(7, 3, start + cut, 30 - cut, size)])
    assert np.array_equal(whole, parts)


@DRAWS
def test_seeds_and_streams_give_unrelated_rows(draw):
    base = draw(0, 0, 0, 4000, 8).ravel()
    for seed, stream in ((1, 0), (0, 1)):
        other = draw(seed, stream, 0, 4000, 8).ravel()
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.02


@DRAWS
def test_entries_have_mean_zero_variance_one_over_size_and_no_correlation(draw):
    size, n = 6, 120_000
    rows = draw(3, 0, 0, n, size)
    assert np.all(np.abs(rows.mean(axis=0)) < 4 / np.sqrt(size * n))
    assert np.abs(rows.T @ rows * size / n - np.eye(size)).max() < 0.03


def test_gaussian_entries_have_gaussian_tails():
    values = gaussian_rows(1, 0, 0, 50_000, 2).ravel() * np.sqrt(2)
    assert abs(np.mean(values**4) - 3) < 0.1
    assert abs(np.mean(np.abs(values) > 1.959964) - 0.05) < 0.003


def test_signs_are_signs():
    assert set(np.unique(sign_rows(1, 0, 5, 100, 4))) == {-0.5, 0.5}


def test_rows_of_a_group_share_their_numbers_up_to_fair_independent_signs():
    rows = grouped_rows(gaussian_rows, 2, 0, 1, 11, 4, group=4)  # rows 1-3, 4-7, 8-11 of X
    assert np.array_equal(np.abs(rows[0]), np.abs(rows[2]))
    assert not np.array_equal(np.abs(rows[2]), np.abs(rows[3]))
    assert np.array_equal(np.abs(rows[3]), np.abs(rows[6]))
    signs = row_signs(2, 0, 0, 40_000)
    assert abs(signs.mean()) < 0.02
    assert abs(np.mean(signs[1:] * signs[:-1])) < 0.02


def test_exponential_draws_are_exponential_and_keyed_by_row():
    draws = exponential_draws(4, 0, 60_000)
    assert np.array_equal(draws[1000:1100], exponential_draws(4, 1000, 100))
    assert abs(draws.mean() - 1) < 0.02
    assert abs(np.mean(draws > np.log(20)) - 0.05) < 0.003
