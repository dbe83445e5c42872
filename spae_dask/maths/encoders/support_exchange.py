"""Supports by exchange: replace one column of a support while the gain grows.

Taking column i out of a support leaves the span T, whose best code u gains lambda. Bringing column j in adds the
direction q of its residual outside T, and the gain of the new support is at least the larger Ritz value of span{u, q},

    (lambda + c)/2 + sqrt(((lambda - c)/2)^2 + b^2),   c = ||D'q||^2,  b = u'DD'q.

With ``P_T = QQ' - gg'`` for one unit vector g of the span of Q per column i, all the swaps (i, j) are ranked by a few
matrix products. The gains of the best ranked are then computed exactly, each as the top eigenvalue of ``DD'`` on T
bordered by q.
"""

from typing import NamedTuple

import numpy as np

from spae_dask.maths.encoders.single_column import ColumnProblem, ColumnSolution, best_on_support, worthwhile
from spae_dask.maths.linalg.scaling import FloatArray, IntArray
from spae_dask.maths.selection.problem import TIE, lowest_best

# Number of the ranked swaps whose gain is computed exactly.
_EXACT_TRIALS = 4
_POWER_STEPS = 3


class SwapTable(NamedTuple):
    """All swaps of a column i of a support for a column j outside it.

    Attributes
    ----------
    ritz : ndarray (s, c)
        Lower bounds on the gain after the swap; 0 where j may not enter, or i may not leave.
    energies, lengths : ndarray (s, c)
        Of column j outside the support without i: the sum of squares that its direction explains, and its length.
    border : ndarray (s, c)
        Products of the basis of the support with column j's part outside it, through ``DD'``.
    along : ndarray (s, c)
        Products of the directions that leave with the columns j.
    """

    ritz: FloatArray
    energies: FloatArray
    lengths: FloatArray
    border: FloatArray
    along: FloatArray


def swap_table(problem: ColumnProblem, solution: ColumnSolution) -> SwapTable:
    """Rank all swaps of one column of a support."""
    inner = solution.inner
    inside, products = solution.products
    mixed = inner @ inside
    # of every column j outside the span of Q: squared length, energy, and products with DD'Q
    lengths2 = 1.0 - np.sum(inside**2, axis=0)
    energies = problem.energies - np.sum((2.0 * products - mixed) * inside, axis=0)
    products = products - mixed
    g = solution.leaving
    g_inner = g @ inner
    u = _best_without(solution, g)
    top = np.sum((u @ inner) * u, axis=1)[:, None]
    # the same three for column j, outside T_i instead of outside the span of Q
    along = g @ inside
    lengths2 = np.maximum(lengths2, 0.0) + along**2
    energies = energies + along * (2.0 * (g @ products) + along * np.sum(g_inner * g, axis=1)[:, None])
    cross = u @ products + np.sum(u * g_inner, axis=1)[:, None] * along
    barred = (lengths2 <= problem.dependent) | ~problem.live
    barred[:, solution.selected] = True
    if problem.reduced.free:
        barred[np.isin(solution.selected, problem.reduced.free)] = True
    lengths2[barred] = 1.0
    c = np.maximum(energies, 0.0) / lengths2
    half = 0.5 * (top - c)
    ritz = 0.5 * (top + c) + np.sqrt(half**2 + cross**2 / lengths2)
    ritz[barred] = 0.0
    return SwapTable(ritz, c, np.sqrt(lengths2), products, along)


def best_swap(problem: ColumnProblem, solution: ColumnSolution) -> tuple[tuple[int, ...], float]:
    """Find the exchange of one column that gains the most, among those ranked best.

    Parameters
    ----------
    problem : ColumnProblem
        The one-column problem.
    solution : ColumnSolution
        Support to improve.

    Returns
    -------
    selected : tuple of int
        The support after the swap.
    gain : float
        Gain of the swap, to rounding; 0 if no column can enter.
    """
    table, g, s = swap_table(problem, solution), solution.leaving, len(solution.selected)
    g_inner = g @ solution.inner
    i, j = _largest(table.ritz, _EXACT_TRIALS)
    border = table.border[:, j].T + table.along[i, j][:, None] * g_inner[i]
    border -= np.sum(border * g[i], axis=1)[:, None] * g[i]
    bordered = np.zeros((i.size, s + 1, s + 1))
    bordered[:, :s, :s] = _project_out(solution.inner, g[i], g_inner[i])
    bordered[:, s, :s] = border / table.lengths[i, j][:, None]
    bordered[:, s, s] = table.energies[i, j]
    gains = np.where(table.ritz[i, j] > 0.0, np.linalg.eigvalsh(bordered, UPLO="L")[:, -1], 0.0)
    best = lowest_best(gains)
    swapped = list(solution.selected)
    swapped[i[best]] = int(j[best])
    return tuple(swapped), float(gains[best])


def _best_without(solution: ColumnSolution, g: FloatArray) -> FloatArray:
    """Nearly the best code of the support without column i, for every i, ``(s, s)`` in the basis Q.

    A few power steps from the best code of the whole support: any unit vector gives a lower bound.
    """
    u = np.tile(solution.code @ solution.Q, (g.shape[0], 1))
    for _ in range(_POWER_STEPS):
        u -= np.sum(u * g, axis=1)[:, None] * g
        u = u @ solution.inner
    u -= np.sum(u * g, axis=1)[:, None] * g
    lengths = np.sqrt(np.sum(u**2, axis=1))[:, None]
    return u / np.where(lengths > 0.0, lengths, 1.0)


def _project_out(inner: FloatArray, g: FloatArray, g_inner: FloatArray) -> FloatArray:
    """``(I - gg') inner (I - gg')`` for every row g, ``(s, s, s)``."""
    left = inner - g[:, :, None] * g_inner[:, None, :]
    left -= (left @ g[:, :, None]) * g[:, None, :]
    return left


def _largest(ritz: FloatArray, count: int) -> tuple[IntArray, IntArray]:
    """Row and column of the largest entries, in index order; of equal ones the first."""
    flat = ritz.ravel()
    count = min(count, flat.size)
    least = float(np.partition(flat, flat.size - count)[flat.size - count])
    above = np.flatnonzero(flat > least + TIE * abs(least))
    equal = np.flatnonzero(np.abs(flat - least) <= TIE * abs(least))
    chosen = np.sort(np.concatenate([above, equal[: count - above.size]]))
    return np.divmod(chosen, ritz.shape[1])


def exchange(problem: ColumnProblem, solution: ColumnSolution) -> ColumnSolution:
    """Swap single columns while the gain grows.

    Parameters
    ----------
    problem : ColumnProblem
        The one-column problem.
    solution : ColumnSolution
        Solution to start from.

    Returns
    -------
    ColumnSolution
        Gains at least as much as the start; no swap ranked among the best lowers the loss by a millionth.
    """
    while True:
        least = worthwhile(problem, solution)
        swapped, gain = best_swap(problem, solution)
        trial = best_on_support(problem, swapped) if gain > least else None
        if trial is None or trial.gain <= least:
            return solution
        solution = trial
