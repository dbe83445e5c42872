"""Shifts in two floats against exact arithmetic, and rows counted from them."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spae_dask.errors import InvalidInput
from spae_dask.passes.accumulators.shift import (
    about_their_mean,
    deviations,
    first_row,
    has_wide_integers,
    in_two_floats,
    moved,
    refuse_vanishing,
    step_between,
)

numbers = st.floats(-1e15, 1e15, allow_subnormal=False)


def exact(shift: Any) -> Fraction:
    return Fraction(float(shift[0, 0])) + Fraction(float(shift[1, 0]))


@given(start=numbers, steps=st.lists(numbers, max_size=8))
def test_a_shift_that_is_moved_keeps_what_one_float_would_lose(start: float, steps: list[float]) -> None:
    shift, wanted = in_two_floats(np.array([start])), Fraction(start)
    for step in steps:
        shift, wanted = moved(shift, np.array([step])), wanted + Fraction(step)
    size = max(abs(start), *map(abs, steps), 1e-300) if steps else abs(start)
    assert abs(exact(shift) - wanted) <= Fraction(size) * 8 * len(steps) * Fraction(2) ** -104
    assert abs(shift[1, 0]) <= np.spacing(abs(shift[0, 0]))


def test_the_step_between_two_shifts_has_the_digits_of_the_difference() -> None:
    a = np.array([[1e15], [0.03125]])
    b = moved(a, np.array([1e-3]))
    assert step_between(a, b)[0] == pytest.approx(1e-3, rel=1e-12)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@given(data=st.data())
def test_integers_of_64_bits_are_counted_exactly(dtype: str, data: st.DataObject) -> None:
    limits = np.iinfo(dtype)
    entries = st.integers(int(limits.min), int(limits.max))
    base = data.draw(entries)
    near = st.integers(max(base - 1000, int(limits.min)), min(base + 1000, int(limits.max)))
    rows = data.draw(arrays(dtype, (4, 2), elements=data.draw(st.sampled_from([entries, near]))))
    shift = first_row(rows)
    wanted = [[float(int(x) - int(first)) for x, first in zip(row, rows[0], strict=True)] for row in rows]
    assert deviations(rows, shift).tolist() == wanted
    assert np.array_equal([int(high) + int(low) for high, low in shift.T], [int(x) for x in rows[0]])


def test_a_mean_of_wide_integers_is_known_beyond_a_float() -> None:
    rows = np.array([[2**62], [2**62 + 3]])
    counted, mean = about_their_mean(rows)
    assert has_wide_integers(rows)
    assert counted.ravel().tolist() == [-1.5, 1.5]
    assert exact(mean) == Fraction(2**62) + Fraction(3, 2)


@pytest.mark.parametrize("value", [0.1, 1e300, -7e6, 1 / 3, 5e-324])
def test_a_constant_is_zero_to_the_last_bit_about_its_mean(value: float) -> None:
    counted, mean = about_their_mean(np.full((37, 1), value))
    assert not counted.any()
    assert mean[:, 0].tolist() == [value, 0.0]


def test_rows_that_vary_but_whose_squares_underflow_are_refused() -> None:
    counted = np.array([[1.0, 1e-170], [-1.0, -1e-170]])
    with pytest.raises(InvalidInput, match=r"column 1 vanish in float64.*Multiply the data"):
        refuse_vanishing(counted, np.sum(counted**2, axis=0))
    refuse_vanishing(counted[:, :1] * [[1.0]], np.array([2.0]))
    refuse_vanishing(np.zeros((2, 1)), np.zeros(1))
