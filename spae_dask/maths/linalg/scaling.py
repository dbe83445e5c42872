"""Arrays of any magnitude: exact scaling, so that squares neither overflow nor vanish.

Data may hold columns of size 1e100 or 1e-100. Every routine that squares entries first divides by a power of two,
which is exact, or works on columns of unit length.
"""

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput, NonFiniteInput

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]

PANEL_COLUMNS = 4096
"""Columns of a wide matrix that are worked on at a time, where what is made of them need not be held as a whole."""


def unit_scaled(core: npt.ArrayLike) -> tuple[FloatArray, float]:
    """Divide a matrix by the power of two just above its largest absolute entry.

    Parameters
    ----------
    core : array_like (m, d)
        Any finite matrix.

    Returns
    -------
    scaled : ndarray (m, d) of float64
        ``core / scale``, largest absolute entry in ``[1/2, 1)``; a matrix that is zero or scaled already is returned
        as it is.
    scale : float
        A power of two, so the division is exact.

    Raises
    ------
    InvalidInput
        If ``core`` is not two-dimensional.
    NonFiniteInput
        If it holds NaN or infinity.
    """
    matrix = np.asarray(core, dtype=np.float64)
    if matrix.ndim != 2:
        raise InvalidInput(f"the core has {matrix.ndim} dimensions; give a matrix of shape (m, d)")
    exponent = _exponent(matrix)
    return (np.ldexp(matrix, -exponent) if exponent else matrix), float(np.ldexp(1.0, exponent))


def scale_in_place(core: FloatArray) -> None:
    """Make a matrix of the caller's own what :func:`unit_scaled` makes of it, without a copy.

    Parameters
    ----------
    core : ndarray (m, d)
        Any finite matrix. It is overwritten.

    Raises
    ------
    NonFiniteInput
        If it holds NaN or infinity.
    """
    exponent = _exponent(core)
    if exponent:
        np.ldexp(core, -exponent, out=core)


def _exponent(matrix: FloatArray) -> int:
    """Exponent of the power of two just above the largest absolute entry; 0 for a matrix of zeros."""
    # not from the absolute values, which would take as much memory as the matrix
    largest = max(float(np.max(matrix, initial=0.0)), -float(np.min(matrix, initial=0.0)))
    if not np.isfinite(largest):
        raise NonFiniteInput(
            "the core holds NaN or infinite entries. Clean the data, or choose how missing values are filled."
        )
    return int(np.frexp(largest)[1])


def unit_columns(C: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Columns of unit length, and the lengths, whatever their magnitudes; zero columns stay zero.

    Parameters
    ----------
    C : ndarray (m, r)
        Finite matrix.

    Returns
    -------
    unit : ndarray (m, r)
        Unit or zero columns.
    norms : ndarray (r,)
        Their lengths in ``C``.
    """
    largest = np.maximum(np.max(C, axis=0, initial=0.0), -np.min(C, axis=0, initial=0.0))
    exponents = np.frexp(largest)[1]
    unit = np.ldexp(C, -exponents)
    lengths = np.sqrt(squared_columns(unit))
    unit /= np.where(lengths > 0.0, lengths, 1.0)
    return unit, np.ldexp(lengths, exponents)


def squared_columns(B: FloatArray) -> FloatArray:
    """Squared length of every column, ``(d,)``."""
    result: FloatArray = np.einsum("ij,ij->j", B, B)
    return result
