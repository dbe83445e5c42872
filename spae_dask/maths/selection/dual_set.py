"""Deterministic column selection by dual-set spectral-Frobenius sparsification.

Boutsidis, Drineas & Magdon-Ismail, *Near-optimal column-based matrix reconstruction*, SIAM J. Comput. 43 (2014),
Theorem 2, on the barrier method of Batson, Spielman & Srivastava (2009): for any r > k, r columns C with
``||X - X_{C,k}||^2 <= (1 + 1/(1 - sqrt(k/r))^2) ||X - X_k||^2``, deterministically. This is the ``batch`` encoder's
selection in Magdon-Ismail & Boutsidis (2015), whose experiments leave the choice among valid columns open.
To check a run: :func:`dual_set_weights` returns the weights, whose two inequalities are the whole theorem.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.project import DEPENDENT, RankTol
from spae_dask.maths.linalg.scaling import BoolArray, FloatArray, IntArray
from spae_dask.maths.selection.pivoting import independent_rows, pivot_columns
from spae_dask.maths.selection.problem import Problem, distinct, lowest_best, pose
from spae_dask.maths.selection.targeted_greedy import fill

# Rows of V_k shorter than this (squared) belong to zero columns and are never candidates.
_NO_LEVERAGE = 1e-30

TieRule = Callable[[FloatArray, BoolArray, BoolArray], int]
"""Choice among valid columns: ``(slack L_j - U_j, valid, used) -> index``. The theorem allows any valid column."""


def best_unused(slack: FloatArray, valid: BoolArray, used: BoolArray) -> int:
    """Largest slack among unused valid columns, else among the used ones; lowest index on ties.

    Taking the first valid column instead can return the same one r times.
    """
    unused = valid & ~used
    return lowest_best(slack, unused if np.any(unused) else valid)


def dual_set_factor(k: int, r: int) -> float:
    """Factor ``1 + 1/(1 - sqrt(k/r))^2`` of the theorem on ``||X - XZZ'||^2``, for r > k."""
    return 1.0 + 1.0 / (1.0 - math.sqrt(k / r)) ** 2


class Weights(NamedTuple):
    """Weights ``(d,)`` with at most r nonzeros, and the picks ``(r,)`` in order, repeats included."""

    weights: FloatArray
    picks: IntArray


def dual_set_weights(V_k: FloatArray, e: FloatArray, r: int, tie_rule: TieRule = best_unused) -> Weights:
    """Sparsify the dual set: few weights that keep the spectrum of V_k from below and the sum of e from above.

    Parameters
    ----------
    V_k : ndarray (d, k)
        Orthonormal columns; its rows are the first set.
    e : ndarray (d,)
        Nonnegative numbers, the squared column lengths of the second set.
    r : int
        Steps, more than k.
    tie_rule : callable
        Rule that chooses among the valid columns of a step.

    Returns
    -------
    Weights
        With ``lambda_min(sum_j w_j v_j v_j') >= (1 - sqrt(k/r))^2`` and ``sum_j w_j e_j <= sum_j e_j``.

    Raises
    ------
    InvalidInput
        If r is not larger than k.
    """
    k = V_k.shape[1]
    if r <= k:
        raise InvalidInput(f"dual-set sparsification needs r > k; got r = {r}, k = {k}")
    result = _barrier_walk(V_k, e, r, tie_rule)
    if result is None:
        # V_k is orthonormal to fewer digits than the proof needs
        result = _barrier_walk(np.linalg.qr(V_k)[0], e, r, tie_rule)
    assert result is not None, f"no valid column in dual-set sparsification of V_k {V_k.shape}, r = {r}: please report"
    return result


def _barrier_walk(V_k: FloatArray, e: FloatArray, r: int, tie_rule: TieRule) -> Weights | None:
    d, k = V_k.shape
    shrink = 1.0 - np.sqrt(k / r)
    total = float(np.sum(e))
    upper = e / total * shrink if total > 0.0 else np.zeros(d)
    candidates = np.einsum("ij,ij->i", V_k, V_k) >= _NO_LEVERAGE
    A = np.zeros((k, k))
    weights = np.zeros(d)
    used = np.zeros(d, dtype=np.bool_)
    picks = np.zeros(r, dtype=np.intp)
    for step in range(r):
        barrier = step - np.sqrt(r * k) + 1.0
        eigenvalues, vectors = np.linalg.eigh(A)
        gap = eigenvalues - barrier  # at least sqrt(r/k) - 1 by the lower barrier lemma
        if np.min(gap) <= 0.0:
            return None
        drop = float(np.sum(1.0 / gap - 1.0 / (gap + 1.0)))
        lower = (V_k @ vectors) ** 2 @ (gap**-2.0 / drop - 1.0 / gap)
        valid = candidates & (lower > 0.0) & (upper <= lower * (1.0 + 1e-12))
        if not np.any(valid):
            return None
        j = tie_rule(lower - upper, valid, used)
        t = 2.0 / (upper[j] + lower[j])
        weights[j] += t
        A += t * np.outer(V_k[j], V_k[j])
        used[j] = True
        picks[step] = j
    return Weights(weights * (shrink / r), picks)


def barrier_start(problem: Problem, r: int) -> IntArray:
    """Distinct columns, at most r: Theorem 2 if r > k; pivoting, with factor k + 1, if r <= k.

    Parameters
    ----------
    problem : Problem
        Posed on a core.
    r : int
        Most columns to return.
    """
    k = min(problem.k, r)
    V_k = problem.V_k[:, :k]
    E, e = Problem(problem.core, V_k, r, problem.nonzero).residual_of_pca()
    if not np.any(e):
        return independent_rows(V_k)
    if r <= k:
        return pivot_columns(V_k, E)[0]
    return distinct(dual_set_weights(V_k, e, r).picks)


def dual_set_start(problem: Problem, r: int) -> IntArray:
    """Distinct columns, at most r, that carry the guarantee of the best method for this k and r.

    For k = 1 a single column, within a factor 2, stands for the barrier recursion, whose scores are then ``v_j^2`` at
    every step. For k > 1 the columns are those of :func:`barrier_start`.

    Parameters
    ----------
    problem : Problem
        Posed on a core.
    r : int
        Most columns to return.
    """
    return barrier_start(problem, 1 if problem.k == 1 else r)


def dual_set(
    core: FloatArray,
    k: int,
    r: int,
    rng: np.random.Generator | None = None,  # noqa: ARG001  (a selection is handed one; this one needs none)
    *,
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
) -> IntArray:
    """Choose r columns by dual-set sparsification, filled up by targeted greedy.

    The recursion may take a column more than once; the budget it leaves is spent on columns that lower the loss, which
    keeps the guarantee. For r <= k the columns are those of pivoting, within r + 1 of the best rank-r loss.

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
    return _filled(pose(core, k, r, rank_tol, leading), dual_set_start)


def barrier(
    core: FloatArray,
    k: int,
    r: int,
    rng: np.random.Generator | None = None,  # noqa: ARG001  (a selection is handed one; this one needs none)
    *,
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
) -> IntArray:
    """Choose r columns by the barrier recursion at every k, as in the paper, filled up by targeted greedy.

    For k > 1 these are the columns of :func:`dual_set`. For k = 1 the recursion itself runs for r steps, where
    :func:`dual_set` takes one column; it is what each step of the paper's iterative encoder calls.

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
        See :class:`spae_dask.maths.selection.Selection`.
    leading : ndarray (d, k'), optional
        Top k right singular vectors of the core, if they are known.

    Returns
    -------
    selected : ndarray (r,)
        Distinct indices in order chosen; fewer only if X has fewer nonzero columns.
    """
    return _filled(pose(core, k, r, rank_tol, leading), barrier_start)


def _filled(problem: Problem, start: Callable[[Problem, int], IntArray]) -> IntArray:
    """The columns of a start and of the fill; there is nothing to choose if all nonzero columns are taken."""
    everything = problem.r == np.count_nonzero(problem.nonzero)
    chosen = np.zeros(0, dtype=np.intp) if everything else start(problem, problem.r)
    return fill(problem.core, problem.V_k, chosen, problem.r, rank_tol=problem.rank_tol)
