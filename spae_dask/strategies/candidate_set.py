"""Candidate set: columns that a row sketch proposes for an exact refit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from spae_dask.maths.encoders.batch import encoder_from_columns
from spae_dask.maths.encoders.budgets import budgets_of
from spae_dask.maths.encoders.candidates import rank_columns
from spae_dask.maths.encoders.column_cycle import ColumnCycle
from spae_dask.maths.encoders.polished import encode_polished
from spae_dask.maths.encoders.reduced_core import reduce_core
from spae_dask.maths.linalg.candidates import restricted_core
from spae_dask.maths.linalg.copies import on_one
from spae_dask.maths.linalg.loss import encoder_loss, total_variance
from spae_dask.maths.linalg.project import DEPENDENT
from spae_dask.maths.linalg.scaling import unit_scaled
from spae_dask.maths.linalg.spectral import pca_loss, right_singular
from spae_dask.maths.selection.pool import promising
from spae_dask.maths.selection.problem import distinct, ranked
from spae_dask.maths.selection.targeted_greedy import targeted_greedy
from spae_dask.strategies.base import POLISH_SECONDS, SKETCH_POLISH_SECONDS, UNKNOWN_NONZERO, searched
from spae_dask.strategies.core_summary import Floats
from spae_dask.strategies.methods import METHODS, Report, Search, lowest_allowed, ruled, watching
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sizes import shares_features
from spae_dask.strategies.sketched import Columns

POOL = 2048
"""Columns of the sketch that are searched, when it has more than this."""

SEARCH = 0.5
"""Effort of the search on a sketch, over that of the fit: its noise is not worth more."""

MOST_DOUBLINGS = 2
"""Times that the candidates are doubled for a target; a plan counts the memory of all."""

FEWER = f"a smaller n_candidates (--candidates): a fit to a target may take {1 << MOST_DOUBLINGS} times as many"
"""Remedy if the candidates of a target do not fit in memory."""


def numbers_of_candidates(
    params: FitParameters, n_features: int, *, fewest: int, of_each_nonzero: int
) -> tuple[int, int]:
    """Numbers of candidates of a fit: at first, and at most, which its plan counts.

    All columns that an encoder may use are among them, and only a fit to a target takes more than at first.

    Parameters
    ----------
    params : FitParameters
        Parameters of the fit; ``n_candidates`` overrules the usual number.
    n_features : int
        d.
    fewest, of_each_nonzero : int
        The usual number is ``fewest``, or this multiple of the nonzeros of all components if that is more.
    """
    k, used = params.n_components, 0
    budgets = budgets_of(k, UNKNOWN_NONZERO if params.sizes is None else params.sizes)
    if params.sizes is not None:
        used = max(budgets) if shares_features(params) else sum(budgets)
    wanted = params.n_candidates or max(fewest, of_each_nonzero * sum(budgets))
    first = min(n_features, max(wanted, used, k) + len(params.rules.include))
    return first, first if params.n_nonzero is not None else min(n_features, first << MOST_DOUBLINGS)


@dataclass(frozen=True, eq=False)
class CandidateSet:
    """Candidates, and what the sketch would make of them.

    Attributes
    ----------
    columns : ndarray (c,)
        Candidate columns, ascending.
    H : ndarray (c, k')
        Encoder on them by the fit's method, coefficients as on the sketch; ``k'`` is 0 if nothing varies.
    selected : ndarray of int
        Positions among the candidates of the columns the paper's method selected, in the order selected.
    bound, theorem : float or None, str
        Bound of the method and its theorem, as if the sketch were exact.
    """

    columns: Columns
    H: Floats
    selected: Columns
    bound: float | None
    theorem: str


def search_seconds(params: FitParameters, n_features: int) -> float:
    """Seconds of the search on a sketch of so many columns, and on its candidates."""
    return (2 * POLISH_SECONDS + SKETCH_POLISH_SECONDS * min(n_features, POOL)) * searched(params)


def choose_candidates(
    params: FitParameters,
    W: Floats,
    V_k: Floats,
    n_candidates: int,
    *,
    rank_tol: float = DEPENDENT,
    report: Report | None = None,
) -> CandidateSet:
    """Propose candidates.

    The supports of the sketch's own encoder, what would next be added to each of them, a targeted greedy path, and the
    largest loadings of V_k, in turns.

    Parameters
    ----------
    params : FitParameters
        Parameters of the fit.
    W : ndarray (m, d)
        Row sketch of X centered and scaled.
    V_k : ndarray (d, k)
        Its top right singular vectors.
    n_candidates : int
        Number of candidates; fewer are returned if fewer columns vary and differ.
    rank_tol : float, optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them.
    report : callable, optional
        Called with the progress of the search.
    """
    k, scaled = params.n_components, unit_scaled(W)[0]
    search = ruled(Search(rank_tol=rank_tol), params, scaled)
    available = np.flatnonzero(np.any(scaled != 0.0, axis=0))
    if search.allowed is not None:
        available = np.intersect1d(available, search.allowed)
    if available.size == 0:
        nothing = np.zeros(0, dtype=np.intp)
        return CandidateSet(np.arange(n_candidates), np.zeros((n_candidates, 0)), nothing, None, "nothing varies")
    sizes, polishes = params.sizes, params.method == "polished" and not params.shared_support
    if sizes is None:
        sets = 1 if shares_features(params) else k
        most = max(1, (n_candidates - len(params.rules.include)) // sets)
        sizes = _likely_size(params, scaled, most, search)
        polishes = polishes and sizes < most  # no search tells apart supports of all candidates
    # the paper's method on the whole sketch: its columns are candidates, and polishing starts from its encoder
    first = METHODS["iterative" if params.method == "iterative" else "batch"](
        replace(params, selection="exchange") if params.shared_support else params,
        scaled,
        sizes,
        search,
    )
    selected = np.asarray(first.chosen, dtype=np.intp)
    pool = promising(scaled, V_k, available, max(POOL, n_candidates), [selected])
    core, allowed = restricted_core(scaled, pool), np.arange(pool.size)
    H = np.zeros((core.shape[1], first.H.shape[1]))
    H[allowed] = first.H[pool]
    budgets = budgets_of(k, sizes)
    free = None if search.free is None else np.searchsorted(pool, search.free)
    if polishes:
        rng = np.random.default_rng(params.seed)
        H = encode_polished(
            core,
            k,
            sizes,
            start_H=H,
            rng=rng,
            effort=SEARCH * params.effort,
            search_tol=params.search_tol,
            allowed=allowed,
            free=free,
            rank_tol=rank_tol,
            watch=watching(report, sizes, None),
        ).H
    reduced = reduce_core(core, allowed, rank_tol=rank_tol, free=free)
    cycle = ColumnCycle(reduced, budgets, np.random.default_rng(params.seed))
    padded = np.zeros((core.shape[1], k))
    padded[:, : H.shape[1]] = H
    near = rank_columns(cycle, cycle.state_of(padded))
    path = targeted_greedy(scaled[:, pool], k, n_candidates, rank_tol=rank_tol)
    loadings = (ranked(np.abs(v[pool])) for v in V_k.T)
    # one of several equal columns is enough
    lowest = lowest_allowed(scaled[:, pool], None, free, alike=search.panel is None)
    H = on_one(H[allowed], lowest)
    paper = distinct(lowest[np.searchsorted(pool, selected)])
    needed = np.unique(np.concatenate([np.flatnonzero(H.any(axis=1)), paper, *([] if free is None else [free])]))
    rankings = [distinct(lowest[ranking]) for ranking in (near, path, *loadings)]
    chosen = np.sort(_in_turns(needed, rankings, min(n_candidates, pool.size)))
    return CandidateSet(pool[chosen], H[chosen], np.searchsorted(chosen, paper), first.bound, first.theorem)


def _likely_size(params: FitParameters, scaled: Floats, most: int, search: Search) -> int:
    """Nonzeros at which quick encoders reach the target on the sketch, doubled: where to look, not the answer.

    It is ``most`` if none does.
    """
    k, rank_tol = params.n_components, search.rank_tol
    target = params.allowed_loss(pca_loss(right_singular(scaled, 0)[0], k), total_variance(scaled))
    start = np.zeros(0, dtype=np.intp) if search.free is None else search.free
    columns = targeted_greedy(scaled, k, most + len(start), start=start, rank_tol=rank_tol, allowed=search.allowed)
    free = None if search.free is None else np.arange(len(start))
    core, allowed = restricted_core(scaled, columns), np.arange(columns.size)
    if encoder_loss(core, encoder_from_columns(core, allowed, k, rank_tol=rank_tol)[0]) > target:
        return columns.size
    size = 1
    while size < columns.size:
        quick = encode_polished(core, k, size, effort=0, allowed=allowed, free=free, rank_tol=rank_tol)
        if encoder_loss(core, quick.H) <= target:
            break
        size *= 2
    return min(2 * size, columns.size)


def _in_turns(first: Columns, rankings: Sequence[Columns], n: int) -> Columns:
    """All of ``first``, then distinct columns of the rankings in turns, n in all or as many as there are."""
    chosen = dict.fromkeys(first.tolist())
    longest = max(ranking.size for ranking in rankings)
    for place in range(longest):
        for ranking in rankings:
            if len(chosen) >= n:
                return np.array(list(chosen), dtype=np.intp)
            if place < ranking.size:
                chosen.setdefault(int(ranking[place]))
    return np.array(list(chosen), dtype=np.intp)
