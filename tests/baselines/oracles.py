"""Losses of an encoder straight from their definitions, by dense least squares and pseudoinverses."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def information_loss(X: FloatArray, H: FloatArray) -> float:
    """Smallest ``||X - X H G||^2`` over G, as a multiple of the best rank-k loss."""
    Z = X @ H
    G = np.linalg.lstsq(Z, X, rcond=1e-12)[0]
    sigma = np.linalg.svd(X, compute_uv=False)
    return float(np.sum((X - Z @ G) ** 2) / np.sum(sigma[H.shape[1] :] ** 2))


def symmetric_variance(X: FloatArray, H: FloatArray) -> float:
    """``||X H H^+||^2`` as a part of ``||X_k||^2``."""
    sigma = np.linalg.svd(X, compute_uv=False)
    return float(np.sum((X @ H @ np.linalg.pinv(H)) ** 2) / np.sum(sigma[: H.shape[1]] ** 2))


def supports(H: FloatArray) -> list[list[int]]:
    """Indices of the nonzeros of each column."""
    return [np.flatnonzero(h).tolist() for h in H.T]


def obeys_the_rules(H: FloatArray, most: int) -> bool:
    """Finite columns of at most `most` nonzeros, each zero or of unit length with its largest entry positive."""
    lengths = np.linalg.norm(H, axis=0)
    unit = np.abs(lengths - 1.0) < 1e-12
    peaks = np.take_along_axis(H, np.abs(H).argmax(axis=0)[np.newaxis], axis=0)[0]
    return bool(
        np.isfinite(H).all()
        and (unit | (lengths == 0)).all()
        and (np.count_nonzero(H, axis=0) <= most).all()
        and (peaks >= 0).all()
    )
