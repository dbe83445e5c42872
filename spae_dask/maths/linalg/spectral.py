"""Singular values and right singular vectors of a core, and a core from a Gram matrix.

A core is any matrix L with ``L'L = X'X``. Everything this package asks of X from the right, that is ``V_k``,
``sigma`` and losses, is the same for L.
"""

from collections.abc import Callable

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dormqr, dpotrf, dsytrd
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from spae_dask.errors import InvalidInput, NonFiniteInput
from spae_dask.maths.linalg.candidates import rows_triangle
from spae_dask.maths.linalg.scaling import FloatArray, unit_scaled

# A core with more columns than this is neither copied nor factored whole if vectors of few columns are wanted.
WIDE = 8192

# Smallest ratio to the largest singular value at which vectors computed through the triangle keep ten digits.
WIDE_CUT = 1e-6

# A full SVD takes seconds up to this many rows or columns. Above, the smaller Gram matrix is tried first.
SVD_LIMIT = 1500

# Up to this many rows or columns a full SVD takes no time that matters.
SMALL = 300

# Length outside the columns before it from which a unit column is clearly apart from them.
_CLEAR = 1e-4

# A few leading vectors of matrices with more rows than this are found by Lanczos iteration.
LANCZOS_FROM = 150
MOST_BY_LANCZOS = 5

Choose = Callable[[FloatArray], int]
"""A number of vectors, given all singular values, descending."""


def column_signs(V: FloatArray) -> FloatArray:
    """Signs ``(k,)`` that make the entry of largest magnitude of every column positive, lowest index on ties."""
    if V.size == 0:
        return np.ones(V.shape[1])
    leading = V[np.argmax(np.abs(V), axis=0), np.arange(V.shape[1])]
    return np.where(leading < 0.0, -1.0, 1.0)


def fix_signs(V: FloatArray) -> FloatArray:
    """Flip columns so that the entry of largest magnitude of each is positive.

    Parameters
    ----------
    V : ndarray (d, k)
        Vectors defined up to sign, as columns.

    Returns
    -------
    ndarray (d, k)
        A copy; on ties the entry of lowest index decides.
    """
    return V * column_signs(V)


def thin_svd(A: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Thin singular value decomposition of any finite matrix.

    LAPACK's divide and conquer may fail to converge where its QR iteration, which is slower, does not.

    Parameters
    ----------
    A : ndarray (m, d)
        Any matrix.

    Returns
    -------
    U : ndarray (m, min(m, d))
        Left singular vectors as columns.
    sigma : ndarray (min(m, d),)
        Singular values, descending.
    Vt : ndarray (min(m, d), d)
        Right singular vectors as rows.
    """
    try:
        U, sigma, Vt = np.linalg.svd(A, full_matrices=False)
    except np.linalg.LinAlgError:
        U, sigma, Vt = scipy.linalg.svd(A, full_matrices=False, lapack_driver="gesvd")
    return U, sigma, Vt


def singular_values(A: FloatArray) -> FloatArray:
    """Singular values of any finite matrix, descending; see :func:`thin_svd`."""
    try:
        return np.asarray(np.linalg.svd(A, compute_uv=False), dtype=A.dtype)
    except np.linalg.LinAlgError:
        return thin_svd(A)[1]


def _gram_svd(core: FloatArray, k: int | Choose) -> tuple[FloatArray, FloatArray] | None:
    """All singular values and k right singular vectors, by the smaller Gram matrix; None if that loses digits.

    Values are right to about ``sqrt(u)`` of the largest, and 0 below. The loss of PCA has ten digits if the spectrum
    beyond k holds more than 1e-4 of the total. A function chooses k, given the values.
    """
    wide = core.shape[0] < core.shape[1]
    eigenvalues, vectors = _eigenpairs(core @ core.T if wide else core.T @ core)
    kept = np.where(eigenvalues > 8.0 * np.finfo(np.float64).eps * eigenvalues[0], eigenvalues, 0.0)
    if not _is_precise(kept, 1 if callable(k) else k):
        return None
    width = k(np.sqrt(kept)) if callable(k) else k
    if not _is_precise(kept, width):
        return None
    leading = vectors(width)
    # v = L'u / sigma; one QR makes the columns orthonormal to the last digit
    return np.sqrt(kept), np.linalg.qr(core.T @ leading)[0] if wide else leading


def _is_precise(eigenvalues: FloatArray, k: int) -> bool:
    return bool(np.sum(eigenvalues[k:]) > 1e-4 * np.sum(eigenvalues))


def _eigenpairs(matrix: FloatArray) -> tuple[FloatArray, Callable[[int], FloatArray]]:
    """All eigenvalues, descending, and a function of k that returns k eigenvectors.

    One reduction of the matrix to a tridiagonal one serves both.
    """
    m = matrix.shape[0]
    reduced, diagonal, off, tau, _ = dsytrd(matrix, lower=1, lwork=64 * m)

    def leading(k: int) -> FloatArray:
        if not k:
            return np.zeros((m, 0))
        last = {"select": "i", "select_range": (m - k, m - 1), "lapack_driver": "stemr"}
        vectors: FloatArray = scipy.linalg.eigh_tridiagonal(diagonal, off, **last)[1][:, ::-1]
        vectors[1:] = dormqr("L", "N", reduced[1:, :-1], tau, vectors[1:], 64 * m)[0]
        return vectors

    return scipy.linalg.eigvalsh_tridiagonal(diagonal, off)[::-1], leading


def _wide_svd(core: FloatArray, k: int) -> tuple[FloatArray, FloatArray] | None:
    """The same of a wide core, with k vectors, by way of its small triangle; None if a vector would lose digits."""
    U, sigma, _ = thin_svd(rows_triangle([core], np.zeros(0, dtype=np.intp)).T)
    if not sigma[k - 1] > WIDE_CUT * sigma[0]:
        return None
    # v = L'u / sigma; one QR makes the columns orthonormal to the last digit
    return sigma, np.linalg.qr(core.T @ (U[:, :k] / sigma[:k]))[0]


def right_singular(core: FloatArray, k: int | None = None) -> tuple[FloatArray, FloatArray]:
    """All singular values and the first right singular vectors of a core.

    An SVD, so small singular values are accurate to rounding of the largest one. Only when vectors are asked for of a
    core of more than ``SVD_LIMIT`` rows and columns, and the spectrum beyond ``k`` holds more than 1e-4 of the total,
    are they the cheaper eigenvectors of the smaller Gram matrix; the loss of PCA then still has ten digits.

    Parameters
    ----------
    core : ndarray (m, d)
        Wide or tall.
    k : int, optional
        Number of vectors; all ``min(m, d)`` if None, 0 for singular values alone, always by SVD.

    Returns
    -------
    sigma : ndarray (min(m, d),)
        Singular values, descending.
    V_k : ndarray (d, min(k, m, d))
        Right singular vectors as columns, signs fixed by :func:`fix_signs`.
    """
    scaled, scale = unit_scaled(core)
    width = min(scaled.shape) if k is None else min(k, *scaled.shape)
    if k == 0:
        return singular_values(scaled) * scale, np.zeros((scaled.shape[1], 0))
    small = k is None or min(scaled.shape) <= SVD_LIMIT
    wide = scaled.shape[1] > WIDE and width < min(scaled.shape)
    found = (None if small else _gram_svd(scaled, width)) or (_wide_svd(scaled, width) if wide else None)
    if found is None:
        _, sigma, Vt = thin_svd(scaled)
        V = Vt.T
    else:
        sigma, V = found
    return sigma * scale, fix_signs(V[:, :width])


def spectrum_of_products(core: FloatArray, k: int | Choose) -> tuple[FloatArray, FloatArray] | None:
    """The same of a core that was made of products of columns, whose rounding it has already; None for a small core.

    All comes from the Gram matrix, so that the singular values cost nothing beside the vectors. A function that chooses
    k is not called if they lack digits for a single vector.
    """
    scaled, scale = unit_scaled(core)
    if min(scaled.shape) <= SMALL:
        return None
    found = _gram_svd(scaled, (lambda sigma: k(sigma * scale)) if callable(k) else min(k, *scaled.shape))
    return None if found is None else (found[0] * scale, fix_signs(found[1]))


def leading_eigenvectors(multiply: Callable[[FloatArray], FloatArray], count: int, start: FloatArray) -> FloatArray:
    """Top eigenvectors of a positive semidefinite matrix, to six digits: starts of a search.

    Solvers of a few eigenvectors may return too few, or none, where eigenvalues are equal, as those of whitened data
    are. Then all eigenvectors are computed.

    Parameters
    ----------
    multiply : callable
        Product of the matrix with a vector ``(m,)``, or with a matrix of vectors ``(m, p)``.
    count : int
        Vectors wanted.
    start : ndarray (m,)
        Vector that Lanczos iteration begins with.

    Returns
    -------
    ndarray (m, min(count, m))
        Orthonormal columns, by descending eigenvalue.
    """
    m, wanted = start.size, min(count, start.size)
    if wanted == 0:
        return np.zeros((m, 0))
    if m > LANCZOS_FROM and wanted <= MOST_BY_LANCZOS:
        vectors = _by_lanczos(multiply, wanted, start)
        if _are_orthonormal(vectors, wanted):
            return vectors
    matrix = multiply(np.eye(m))
    ascending = scipy.linalg.eigh(matrix, subset_by_index=(m - wanted, m - 1))[1]
    if not _are_orthonormal(ascending, wanted):
        ascending = scipy.linalg.eigh(matrix, driver="evd")[1][:, -wanted:]
    descending: FloatArray = ascending[:, ::-1]
    return descending


def _by_lanczos(multiply: Callable[[FloatArray], FloatArray], count: int, start: FloatArray) -> FloatArray:
    """The same in a tenth of the time; no vectors where Lanczos iteration does not settle."""
    m, start = start.size, multiply(start)
    if not np.any(start):
        return np.zeros((m, 0))
    try:
        _, vectors = eigsh(
            LinearOperator((m, m), matvec=multiply, dtype=np.float64), k=count, which="LA", v0=start, tol=1e-6
        )
    except ArpackError:
        return np.zeros((m, 0))
    descending: FloatArray = vectors[:, ::-1]
    return descending


def _are_orthonormal(vectors: FloatArray, count: int) -> bool:
    return bool(vectors.shape[1] == count and np.allclose(vectors.T @ vectors, np.eye(count), atol=1e-8))


def numerical_rank(sigma: FloatArray) -> int:
    """Count singular values that stand above rounding, ``sigma_i > len(sigma) * eps * sigma_1``.

    Parameters
    ----------
    sigma : ndarray
        Singular values, descending.
    """
    if sigma.size == 0 or sigma[0] == 0.0:
        return 0
    return int(np.count_nonzero(sigma > sigma.size * np.finfo(np.float64).eps * sigma[0]))


def pca_loss(sigma: FloatArray, k: int) -> float:
    """Loss of the best rank-k approximation, ``||X - X_k||^2``, summed from the small singular values.

    The sum of small squares keeps its digits where ``total - explained`` would cancel. Values below the numerical rank
    are rounding noise and count as zero, so the loss is exactly 0 for ``k >= rank``.

    Parameters
    ----------
    sigma : ndarray
        All singular values, descending.
    k : int
        Rank of the approximation, ``k >= 0``.
    """
    tail = sigma[k : numerical_rank(sigma)]
    # smallest first, so that the sum is exact to rounding for any decay
    return float(np.sum(tail[::-1] ** 2))


def leading_subspace(core: FloatArray, k: int) -> FloatArray:
    """Top right singular vectors, at most as many as the rank.

    Parameters
    ----------
    core : ndarray (m, d)
        Any core.
    k : int
        Vectors wanted, ``k >= 1``.

    Returns
    -------
    V_k : ndarray (d, min(k, rank))
        Orthonormal columns; none for a zero core.
    """
    sigma, V = right_singular(core, k)
    return V[:, : min(k, numerical_rank(sigma))]


def core_from_gram(gram: FloatArray) -> FloatArray:
    """Square root of a Gram matrix, as a core; see :func:`factor_gram`."""
    return factor_gram(gram)[0]


def factor_gram(gram: FloatArray, error: float = 0.0) -> tuple[FloatArray, float]:
    """Square root of a Gram matrix, and its distance from the matrix.

    The Gram matrix is scaled to unit diagonal, so that a column of size 1e-100 beside one of size 1 keeps its digits:
    every column of the result is accurate relative to its own length. Where each column is clearly apart from those
    before it, the root is Cholesky's factor (Higham 2002, Theorem 10.3), and else one made of eigenvectors. There
    negative eigenvalues are rounding and are clipped; directions below ``d u lambda_1`` are dropped. An entry larger
    than the Cauchy-Schwarz inequality allows can only be rounding noise of the smaller column, which is then taken as
    zero.

    Parameters
    ----------
    gram : ndarray (d, d)
        Symmetric positive semidefinite up to rounding.
    error : float
        Known error of its entries, over the lengths of both columns.

    Returns
    -------
    core : ndarray (m, d)
        ``core.T @ core`` equals ``gram``; ``1 <= m <= d``.
    dropped : float
        Bound on the difference of each entry, over the lengths of both columns: what was clipped and dropped, and the
        rounding of the factor.

    Raises
    ------
    InvalidInput
        If ``gram`` is not square, or clearly not positive semidefinite.
    NonFiniteInput
        If it holds NaN or infinity.
    """
    d = gram.shape[0]
    if gram.shape != (d, d):
        raise InvalidInput(f"a Gram matrix is square; this one has shape {gram.shape}")
    if not np.all(np.isfinite(gram)):
        raise NonFiniteInput("the Gram matrix holds NaN or infinite entries; check the data and their magnitude")
    lengths = np.sqrt(np.clip(np.diagonal(gram), 0.0, None))
    cosines = _cosines(gram, lengths)
    i, j = np.nonzero(np.triu(np.abs(cosines) > 1.0 + max(1e-6, 4.0 * error), 1))
    noise = np.where(lengths[i] < lengths[j], i, j)
    if np.any(lengths[noise] > 1e-6 * np.max(lengths, initial=0.0)):
        raise InvalidInput(
            "the Gram matrix is not positive semidefinite: some entry exceeds what the diagonal allows, "
            "|g_ij| <= sqrt(g_ii g_jj); check how it was computed"
        )
    lengths[noise] = 0.0
    live = lengths > 0.0
    eps = float(np.finfo(np.float64).eps)
    core, dropped = np.zeros((max(1, int(np.count_nonzero(live))), d)), 0.0
    if np.all(live):
        triangle, failed = dpotrf(cosines, lower=0, clean=1)
        if not failed and np.min(np.diagonal(triangle)) > _CLEAR:
            return triangle * lengths, (d + 1) * eps / 2
    if np.any(live):
        eigenvalues, vectors = scipy.linalg.eigh(cosines[np.ix_(live, live)], driver="evd")
        core[:, live] = (np.sqrt(np.clip(eigenvalues, 0.0, None)) * vectors).T[::-1] * lengths[live]
        kept = max(1, int(np.count_nonzero(eigenvalues > d * eps / 2 * eigenvalues[-1])))
        core = core[:kept]
        rest = np.abs(eigenvalues[: eigenvalues.size - kept])
        dropped = float(np.max(rest, initial=0.0)) + 4.0 * eps * float(eigenvalues[-1])
    return core, dropped


def _cosines(gram: FloatArray, lengths: FloatArray) -> FloatArray:
    """Gram matrix of the unit columns, exactly symmetric; zero rows for zero columns."""
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
    cosines: FloatArray = gram * inverse[:, None] * inverse
    return 0.5 * (cosines + cosines.T)
