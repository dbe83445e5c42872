"""Checks of the baselines' arguments: a finite matrix of unit scale and one number a component."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.scaling import FloatArray, unit_scaled

SYMMETRY_TOLERANCE = 1e-10


def scaled_core(core: npt.ArrayLike, *, gram: bool = False) -> tuple[FloatArray, float]:
    """Check a core, or a Gram matrix, and bring its largest entry to between 1/2 and 1.

    Parameters
    ----------
    core : array_like, shape (m, d)
        A core, or with `gram` a symmetric (d, d) matrix.
    gram : bool
        True if `core` must be square and symmetric.

    Returns
    -------
    matrix : ndarray, shape (m, d)
        ``core / scale``.
    scale : float
        A power of two, so that no digit changes.

    Raises
    ------
    InvalidInput
        If the array is not a matrix with a column, or `gram` and it is not symmetric.
    NonFiniteInput
        If an entry is NaN or infinite.
    """
    matrix, scale = unit_scaled(core)
    if matrix.shape[1] == 0:
        raise InvalidInput(f"core has shape {matrix.shape}; give a matrix with at least one column")
    if gram and matrix.shape[0] != matrix.shape[1]:
        raise InvalidInput(f"core has shape {matrix.shape}; with gram=True give a square symmetric matrix")
    if gram:
        # only a symmetric matrix passes for a generic vector, and two products are cheaper than a transposition
        generic = np.cos(np.arange(1.0, len(matrix) + 1.0))
        asymmetry = float(np.abs(matrix @ generic - generic @ matrix).max())
        if asymmetry > SYMMETRY_TOLERANCE * len(matrix):
            raise InvalidInput(
                "core is not symmetric: entries differ from their mirror by up to "
                f"{np.abs(matrix - matrix.T).max():.1e} of the largest. With gram=True give X'X, a covariance or "
                "a correlation matrix."
            )
    return matrix, scale


def per_component(value: Any, n_components: int, name: str) -> FloatArray:
    """One number a component, from a single number or a sequence of them.

    Parameters
    ----------
    value : float or sequence of float, length n_components
        The argument as given.
    n_components : int
        Number of components, at least 1.
    name : str
        The argument's name, for the error message.

    Returns
    -------
    ndarray, shape (n_components,)

    Raises
    ------
    InvalidInput
        If `n_components` is below 1 or the length is neither 1 nor `n_components`.
    """
    if n_components < 1:
        raise InvalidInput(f"n_components is {n_components}; give at least 1")
    values = np.asarray(value, dtype=np.float64)
    if values.shape not in ((), (n_components,)):
        raise InvalidInput(
            f"{name} has shape {values.shape}; give one number, or one for each of the {n_components} components"
        )
    return np.array(np.broadcast_to(values, (n_components,)))


def cardinalities(n_nonzero: int | Sequence[int], n_components: int, d: int) -> list[int]:
    """Largest number of nonzeros allowed in each component.

    Parameters
    ----------
    n_nonzero : int or sequence of int, length n_components
        The numbers wanted, each at least 1; above `d` they mean `d`.
    n_components, d : int
        Number of components and of columns.

    Returns
    -------
    list of int, length n_components

    Raises
    ------
    InvalidInput
        If a number is below 1 or not whole, or there are too many or too few.
    """
    sizes = per_component(n_nonzero, n_components, "n_nonzero")
    if not ((sizes >= 1) & (sizes == np.floor(sizes))).all():
        raise InvalidInput(f"n_nonzero is {n_nonzero}; give whole numbers of at least 1")
    return [int(size) for size in np.minimum(sizes, d)]
