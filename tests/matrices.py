"""Matrices of prescribed spectrum, rank, coherence and awkwardness, shared by the tests of all rooms.

Each maker is handed a Generator or none at all, so a test says in one line what it runs on.
"""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def orthonormal(rng: np.random.Generator, rows: int, columns: int) -> FloatArray:
    """Random ``(rows, columns)`` matrix with orthonormal columns, ``columns <= rows``."""
    return np.linalg.qr(rng.standard_normal((rows, columns)))[0]


def with_spectrum(rng: np.random.Generator, m: int, d: int, sigma: npt.ArrayLike) -> FloatArray:
    """Random ``(m, d)`` matrix whose nonzero singular values are ``sigma``."""
    values = np.asarray(sigma, dtype=np.float64)
    return (orthonormal(rng, m, values.size) * values) @ orthonormal(rng, d, values.size).T


def power_law(rng: np.random.Generator, m: int, d: int, decay: float = 1.0) -> FloatArray:
    """Full-rank matrix with singular values ``1, 2**-decay, 3**-decay, ...``."""
    return with_spectrum(rng, m, d, np.arange(1, min(m, d) + 1, dtype=np.float64) ** -decay)


def factor_model(rng: np.random.Generator, m: int, d: int, rank: int, noise: float) -> FloatArray:
    """``rank`` strong factors with sparse loadings, plus Gaussian noise in every entry."""
    loadings = rng.standard_normal((rank, d)) * (rng.random((rank, d)) < 0.3)
    return rng.standard_normal((m, rank)) @ loadings + noise * rng.standard_normal((m, d))


def low_rank(rng: np.random.Generator, m: int, d: int, rank: int) -> FloatArray:
    """Exactly rank-deficient matrix of generic columns."""
    return rng.standard_normal((m, rank)) @ rng.standard_normal((rank, d))


def heavy_tailed(rng: np.random.Generator, m: int, d: int) -> FloatArray:
    """Columns whose norms span several orders of magnitude, so that few carry most leverage."""
    return rng.standard_normal((m, d)) * np.exp(2.0 * rng.standard_normal(d))


def awkward(rng: np.random.Generator) -> dict[str, FloatArray]:
    """Small matrices that break careless code, by name."""
    plain = rng.standard_normal((12, 7))
    zero_columns = plain.copy()
    zero_columns[:, [0, 4]] = 0.0
    constant = plain.copy()
    constant[:, 2] = 3.0
    duplicated = np.hstack([plain[:, :4], plain[:, :4]])
    huge_and_tiny = plain * np.array([1.0, 1e100, 1.0, 1e-100, 1.0, 1.0, 1e-100])
    return {
        "zero": np.zeros((5, 4)),
        "one column": plain[:, :1],
        "one row": plain[:1],
        "ones": np.ones((10, 3)),
        "zero columns": zero_columns,
        "constant column": constant,
        "duplicated columns": duplicated,
        "huge and tiny columns": huge_and_tiny,
        "all huge": plain * 1e100,
        "all tiny": plain * 1e-100,
        "wide": rng.standard_normal((4, 9)),
        "rank two": low_rank(rng, 10, 8, 2),
        "identity": np.eye(6),
    }
