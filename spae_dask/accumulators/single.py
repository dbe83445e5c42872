"""Products of rows in float32, summed in float64: half the memory traffic and half the arithmetic of exact ones.

A product of b rows is summed in float32 within BLAS, which errs by at most ``b 2^-24`` of ``||x_i|| ||x_j||`` in any
order of summation (Higham 2002, section 4.2), usually a hundred times less; every panel is then added in float64, so
that n rows err no more than b do. Rows are counted from a float32 shift near the mean, so no digits go to the mean.
"""

import numpy as np
import numpy.typing as npt

from spae_dask.accumulators.base import Floats, Rows

Singles = npt.NDArray[np.float32]

UNIT = 2.0**-24
"""Unit roundoff of float32."""

MOST_ROWS = 512
"""Rows summed in float32, at most."""

FEWEST_ROWS = 256
"""Rows summed in float32, at least: the float64 sum is then touched seldom."""

SMALLEST, LARGEST = 1e-25, 1e30
"""Squared lengths of columns between which float32 products neither vanish nor overflow."""

RELATIVE_ERROR = MOST_ROWS * UNIT
"""Most a product errs by, relative to the lengths of what is multiplied: 3e-5."""


def single_panel_rows(at_least: int) -> int:
    """Rows of a panel for float32 products."""
    return min(MOST_ROWS, max(FEWEST_ROWS, at_least))


def single_origin(mean: Floats) -> Floats:
    """The float32 numbers nearest to a mean, as float64; the mean itself where float32 cannot hold it."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = mean.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(rounded), rounded, mean)


def single_deviations(rows: Rows, origin: Floats) -> Singles | None:
    """Rows less a float32 origin, in float32; None if any column's squares would vanish or overflow there.

    Types that float32 holds are subtracted in float32, which rounds once; others in float64 first.
    """
    kind = np.float32 if np.can_cast(rows.dtype, np.float32) else np.float64
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        deviations: Singles = np.subtract(rows, origin.astype(kind), dtype=kind).astype(np.float32, copy=False)
        squares = np.einsum("ij,ij->j", deviations, deviations)
    tame = (squares >= SMALLEST) & (squares <= LARGEST)
    if tame.all():
        return np.ascontiguousarray(deviations)
    # a column of zeros is harmless, but not one that only float32 takes for zeros
    wild = np.flatnonzero(~tame)
    vanished = np.any(np.not_equal(rows[:, wild], origin[wild]))
    return None if vanished else np.ascontiguousarray(deviations)
