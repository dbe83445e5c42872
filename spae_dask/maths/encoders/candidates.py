"""Candidate columns for a core too wide to search all of it.

An encoder is looked at on a few rows that stand for the core: a Gaussian sketch, on which losses are right to about
``sqrt(r / rows)`` (see Clarkson & Woodruff 2013). The encoder is the one given; if columns of it are missing, one climb
on the sketch makes them. Its supports become candidates, and with them, for each column of H, the columns that would
next be added to its support. The search proper then runs on the candidates alone, with nothing sketched.
"""

import math
from collections.abc import Sequence

import numpy as np

from spae_dask.maths.encoders.column_cycle import ColumnCycle, State
from spae_dask.maths.encoders.pursuit import addition_gains
from spae_dask.maths.encoders.reduced_core import reduce_core
from spae_dask.maths.encoders.single_column import best_on_support
from spae_dask.maths.linalg.project import DEPENDENT
from spae_dask.maths.linalg.scaling import FloatArray, IntArray
from spae_dask.maths.linalg.spectral import column_signs
from spae_dask.maths.selection.problem import ranked

# Candidates times rows that a search handles at a few milliseconds a step; at least twice the columns of all supports.
SEARCH_ALL = 1_000_000
# Rows of the sketch: ten for each nonzero of a column, and enough to keep V_k.
_ROWS_PER_NONZERO = 10
_FEWEST_ROWS = 200


def propose_candidates(
    scaled: FloatArray,
    budgets: Sequence[int],
    start_H: FloatArray | None,
    rng: np.random.Generator,
    allowed: IntArray | None = None,
    *,
    rank_tol: float = DEPENDENT,
    free: IntArray | None = None,
) -> IntArray:
    """Columns worth searching.

    Parameters
    ----------
    scaled : ndarray (m, d)
        Core, scaled so that squares are harmless.
    budgets : sequence of int
        Nonzeros allowed in each column of H.
    start_H : ndarray (d, k), optional
        Encoder to start from; its support is among the candidates.
    rng : Generator
        Draws the sketch.
    allowed : ndarray of int, optional
        The only columns to choose from.
    rank_tol : float, optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them and gets no weight.
    free : ndarray of int, optional
        Columns that are in every support, and among the candidates.

    Returns
    -------
    candidates : ndarray (c,)
        Ascending indices of nonzero columns; all of them if there are few.
    """
    nonzero = np.flatnonzero(np.any(scaled != 0.0, axis=0))
    if allowed is not None:
        nonzero = np.intersect1d(nonzero, allowed)
    limit = max(SEARCH_ALL // max(scaled.shape[0], 1), math.isqrt(SEARCH_ALL), 2 * sum(budgets))
    if nonzero.size <= limit:
        return nonzero
    rows = max(_FEWEST_ROWS, _ROWS_PER_NONZERO * max(budgets) + len(budgets))
    sketch = scaled
    if rows < scaled.shape[0]:
        # rows of a core are known up to sign, which must not change what is drawn
        signs = column_signs(scaled.T)
        sketch = (rng.standard_normal((rows, scaled.shape[0])) * signs) @ scaled / np.sqrt(rows)
    cycle = ColumnCycle(reduce_core(sketch, nonzero, rank_tol=rank_tol, free=free), budgets, rng)
    state = cycle.empty() if start_H is None else cycle.state_of(start_H)
    if None in state.columns:
        state = cycle.climb(state)
    start = [] if start_H is None else nonzero[np.any(start_H[nonzero] != 0.0, axis=1)].tolist()
    kept = nonzero[list(cycle.reduced.free)].tolist()
    ranked = dict.fromkeys([*kept, *start, *rank_columns(cycle, state).tolist()])
    return np.array(sorted(list(ranked)[: limit + len(kept)]), dtype=np.intp)


def rank_columns(cycle: ColumnCycle, state: State) -> IntArray:
    """Columns by promise: those of the supports, then those that would next be added to one, columns of H in turns.

    Parameters
    ----------
    cycle : ColumnCycle
        Search that found the state.
    state : State
        Columns of H.

    Returns
    -------
    ndarray of int
        Distinct.
    """
    candidates = cycle.reduced.candidates
    supports: list[int] = []
    rankings = []
    for j, column in enumerate(state.columns):
        if column is None:
            continue
        supports.extend(candidates[list(column.selected)].tolist())
        problem = cycle.problem(state.made(without=j))
        solution = best_on_support(problem, column.selected)
        if solution is not None:
            gains = addition_gains(solution)
            rankings.append(candidates[ranked(gains)].tolist())
    in_turns = [column for place in zip(*rankings, strict=True) for column in place]
    return np.array(list(dict.fromkeys([*supports, *in_turns])), dtype=np.intp)
