"""Orthonormal encoders on the same rows: orthonormal loadings at the cost of sparsity in each column."""

import numpy as np

from spae_dask.maths.linalg.loss import explained_order
from spae_dask.maths.linalg.project import optimal_decoder, orthonormal_basis
from spae_dask.maths.linalg.scaling import FloatArray
from spae_dask.maths.linalg.spectral import column_signs


def orthonormalize(core: FloatArray, H: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Encoder with orthonormal columns and the same span as H, and its optimal decoder.

    The loss depends on the span of the codes only, so it stays what it was, and so does the combined support. A column
    may then use every row of it: sparsity a column is what is given up.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    H : ndarray (d, k)
        Any encoder.

    Returns
    -------
    H : ndarray (d, k')
        Orthonormal; k' is the rank of what was given. Ordered by sequential explained variance, signs fixed.
    G : ndarray (k', d)
        Its optimal decoder.
    """
    support = np.flatnonzero(H.any(axis=1))
    Q = np.zeros((H.shape[0], 0))
    if support.size:
        basis = orthonormal_basis(H[support])
        # columns that share no row stay apart: what rounding leaves in the other's rows would count as nonzeros
        basis[np.abs(basis) <= support.size * np.finfo(float).eps] = 0.0
        Q = np.zeros((H.shape[0], basis.shape[1]))
        Q[support] = basis
    Q = Q[:, explained_order(core, Q)]
    Q = Q * column_signs(Q)
    return Q, optimal_decoder(core, Q)
