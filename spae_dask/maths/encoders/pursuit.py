"""Supports by pursuit: columns that together come close to a given code.

Orthogonal matching pursuit takes, one by one, the column whose residual explains the most of what is left of the target
(the one-target case of :mod:`spae_dask.maths.selection.targeted_greedy`). The target may be a power step ``DD'u`` of
the code at hand, which the truncated power method truncates instead (Yuan & Zhang 2013).
"""

from collections.abc import Sequence

import numpy as np
import scipy.linalg

from spae_dask.maths.encoders.single_column import ColumnProblem, ColumnSolution
from spae_dask.maths.linalg.scaling import FloatArray
from spae_dask.maths.selection.problem import lowest_best


def pursue(
    problem: ColumnProblem,
    products: FloatArray,
    r: int,
    *,
    kept: Sequence[int] = (),
    barred: Sequence[int] = (),
) -> tuple[int, ...]:
    """Choose columns that span a target as well as possible, greedily.

    Parameters
    ----------
    problem : ColumnProblem
        Its live columns may be chosen.
    products : ndarray (c,)
        Products of the unit residuals with the code, of any length.
    r : int
        Columns in all.
    kept : sequence of int
        Independent columns chosen already.
    barred : sequence of int
        Columns that may not be chosen.

    Returns
    -------
    tuple of int
        The kept columns, then those chosen; fewer than r only if no other column gains anything.
    """
    inside = np.zeros((max(r, len(kept)), problem.lengths.size))  # products of the basis with all columns
    left = problem.live.astype(np.float64)
    free = problem.live.copy()
    free[[*kept, *barred]] = False
    selected = list(kept)
    begun = float(np.max(products**2, initial=0.0))
    if selected:
        Q = np.linalg.qr(problem.columns(selected))[0]
        inside[: len(selected)] = problem.products(Q)
        left -= np.sum(inside[: len(selected)] ** 2, axis=0)
        # the part of the code along the basis: R' times it gives the products with the columns kept
        along = scipy.linalg.lstsq(inside[: len(selected), selected].T, products[selected], check_finite=False)[0]
        products = products - along @ inside[: len(selected)]
    for step in range(len(selected), r):
        free &= left > problem.dependent
        explained = np.divide(products**2, left, out=np.zeros_like(left), where=free)
        if not np.any(explained > 0.0):
            break
        j = lowest_best(explained, free, begun)
        length = np.sqrt(left[j])
        along = (problem.rows([j])[0] - inside[:step, j] @ inside[:step]) / length
        left -= along**2
        products = products - (products[j] / length) * along
        inside[step] = along
        free[j] = False
        selected.append(j)
    return tuple(selected)


def addition_gains(solution: ColumnSolution) -> FloatArray:
    """Gain of each column on the power step of a solution's code, if the column is added to the support.

    Parameters
    ----------
    solution : ColumnSolution
        The support.

    Returns
    -------
    ndarray (c,)
        0 for columns that depend on the support.
    """
    problem, inside = solution.problem, solution.products[0]
    left = 1.0 - np.sum(inside**2, axis=0)
    # the part of DD'u inside the span is the gain times u
    products = solution.powered_products - solution.gain * (solution.code @ solution.Q) @ inside
    free = problem.live & (left > problem.dependent)
    gains: FloatArray = np.divide(products**2, left, out=np.zeros_like(left), where=free)
    return gains
