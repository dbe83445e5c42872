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

Floats = npt.NDArray[np.float64]

RESOLVED = 1e-6
"""Share of the largest eigenvalue above which an eigenvalue of a Gram matrix has at least nine correct digits."""


def shrink(rows: Floats, size: int) -> tuple[Floats, float]:
    """Reduce rows (m, d) to at most ``size`` orthogonal ones.

    By the smaller Gram matrix of the rows, several times faster than their singular value decomposition, unless what is
    taken off is so small beside the largest squared singular value that the Gram matrix would blur it.

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
    found = _by_gram(rows, size)
    if found is not None:
        return found
    # of many rows the triangle has the same singular values, and is all that a decomposition need look at
    tall = rows.shape[0] > rows.shape[1]
    _, sigma, Vt = np.linalg.svd(np.linalg.qr(rows, mode="r") if tall else rows, full_matrices=False)
    if sigma.size <= size:
        return sigma[:, None] * Vt, 0.0
    delta = float(sigma[size] ** 2)
    kept = np.sqrt(np.clip(sigma[:size] ** 2 - delta, 0.0, None))
    return kept[:, None] * Vt[:size], delta


def _by_gram(rows: Floats, size: int) -> tuple[Floats, float] | None:
    """Shrink by the eigenvectors of the smaller Gram matrix; None where it would lose digits that matter."""
    wide = rows.shape[0] < rows.shape[1]
    if min(rows.shape) <= size:
        return None
    eigenvalues, vectors = np.linalg.eigh(rows @ rows.T if wide else rows.T @ rows)
    delta = float(eigenvalues[-size - 1])
    if delta <= RESOLVED * eigenvalues[-1]:
        return None
    squares, leading = eigenvalues[: -size - 1 : -1], vectors[:, : -size - 1 : -1].T
    kept = squares - delta
    if wide:
        return np.sqrt(kept / squares)[:, None] * (leading @ rows), delta
    return np.sqrt(kept)[:, None] * leading, delta


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
    squares = np.linalg.svd(sketch, compute_uv=False) ** 2
    upper = max(total - float(np.sum(squares[:k])), 0.0)
    slack = min(k * shrunk, max(total - float(np.sum(squares)), 0.0))
    return max(upper - slack, 0.0), upper
