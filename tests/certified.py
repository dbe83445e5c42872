"""Claims of a certificate against the truth in 80-bit arithmetic, by a road of its own.

The loss is the residual of the returned encoder and decoder about the returned mean, row by row. PCA's loss comes from
one-sided Jacobi rotations (Hestenes 1958) of the columns, which keep small singular values to full relative accuracy.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Wide = NDArray[np.longdouble]

UNIT = float(np.finfo(np.longdouble).eps)


def singular_squares(X: Wide) -> Wide:
    """Squared singular values, descending."""
    A = X.copy()
    d = A.shape[1]
    for _ in range(60):
        rotated = False
        for i in range(d - 1):
            for j in range(i + 1, d):
                a, b, c = A[:, i] @ A[:, i], A[:, j] @ A[:, j], A[:, i] @ A[:, j]
                if abs(c) <= 4 * UNIT * np.sqrt(a * b) or c == 0:
                    continue
                rotated = True
                zeta = (b - a) / (2 * c)
                t = (1 if zeta >= 0 else -1) / (abs(zeta) + np.sqrt(1 + zeta * zeta))
                cosine = 1 / np.sqrt(1 + t * t)
                sine = cosine * t
                A[:, i], A[:, j] = cosine * A[:, i] - sine * A[:, j], sine * A[:, i] + cosine * A[:, j]
        if not rotated:
            break
    return np.sort(np.sum(A * A, axis=0))[::-1]


def wide(X: NDArray[Any]) -> Wide:
    """Entries in 80-bit numbers, exactly: integers too."""
    return X.astype(np.longdouble)


def centered(X: Wide) -> Wide:
    """About the exact mean: from the first row first, so that a large mean costs nothing."""
    about = X - X[0]
    return about - about.mean(axis=0)


class Truth:
    """Exact numbers for a fitted encoder on its data.

    Parameters
    ----------
    X : ndarray (n, d)
        The data as they were fitted.
    encoder : SparseEncoder
        Fitted.
    """

    def __init__(self, X: NDArray[Any], encoder: Any) -> None:
        rows = wide(X)
        if encoder.fill_ is not None:
            rows = np.where(np.isnan(rows), encoder.fill_.astype(np.longdouble), rows)
        H, G = encoder.components_.T.astype(np.longdouble), encoder.decoder_.astype(np.longdouble)
        scale = encoder.scale_.astype(np.longdouble)
        exact = centered(rows) / scale if encoder.center else rows / scale
        reported = (rows - encoder.mean_.astype(np.longdouble)) / scale
        self.loss = float(np.sum((exact - (exact @ H) @ G) ** 2))
        self.loss_about_mean = float(np.sum((reported - (reported @ H) @ G) ** 2))
        self.total = float(np.sum(exact**2))
        squares = singular_squares(exact)
        self.pca_loss = float(np.sum(squares[H.shape[1] :][::-1]))


def false_claims(truth: Truth, certificate: Any) -> list[str]:
    """Claims of a certificate that the truth contradicts."""
    c, found = certificate, []
    # the truth itself has rounding, of 80 bits
    slack = 64 * UNIT * truth.total

    def within(name: str, value: float, lower: float, upper: float) -> None:
        if not lower - slack <= value <= upper + slack:
            found.append(f"{name} is {value!r}, outside {lower!r} to {upper!r}")

    for value, mean in ((truth.loss, "exact mean"), (truth.loss_about_mean, "mean_")):
        if c.loss_kind in ("exact", "approximate"):
            within(f"loss about the {mean} ({c.loss_kind})", value, c.loss - c.loss_error, c.loss + c.loss_error)
        if c.loss_lower is not None and c.loss_kind != "estimate":
            within(f"loss about the {mean} ({c.loss_kind})", value, c.loss_lower, c.loss_upper)
    if c.pca_loss_kind in ("exact", "approximate"):
        within("PCA's loss", truth.pca_loss, c.pca_loss - c.loss_error, c.pca_loss + c.loss_error)
    if c.pca_loss_kind == "certified lower bound":
        within("PCA's loss, bounded", truth.pca_loss, c.pca_loss, np.inf)
    if c.pca_loss_lower is not None and c.confidence is None:
        within("PCA's loss", truth.pca_loss, c.pca_loss_lower, c.pca_loss_upper)
    if c.loss_kind == c.pca_loss_kind == "exact" and truth.pca_loss > c.loss_error:
        error = c.loss_error * (1 + c.ratio) / (truth.pca_loss - c.loss_error)
        within("ratio", truth.loss / truth.pca_loss, c.ratio - error - 1e-12, c.ratio + error + 1e-12)
    return found
