"""Methods that build an encoder on a core, by the name that ``method`` takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from spae_dask.maths.encoders import BatchEncoder, encode_batch, theorem_bound
from spae_dask.maths.encoders.budgets import budgets_of
from spae_dask.maths.encoders.iterative import IterativeEncoder, encode_iterative, prefix_bounds
from spae_dask.maths.encoders.polished import SearchStage, Watch, encode_polished
from spae_dask.maths.linalg.copies import lowest_equal, on_lowest, on_lowest_places
from spae_dask.maths.linalg.loss import encoder_loss, rounding_error, total_variance
from spae_dask.maths.linalg.project import DEPENDENT, optimal_decoder
from spae_dask.maths.linalg.spectral import pca_loss, right_singular
from spae_dask.maths.selection import RANDOM_SELECTIONS
from spae_dask.maths.selection.exchange import exchange
from spae_dask.maths.selection.feasible import Feasible
from spae_dask.maths.selection.problem import TIE, first_of_best
from spae_dask.maths.selection.targeted_greedy import targeted_greedy
from spae_dask.rules import Rules
from spae_dask.strategies.core_summary import Floats
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.theory import in_expectation

Columns = npt.NDArray[np.intp]

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
        Bound on the ratio and its theorem, or None and the reason for having no bound.
    prefix_losses, prefix_bounds : list of float or None
        Losses of 1, 2, ... components of an iterative encoder, and the most that its theorem allows.
    """

    H: Floats
    G: Floats
    chosen: npt.NDArray[np.intp]
    bound: float | None
    theorem: str
    prefix_losses: list[float] | None = None
    prefix_bounds: list[float] | None = None


@dataclass(frozen=True)
class SearchProgress:
    """Progress of the search for supports.

    Attributes
    ----------
    n_nonzero : int
        Most nonzeros a component may have in this search. With a target, the fit searches for several such numbers.
    n_done, n_rounds : int
        Rounds done, and the largest number of rounds.
    ratio : float or None
        Least loss so far over PCA's; None while columns are proposed on a sketch, which knows no loss, or if PCA loses
        nothing.
    """

    n_nonzero: int
    n_done: int
    n_rounds: int
    ratio: float | None


Report = Callable[[SearchProgress], None]


@dataclass(frozen=True, eq=False)
class Search:
    """Effort and starts of the search, the tolerance that tells columns apart, and what is known of the core.

    Attributes
    ----------
    effort : float, optional
        Effort in place of that of the fit; 0 asks for a quick, rough answer.
    start : ndarray (d, k'), optional
        An encoder of no more columns and nonzeros, known already; the answer loses no more.
    climbed : bool
        True if ``start`` was searched for with these nonzeros and effort 0.
    rank_tol : float
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them. Every method keeps to it, those that do not search as well.
    report : callable, optional
        Called with the progress of the search.
    pca_loss : float, optional
        PCA's loss, for the report.
    leading : callable, optional
        Function that gives the top k right singular vectors (d, k') of the core, at most as many as its rank.
    allowed, free : ndarray of int, optional
        Columns of the core that the rules allow, and those among them that every component may use beside its r; all
        and none if they are None.
    panel : Feasible, optional
        Rules for all columns together.
    """

    effort: float | None = None
    start: Floats | None = None
    rank_tol: float = DEPENDENT
    report: Report | None = None
    pca_loss: float | None = None
    leading: Callable[[], Floats] | None = None
    allowed: Columns | None = None
    free: Columns | None = None
    panel: Feasible | None = None
    climbed: bool = False

    @property
    def ruled(self) -> bool:
        """True if there are rules."""
        return self.allowed is not None or self.free is not None or self.panel is not None


def ruled(search: Search, params: FitParameters, core: Floats) -> Search:
    """The search that keeps to the rules of a fit, on a core of all columns."""
    d, rules = core.shape[1], params.rules
    excluded, included = (np.array(each, dtype=np.intp) for each in (rules.exclude, rules.include))
    return replace(
        search,
        allowed=np.setdiff1d(np.arange(d), excluded) if excluded.size else None,
        free=included[core[:, included].any(axis=0)] if included.size else None,  # no constant one gets weight
        panel=feasible(rules, d) if rules.of_panel else None,
    )


def feasible(rules: Rules, d: int) -> Feasible:
    """Resolved rules for all of d columns together, for any number of columns."""
    names = rules.limited
    number = {name: place for place, name in enumerate(names)}
    limits = {name: [rules.limit(name, group) for group in names] for name in ("at_most", "at_least")}
    allowed = np.ones(d, dtype=bool)
    allowed[np.array(rules.exclude, dtype=np.intp)] = False
    return Feasible(
        size=d,
        kept=np.array(rules.include, dtype=np.intp),
        allowed=allowed,
        costs=np.ones(d) if rules.costs is None else np.array(rules.costs, dtype=np.float64),
        budget=np.inf if rules.budget is None else rules.budget,
        groups=np.array([number.get(str(group), -1) for group in rules.groups or [""] * d], dtype=np.intp),
        least=np.array([each or 0 for each in limits["at_least"]], dtype=np.intp),
        points=None if rules.positions is None else np.reshape(np.array(rules.positions, dtype=np.float64), (d, -1)),
        distance=rules.min_distance or 0.0,
        most=np.array([d if each is None else each for each in limits["at_most"]], dtype=np.intp),
    )


def watching(report: Report | None, r: Sizes, pca_loss: float | None, outside: float = 0.0) -> Watch | None:
    """Watcher of a polished search that reports in ratios; ``outside`` is what its core does not hold of the loss."""
    if report is None:
        return None
    n_nonzero = int(np.max(r))

    def watch(stage: SearchStage) -> None:
        ratio = max(1.0, float((stage.loss + outside) / pca_loss)) if pca_loss and np.isfinite(stage.loss) else None
        report(SearchProgress(n_nonzero, stage.n_done, stage.n_rounds, ratio))

    return watch


Method = Callable[[FitParameters, Floats, Sizes, Search], Encoded]
"""``(params, core, r, search)``."""

Made = TypeVar("Made", BatchEncoder, IterativeEncoder)


def _repeats(params: FitParameters) -> int:
    """Draws of the selection; there is one where nothing is random."""
    return params.n_repeats if params.selection in RANDOM_SELECTIONS else 1


def _best_of_repeats(params: FitParameters, make: Callable[[np.random.Generator], Made]) -> Made:
    """The encoder of least loss among independent draws; the first is the one of a fit without repeats."""
    rng = np.random.default_rng(params.seed)
    made = [make(rng) for _ in range(_repeats(params))]
    return made[first_of_best([-each.loss for each in made], [np.flatnonzero(each.H.any(axis=1)) for each in made])]


def batch(params: FitParameters, core: Floats, r: Sizes, search: Search) -> Encoded:
    """The paper's: all components on the same r columns."""
    k, selection = params.n_components, params.selection
    size, rank_tol = min(budgets_of(k, r)), search.rank_tol
    leading = None if search.leading is None else search.leading()
    if search.ruled:
        return _batch_by_rules(params, core, size, search, leading)
    made = _best_of_repeats(
        params,
        lambda rng: encode_batch(core, k, size, selection=selection, rng=rng, rank_tol=rank_tol, leading=leading),
    )
    bound, theorem, expected = theorem_bound(selection, k, size)
    if bound is not None and expected:
        theorem = in_expectation(theorem, bound, _repeats(params))
    return Encoded(made.H, made.G, made.selected, bound, theorem)


BY_RULES: Mapping[str, Callable[..., Columns]] = {"greedy": targeted_greedy, "exchange": exchange}
"""Selections that keep to rules."""

NO_BOUND = "No bound: a theorem chooses among all columns, and the rules do not."


def _batch_by_rules(params: FitParameters, core: Floats, size: int, search: Search, leading: Floats | None) -> Encoded:
    """All components on the free columns and ``size`` others, of those that are allowed."""
    free = np.zeros(0, dtype=np.intp) if search.free is None else search.free
    # the polished encoder's start: greedy in place of a selection that knows no rules
    select = BY_RULES[params.selection if params.selection in BY_RULES else "greedy"]

    given = {} if search.panel is None else {"rules": search.panel}

    def selection(core: Floats, k: int, r: int, _: np.random.Generator) -> Columns:
        kept = {"start": free, "allowed": search.allowed, "rank_tol": search.rank_tol, "leading": leading}
        return select(core, k, r, **kept, **given)

    k, rng = params.n_components, np.random.default_rng(params.seed)
    made = encode_batch(core, k, size + len(free), selection=selection, rng=rng, rank_tol=search.rank_tol)
    return Encoded(made.H, made.G, made.selected, None, NO_BOUND)


def iterative(params: FitParameters, core: Floats, r: Sizes, search: Search) -> Encoded:
    """The paper's: one component after another, each on columns of what those before it left."""
    k = params.n_components
    # for single codes dual-set is one column and a fill; the iterative theorem has its own selection
    selection = None if params.selection == "dual-set" else params.selection
    rank_tol = search.rank_tol
    made = _best_of_repeats(
        params, lambda rng: encode_iterative(core, k, r, selection=selection, rng=rng, rank_tol=rank_tol)
    )
    columns = np.flatnonzero(made.H.any(axis=1))
    steps = [theorem_bound(selection or "adaptive-derandomized", 1, size) for size in budgets_of(k, r)]
    factors = [step.bound for step in steps if step.bound is not None]
    if len(factors) < k:
        return Encoded(made.H, made.G, columns, None, steps[0].theorem)
    start, rate = (5, 5) if selection == "adaptive-paper" else (1, 2)
    theorem = (
        f"Magdon-Ismail & Boutsidis 2015, adaptive iterative theorem: component j has {start} + ceil({rate}j/eps) "
        "nonzeros. Then l components lose at most (e l)^eps times PCA's loss plus eps l^(1 + eps) ||X_l - X_1||^2"
        if selection != "barrier"
        else "Magdon-Ismail & Boutsidis 2015, iterative encoder: dual-set for each component on the residual "
        "of the others"
    )
    spectrum = right_singular(core, 0)[0]
    bounds, best = prefix_bounds(spectrum, factors)[: made.losses.size], pca_loss(spectrum, k)
    if any(step.in_expectation for step in steps):
        ratio = bounds[-1] / best if bounds and best > 0 else 1.0
        theorem = in_expectation(theorem, ratio, _repeats(params) if ratio > 1 else 1)
    return Encoded(made.H, made.G, columns, None, theorem, made.losses.tolist(), bounds)


def polished(params: FitParameters, core: Floats, r: Sizes, search: Search) -> Encoded:
    """Ours: starts from the paper's batch encoder and only ever lowers its loss, so it keeps the paper's bound."""
    if params.shared_support:
        return batch(replace(params, selection="exchange"), core, r, search)
    search = in_panel(params, core, search)
    start = batch(params, core, r, search)
    if not start.H.any():  # constant or zero data
        return start
    rng = np.random.default_rng(params.seed)
    paper_loss = encoder_loss(core, start.H)
    known = search.start is not None and encoder_loss(core, search.start) < paper_loss
    made = encode_polished(
        core,
        params.n_components,
        r,
        start_H=search.start if known else start.H,
        rng=rng,
        effort=params.effort if search.effort is None else search.effort,
        search_tol=params.search_tol,
        allowed=search.allowed,
        free=search.free,
        rank_tol=search.rank_tol,
        climbed=known and search.climbed,
        watch=watching(search.report, r, search.pca_loss),
    )
    rounding = TIE * paper_loss + rounding_error(paper_loss, total_variance(core))
    fewer = np.count_nonzero(made.H) < np.count_nonzero(start.H)
    if not made.loss < paper_loss + (rounding if fewer and not known else -rounding):
        return start  # nothing to gain, so the paper's own encoder stands
    theorem = start.theorem if start.bound is None else f"{start.theorem}; polishing starts there and only improves"
    return Encoded(made.H, made.G, np.flatnonzero(made.H.any(axis=1)), start.bound, theorem)


def in_panel(params: FitParameters, core: Floats, search: Search) -> Search:
    """The search on the features of a panel alone, chosen for all components together."""
    if params.n_features is None:
        return search
    chosen = batch(replace(params, selection="exchange"), core, params.n_features, search).chosen
    panel = np.union1d(chosen, [] if search.free is None else search.free).astype(np.intp)
    fits = search.start is not None and not np.delete(search.start, panel, axis=0).any()
    return replace(search, allowed=panel, start=search.start if fits else None, panel=None)


def lowest_allowed(core: Floats, allowed: Columns | None, free: Columns | None, *, alike: bool = True) -> Columns:
    """Lowest index ``(d,)`` of a column equal to each, among those that are allowed; their own for free ones.

    Columns that are not ``alike``, as rules tell equal ones apart, keep their own too.
    """
    if not alike:
        return np.arange(core.shape[1])
    if allowed is None:
        lowest = lowest_equal(core)
    else:
        lowest = np.arange(core.shape[1])
        lowest[allowed] = allowed[lowest_equal(core[:, allowed])]
    if free is not None:
        lowest[free] = free
    return lowest


def _on_lowest_copies(method: Method, *, shared: bool) -> Method:
    """The method, its encoder moved from copies of columns to those of lowest index."""

    def encode(params: FitParameters, core: Floats, r: Sizes, search: Search) -> Encoded:
        made = method(params, core, r, search)
        together = shared or params.shared_support
        lowest = lowest_allowed(core, search.allowed, search.free, alike=search.panel is None)
        H = on_lowest(made.H, lowest, shared=together)
        if np.array_equal(H, made.H):
            return made
        loss = encoder_loss(core, made.H)
        # differences of near-copies, if used, would distinguish copies
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
