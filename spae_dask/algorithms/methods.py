"""Ways to build an encoder on a core, by name: what ``method`` means."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from spae_dask.algorithms.core_summary import Floats
from spae_dask.algorithms.problem import Problem
from spae_dask.encoding import encode_batch, theorem_bound
from spae_dask.encoding.budgets import budgets_of
from spae_dask.encoding.iterative import encode_iterative
from spae_dask.encoding.polished import encode_polished
from spae_dask.linalg.copies import lowest_equal, on_lowest, on_lowest_places
from spae_dask.linalg.loss import encoder_loss, rounding_error, total_variance
from spae_dask.linalg.project import DEPENDENT, optimal_decoder
from spae_dask.selection.problem import TIE

Sizes = int | tuple[int, ...]
"""Nonzeros a column may have: the same for all, or one number each."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """An encoder made on a core.

    Attributes
    ----------
    H, G : ndarray (d, k'), (k', d)
        Encoder and optimal decoder; k' < k where the core has no more to give.
    chosen : ndarray of int
        Features used: in the order chosen where they are shared by all components, else ascending.
    bound, theorem : float or None, str
        What theory promised of the loss, or why it promised nothing.
    """

    H: Floats
    G: Floats
    chosen: npt.NDArray[np.intp]
    bound: float | None
    theorem: str


@dataclass(frozen=True, eq=False)
class Search:
    """How hard to search, from where, and how finely columns are told apart.

    Attributes
    ----------
    effort : float
        1 is the usual; 0 asks for a quick, rough answer.
    start : ndarray (d, k'), optional
        An encoder of no more columns and nonzeros, known already; the answer loses no more.
    rank_tol : float
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them. Every method keeps to it, those that do not search as well.
    """

    effort: float = 1.0
    start: Floats | None = None
    rank_tol: float = DEPENDENT


Method = Callable[[Problem, Floats, Sizes, Search], Encoded]
"""``(problem, core, r, search)``."""


def batch(problem: Problem, core: Floats, r: Sizes, search: Search) -> Encoded:
    """The paper's: all components on the same r columns."""
    size = min(budgets_of(problem.n_components, r))
    rng = np.random.default_rng(problem.seed)
    made = encode_batch(
        core, problem.n_components, size, selection=problem.selection, rng=rng, rank_tol=search.rank_tol
    )
    bound, theorem, in_expectation = theorem_bound(problem.selection, problem.n_components, size)
    return Encoded(made.H, made.G, made.selected, bound, f"in expectation; {theorem}" if in_expectation else theorem)


def iterative(problem: Problem, core: Floats, r: Sizes, search: Search) -> Encoded:
    """The paper's: one component after another, each on columns of what those before it left."""
    rng = np.random.default_rng(problem.seed)
    # for single codes dual-set is one column and a fill; the iterative theorem has a selection of its own
    selection = None if problem.selection == "dual-set" else problem.selection
    made = encode_iterative(core, problem.n_components, r, selection=selection, rng=rng, rank_tol=search.rank_tol)
    theorem = (
        "Magdon-Ismail & Boutsidis 2015, adaptive iterative theorem: with 1 + ceil(2j/eps) nonzeros in component j, "
        "l components lose at most (e l)^eps times PCA's loss plus eps l^(1 + eps) ||X_l - X_1||^2"
    )
    return Encoded(made.H, made.G, np.flatnonzero(made.H.any(axis=1)), None, theorem)


def polished(problem: Problem, core: Floats, r: Sizes, search: Search) -> Encoded:
    """Ours: starts from the paper's batch encoder and only ever lowers its loss, so it keeps the paper's bound."""
    if problem.shared_support:
        return batch(replace(problem, selection="exchange"), core, r, search)
    start = batch(problem, core, r, search)
    if not start.H.any():  # constant or zero data
        return start
    rng = np.random.default_rng(problem.seed)
    paper_loss = encoder_loss(core, start.H)
    known = search.start is not None and encoder_loss(core, search.start) < paper_loss
    made = encode_polished(
        core,
        problem.n_components,
        r,
        start_H=search.start if known else start.H,
        rng=rng,
        effort=search.effort,
        rank_tol=search.rank_tol,
    )
    if not made.loss < paper_loss * (1 - TIE):
        return start  # nothing to gain, so the paper's own encoder stands
    theorem = start.theorem if start.bound is None else f"{start.theorem}; polishing starts there and only improves"
    return Encoded(made.H, made.G, np.flatnonzero(made.H.any(axis=1)), start.bound, theorem)


def _on_lowest_copies(method: Method, *, shared: bool) -> Method:
    """The method, its encoder moved from copies of columns to those of lowest index."""

    def encode(problem: Problem, core: Floats, r: Sizes, search: Search) -> Encoded:
        made = method(problem, core, r, search)
        together = shared or problem.shared_support
        lowest = lowest_equal(core)
        H = on_lowest(made.H, lowest, shared=together)
        if np.array_equal(H, made.H):
            return made
        loss = encoder_loss(core, made.H)
        # differences of near-copies, if any were used, would tell copies apart
        if encoder_loss(core, H) > loss + TIE * loss + rounding_error(loss, total_variance(core)):
            return made
        chosen = on_lowest_places(made.chosen, lowest) if together else np.flatnonzero(H.any(axis=1))
        return replace(made, H=H, G=optimal_decoder(core, H), chosen=chosen)

    return encode


METHODS: Mapping[str, Method] = {
    "polished": _on_lowest_copies(polished, shared=False),
    "batch": _on_lowest_copies(batch, shared=True),
    "iterative": _on_lowest_copies(iterative, shared=False),
    "doubly-sparse": _on_lowest_copies(batch, shared=True),  # its columns; the rows are chosen by a pass of their own
}
