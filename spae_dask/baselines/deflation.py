"""Five deflations, which remove a found component before the search for the next one.

Mackey, "Deflation methods for sparse PCA" (2008). For an eigenvector x all five agree. A sparse x is not one, and they
differ in what stays positive semidefinite and in what is left along x:

==============  ======================================  =====================  ==================================
method          the new A = core'core                   the new core           after it
==============  ======================================  =====================  ==================================
hotelling       A - (x'Ax) xx'                          (none exists)          x'Ax = 0, may become indefinite
projection      (I - xx') A (I - xx')                   L - (Lx) x'            Ax = 0
schur           A - Ax x'A / x'Ax                       L - P_{Lx} L           Ax = 0, later scores uncorrelated
orthogonalised  projection by q, x cleared of old q's   L - (Lq) q'            Ax = 0 for this and all earlier x
generalised     the same                                the same               the same; also changes the objective
==============  ======================================  =====================  ==================================

Generalised deflation takes away the same q as the orthogonalised one, since its B is the projection I - QQ'. It differs
in what the next component maximises: x'Ax / x'Bx instead of x'Ax, so that weight laid on directions already taken
earns nothing and costs nothing. That half belongs to the search; see `spae_dask.baselines.tpower`.
"""

from typing import Literal, get_args

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.flags import flags_checked
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, squared_columns

Deflation = Literal["hotelling", "projection", "schur", "orthogonalised", "generalised"]

# A column is exhausted when its squared norm fell to this part of what it was: rounding noise is all that is left.
NOISE_IN_CORE = 1e-24
NOISE_IN_GRAM = 1e-12

# Variances closer than this part of the largest tie: a factor of a correlation matrix has unit columns up to rounding.
TIE = 1e-12

# x lies in the span of the earlier ones if at most this part of its length is outside
DEPENDENT = 1e-12


def check_deflation(method: str, *, gram: bool) -> None:
    """Refuse an unknown method, and Hotelling's on a core.

    Parameters
    ----------
    method : str
        Name of the deflation.
    gram : bool
        True if the deflation runs on a Gram matrix.

    Raises
    ------
    InvalidInput
        If the deflation is unknown, or does not work on a core.
    """
    if method not in get_args(Deflation):
        raise InvalidInput(f"deflation is {method!r}. Choose one of {', '.join(get_args(Deflation))}.")
    if method == "hotelling" and not gram:
        raise InvalidInput(
            "deflation 'hotelling' can leave an indefinite matrix, which has no core. Give the Gram matrix "
            "with gram=True, or use 'projection'."
        )


@flags_checked
def deflate(
    core: FloatArray, x: FloatArray, Q: FloatArray, *, method: Deflation, gram: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Take the component `x` away from a core or a Gram matrix.

    Parameters
    ----------
    core : ndarray, shape (m, d)
        The core, or with `gram` the (d, d) matrix A, as earlier deflations left it.
    x : ndarray, shape (d,)
        Unit vector to take away.
    Q : ndarray, shape (d, j)
        Orthonormal directions taken away so far, as earlier calls returned it; start with ``np.zeros((d, 0))``.
    method : {"hotelling", "projection", "schur", "orthogonalised", "generalised"}
        See the module's table.
    gram : bool
        True if `core` is the Gram matrix itself.

    Returns
    -------
    core : ndarray, shape (m, d)
        A new array; `core` itself is not written to.
    Q : ndarray, shape (d, j) or (d, j + 1)
        With one more direction, for the last two methods, unless x brings none.

    Raises
    ------
    InvalidInput
        If the deflation is unknown, or does not work on a core.
    """
    check_deflation(method, gram=gram)
    if method == "hotelling":
        return core - float(x @ core @ x) * np.outer(x, x), Q
    if method == "schur":
        return schur_complement(core, x, gram=gram), Q
    if method == "projection":
        return project_out(core, x, gram=gram), Q
    q = new_direction(Q, x)
    if q is None:
        return core.copy(), Q
    return project_out(core, q, gram=gram), np.column_stack([Q, q])


def project_out(core: FloatArray, q: FloatArray, *, gram: bool = False) -> FloatArray:
    """Projection deflation: no row of the new core has a part along q.

    Parameters
    ----------
    core : ndarray, shape (m, d)
        The core, or with `gram` the (d, d) matrix A.
    q : ndarray, shape (d,)
        Unit vector.
    gram : bool
        True if `core` is the Gram matrix itself.

    Returns
    -------
    ndarray, shape (m, d)
        ``core (I - qq')``, or with `gram` ``(I - qq') A (I - qq')``, exactly symmetric if A is.
    """
    y = core @ q
    if not gram:
        return core - np.outer(y, q)
    return core - (np.outer(q, y) + np.outer(y, q)) + float(q @ y) * np.outer(q, q)


def schur_complement(core: FloatArray, x: FloatArray, *, gram: bool = False) -> FloatArray:
    """Schur complement deflation: residual of the data after a regression on the scores of x.

    Parameters
    ----------
    core : ndarray, shape (m, d)
        The core, or with `gram` the (d, d) matrix A.
    x : ndarray, shape (d,)
        Vector of any length but zero.
    gram : bool
        True if `core` is the Gram matrix itself.

    Returns
    -------
    ndarray, shape (m, d)
        ``core - P core`` with P the projection on ``core x``, or with `gram` ``A - Ax x'A / x'Ax``. Unchanged if x
        carries no variance.
    """
    y = core @ x
    if gram:
        variance = float(x @ y)
        return core - np.outer(y, y) / variance if variance > 0 else core.copy()
    length = float(np.linalg.norm(y))
    if length == 0:
        return core.copy()
    y = y / length
    return core - np.outer(y, y @ core)


def new_direction(Q: FloatArray, x: FloatArray) -> FloatArray | None:
    """Part of `x` that is orthogonal to the directions already taken, at unit length.

    Parameters
    ----------
    Q : ndarray, shape (d, j)
        Orthonormal columns.
    x : ndarray, shape (d,)
        Unit vector.

    Returns
    -------
    ndarray, shape (d,), or None
        None if x lies in the span of Q.
    """
    q = x - Q @ (Q.T @ x)
    if float(np.linalg.norm(q)) <= DEPENDENT:
        return None
    q = q - Q @ (Q.T @ q)  # twice is enough
    return q / float(np.linalg.norm(q))


def variances(core: FloatArray, *, gram: bool = False) -> FloatArray:
    """Squared column norms of a core, or the diagonal of a Gram matrix.

    Parameters
    ----------
    core : ndarray, shape (m, d)
        The core, or with `gram` the (d, d) matrix A.
    gram : bool
        True if `core` is the Gram matrix itself.

    Returns
    -------
    ndarray, shape (d,)
    """
    return np.diagonal(core).copy() if gram else squared_columns(core)


def by_variance(left: FloatArray) -> IntArray:
    """Columns in order of falling variance, lowest index first where they tie up to rounding.

    Parameters
    ----------
    left : ndarray, shape (d,)
        `variances`, the largest above zero.

    Returns
    -------
    ndarray, shape (d,)
        Indices of all columns.
    """
    return np.argsort(-np.round(left / left.max() / TIE), kind="stable")


def clear_exhausted(core: FloatArray, before: FloatArray, *, gram: bool = False) -> FloatArray:
    """Set to zero what deflation left of columns that are used up, lest the next component be fitted to rounding.

    Parameters
    ----------
    core : ndarray, shape (m, d)
        The deflated core, or with `gram` the deflated (d, d) matrix; written to. It must be positive semidefinite.
    before : ndarray, shape (d,)
        `variances` before any deflation.
    gram : bool
        True if `core` is the Gram matrix itself.

    Returns
    -------
    ndarray, shape (d,)
        The variances now, 0 for exhausted columns.
    """
    now = variances(core, gram=gram)
    exhausted = now <= (NOISE_IN_GRAM if gram else NOISE_IN_CORE) * before
    core[:, exhausted] = 0.0
    if gram:
        core[exhausted, :] = 0.0
    now[exhausted] = 0.0
    return now
