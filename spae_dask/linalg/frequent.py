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

WIDE = 4
"""Rows so many times longer than there are of them are shrunk by their small Gram matrix, three times faster."""

SAFE = 1e-8
"""Share of the largest eigenvalue above which the others keep half their digits in a Gram matrix."""


def shrink(rows: Floats, size: int) -> tuple[Floats, float]:
    """Reduce rows (m, d) to at most ``size`` orthogonal ones.

    Returns
    -------
    sketch : ndarray (at most size, d)
        Rows ``sqrt(sigma_i^2 - delta) v_i'``.
    delta : float
        ``sigma_{size + 1}^2``, what was taken off every squared singular value; 0 if ``size`` rows are enough.
    """
    if rows.shape[0] <= size:
        return rows, 0.0
    if rows.shape[1] >= WIDE * rows.shape[0]:
        quick = _shrink_by_gram(rows, size)
        if quick is not None:
            return quick
    _, sigma, Vt = np.linalg.svd(rows, full_matrices=False)
    if sigma.size <= size:
        return sigma[:, None] * Vt, 0.0
    delta = float(sigma[size] ** 2)
    kept = np.sqrt(np.clip(sigma[:size] ** 2 - delta, 0.0, None))
    return kept[:, None] * Vt[:size], delta


def _shrink_by_gram(rows: Floats, size: int) -> tuple[Floats, float] | None:
    """The same from the eigenvectors U of ``rows rows'``, in two products; None where that would lose digits.

    The sketch is ``T rows`` with ``T = (I - delta / lambda)^(1/2) U'`` on the leading eigenvectors. Whatever rounding
    does to lambda, by u lambda_1, ``X'X - B'B`` is between 0 and delta up to that over the smallest lambda kept.
    """
    eigenvalues, vectors = np.linalg.eigh(rows @ rows.T)
    eigenvalues, vectors = eigenvalues[::-1], vectors[:, ::-1]
    delta = float(eigenvalues[size])
    if not delta > SAFE * eigenvalues[0]:
        return None
    factors = np.sqrt(1.0 - delta / eigenvalues[:size])
    return (vectors[:, :size] * factors).T @ rows, delta


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
