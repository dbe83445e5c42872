"""Shifts: the points that rows are counted from, held in two floats, so that a large mean costs no digits.

A shift is an array ``(2, d)`` whose rows add up to the point: the nearest float64 numbers, and what they miss. One
float64 number resolves a mean only to 1e-16 of its size, which is all of the spread of data whose mean is 1e16 times as
large. All accumulators follow one rule: rows are counted from a shift near their mean, which starts from the first row,
and means are added to shifts, never to each other. A constant column is then zero to the last bit.

64-bit integers beyond 2^53 have no float64 value of their own. They are counted from an integer, exactly, before they
become floats.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput
from spae_dask.passes.accumulators.base import Floats, Rows, ones_of, total_of

WHOLE = 2**53
"""All integers up to this magnitude are float64 numbers."""

SMALLEST_SQUARE = 1e-300
"""Sums of squares below this have lost digits, or all of them, to underflow."""

Point = npt.NDArray[np.float64]
"""A point: ``(d,)``, or ``(2, d)`` in two floats."""


def in_two_floats(point: Point) -> Floats:
    """Point ``(d,)`` or ``(2, d)`` as ``(2, d)``."""
    return point if point.ndim == 2 else np.stack([point, np.zeros_like(point)])


def moved(shift: Floats, step: Floats) -> Floats:
    """Shift ``(2, d)`` moved by ``step (d,)``; the sum of three floats, rounded to two (Knuth's two-sum, twice)."""
    high, low = _two_sum(shift[0], step)
    return np.stack(_two_sum(high, low + shift[1]))


def step_between(a: Floats, b: Floats) -> Floats:
    """``b - a`` of two shifts ``(2, d)``, with the digits of the difference."""
    step: Floats = (b[0] - a[0]) + (b[1] - a[1])
    return step


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def has_wide_integers(rows: Rows) -> bool:
    """Tell whether rows hold 64-bit integers that float64 would round."""
    if rows.dtype.kind not in "iu" or rows.dtype.itemsize < 8 or rows.size == 0:
        return False
    return int(rows.max()) > WHOLE or int(rows.min()) < -WHOLE


def deviations(rows: Rows, shift: Point, scale: Floats | None = None) -> Floats:
    """Rows ``(m, d)`` less a shift ``(d,)`` or ``(2, d)``, divided by a scale ``(d,)``, as new row-major float64.

    Before the division each entry has a relative error of two roundings. The difference of two integers is rounded
    once.
    """
    counted = (
        _integer_deviations(rows, in_two_floats(shift)) if has_wide_integers(rows) else _float_deviations(rows, shift)
    )
    if scale is not None:
        counted /= scale
    return counted


def _float_deviations(rows: Rows, shift: Point) -> Floats:
    high, low = (shift, None) if shift.ndim == 1 else shift
    if rows.dtype == np.float64:
        counted: Floats = np.subtract(rows, high, order="C")
    else:  # converted first and subtracted in place: faster than one subtraction that converts
        counted = rows.astype(np.float64, order="C")
        counted -= high
    if low is not None and low.any():
        counted -= low
    return counted


def _integer_deviations(rows: Rows, shift: Floats) -> Floats:
    """The same of 64-bit integers, by halves of 32 bits, whose differences are exact and do not overflow."""
    whole = np.array([int(high) + round(low) for high, low in shift.T], dtype=object)
    limits: Any = np.iinfo(str(rows.dtype))
    origin = np.clip(whole, limits.min, limits.max).astype(rows.dtype)
    (high_rows, low_rows), (high_origin, low_origin) = _halves(rows), _halves(origin)
    counted: Floats = (high_rows - high_origin) * 2.0**32 + (low_rows - low_origin)
    rest = np.array(
        [float(int(high) - int(o)) + (high - int(high)) + low for (high, low), o in zip(shift.T, origin, strict=True)]
    )
    counted -= rest
    return counted


def _halves(values: Any) -> tuple[Floats, Floats]:
    """Integers as ``high * 2^32 + low``, both exact."""
    kind = values.dtype.type
    return (values >> kind(32)).astype(np.float64), (values & kind(2**32 - 1)).astype(np.float64)


def first_row(rows: Rows) -> Floats:
    """First row as a shift ``(2, d)``; exact."""
    return value_in_two_floats(rows[0])


def value_in_two_floats(values: Rows) -> Floats:
    """Numbers ``(d,)`` of any type as a shift ``(2, d)``; exact."""
    high = values.astype(np.float64)
    if not has_wide_integers(values):
        return in_two_floats(high)
    return np.stack([high, np.array([float(int(value) - int(h)) for value, h in zip(values, high, strict=True)])])


def about_their_mean(rows: Rows, roots: Floats | None = None) -> tuple[Floats, Floats]:
    """Rows ``(m, d)``, at least one, less their mean, as a new row-major array; and the mean as a shift ``(2, d)``.

    ``roots (m,)`` are those of the weights of the rows.
    """
    first = first_row(rows)
    counted = deviations(rows, first)
    offset = ones_of(len(counted), None if roots is None else roots**2) @ counted / total_of(len(counted), roots)
    counted -= offset
    return counted, moved(first, offset)


def shift_for(rows: Rows, roots: Floats | None = None) -> Floats:
    """Shift ``(2, d)`` for rows that begin a state: their mean, in one float where that is near enough."""
    return shift_near(about_their_mean(rows, roots)[1], rows)


def shift_near(mean: Floats, rows: Rows) -> Floats:
    """The mean ``(2, d)`` of rows as their shift: in one float where that is near enough."""
    return mean if has_wide_integers(rows) else in_two_floats(mean[0])


def refuse_vanishing(counted: Floats, squares: Floats) -> None:
    """Raise ``InvalidInput`` if a column of deviations (m, d) is not zero but its sum of squares (d,) underflows."""
    tiny = np.flatnonzero(squares < SMALLEST_SQUARE)
    if tiny.size:
        lost = tiny[np.any(counted[:, tiny] != 0.0, axis=0)]
        if lost.size:
            raise vanishing(int(lost[0]))


def vanishing(column: int) -> InvalidInput:
    """Error for a column whose squares underflow."""
    return InvalidInput(
        f"squares of the entries of column {column} vanish in float64, because its values differ by too "
        "little (about 1e-151 or less). Multiply the data by a constant and run again; the encoder does "
        "not change."
    )
