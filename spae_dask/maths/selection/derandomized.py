"""Adaptive selection without chance: the sampling round by the method of conditional expectations.

The analysis of adaptive sampling needs only the mean of ``||D_s||^2 / s^2``, where D_s sums independent errors
(Boutsidis & Woodruff 2014, Lemma 3.9). Their derandomisation enumerates a sample space of size ``O(d^2)``. Here each
step takes the column that makes ``||D_t||^2`` smallest: the mean over the sampling distribution is at most
``||D_{t-1}||^2 + V_0``, and the smallest is no more than the mean. So the bound in expectation holds deterministically,
at ``O(m d)`` a step, and ``||D_s||^2 / s^2`` itself is a much smaller certificate.
"""

from dataclasses import dataclass

import numpy as np

from spae_dask.maths.linalg.project import (
    DEPENDENT,
    RankTol,
    orthonormal_basis,
    residual,
    residual_floor,
    tolerance_of,
)
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, squared_columns
from spae_dask.maths.selection.adaptive import best_split, start_columns
from spae_dask.maths.selection.problem import Problem, distinct, lowest_best, pose
from spae_dask.maths.selection.targeted_greedy import fill


@dataclass(frozen=True, eq=False)
class DerandomizedRound:
    """Columns that a round chose, and the guarantee of the choice.

    Attributes
    ----------
    columns : ndarray (s',)
        Choices in order, repeats included; s' < s only if nothing was left to explain.
    squared : ndarray (s',)
        ``||D_t||^2`` after each step, at most ``t variance``.
    variance : float
        ``V_0``: the round loses at most ``variance / s`` in expectation, if it were random.
    """

    columns: IntArray
    squared: FloatArray
    variance: float

    @property
    def certificate(self) -> float:
        """``||D_s||^2 / s^2``: the loss is at most ``||X - X V_k V_k'||^2`` plus this."""
        s = self.columns.size
        return float(self.squared[-1]) / s**2 if s else 0.0


def derandomized_round(
    core: FloatArray, V_k: FloatArray, start: IntArray, s: int, *, rank_tol: RankTol = DEPENDENT
) -> DerandomizedRound:
    """Choose s columns given a start, each minimising the pessimistic estimator of the loss.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X, scaled so that squares are harmless.
    V_k : ndarray (d, k)
        Orthonormal columns.
    start : ndarray
        Columns chosen already.
    s : int
        Steps.
    rank_tol : float or ndarray (d,), optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them; one for all columns, or one for each.
    """
    B = residual(core, orthonormal_basis(core[:, start], rank_tol=tolerance_of(rank_tol, start)))
    b = squared_columns(B)
    live = b > residual_floor(rank_tol) * squared_columns(core)
    live[start] = False
    if not np.any(live):
        return DerandomizedRound(np.zeros(0, dtype=np.intp), np.zeros(0), 0.0)
    B[:, ~live] = 0.0
    b[~live] = 0.0
    total = float(np.sum(b))
    leverage = np.einsum("ij,ij->i", V_k, V_k)
    mean = B @ V_k
    variance = float(np.sum(leverage[live])) * total - float(np.vdot(mean, mean))
    inverse = np.divide(total, b, out=np.zeros_like(b), where=live)  # 1/p_j
    F = -mean
    T = B.T @ F
    T_mean = B.T @ mean
    columns = np.zeros(s, dtype=np.intp)
    squared = np.zeros(s)
    for step in range(s):
        increase = inverse * (2.0 * np.einsum("ij,ij->i", V_k, T) + leverage * total)
        j = lowest_best(-increase, live)
        F += np.outer(B[:, j], V_k[j] * inverse[j]) - mean
        T += np.outer(B.T @ B[:, j], V_k[j] * inverse[j]) - T_mean
        columns[step] = j
        D = F + mean
        squared[step] = float(np.vdot(D, D))
    return DerandomizedRound(columns, squared, variance)


def adaptive_derandomized(
    core: FloatArray,
    k: int,
    r: int,
    rng: np.random.Generator | None = None,  # noqa: ARG001  (a selection is handed one; this one needs none)
    *,
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
) -> IntArray:
    """Choose r columns as adaptive selection does, with its bound in expectation met deterministically.

    A start, a derandomised round and a fill by targeted greedy; the theorem is carried by the first two.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Rank to approximate; the rank of X if that is smaller.
    r : int
        Columns to choose.
    rng : Generator, optional
        Not used: the selection is deterministic.
    rank_tol : float or ndarray (d,), optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them; one for all columns, or one for each.
    leading : ndarray (d, k'), optional
        Top k right singular vectors of the core, if they are known.

    Returns
    -------
    selected : ndarray (r,)
        Distinct indices in order chosen; fewer only if X has fewer nonzero columns.
    """
    problem: Problem = pose(core, k, r, rank_tol, leading)
    if problem.k == 0 or problem.r <= problem.k:
        start = start_columns(problem, problem.r)
        return fill(problem.core, problem.V_k, start, problem.r, rank_tol=rank_tol)
    split = best_split(problem.k, problem.r)
    start = start_columns(problem, split.start)
    s = problem.r - split.start
    chosen = derandomized_round(problem.core, problem.V_k, start, s, rank_tol=rank_tol).columns
    return fill(problem.core, problem.V_k, distinct(np.concatenate([start, chosen])), problem.r, rank_tol=rank_tol)
