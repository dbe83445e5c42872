"""Products of rows in float32, summed in float64: half the memory traffic and half the arithmetic of exact ones.

A product of b rows is summed in float32 within BLAS, which errs by at most ``b 2^-24`` of ``||x_i|| ||x_j||`` in any
order of summation (Higham 2002, section 4.2), usually a hundred times less; every panel is then added in float64, so
that n rows err no more than b do. Rows are counted from a shift near their mean, so no digits go to the mean.
"""

import numpy as np
import numpy.typing as npt

from spae_dask.passes.accumulators.base import Rows
from spae_dask.passes.accumulators.shift import Point, deviations, in_two_floats

Singles = npt.NDArray[np.float32]

MOST_ROWS = 512
"""Rows summed in float32, at most."""

FEWEST_ROWS = 256
"""Rows summed in float32, at least: the float64 sum is then touched seldom."""

SMALLEST, LARGEST = 1e-25, 1e30
"""Squared lengths of columns between which float32 products neither vanish nor overflow."""


def single_panel_rows(at_least: int) -> int:
    """Rows of a panel for float32 products."""
    return min(MOST_ROWS, max(FEWEST_ROWS, at_least))


def single_deviations(rows: Rows, shift: Point) -> Singles | None:
    """Rows less a shift (d,) or (2, d), in float32; None if any column's squares would vanish or overflow there.

    Types that float32 holds are subtracted in float32, in two steps; others in float64.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        counted = _narrow(rows, shift)
        squares = np.einsum("ij,ij->j", counted, counted)
    tame = (squares >= SMALLEST) & (squares <= LARGEST)
    if tame.all():
        return counted
    # a column of zeros is harmless, unless it is zero only in float32
    wild = np.flatnonzero(~tame)
    lost = np.any(deviations(rows[:, wild], in_two_floats(shift)[:, wild]) != 0.0)
    return None if lost else counted


def _narrow(rows: Rows, shift: Point) -> Singles:
    if not np.can_cast(rows.dtype, np.float32):
        return deviations(rows, shift).astype(np.float32)
    high = in_two_floats(shift)[0]
    near = high.astype(np.float32)
    counted: Singles = np.subtract(rows, near, dtype=np.float32, order="C")
    counted -= (high - near).astype(np.float32)
    return counted
