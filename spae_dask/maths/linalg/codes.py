"""Codes of an encoder: their correlations, and the variance that each adds to those before it.

Codes Z = XH of sparse components are correlated, so their variances may not be added. With ``Z = QR``, Zou, Hastie &
Tibshirani, "Sparse principal component analysis", JCGS 15 (2006), section 3.4, credit component j with ``R_jj^2``, the
part of its variance that is orthogonal to the codes before it. R is the Cholesky factor of ``Z'Z`` without pivoting,
since the order of the components matters.
"""

import numpy as np

from spae_dask.maths.linalg.project import DEPENDENT
from spae_dask.maths.linalg.scaling import FloatArray, unit_columns


def unit_codes(core: FloatArray, H: FloatArray) -> FloatArray:
    """Codes of the columns of H taken at unit length, zero where only rounding is left.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X, entries of unit scale or below.
    H : ndarray (d, k)
        Any encoder.

    Returns
    -------
    ndarray (m, k)
        ``core h_j / ||h_j||``. A code of less than 1e-12 of what its columns carry, as of the difference of two twins,
        is set to 0.
    """
    weights = unit_columns(H)[0]
    Z = core @ weights
    carried = unit_columns(core)[1] @ np.abs(weights)
    Z[:, unit_columns(Z)[1] <= DEPENDENT * carried] = 0.0
    return Z


def code_correlation(Z: FloatArray) -> FloatArray:
    """Correlations between codes, ``(k, k)``, for codes of mean zero; cosines whatever their means.

    Parameters
    ----------
    Z : ndarray (m, k)
        Codes on a core.

    Returns
    -------
    ndarray (k, k)
        Exactly symmetric, entries in [-1, 1]; 1 on the diagonal, except that a zero code correlates with nothing,
        not even itself.
    """
    unit = unit_columns(Z)[0]
    cosines = np.clip(unit.T @ unit, -1.0, 1.0)
    cosines = 0.5 * (cosines + cosines.T)
    np.fill_diagonal(cosines, unit.any(axis=0))
    return cosines


def sequential_variances(products: FloatArray) -> FloatArray:
    """Part of each code's squared length that the codes before it do not have.

    Parameters
    ----------
    products : ndarray (k, k)
        ``Z'Z``.

    Returns
    -------
    ndarray (k,)
        ``R_jj^2`` of ``Z = QR``; 0 for a zero code and for one that depends on those before it.
    """
    rest = products.copy()  # the Schur complement after the codes so far
    variances = np.zeros(len(products))
    for j in range(len(products)):
        pivot = float(rest[j, j])
        if not pivot > DEPENDENT * float(products[j, j]):
            continue  # it adds nothing, so leaving it out does not change the later ones
        variances[j] = pivot
        row = rest[j] / np.sqrt(pivot)
        rest -= np.outer(row, row)
    return variances
