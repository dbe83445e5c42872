"""The generalised power method: a convex climb on the sphere of codes, with a penalty on the loadings.

Journée, Nesterov, Richtárik & Sepulchre, "Generalized power method for sparse principal component analysis", JMLR 11
(2010), Algorithms 2 to 6. With columns l_i of the core and unit x in the space of codes, the two penalties climb

    l1:  sum_i [ |l_i'x| - t ]_+ ^2          l0:  sum_i [ (l_i'x)^2 - t^2 ]_+

and the columns with ``|l_i'x| > t`` are the support. The threshold is relative: ``t = gamma max||l_i||`` for l1 and
``t = sqrt(gamma) max||l_i||`` for l0, so that gamma = 1 leaves nothing. Several components are found one by one, with
the projection deflation ``L - (Lz)z'`` between them, or as a block: x becomes an orthonormal X, and the step its polar
factor. At the end the loadings are fitted again without the penalty, the support held fixed: only the support is the
method's own.

The number of nonzeros follows from gamma, roughly decreasing. To ask for a number, gamma is bisected.

To check an answer: a single-unit component is the leading right singular vector of ``core[:, support]``.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from spae_dask.baselines.deflation import by_variance, clear_exhausted, project_out, variances
from spae_dask.baselines.inputs import cardinalities, per_component, scaled_core
from spae_dask.errors import InvalidInput
from spae_dask.flags import flags_checked
from spae_dask.maths.linalg.scaling import BoolArray, FloatArray, IntArray
from spae_dask.maths.linalg.spectral import fix_signs, right_singular, thin_svd

Penalty = Literal["l0", "l1"]

BISECTIONS = 40
BISECTION_WIDTH = 1e-6
# columns are picked out before a product when they are at most this part of all
GATHER = 0.25
REFIT_STEPS = 1000
REFIT_TOL = 1e-10


@flags_checked
def gpower(
    core: npt.ArrayLike,
    *,
    penalty: Penalty = "l1",
    n_nonzero: int | Sequence[int] | None = None,
    gamma: float | Sequence[float] | None = None,
    n_components: int = 1,
    block: bool = False,
    weights: Sequence[float] | None = None,
    exactly: bool = False,
    max_iter: int = 1000,
    tol: float = 1e-4,
) -> FloatArray:
    """Sparse components by the generalised power method.

    Parameters
    ----------
    core : array_like, shape (m, d)
        A core of X. From a Gram matrix, take a factor first, such as its Cholesky factor.
    penalty : {"l0", "l1"}
        Penalty on a loading: ``"l0"`` on its presence, ``"l1"`` on its size.
    n_nonzero : int or sequence of int, length n_components
        Nonzeros allowed in each component; gamma is searched for.
    gamma : float or sequence of float, length n_components
        Relative penalty in [0, 1). Equal thresholds mean ``gamma_l0 = gamma_l1 ** 2``. Give this or `n_nonzero`.
    n_components : int
        Number of components k.
    block : bool
        True to find all components at once, without deflation.
    weights : sequence of float, length n_components
        Positive weights of the components of a block; by default 1, 1/2, 1/3, ..., which orders them.
    exactly : bool
        With `n_nonzero`: True to fill each support up to that number with the columns next in ``|l_i'x|``.
    max_iter : int
        Most steps of one climb.
    tol : float
        A climb ends when the objective grows by less than this part of itself.

    Returns
    -------
    ndarray, shape (d, n_components)
        H, with unit columns, largest entry positive. A column is zero where the penalty left no support or where
        nothing is left to explain.

    Raises
    ------
    InvalidInput
        If an argument is out of its range or of the wrong shape, or not exactly one of `n_nonzero` and `gamma` is
        given.
    NonFiniteInput
        If `core` holds NaN or infinite entries.

    Notes
    -----
    A block starts at the largest column and then, one by one, the column that sticks out most from those before,
    where the paper draws at random.

    References
    ----------
    Journée, Nesterov, Richtárik & Sepulchre, JMLR 11 (2010) 517-553.
    """
    if penalty not in ("l0", "l1"):
        raise InvalidInput(f"penalty is {penalty!r}; choose 'l0' or 'l1'")
    if (n_nonzero is None) == (gamma is None):
        raise InvalidInput("both or neither of n_nonzero and gamma are given. Give exactly one of them.")
    if max_iter < 1 or not tol >= 0:
        raise InvalidInput(f"max_iter is {max_iter} and tol is {tol}; give at least 1 and at least 0")
    if weights is not None and not block:
        raise InvalidInput("weights need block=True. Leave them out, or set block=True.")
    if exactly and n_nonzero is None:
        raise InvalidInput(
            "exactly needs n_nonzero, because gamma does not set the number of nonzeros. Leave out one of the two."
        )
    L, _ = scaled_core(core)
    mu = per_component(1.0 / np.arange(1, n_components + 1) if weights is None else weights, n_components, "weights")
    if not (mu > 0).all():
        raise InvalidInput(f"weights are {weights}; give positive numbers")
    rho = None if gamma is None else per_component(gamma, n_components, "gamma")
    if rho is not None and not ((rho >= 0) & (rho < 1)).all():
        raise InvalidInput(f"gamma is {gamma}; give numbers of at least 0 and below 1")
    sizes = None if n_nonzero is None else np.array(cardinalities(n_nonzero, n_components, L.shape[1]))

    H = np.zeros((L.shape[1], n_components))
    before = variances(L)
    # one group of components for each climb
    groups = [slice(0, n_components)] if block else [slice(j, j + 1) for j in range(n_components)]
    for group in groups:
        if group.start > 0:
            L = project_out(L, H[:, group.start - 1])
            clear_exhausted(L, before)
        if not L.any():
            break
        climb = _Climb(L, penalty, mu[group] / mu[group.start], max_iter, tol)
        width = climb.start.shape[1]  # fewer than asked for when the rank is lower
        found = slice(group.start, group.start + width)
        if rho is not None:
            X = climb.run(rho[found])
            H[:, found] = climb.refit(X, climb.support(X, rho[found]))
        elif sizes is not None:
            H[:, found] = _search_gamma(climb, sizes[found], exactly=exactly)
    return fix_signs(H)


class _Climb:
    """The climb on one core, from one start, for one or several components at once."""

    def __init__(self, core: FloatArray, penalty: Penalty, mu: FloatArray, max_iter: int, tol: float) -> None:
        self.core = core
        self.columns = np.ascontiguousarray(core.T)  # one row a column of the core: cheap to pick from
        self.penalty = penalty
        self.max_iter = max_iter
        self.tol = tol
        self.start = _pivoted_directions(core, len(mu))
        self.mu = mu[: self.start.shape[1]]
        self.longest = float(np.sqrt(variances(core).max()))

    def thresholds(self, rho: FloatArray) -> FloatArray:
        """Thresholds that ``mu_j |l_i'x_j|`` has to exceed, one number a component."""
        return self.mu * self.longest * (rho if self.penalty == "l1" else np.sqrt(rho))

    def scores(self, X: FloatArray) -> FloatArray:
        """``mu_j l_i'x_j`` for all columns i and components j, shape (d, width)."""
        return (self.core.T @ X) * self.mu

    def combination(self, pull: FloatArray) -> FloatArray:
        """``L pull`` for a pull (d, width) with few nonzero rows."""
        chosen = np.flatnonzero(pull.any(axis=1))
        if len(chosen) > GATHER * len(pull):
            return self.core @ pull
        return self.columns[chosen].T @ pull[chosen]

    def support(self, X: FloatArray, rho: FloatArray) -> BoolArray:
        """Columns that pass the threshold at X, shape (d, width)."""
        passed: BoolArray = np.abs(self.scores(X)) > self.thresholds(rho)
        return passed

    def largest(self, X: FloatArray, sizes: IntArray) -> BoolArray:
        """The given number of largest scores of each component, lowest index first on ties, shape (d, width)."""
        order = np.argsort(-np.abs(self.scores(X)), axis=0, kind="stable")
        rank = np.argsort(order, axis=0, kind="stable")
        chosen: BoolArray = rank < sizes
        return chosen

    def run(self, rho: FloatArray) -> FloatArray:
        """Orthonormal X, shape (m, width), at which the penalised objective stands still."""
        X, f_old = self.start, 0.0
        t = self.thresholds(rho)
        for _ in range(self.max_iter):
            scores = self.scores(X)
            over = np.maximum(np.abs(scores) - t, 0.0)
            if self.penalty == "l1":
                f = float(np.sum(over**2))
                pull = np.copysign(over, scores)
            else:
                f = float(np.sum(over * (np.abs(scores) + t)))
                pull = np.where(over > 0, scores, 0.0)
            if f == 0:
                break  # the penalty leaves no support
            X = _polar(self.combination(pull * self.mu))
            if f_old > 0 and f - f_old <= self.tol * f_old:
                break
            f_old = f
        return X

    def refit(self, X: FloatArray, support: BoolArray) -> FloatArray:
        """Best loadings on fixed supports, shape (d, width); a column with no support is zero.

        One component has its exact optimum. A block alternates between X and the loadings Z (Algorithm 6), which
        climbs ``sum_j mu_j x_j'L z_j``.
        """
        if support.shape[1] == 1:
            z = np.zeros(support.shape)
            chosen = np.flatnonzero(support[:, 0])
            if len(chosen):
                z[chosen, 0] = right_singular(self.core[:, chosen], 1)[1][:, 0]
            return z
        Z = self._unit_loadings(X, support)
        f_old = 0.0
        for _ in range(REFIT_STEPS):
            target = self.core @ (Z * self.mu)
            X = _polar(target)
            f = float(np.sum(X * target))
            if f - f_old <= REFIT_TOL * f:
                break
            f_old = f
            Z = self._unit_loadings(X, support)
        return Z

    def _unit_loadings(self, X: FloatArray, support: BoolArray) -> FloatArray:
        """Best unit loadings for a given X."""
        Z = np.where(support, self.scores(X), 0.0)
        return Z / np.where(Z.any(axis=0), np.linalg.norm(Z, axis=0), 1.0)


class _Fit(NamedTuple):
    """One climb's end: its number of nonzeros and variance, then what they come from."""

    nonzeros: int
    variance: float
    X: FloatArray
    support: BoolArray
    Z: FloatArray


def _search_gamma(climb: _Climb, sizes: IntArray, *, exactly: bool) -> FloatArray:
    """Loadings of the largest supports that fit, each gamma bisected; ties go to the larger variance."""
    best: _Fit | None = None
    too_many = climb.start
    low, high = np.zeros(len(sizes)), np.ones(len(sizes))
    gamma = low  # first, because nothing is left out if everything fits
    for _ in range(BISECTIONS):
        X = climb.run(gamma)
        support = climb.support(X, gamma)
        over = support.sum(axis=0) > sizes
        low, high = np.where(over, gamma, low), np.where(over, high, gamma)
        if over.any():
            too_many = X
        elif best is None or not np.array_equal(support, best.support):
            Z = climb.refit(X, support)
            fit = _Fit(int(support.sum()), float(np.sum((climb.core @ Z) ** 2)), X, support, Z)
            if best is None or fit[:2] > best[:2]:
                best = fit
        if (high - low < BISECTION_WIDTH).all():
            break
        gamma = (low + high) / 2
    if best is not None and not exactly:
        return best.Z
    # tied columns pass the threshold together, so no gamma gives this number: cut the tie
    X = too_many if best is None else best.X
    return climb.refit(X, climb.largest(X, sizes))


def _pivoted_directions(core: FloatArray, width: int) -> FloatArray:
    """Directions of the largest column, then of the one sticking out most from those before; (m, at most width)."""
    B = core.copy()
    before = variances(core)
    Q = np.zeros((len(core), 0))
    for _ in range(width):
        left = clear_exhausted(B, before)
        if not left.max() > 0:
            break
        q = B[:, by_variance(left)[0]]
        q = q - Q @ (Q.T @ q)
        q = q / float(np.linalg.norm(q))
        Q = np.column_stack([Q, q])
        B -= np.outer(q, q @ B)
    return Q


def _polar(M: FloatArray) -> FloatArray:
    """Orthonormal polar factor of M, the X that makes ``tr X'M`` largest."""
    U, _, Vt = thin_svd(M)
    factor: FloatArray = U @ Vt
    return factor
