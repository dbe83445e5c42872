"""The truncated power method: power steps that keep the r largest entries.

Yuan & Zhang, "Truncated power method for sparse eigenvalue problems", JMLR 14 (2013), Algorithm 1. It climbs
``x'Ax`` over unit vectors with at most r nonzeros, where ``A = core'core``: on a positive semidefinite A no step goes
down (their Proposition 1), so it ends in a vector that no power step improves, which need not be the best one. Further
components follow from deflation; with "generalised" the objective becomes ``x'Ax / x'Bx``, ``B = I - QQ'``.

To check an answer: x is the leading eigenvector of A restricted to its own support.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from spae_dask.baselines.deflation import Deflation, by_variance, check_deflation, clear_exhausted, deflate, variances
from spae_dask.baselines.inputs import cardinalities, scaled_core
from spae_dask.errors import InvalidInput
from spae_dask.flags import flags_checked
from spae_dask.maths.linalg.scaling import FloatArray
from spae_dask.maths.linalg.spectral import fix_signs

# relative loss of objective that is rounding and not a step down
ROUNDING = 1e-12
# x lies in the span of the earlier components when x'Bx is below this
NO_NEW_DIRECTION = 1e-10


@flags_checked
def tpower(
    core: npt.ArrayLike,
    n_nonzero: int | Sequence[int],
    n_components: int = 1,
    *,
    deflation: Deflation = "projection",
    start: Literal["largest-variance", "spread"] | npt.ArrayLike = "largest-variance",
    warm_path: bool = False,
    max_iter: int = 200,
    tol: float = 1e-7,
    gram: bool = False,
) -> FloatArray:
    """Sparse components by the truncated power method.

    Parameters
    ----------
    core : array_like, shape (m, d)
        A core of X, so that A = core'core; or with `gram` the positive semidefinite matrix A itself, (d, d).
    n_nonzero : int or sequence of int, length n_components
        Nonzeros allowed in each component, at least 1.
    n_components : int
        Number of components k.
    deflation : {"projection", "schur", "orthogonalised", "generalised", "hotelling"}
        Deflation that removes a component before the search for the next; "hotelling" only with `gram`.
    start : {"largest-variance", "spread"} or array_like, shape (d, n_components)
        First vector of each search: the one column of largest variance, equal weights on the r columns of largest
        variance, or as given (shape (d,) will do for one component). A start that carries no variance gives way to
        "largest-variance".
    warm_path : bool
        True to search with 8r, 4r and 2r nonzeros first; each search starts from the result of the one before.
    max_iter : int
        Most power steps in each search.
    tol : float
        A search ends when the objective grows by less than this part of itself.
    gram : bool
        True if `core` is A itself.

    Returns
    -------
    ndarray, shape (d, n_components)
        H, with unit columns of at most `n_nonzero` nonzeros, largest entry positive. Columns are zero once nothing
        is left to explain.

    Raises
    ------
    InvalidInput
        If an argument is out of its range or of the wrong shape.
    NonFiniteInput
        If `core` holds NaN or infinite entries.

    References
    ----------
    Yuan & Zhang, JMLR 14 (2013) 899-925.

    Notes
    -----
    With "generalised", weight on directions already taken is free: only ``x - QQ'x`` is determined by the objective.
    """
    check_deflation(deflation, gram=gram)
    if max_iter < 1 or not tol >= 0:
        raise InvalidInput(f"max_iter is {max_iter} and tol is {tol}; give at least 1 and at least 0")
    L, _ = scaled_core(core, gram=gram)
    d = L.shape[1]
    sizes = cardinalities(n_nonzero, n_components, d)
    given = None if isinstance(start, str) else _given_starts(start, (d, n_components))
    if given is None and start not in ("largest-variance", "spread"):
        raise InvalidInput(f"start is {start!r}; choose 'largest-variance', 'spread', or give vectors")

    H = np.zeros((d, n_components))
    Q = np.zeros((d, 0))
    before = left = variances(L, gram=gram)
    for j, r in enumerate(sizes):
        if j > 0:
            L, Q = deflate(L, H[:, j - 1], Q, method=deflation, gram=gram)
            # columns without variance matter if A is indefinite
            left = variances(L, gram=gram) if deflation == "hotelling" else clear_exhausted(L, before, gram=gram)
        if not left.max() > 0:
            break
        search = _Search(L, Q if deflation == "generalised" else Q[:, :0], gram=gram)
        stages = [min(d, factor * r) for factor in (8, 4, 2, 1)] if warm_path else [r]
        if given is not None:
            x = given[:, j]
        elif start == "spread":
            x = _spread(left, stages[0])
        else:
            x = _one_column(left, search.Q)
        for size in stages:
            x = truncate(x, size)
            if not search.objective(x, search.product(x)) > 0:
                x = _one_column(left, search.Q)
            x = search.climb(x, size, max_iter, tol)
        H[:, j] = x
    return fix_signs(H)


def truncate(y: FloatArray, r: int) -> FloatArray:
    """Unit vector of the r entries of largest magnitude, the first of them where they tie.

    Parameters
    ----------
    y : ndarray, shape (d,)
        Any vector.
    r : int
        Entries to keep, at least 1.

    Returns
    -------
    ndarray, shape (d,)
        Zero if y is.
    """
    size = np.abs(y)
    largest = float(size.max())
    if largest == 0:
        return np.zeros_like(y)
    x = y / largest  # so that the length neither over- nor underflows
    if r < len(y):
        cut = np.partition(size, len(y) - r)[len(y) - r]
        keep = size > cut
        tied = np.flatnonzero(size == cut)
        keep[tied[: r - int(np.count_nonzero(keep))]] = True
        x[~keep] = 0.0
    return x / float(np.linalg.norm(x))


class _Search:
    """One component's objective ``x'Ax / x'Bx``, ``B = I - QQ'``, which is ``x'Ax`` when Q has no columns."""

    def __init__(self, core: FloatArray, Q: FloatArray, *, gram: bool) -> None:
        self.core = core
        self.Q = Q
        self.gram = gram

    def product(self, x: FloatArray) -> FloatArray:
        """A x."""
        y = self.core @ x
        return y if self.gram else y @ self.core

    def objective(self, x: FloatArray, Ax: FloatArray) -> float:
        """The quotient at a unit vector x, 0 where x brings no new direction."""
        new = 1.0 - float(np.sum((x @ self.Q) ** 2))
        return float(x @ Ax) / new if new > NO_NEW_DIRECTION else 0.0

    def climb(self, x: FloatArray, r: int, max_iter: int, tol: float) -> FloatArray:
        """Truncated power steps from x until the objective stands still.

        A quotient of value f cannot fall when ``x'(A - fB)x = x'(A + fQQ')x - f`` does not (Dinkelbach), and that
        matrix is positive semidefinite with A: so a power step with ``A + fQQ'`` is monotone for the quotient.
        """
        Ax = self.product(x)
        f = self.objective(x, Ax)
        for _ in range(max_iter):
            step = Ax + f * (self.Q @ (x @ self.Q)) if self.Q.shape[1] else Ax
            x_new = truncate(step, r)
            Ax_new = self.product(x_new)
            f_new = self.objective(x_new, Ax_new)
            shift = 1e-4 * f
            # only for an indefinite A: with a large enough multiple of the identity added, no step lowers the objective
            while f_new < (1.0 - ROUNDING) * f and shift < f / ROUNDING:
                x_new = truncate(step + shift * x, r)
                Ax_new = self.product(x_new)
                f_new = self.objective(x_new, Ax_new)
                shift *= 10.0
            if f_new < f:
                return x
            standing = f_new - f <= tol * f_new
            x, Ax, f = x_new, Ax_new, f_new
            if standing:
                break
        return x


def _one_column(left: FloatArray, Q: FloatArray) -> FloatArray:
    """The unit vector of the column of largest objective, the first of them where they tie."""
    new = 1.0 - np.sum(Q**2, axis=1)
    objectives = np.where(new > NO_NEW_DIRECTION, left / np.maximum(new, NO_NEW_DIRECTION), 0.0)
    x = np.zeros(len(left))
    x[by_variance(objectives)[0]] = 1.0
    return x


def _spread(left: FloatArray, r: int) -> FloatArray:
    """Equal weights on the r columns of largest variance."""
    x = np.zeros(len(left))
    x[by_variance(left)[:r]] = 1.0
    return x


def _given_starts(start: npt.ArrayLike, shape: tuple[int, int]) -> FloatArray:
    """The start vectors a caller gave, one a column."""
    vectors = np.asarray(start, dtype=np.float64)
    if vectors.ndim == 1 and shape[1] == 1:
        vectors = vectors[:, np.newaxis]
    if vectors.shape != shape:
        raise InvalidInput(f"start has shape {vectors.shape}; give one column a component, {shape}")
    if not np.isfinite(vectors).all():
        raise InvalidInput("start holds NaN or infinite entries")
    return vectors
