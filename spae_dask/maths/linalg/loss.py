"""Loss of a sparse linear encoder, and the measures reported beside it.

For an encoder H the loss is ``min over G of ||X - X H G||^2`` (squared Frobenius norm), that is X minus its projection
on the codes XH (Magdon-Ismail & Boutsidis 2015, section 2). On a core the residual is formed explicitly, so a loss of
1e-12 of the total still has its digits. From the small products ``C'C`` and ``C'X`` alone it is the total minus what is
explained, with an absolute error that is returned beside it. To check any loss here: project with a dense SVD.
"""

import math
from dataclasses import dataclass

import numpy as np

from spae_dask.maths.linalg.project import DEPENDENT, RankTol, column_basis, orthonormal_basis, residual, tolerance_of
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, unit_columns, unit_scaled
from spae_dask.maths.linalg.spectral import singular_values

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class LossSplit:
    """Loss of the best rank-k encoder on chosen columns C, in its two parts.

    Attributes
    ----------
    projection : float
        ``||X - P_C X||^2``, the part that no encoder on these columns can explain.
    truncation : float
        Part of ``P_C X`` that k codes leave: its squared singular values beyond the k-th.
    """

    projection: float
    truncation: float

    @property
    def loss(self) -> float:
        """The loss, ``||X - X_{C,k}||^2``."""
        return self.projection + self.truncation


def total_variance(core: FloatArray) -> float:
    """Total ``||X||^2``, whatever the magnitude of the entries."""
    scaled, scale = unit_scaled(core)
    return _squared(scaled, scale)


def _squared(B: FloatArray, scale: float) -> float:
    return float(np.vdot(B, B)) * scale * scale


def columns_loss(core: FloatArray, columns: IntArray, k: int, *, rank_tol: RankTol = DEPENDENT) -> LossSplit:
    """Loss of the best rank-k encoder whose nonzero rows are the given columns.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    columns : ndarray (r,)
        Indices of columns; dependent and zero ones do no harm.
    k : int
        Number of codes.
    rank_tol : float or ndarray (d,), optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them; one for all columns, or one for each.

    Returns
    -------
    LossSplit
        Projection and truncation parts, each summed from its own small numbers.
    """
    scaled, scale = unit_scaled(core)
    Q = orthonormal_basis(scaled[:, columns], rank_tol=tolerance_of(rank_tol, columns))
    sigma = singular_values(Q.T @ scaled).astype(np.float64, copy=False)
    return LossSplit(_squared(residual(scaled, Q), scale), _squared(sigma[k:], scale))


def _codes(scaled: FloatArray, H: FloatArray) -> FloatArray:
    """Codes of the encoder with its columns scaled to unit length; their span is all that matters."""
    return scaled @ unit_columns(H)[0]


def encoder_loss(core: FloatArray, H: FloatArray) -> float:
    """Loss of any encoder, ``||X - XH(XH)^+ X||^2``.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    H : ndarray (d, k)
        Encoder; its columns need not be orthonormal and may be dependent or zero.

    Returns
    -------
    float
        The loss, with a relative error of about ``u sqrt(total / loss)``.
    """
    scaled, scale = unit_scaled(core)
    return _squared(residual(scaled, orthonormal_basis(_codes(scaled, H))), scale)


def _code_rows(core: FloatArray, H: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Orthonormalise the codes in column order: basis (zero columns for dependent codes), scaled core, scale."""
    scaled, scale = unit_scaled(core)
    codes = unit_columns(_codes(scaled, H))[0]
    Q = np.zeros_like(codes)
    for j in range(codes.shape[1]):
        q = codes[:, j] - Q @ (Q.T @ codes[:, j])
        q -= Q @ (Q.T @ q)
        length = math.sqrt(float(q @ q))
        if length > DEPENDENT:
            Q[:, j] = q / length
    return Q, scaled, scale


def sequential_explained(core: FloatArray, H: FloatArray) -> FloatArray:
    """Variance each code explains beyond the codes before it, ``(k,)``; sums to total minus loss.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    H : ndarray (d, k)
        Any encoder; a code that depends on earlier ones explains 0.
    """
    Q, scaled, scale = _code_rows(core, H)
    explained: FloatArray = np.sum((Q.T @ scaled) ** 2, axis=1) * scale * scale
    return explained


def prefix_losses(core: FloatArray, H: FloatArray) -> FloatArray:
    """Losses of ``H[:, :1], H[:, :2], ..., H``.

    Added up from the last residual backwards, so nothing cancels.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    H : ndarray (d, k)
        Any encoder.

    Returns
    -------
    ndarray (k,)
        Nonincreasing losses.
    """
    Q, scaled, scale = _code_rows(core, H)
    steps = np.sum((Q.T @ scaled) ** 2, axis=1)
    left = residual(scaled, Q)
    after = np.concatenate([[float(np.vdot(left, left))], steps[:0:-1]])
    losses: FloatArray = np.cumsum(after)[::-1] * scale * scale
    return losses[: H.shape[1]]


def explained_order(core: FloatArray, H: FloatArray) -> IntArray:
    """Order of the columns in which each next code explains the most beyond those before it.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    H : ndarray (d, k)
        Any encoder.

    Returns
    -------
    ndarray (k,)
        A permutation; ties to a relative 1e-12 go to the lower index, codes that add nothing come last.
    """
    scaled, _ = unit_scaled(core)
    basis = column_basis(_codes(scaled, H))
    M = basis.Q.T @ scaled
    # In the basis of the codes: code j is the vector y_j, and a unit vector y explains y' W y.
    W = M @ M.T
    Y = unit_columns(basis.Q.T @ _codes(scaled, H))[0]
    order: list[int] = []
    left = list(range(H.shape[1]))
    while left:
        lengths = np.sum(Y[:, left] ** 2, axis=0)
        gains = np.einsum("ij,ij->j", Y[:, left], W @ Y[:, left])
        gains = np.divide(gains, lengths, out=np.zeros_like(gains), where=lengths > DEPENDENT**2)
        best = left[int(np.argmax(gains >= np.max(gains) * (1.0 - 1e-12)))]
        order.append(best)
        left.remove(best)
        length = float(np.linalg.norm(Y[:, best]))
        if length > DEPENDENT:
            y = Y[:, best] / length
            Y = Y - np.outer(y, y @ Y)
    return np.array(order, dtype=np.intp)


def symmetric_explained(core: FloatArray, H: FloatArray) -> float:
    """Symmetric explained variance ``||X H H^+||^2``: the variance of X inside the span of H.

    Never more than what the optimal decoder explains.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    H : ndarray (d, k)
        Any encoder.
    """
    scaled, scale = unit_scaled(core)
    return _squared(scaled @ orthonormal_basis(H), scale)


def rounding_error(loss: float, total: float) -> float:
    """Absolute rounding error to expect of a loss computed on a core, ``u``-sized relative to ``sqrt(loss total)``."""
    unit = 256 * _EPS
    return unit * (math.sqrt(max(loss, 0.0)) * math.sqrt(total) + unit * total)


def information_loss(loss: float, pca_loss: float, total: float, *, error: float | None = None) -> float:
    """Information loss: the loss of an encoder divided by that of PCA at the same k.

    At least 1 in exact arithmetic. A ratio that falls below 1 by no more than rounding explains is returned as 1;
    one that falls further is returned as it is, since the two losses then cannot belong to the same matrix.

    Parameters
    ----------
    loss : float
        Loss of the encoder.
    pca_loss : float
        Loss of the best rank-k approximation.
    total : float
        ``||X||^2``.
    error : float, optional
        Absolute error of ``loss``; that of a loss computed on a core if None.

    Returns
    -------
    float
        The ratio. If PCA loses nothing (k is at least the rank): 1 if the encoder loses nothing to rounding either,
        else infinity.
    """
    uncertain = rounding_error(max(loss, pca_loss), total) if error is None else error
    if pca_loss <= 0.0:
        return 1.0 if loss <= uncertain else math.inf
    ratio = loss / pca_loss
    if ratio < 1.0 and (1.0 - ratio) * pca_loss <= uncertain:
        return 1.0
    return ratio
