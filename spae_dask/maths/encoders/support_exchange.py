"""Supports by exchange: replace one column of a support while the gain grows.

The gains of the swaps that rank best (:mod:`spae_dask.maths.encoders.swap_table`) are computed exactly, each as the top
eigenvalue of ``DD'`` on the span T that stays, bordered by the direction that the new column adds to it.
"""

import numpy as np

from spae_dask.maths.encoders.single_column import ColumnSolution, best_on_support, worthwhile
from spae_dask.maths.linalg.scaling import FloatArray, IntArray
from spae_dask.maths.selection.problem import TIE, lowest_best

# Number of the ranked swaps whose gain is computed exactly.
_EXACT_TRIALS = 4


def best_swap(solution: ColumnSolution) -> tuple[tuple[int, ...], float]:
    """Find the exchange of one column that gains the most, among those ranked best.

    Parameters
    ----------
    solution : ColumnSolution
        Support to improve.

    Returns
    -------
    selected : tuple of int
        The support after the swap.
    gain : float
        Gain of the swap, to rounding; 0 if no column can enter.
    """
    table, g, s = solution.swaps, solution.leaving, len(solution.selected)
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


def exchange(solution: ColumnSolution) -> ColumnSolution:
    """Swap single columns while the gain grows.

    Parameters
    ----------
    solution : ColumnSolution
        Solution to start from.

    Returns
    -------
    ColumnSolution
        Gains at least as much as the start; no swap ranked among the best lowers the loss by a millionth.
    """
    while True:
        least = worthwhile(solution)
        swapped, gain = best_swap(solution)
        trial = best_on_support(solution.problem, swapped) if gain > least else None
        if trial is None or trial.gain <= least:
            return solution
        solution = trial
