"""Doubly sparse auto-encoder C Phi R: codes made of few columns of X, decoded into few rows of X.

Boutsidis & Woodruff, *Optimal CUR matrix decompositions* (2014/2017). Given columns C = X[:, S] and rows R = X[I, :],
the best rank-k middle factor follows from ``N = (Q_C' X Q_R)_k``, and the error is exactly ``||X||^2 - ||N||^2``. With
``N = U Sigma V'`` the encoder is ``W_c U`` (C W_c = Q_C), nonzero on S only, and the decoder ``Sigma V' Q_R'``, a mix
of the rows I only. Rows only have to span the k x d matrix ``(Q_C'X)_k``, so targeted greedy on a pool of them does
well.
"""

from dataclasses import dataclass

import numpy as np

from spae_dask.linalg.loss import LossSplit, explained_order
from spae_dask.linalg.project import column_basis, orthonormal_basis, residual
from spae_dask.linalg.scaling import FloatArray, IntArray, unit_scaled
from spae_dask.linalg.spectral import column_signs
from spae_dask.selection.growing import GrowingBasis, grow
from spae_dask.selection.targeted_greedy import TargetGain


@dataclass(frozen=True, eq=False)
class DoublySparseEncoder:
    """An encoder on few columns with a decoder from few rows.

    Attributes
    ----------
    H : ndarray (d, k')
        Orthonormal columns, nonzero only in the selected rows.
    G : ndarray (k', d)
        Decoder, in the span of the chosen rows of X.
    rows : ndarray (r2,)
        Places of the chosen rows in the pool, in order chosen.
    split : LossSplit
        ``projection``: what the columns cannot explain; ``truncation``: what rank k and the rows leave of the rest.
    """

    H: FloatArray
    G: FloatArray
    rows: IntArray
    split: LossSplit

    @property
    def loss(self) -> float:
        """``||X - X H G||^2``."""
        return self.split.loss


def leverage_coefficients(core: FloatArray, columns: IntArray, k: int) -> FloatArray:
    """Coefficients T (r, k') such that C T are the k best orthonormal codes on the columns: rows are sampled by it."""
    scaled, scale = unit_scaled(core)
    basis = column_basis(scaled[:, columns])
    U = np.linalg.svd(basis.Q.T @ scaled, full_matrices=False)[0][:, : min(k, basis.kept.size)]
    return basis.coefficients(U) / scale


def encode_doubly_sparse(
    core: FloatArray, columns: IntArray, pool: FloatArray, k: int, n_rows: int
) -> DoublySparseEncoder:
    """Choose rows from a pool and build the best encoder and decoder on given columns and them.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    columns : ndarray (r,)
        Selected columns.
    pool : ndarray (p, d)
        Rows of X to choose from.
    k : int
        Codes.
    n_rows : int
        Rows to choose; fewer are returned if the pool has fewer independent ones.
    """
    scaled, scale = unit_scaled(core)
    candidates = unit_scaled(pool)[0]
    basis = column_basis(scaled[:, columns])
    M = basis.Q.T @ scaled
    _, sigma, Vt = np.linalg.svd(M, full_matrices=False)
    target = (sigma[:k, None] * Vt[:k]).T
    gram_basis = GrowingBasis(candidates.T)
    rows = grow(gram_basis, TargetGain(target, gram_basis.unit), min(n_rows, pool.shape[0]))
    Q_R = orthonormal_basis(candidates[rows].T)
    U, strength, Wt = np.linalg.svd(M @ Q_R, full_matrices=False)
    width = min(k, int(np.count_nonzero(strength > 0)))
    T = basis.coefficients(U[:, :width]) * strength[:width]
    balanced, unit = unit_scaled(T)
    H_selected, stretch, rotation = np.linalg.svd(balanced, full_matrices=False)
    H = np.zeros((scaled.shape[1], width))
    H[columns] = H_selected
    G = (stretch * unit)[:, None] * (rotation @ (Wt[:width] @ Q_R.T))
    order = explained_order(scaled, H)
    signs = column_signs(H[:, order])
    left = M - (U[:, :width] * strength[:width]) @ (Wt[:width] @ Q_R.T)
    outside = residual(scaled, basis.Q)
    units = scale * scale
    split = LossSplit(float(np.vdot(outside, outside)) * units, float(np.vdot(left, left)) * units)
    return DoublySparseEncoder(H[:, order] * signs, G[order] * signs[:, None], rows, split)
