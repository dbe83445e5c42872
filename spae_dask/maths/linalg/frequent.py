"""Frequent Directions: a deterministic sketch of the rows, with certified bounds.

Ghashami & Phillips (2014); Ghashami, Liberty, Phillips & Woodruff (2016). A sketch B of at most ``size`` rows and the
sum ``shrunk`` of what was subtracted satisfy, for any order of the rows and any merge tree, with T = ||X||^2:

1. ``0 <= X'X - B'B <= shrunk I``;
2. ``(size + 1) shrunk <= T - ||B||^2``;
3. ``shrunk <= opt_k / (size + 1 - k)`` for every k <= size;
4. the top k right singular vectors Z of B have ``||X - XZZ'||^2 <= opt_k + k shrunk``;
5. ``T - ||B_k||^2 - min(k shrunk, T - ||B||^2) <= opt_k <= T - ||B_k||^2``.
"""

import numpy as np
import numpy.typing as npt

from spae_dask.maths.linalg.spectral import singular_values, thin_svd

Floats = npt.NDArray[np.float64]

RESOLVED = 1e-6
"""Share of the largest eigenvalue above which an eigenvalue of a Gram matrix has at least nine correct digits."""


def shrink(rows: Floats, size: int) -> tuple[Floats, float]:
    """Reduce rows (m, d) to at most ``size`` orthogonal ones.

    The rows are multiplied by their left singular vectors, so each column of the sketch errs relative to its own
    length, whatever the units of the others. The vectors come from the Gram matrix of the rows, several times faster
    than a singular value decomposition, unless what is taken off is so small that the Gram matrix would blur it.

    Returns
    -------
    sketch : ndarray (at most size, d)
        Rows ``sqrt(sigma_i^2 - delta) v_i'``; NaN if any entry is not finite, since a pass reports those when it ends.
    delta : float
        ``sigma_{size + 1}^2``, what was taken off every squared singular value; 0 if ``size`` rows are enough.
    """
    if rows.shape[0] <= size:
        return rows, 0.0
    if not np.isfinite(np.vdot(rows, rows)):
        return np.full((size, rows.shape[1]), np.nan), np.nan
    if rows.shape[0] > rows.shape[1]:  # the triangle of many rows has the same singular values
        rows = np.asarray(np.linalg.qr(rows, mode="r"))
        if rows.shape[0] <= size:
            return rows, 0.0
    squares, U = np.linalg.eigh(rows @ rows.T)
    squares, U = squares[::-1], U[:, ::-1]
    if squares[size] <= RESOLVED * squares[0]:
        U, sigma, _ = thin_svd(rows)
        squares = sigma**2
    delta = float(squares[size])
    kept = np.clip(squares[:size] - delta, 0.0, None)
    factors = np.sqrt(np.divide(kept, squares[:size], out=np.zeros_like(kept), where=kept > 0.0))
    return factors[:, None] * (U[:, :size].T @ rows), delta


def optimum_interval(sketch: Floats, shrunk: float, total: float, k: int) -> tuple[float, float]:
    """Certified interval for the loss of the best rank-k approximation (bound 5).

    Parameters
    ----------
    sketch : ndarray (l, d)
        B.
    shrunk : float
        The sum of all deltas.
    total : float
        ``||X||^2``, summed apart in float64.
    k : int
        Rank.
    """
    squares = singular_values(sketch) ** 2
    upper = max(total - float(np.sum(squares[:k])), 0.0)
    slack = min(k * shrunk, max(total - float(np.sum(squares)), 0.0))
    return max(upper - slack, 0.0), upper
