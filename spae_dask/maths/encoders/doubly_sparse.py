"""Doubly sparse auto-encoder C Phi R: codes made of few columns of X, decoded into few rows of X.

Boutsidis & Woodruff, *Optimal CUR matrix decompositions* (2014/2017). Given columns C = X[:, S] and rows R = X[I, :],
the best rank-k middle factor follows from ``N = (Q_C' X Q_R)_k``, and the error is exactly ``||X||^2 - ||N||^2``. With
``N = U Sigma V'`` the encoder is ``W_c U`` (C W_c = Q_C), nonzero on S only, and the decoder ``Sigma V' Q_R'``, a mix
of the rows I only. Rows only have to span the k x d matrix ``(Q_C'X)_k``, so targeted greedy on a pool of them does
well. A theorem speaks of rows that are drawn by leverage, see :func:`lemma_rows`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spae_dask.maths.linalg.loss import LossSplit, explained_order
from spae_dask.maths.linalg.project import DEPENDENT, ColumnBasis, column_basis, orthonormal_basis, residual
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, squared_columns, unit_scaled
from spae_dask.maths.linalg.spectral import column_signs, thin_svd
from spae_dask.maths.selection.growing import GrowingBasis, grow
from spae_dask.maths.selection.targeted_greedy import TargetGain


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


def leverage_coefficients(core: FloatArray, columns: IntArray, k: int, *, rank_tol: float = DEPENDENT) -> FloatArray:
    """Coefficients T (r, k') such that C T are the k best orthonormal codes on the columns: rows are sampled by it."""
    scaled, scale = unit_scaled(core)
    basis = column_basis(scaled[:, columns], rank_tol=rank_tol)
    U = thin_svd(basis.Q.T @ scaled)[0][:, : min(k, basis.kept.size)]
    return basis.coefficients(U) / scale


@dataclass(frozen=True, eq=False)
class CodesOnColumns:
    """The k best codes on given columns, for which rows are chosen.

    Attributes
    ----------
    core : ndarray (m, d)
        Core of X, divided by ``scale``.
    scale : float
        A power of two.
    columns : ndarray (r,)
        Selected columns.
    basis : ColumnBasis
        Basis of these columns of the core.
    M : ndarray (q, d)
        ``Q_C' X``.
    target : ndarray (d, k')
        ``M_k'``, whose columns rows of X shall span.
    loss : float
        Least loss of any decoder, whatever rows it is made of.
    """

    core: FloatArray
    scale: float
    columns: IntArray
    basis: ColumnBasis
    M: FloatArray
    target: FloatArray
    loss: float

    @classmethod
    def of(cls, core: FloatArray, columns: IntArray, k: int, *, rank_tol: float = DEPENDENT) -> "CodesOnColumns":
        """Codes on ``columns`` of a core (m, d)."""
        scaled, scale = unit_scaled(core)
        basis = column_basis(scaled[:, columns], rank_tol=rank_tol)
        M = basis.Q.T @ scaled
        _, sigma, Vt = thin_svd(M)
        outside = residual(scaled, basis.Q)
        loss = (float(np.vdot(outside, outside)) + float(np.sum(sigma[k:] ** 2))) * scale * scale
        return cls(scaled, scale, columns, basis, M, (sigma[:k, None] * Vt[:k]).T, loss)

    def grow(self, pool: FloatArray, n_rows: int, start: Sequence[int] | IntArray = ()) -> IntArray:
        """Places of ``n_rows`` rows of a pool (p, d), after those of ``start`` each the best by targeted greedy.

        Fewer if the pool has fewer that are not zero.
        """
        order: IntArray = np.array(self.grown(pool, n_rows, start).order, dtype=np.intp)
        return order

    def grown(self, pool: FloatArray, n_rows: int, start: Sequence[int] | IntArray = ()) -> GrowingBasis:
        """The same, with the basis of what the rows span."""
        rows = GrowingBasis(unit_scaled(pool)[0].T)
        grow(rows, TargetGain(self.target, rows.unit), min(n_rows, pool.shape[0]), [int(i) for i in start])
        return rows

    def encode(self, pool: FloatArray, rows: IntArray) -> DoublySparseEncoder:
        """The best encoder on the columns with a decoder from the rows at these places of a pool."""
        k, columns = self.target.shape[1], self.columns
        Q_R = orthonormal_basis(unit_scaled(pool[rows])[0].T)
        U, strength, Wt = thin_svd(self.M @ Q_R)
        width = min(k, int(np.count_nonzero(strength > 0)))
        T = self.basis.coefficients(U[:, :width]) * strength[:width]
        balanced, unit = unit_scaled(T)
        H_selected, stretch, rotation = thin_svd(balanced)
        H = np.zeros((self.core.shape[1], width))
        H[columns] = H_selected
        G = (stretch * unit)[:, None] * (rotation @ (Wt[:width] @ Q_R.T))
        order = explained_order(self.core, H)
        signs = column_signs(H[:, order])
        left = self.M - (U[:, :width] * strength[:width]) @ (Wt[:width] @ Q_R.T)
        outside = residual(self.core, self.basis.Q)
        units = self.scale * self.scale
        split = LossSplit(float(np.vdot(outside, outside)) * units, float(np.vdot(left, left)) * units)
        return DoublySparseEncoder(H[:, order] * signs, G[order] * signs[:, None], rows, split)


def encode_doubly_sparse(
    core: FloatArray, columns: IntArray, pool: FloatArray, k: int, n_rows: int
) -> DoublySparseEncoder:
    """Choose rows from a pool by targeted greedy and build the best encoder and decoder on given columns and them.

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
    codes = CodesOnColumns.of(core, columns, k)
    return codes.encode(pool, codes.grow(pool, n_rows))


@dataclass(frozen=True, eq=False)
class LemmaRows:
    """Rows that a theorem speaks of.

    Attributes
    ----------
    start : ndarray (r1,)
        Places in the pool of the rows that were chosen first.
    n_drawn : int
        r2, rows of the sample beside them; the first ones by key.
    excess : float
        Most that the rows add to the loss, in expectation over the sample; infinite for a sample of fewer than two.
    """

    start: IntArray
    n_drawn: int
    excess: float


def lemma_rows(codes: CodesOnColumns, pool: FloatArray, n_rows: int) -> LemmaRows:
    """Split ``n_rows`` into rows of a pool, and rows of a leverage sample that was drawn independently of the pool.

    Boutsidis & Woodruff 2014, Lemma 3.10, with rows drawn by leverage. Let Z (n, k) be the codes, orthonormal, R1 any
    r1 rows, ``B = X (I - R1^+ R1)`` with rows b_i, and S a sample of r2 rows without replacement whose chances are
    proportional to ``||z_i||^2``. Then R, which is R1 and S, spans ``Z'X R1^+ R1 + sum over S of z_i b_i' / pi_i``,
    pi_i being the chance of row i given the other keys. That is Z'X without bias. Its terms are uncorrelated (Cohen &
    Kaplan 2007), and ``E[1/pi_i - 1] <= k / ((r2 - 1) ||z_i||^2)``, as the sample comes no faster than one with
    replacement. So the rows add ``||Z'X (I - R^+ R)||^2`` to the loss, in expectation at most ``k ||B||^2 / (r2 - 1)``.

    R1 is the start of the greedy path through the pool that makes this least; ``||B||^2`` is exact, on the core.

    Parameters
    ----------
    codes : CodesOnColumns
        Codes whose leverages the sample is drawn by.
    pool : ndarray (p, d)
        Rows of X, independent of the sample.
    n_rows : int
        r1 + r2.
    """
    k, grown = codes.target.shape[1], codes.grown(pool, max(0, n_rows - 2))
    Q = grown.Q
    total = float(np.vdot(codes.core, codes.core))
    left = np.clip(total - np.concatenate([[0.0], np.cumsum(squared_columns(codes.core @ Q))]), 0.0, None)
    others = n_rows - 1 - np.arange(left.size)  # r2 - 1 for each r1
    r1 = int(np.argmin(np.divide(left, others, out=np.full(left.size, np.inf), where=others > 0)))
    if others[r1] < 1:
        return LemmaRows(np.zeros(0, dtype=np.intp), n_rows, math.inf)
    start = np.array(grown.order[:r1], dtype=np.intp)
    B = residual(codes.core.T, orthonormal_basis(unit_scaled(pool[start])[0].T) if r1 else Q[:, :0])
    excess = k * float(np.vdot(B, B)) * codes.scale * codes.scale / int(others[r1])
    return LemmaRows(start, n_rows - r1, excess)
