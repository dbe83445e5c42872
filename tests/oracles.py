"""The same quantities by the plainest dense route, to compare the package with."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def projected(X: FloatArray, Z: FloatArray) -> FloatArray:
    """Project X on the span of the columns of Z, by SVD of Z at unit column length."""
    lengths = np.linalg.norm(Z, axis=0)
    U, s, _ = np.linalg.svd(Z[:, lengths > 0] / lengths[lengths > 0], full_matrices=False)
    U = U[:, s > 1e-11]
    return U @ (U.T @ X)


def encoder_loss(X: FloatArray, H: FloatArray) -> float:
    """``min over G of ||X - XHG||^2``."""
    return float(np.sum((X - projected(X, X @ H)) ** 2))


def best_rank_k_from_columns(X: FloatArray, columns: Sequence[int] | npt.NDArray[np.intp], k: int) -> FloatArray:
    """``X_{C,k}``: the best rank-k approximation of X with columns in the span of the given ones."""
    U, s, Vt = np.linalg.svd(projected(X, X[:, columns]), full_matrices=False)
    return (U[:, :k] * s[:k]) @ Vt[:k]


def columns_loss(X: FloatArray, columns: Sequence[int] | npt.NDArray[np.intp], k: int) -> float:
    """``||X - X_{C,k}||^2``."""
    return float(np.sum((X - best_rank_k_from_columns(X, columns, k)) ** 2))


def pca_loss(X: FloatArray, k: int) -> float:
    """``||X - X_k||^2``."""
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    return float(np.sum((X - (U[:, :k] * s[:k]) @ Vt[:k]) ** 2))
