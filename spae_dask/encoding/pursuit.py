"""Supports by pursuit: columns that together come close to a given code.

Orthogonal matching pursuit takes, one by one, the column whose residual explains the most of what is left of the target
(the one-target case of :mod:`spae_dask.selection.targeted_greedy`). Power-pursuit alternates it with power steps
``u <- DD'u``, as the truncated power method does with truncation (Yuan & Zhang 2013), but keeps a support only if the
exactly solved column on it gains more.
"""

from collections.abc import Sequence

import numpy as np

from spae_dask.encoding.single_column import ColumnProblem, ColumnSolution, best_on_support, worthwhile
from spae_dask.linalg.scaling import FloatArray
from spae_dask.selection.problem import lowest_best


def pursue(
    problem: ColumnProblem,
    target: FloatArray,
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
    target : ndarray (m,)
        A code, of any length.
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
    columns = problem.columns
    basis = np.zeros((max(r, len(kept)), columns.shape[0]))
    left = problem.live.astype(np.float64)
    free = problem.live.copy()
    free[[*kept, *barred]] = False
    selected = list(kept)
    if selected:
        basis[: len(selected)] = np.linalg.qr(columns[:, selected])[0].T
        left -= np.sum((basis[: len(selected)] @ columns) ** 2, axis=0)
        target = target - (basis @ target) @ basis
    products = target @ columns
    for step in range(len(selected), r):
        free &= left > problem.dependent
        explained = np.divide(products**2, left, out=np.zeros_like(left), where=free)
        j = lowest_best(explained)
        if explained[j] <= 0.0:
            break
        q = columns[:, j]
        for _ in range(2):  # twice is enough
            q = q - (basis[:step] @ q) @ basis[:step]
        q = q / np.sqrt(q @ q)
        along = q @ columns
        left -= along**2
        part = float(q @ target)
        target = target - part * q
        products = products - part * along
        basis[step] = q
        free[j] = False
        selected.append(j)
    return tuple(selected)


def addition_gains(problem: ColumnProblem, target: FloatArray, solution: ColumnSolution) -> FloatArray:
    """How much of a target each column would explain if added to a support.

    Parameters
    ----------
    problem : ColumnProblem
        The one-column problem.
    target : ndarray (m,)
        A code, of any length.
    solution : ColumnSolution
        The support.

    Returns
    -------
    ndarray (c,)
        0 for columns that depend on the support.
    """
    Q = solution.Q
    left = 1.0 - np.sum((Q.T @ problem.columns) ** 2, axis=0)
    products = (target - Q @ (target @ Q)) @ problem.columns
    free = problem.live & (left > problem.dependent)
    gains: FloatArray = np.divide(products**2, left, out=np.zeros_like(left), where=free)
    return gains


def power_pursuit(problem: ColumnProblem, solution: ColumnSolution, r: int) -> ColumnSolution:
    """Alternate power steps and pursuit while the gain grows.

    Parameters
    ----------
    problem : ColumnProblem
        The one-column problem.
    solution : ColumnSolution
        Where to start.
    r : int
        Columns in a support.

    Returns
    -------
    ColumnSolution
        Gains at least as much as the start.
    """
    while True:
        trial = best_on_support(problem, pursue(problem, problem.powered(solution.code), r))
        if trial is None or trial.gain <= worthwhile(problem, solution):
            return solution
        solution = trial
