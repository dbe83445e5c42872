"""Nonzeros allowed in each column of H: one number for all, or one per column."""

from collections.abc import Sequence

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.scaling import FloatArray, IntArray


def budgets_of(k: int, r: int | Sequence[int]) -> tuple[int, ...]:
    """Check k and r and spell r out for every column.

    Parameters
    ----------
    k : int
        Number of columns.
    r : int or sequence of int
        Nonzeros allowed in each column, or in the first, second, ... column.

    Returns
    -------
    tuple of int
        k numbers, each at least 1.

    Raises
    ------
    InvalidInput
        If k or a budget is below 1, or r does not have k entries.
    """
    if k < 1:
        raise InvalidInput(f"an encoder needs k >= 1 columns; got k = {k}")
    budgets = (int(r),) * k if isinstance(r, int | np.integer) else tuple(int(each) for each in r)
    if len(budgets) != k:
        raise InvalidInput(f"r has {len(budgets)} entries for k = {k} columns; give one number, or one per column")
    if min(budgets) < 1:
        raise InvalidInput(f"r = {r}: every column of an encoder needs at least one nonzero")
    return budgets


def counted(H: FloatArray, free: IntArray | None = None) -> IntArray:
    """Nonzeros of each column of H, without those in free rows, which count for nothing."""
    counts: IntArray = np.count_nonzero(H if free is None else np.delete(H, free, axis=0), axis=0)
    return counts
