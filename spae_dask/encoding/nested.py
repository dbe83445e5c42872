"""Batch encoders of all prefixes of an ordered selection, from one factorisation.

Columns in path order, orthonormalised in that order, give nested rows ``M = Q'X``: the best rank-k encoder on the first
p columns explains the k largest eigenvalues of the leading p x p block of ``MM'``. Losses do not rise with p, so the
shortest prefix that meets a target is found by bisection.
"""

import numpy as np

from spae_dask.encoding.path import ratio_to_pca
from spae_dask.linalg.project import DEPENDENT, residual
from spae_dask.linalg.scaling import FloatArray, IntArray, unit_columns, unit_scaled


class NestedLosses:
    """Losses of the best rank-k encoders on the first p of some columns, for any p.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    columns : ndarray (r,)
        Distinct columns in path order.
    """

    def __init__(self, core: FloatArray, columns: IntArray) -> None:
        scaled, self._scale = unit_scaled(core)
        Q = _basis_in_order(unit_columns(scaled[:, columns])[0])
        rows = Q.T @ scaled
        self._gram = rows @ rows.T
        explained = np.einsum("ij,ij->i", rows, rows)
        outside = residual(scaled, Q)
        # summed from the last residual backwards, so that nothing cancels
        self._left = np.cumsum(np.concatenate([[float(np.vdot(outside, outside))], explained[::-1]]))[::-1]

    def loss(self, k: int, p: int) -> float:
        """``||X - X_{C,k}||^2`` for the first p columns C."""
        eigenvalues = np.linalg.eigvalsh(self._gram[:p, :p])
        truncated = float(np.sum(np.clip(eigenvalues[: max(p - k, 0)], 0.0, None)))
        return (float(self._left[p]) + truncated) * self._scale * self._scale


def _basis_in_order(unit: FloatArray) -> FloatArray:
    """Orthonormal columns whose first p span the first p unit columns; zero where a column depends on those before."""
    Q = np.zeros_like(unit)
    for j in range(unit.shape[1]):
        q = residual(unit[:, [j]], Q[:, :j])
        length = float(np.linalg.norm(q))
        if length > DEPENDENT:
            Q[:, [j]] = q / length
    return Q


def smallest_prefix(core: FloatArray, columns: IntArray, k: int, eps: float) -> int | None:
    """Fewest first columns whose best rank-k encoder loses at most ``(1 + eps) ||X - X_k||^2``.

    For the batch encoder of a nested selection: one factorisation serves all r.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    columns : ndarray (r,)
        Distinct columns in path order, as targeted greedy selects them.
    k : int
        Number of codes.
    eps : float
        Accuracy.

    Returns
    -------
    int or None
        None if all of them lose more.
    """
    ratio_of = ratio_to_pca(core, k)
    nested = NestedLosses(core, columns)
    low, high = 0, columns.size
    if high == 0 or ratio_of(nested.loss(k, high)) > 1.0 + eps:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if ratio_of(nested.loss(k, middle)) <= 1.0 + eps:
            high = middle
        else:
            low = middle
    return high
