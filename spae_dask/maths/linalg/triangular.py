"""Running triangular factor: R with R'R = X'X, updated by rows in constant memory.

LAPACK's ``tpqrt`` factors a triangle stacked on a dense or triangular block without touching the zeros. Stacking two
triangles is the reduction step of TSQR (Benson, Gleich & Demmel 2013). Householder transformations are backward
stable, so singular values down to u ||X|| survive, where a Gram matrix keeps only those above sqrt(u) ||X||.
"""

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dtpqrt, dtrtri

Floats = npt.NDArray[np.float64]


def block_size(d: int) -> int:
    """Panel width of tpqrt that measured fastest: narrow for few columns, 32 for many."""
    return int(min(d, max(8, min(32, d // 16))))


def add_rows(triangle: Floats, rows: Floats) -> Floats:
    """Triangle of ``[triangle; rows]``.

    Parameters
    ----------
    triangle : ndarray (d, d), column-major
        Upper triangular factor so far; overwritten.
    rows : ndarray (m, d), column-major
        New rows; overwritten.

    Returns
    -------
    ndarray (d, d)
        The updated factor, in the memory of ``triangle`` if that is column-major.
    """
    return _tpqrt(0, triangle, rows)


def stack_triangles(upper: Floats, lower: Floats) -> Floats:
    """Triangle of ``[upper; lower]``, both (d, d) upper triangular; neither is written to."""
    rows = np.array(lower, order="F")
    for column in range(rows.shape[1]):
        rows[column + 1 :, column] = 0.0
    return _tpqrt(upper.shape[0], np.array(upper, order="F"), rows)


def _tpqrt(trapezoid_rows: int, triangle: Floats, rows: Floats) -> Floats:
    updated, _, _, info = dtpqrt(
        trapezoid_rows, block_size(triangle.shape[0]), triangle, rows, overwrite_a=1, overwrite_b=1
    )
    assert info == 0, f"tpqrt refused its argument {-info}"
    result: Floats = updated
    return result


def positive_diagonal(triangle: Floats) -> Floats:
    """The same factor with a nonnegative diagonal, which makes it unique for full column rank."""
    signs = np.where(np.diag(triangle) < 0, -1.0, 1.0)
    result: Floats = np.triu(triangle) * signs[:, None]
    return result


def inverse(triangle: Floats) -> Floats:
    """Inverse of an upper triangular matrix without zeros on its diagonal.

    LAPACK is called directly: on the ten columns of a support scipy's checks cost more than the inverse itself.
    """
    if triangle.size == 0:
        return np.zeros((0, 0))
    inverted, info = dtrtri(triangle)
    assert info == 0, f"entry {info} of the diagonal is zero"
    result: Floats = inverted
    return result
