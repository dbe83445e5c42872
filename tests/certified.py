"""Claims of a certificate against the truth in 80-bit arithmetic, by a road of its own, and data that strain them.

The loss is the residual of the returned encoder and decoder about the returned mean, row by row. PCA's loss comes from
one-sided Jacobi rotations (Hestenes 1958) of the columns, which keep small singular values to full relative accuracy.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp
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
                t = (1 if zeta >= 0 else -1) / (abs(zeta) + np.hypot(1, zeta))
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


@dataclass(frozen=True)
class Claim:
    """One number of a certificate, against the truth.

    Attributes
    ----------
    name : str
        Quantity.
    truth : float
        Its exact value.
    lower, upper : float
        Ends between which the certificate says it lies.
    holds : bool
        Whether it does.
    """

    name: str
    truth: float
    lower: float
    upper: float
    holds: bool


def claims(truth: Truth, certificate: Any) -> list[Claim]:
    """All that a certificate claims for certain."""
    c, found = certificate, []
    # the truth itself has rounding, of 80 bits
    slack = 64 * UNIT * truth.total

    def claim(name: str, value: float, lower: float, upper: float) -> None:
        found.append(Claim(name, value, lower, upper, lower - slack <= value <= upper + slack))

    if c.decoder_loss is not None:  # a decoder made of rows is not the best one
        claim("loss with its own decoder", truth.loss, c.decoder_loss - c.loss_error, c.decoder_loss + c.loss_error)
        claim("least loss", c.loss, 0.0, truth.loss + c.loss_error)
        return found
    for value, mean in ((truth.loss, "exact mean"), (truth.loss_about_mean, "mean_")):
        if c.loss_kind in ("exact", "approximate"):
            claim(f"loss about the {mean}, {c.loss_kind}", value, c.loss - c.loss_error, c.loss + c.loss_error)
        if c.loss_lower is not None and c.loss_kind != "estimate":
            claim(f"loss about the {mean}, {c.loss_kind}", value, c.loss_lower, c.loss_upper)
    if c.pca_loss_kind in ("exact", "approximate"):
        claim("PCA's loss", truth.pca_loss, c.pca_loss - c.loss_error, c.pca_loss + c.loss_error)
    if c.pca_loss_kind == "certified lower bound":
        claim("PCA's loss, bounded from below", truth.pca_loss, c.pca_loss, np.inf)
    if c.pca_loss_lower is not None and c.confidence is None:
        claim("PCA's loss, in an interval", truth.pca_loss, c.pca_loss_lower, c.pca_loss_upper)
    if c.loss_kind == c.pca_loss_kind == "exact" and truth.pca_loss > c.loss_error:
        error = c.loss_error * (1 + c.ratio) / (truth.pca_loss - c.loss_error) + 1e-12
        claim("ratio", truth.loss / truth.pca_loss, c.ratio - error, c.ratio + error)
    return found


Matrix = NDArray[np.float64]
Plant = Callable[[np.random.Generator, Matrix], NDArray[Any]]


def _magnitude(rng: np.random.Generator, low: float, high: float, size: Any = None) -> Any:
    return 10.0 ** rng.uniform(low, high, size)


def _near_copies(rng: np.random.Generator, X: Matrix) -> Matrix:
    """A column, a near-copy whose difference is a factor of many others, and these."""
    z, a = rng.standard_normal((2, len(X)))
    others = np.outer(z, np.ones(8)) + 0.5 * rng.standard_normal((len(X), 8))
    return np.column_stack([a, a + _magnitude(rng, -7, -3.5) * z, others])


def _near_sums(rng: np.random.Generator, X: Matrix) -> Matrix:
    """Three columns that depend on each other, but for a factor of the others."""
    a, b, z = rng.standard_normal((3, len(X)))
    others = np.outer(z, np.ones(X.shape[1])) + 0.3 * rng.standard_normal(X.shape)
    return np.column_stack([a, b, a + b + _magnitude(rng, -12, -3) * z, others])


def _all_near_copies(rng: np.random.Generator, X: Matrix) -> Matrix:
    return np.hstack([X, X * (1 + _magnitude(rng, -12, -4) * rng.standard_normal(X.shape))])


def _with_constants(rng: np.random.Generator, X: Matrix) -> Matrix:
    values = rng.choice([0.1, 1 / 3, -7e6, 1e-8, 0.0], 2)
    return np.column_stack([X, *(np.full(len(X), value) for value in values)])


def _stray(rng: np.random.Generator, X: Matrix) -> Matrix:
    X = X.copy()
    X[rng.integers(len(X))] *= _magnitude(rng, 2, 8)
    return X


def _low_rank(rng: np.random.Generator, X: Matrix) -> Matrix:
    noise = rng.choice([0.0, _magnitude(rng, -14, -6)])
    return X[:, :2] @ rng.standard_normal((2, X.shape[1])) + noise * rng.standard_normal(X.shape)


def _sorted(rng: np.random.Generator, X: Matrix) -> Matrix:
    return np.sort(X, axis=0) + np.linspace(0, _magnitude(rng, 0, 5), len(X))[:, None]


def _white(rng: np.random.Generator, X: Matrix) -> Matrix:
    return np.linalg.qr(X - X.mean(axis=0))[0] * np.sqrt(len(X))


def _integers(rng: np.random.Generator, X: Matrix) -> NDArray[np.int64]:
    X = np.rint(X / np.abs(X).max() * _magnitude(rng, 1, 4)).astype(np.int64)
    return X + rng.choice([0, 0, 2**33, 2**52, 2**54, -(2**57), 2**60, 2**62])


PLANTS: Mapping[str, Plant] = MappingProxyType(
    {
        "clean": lambda _, X: X,
        "near copies": _near_copies,
        "near sums": _near_sums,
        "all near copies": _all_near_copies,
        "exact copies": lambda rng, X: X[:, rng.integers(0, X.shape[1], X.shape[1] + 2)],
        "large means": lambda rng, X: X + np.std(X) * _magnitude(rng, 3, 14.5) * rng.standard_normal(X.shape[1]),
        "mixed units": lambda rng, X: X * _magnitude(rng, -8, 8, X.shape[1]),
        "extreme units": lambda rng, X: X * _magnitude(rng, -70, 70, X.shape[1]),
        "one scale": lambda rng, X: X * _magnitude(rng, -150, 150),
        "constants": _with_constants,
        "stray rows": _stray,
        "low rank": _low_rank,
        "sorted": _sorted,
        "white": _white,
        "few rows": lambda _, X: X[: max(2, X.shape[1] // 2)],
        "integers": _integers,
    }
)
"""Ways to strain a certificate, by name."""

DTYPES = ("float64", "float64", "float32", "float16", "int16", "uint8")


@dataclass(frozen=True, eq=False)
class Strain:
    """Data and parameters of one fit.

    Attributes
    ----------
    X : ndarray (n, d) or scipy.sparse.csr_array (n, d)
        The data.
    dense : ndarray (n, d)
        The same, dense.
    parameters : dict
        Of ``SparseEncoder``.
    """

    X: Any
    dense: NDArray[Any]
    parameters: dict[str, Any]


STRATEGIES = ("auto", "gram", "tsqr", "sketch", "stream", "sample", "paper")


def strain(plant: str, strategy: str, seed: int) -> Strain:
    """Data of a kind, and parameters, all by a seed."""
    rng = np.random.default_rng([seed, list(PLANTS).index(plant), STRATEGIES.index(strategy)])
    n, d = int(rng.integers(6, 250)), int(rng.integers(3, 8))
    factors = rng.standard_normal((n, d)) @ (rng.standard_normal((d, d)) * _magnitude(rng, -2, 0, d))
    X = PLANTS[plant](rng, factors + 0.1 * rng.standard_normal((n, d)))
    X = _as_type(rng, X)
    n, d = X.shape
    k = int(rng.integers(1, min(d, 4)))
    methods = ["polished", "polished", "batch", "iterative"]
    if strategy in ("auto", "gram", "tsqr"):
        methods.append("doubly-sparse")
    method = "batch" if strategy == "paper" else str(rng.choice(methods))
    parameters: dict[str, Any] = {
        "n_components": k,
        "n_nonzero": int(rng.integers(1, d + 1)),
        "strategy": strategy,
        "method": method,
        "scale": bool(rng.integers(2)),
        "center": bool(rng.random() < 0.8),
    }
    if plant == "near copies" and rng.random() < 0.5:
        # the two near-copies are the best choice, if the core holds their difference
        parameters |= {"n_components": 1, "n_nonzero": 2, "scale": False}
    if strategy in ("auto", "gram", "sketch") and rng.random() < 0.25:
        parameters["precision"] = "fast"
    if strategy in ("sketch", "stream"):
        parameters["certified"] = bool(rng.integers(2))
    if strategy == "sample":
        parameters["tolerance"] = 0.5
    dense = X
    if X.dtype.kind == "f" and rng.random() < 0.15:
        X = dense = np.where(rng.random(X.shape) < 0.1, X.dtype.type(np.nan), X)
        parameters["missing"] = "zero" if strategy in ("stream", "sample") else str(rng.choice(["zero", "mean"]))
    elif rng.random() < 0.15 and X.dtype != np.float16:
        dense = np.where(rng.random(X.shape) < 0.6, X, X.dtype.type(0))
        X = sp.csr_array(dense)
    return Strain(X, dense, parameters)


def _as_type(rng: np.random.Generator, X: NDArray[Any]) -> NDArray[Any]:
    """The data in another type that holds them."""
    dtype = np.dtype(str(rng.choice(DTYPES)))
    if X.dtype.kind != "f" or dtype == np.float64:
        return X
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        spread = np.abs(X).max() or 1.0
        return np.clip(np.rint(X / spread * 100), limits.min, limits.max).astype(dtype)
    with np.errstate(over="ignore", under="ignore"):
        narrow = X.astype(dtype)
    return narrow if np.isfinite(narrow).all() else X
