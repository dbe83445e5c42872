"""Share of what chosen columns explain that each of them adds to the others.

The best k codes of columns C explain the k largest eigenvalues of ``M = U' X X' U``, with U an orthonormal basis of
C. Without column j the basis loses one direction u: the part of column j that the others do not span. The eigenvalues
of ``(I - u u') M (I - u u')`` are those of a diagonal matrix less one of rank one, ``D - z z'``, with D the eigenvalues
of M. They interlace with D, and the secular function counts them (Golub 1973, *Some modified matrix eigenvalue
problems*), so that bisection finds those of all columns at once. To check an answer: fit the columns without j.
"""

import numpy as np

from spae_dask.maths.linalg.scaling import FloatArray, IntArray, unit_columns, unit_scaled
from spae_dask.maths.linalg.spectral import thin_svd

N_HALVINGS = 60
"""Halvings of the interval between two eigenvalues."""

DEPENDENT = 1e-6
"""Relative length of the part of a column outside the span of the others below which the column adds nothing."""


def added_by_each(core: FloatArray, columns: IntArray, k: int) -> FloatArray:
    """Sums of squares that the best k codes on columns explain, less those of the best without each of them.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    columns : ndarray (r,) of int
        Columns of it; dependent and zero ones do no harm.
    k : int
        Number of codes.

    Returns
    -------
    ndarray (r,)
        Sums of squares, in the units of ``||X||^2``. A column that the others span adds 0.

    Examples
    --------
    >>> added_by_each(np.diag([3.0, 2.0, 1.0]), np.array([0, 1]), 2)
    array([9., 4.])
    """
    scaled, scale = unit_scaled(core)
    C, _ = unit_columns(scaled[:, columns])
    U, s, Wt = thin_svd(C)
    kept = s > DEPENDENT
    U, s, Wt = U[:, kept], s[kept], Wt[kept]
    alone = np.sum(Wt**2, axis=0) > 1.0 - DEPENDENT
    u = unit_columns(Wt / s[:, None])[0]  # each is orthogonal to all other columns, if its own is not in their span
    V, sigma, _ = thin_svd(U.T @ scaled)
    lost = _lost(sigma**2, sigma[:, None] * (V.T @ u), k)
    return np.asarray(np.where(alone, lost, 0.0) * scale * scale, dtype=np.float64)


def _lost(values: FloatArray, z: FloatArray, k: int) -> FloatArray:
    """Fall of the sum of the k largest eigenvalues from D to ``D - z z'``, for each column z.

    ``D - z z' - x I`` has as many positive eigenvalues as ``D - x I``, and one fewer where ``sum z_i^2 / (D_i - x)``
    is above 1.
    """
    below = np.append(values, 0.0)
    lost = np.zeros(z.shape[1])
    for i in range(min(k, values.size)):
        lowest, highest = (np.full(z.shape[1], each) for each in (below[i + 1], below[i]))
        for _ in range(N_HALVINGS):
            x = (lowest + highest) / 2
            with np.errstate(divide="ignore", invalid="ignore"):
                passed = np.sum(z**2 / (values[:, None] - x), axis=0) <= 1.0
            lowest, highest = np.where(passed, x, lowest), np.where(passed, highest, x)
        lost += below[i] - lowest
    return lost
