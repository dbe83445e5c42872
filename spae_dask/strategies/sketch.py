"""Strategy ``sketch``: a sketch proposes candidate columns in one read, and a second read refits on them exactly.

1. ``sketch``: exact means, scales and total, a row sketch W, and, if a certified bound is asked for, Frequent
   Directions. On W the encoder is found as on a core, and columns several times its supports become candidates.
2. ``candidates``: C'C, C'X of the candidates C, and X'XZ for the approximate V_k. On the core Q_C'X every loss of an
   encoder on the candidates is exact, and the encoder is built again there.

Two reads; one more with ``missing="mean"``; with a target one more each time the candidates were too few.
Nothing n-sized and nothing d x d is ever held. A sketch may propose (Clarkson & Woodruff 2013; Cohen et al. 2015), but
not decide: the loss on W of columns that were chosen on W is too small, by about r over its rows. With folds each read
keeps its sums for each fold (`folded_refit`).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from spae_dask.blocks import RowBlocks
from spae_dask.maths.encoders.budgets import budgets_of
from spae_dask.maths.linalg.scaling import PANEL_COLUMNS, scale_in_place
from spae_dask.maths.linalg.spectral import right_singular
from spae_dask.passes.accumulators import Accumulator, Beside, CrossProducts, Folded, Imputed, all_weighted, weighing
from spae_dask.passes.accumulators.base import RunPass
from spae_dask.passes.memory import ALLOCATOR_SLACK, TASK_OVERHEAD
from spae_dask.passes.plan import Finish
from spae_dask.strategies.base import (
    UNKNOWN_NONZERO,
    Outcome,
    Passes,
    Reader,
    Reports,
    Shape,
    Strategy,
    holds_integers,
    refuse_covariates,
    refuse_no_candidates,
    refuse_panel,
    refuse_share,
    share_of_search,
)
from spae_dask.strategies.candidate_set import (
    FEWER,
    POOL,
    choose_candidates,
    numbers_of_candidates,
    search_seconds,
)
from spae_dask.strategies.core import means_recipe
from spae_dask.strategies.folded_refit import (
    FoldCandidates,
    FoldedRefit,
    n_beside,
    sketched_components,
    with_directions_of_folds,
)
from spae_dask.strategies.folds import N_SIZES, FoldPlan, chosen_components, encode_with_folds
from spae_dask.strategies.held_out import HeldOutComponents
from spae_dask.strategies.methods import Report
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.refit import Refit, fit_to_target, refit
from spae_dask.strategies.sketched import MOMENTS_HELD, SketchSizes, read_sketch, sketch_recipe
from spae_dask.strategies.sparse_encoder import FittedEncoder, measured_if_fragile

OVERSAMPLING = 10
"""Directions beyond k in the second read: PCA's loss is then known to a few digits more."""

FEWEST_ROWS, ROWS_PER_COMPONENT, ROWS_PER_NONZERO = 200, 20, 20
"""Rows of the sketch: many times what one component may use, or it is fitted to its noise."""

FEWEST_CANDIDATES, CANDIDATES_PER_NONZERO = 64, 4
"""Candidates: several times what all supports hold."""

SKETCHES_HELD = {"full-greedy": 3, "adaptive": 4, "adaptive-derandomized": 4, "exchange": 5}
"""Arrays as large as the sketch that a selection holds at its peak, the sketch among them: its unit columns, residuals,
and the input of a QR. Other selections hold two."""

SKETCHES_HELD_BY_ITERATIVE = 7
"""The same of the iterative method, which selects on residuals."""

FEWEST_BUCKETS = 8
"""Groups of rows for each row of the sketch, at least: their part of its error is then a small one."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the results of the two reads, from the shape of the data alone.

    A fit to a target doubles the candidates up to ``most_candidates``.
    """

    sketch: SketchSizes
    n_candidates: int
    most_candidates: int
    n_directions: int


def two_read_sizes(params: FitParameters, n_samples: int, n_features: int) -> Sizes:
    """Sizes for the parameters of a fit; ``params.sketch_rows`` and ``params.n_candidates`` overrule them."""
    k = params.n_components
    budgets = budgets_of(k, UNKNOWN_NONZERO if params.sizes is None else params.sizes)
    rows = params.sketch_rows or max(FEWEST_ROWS, ROWS_PER_COMPONENT * k, ROWS_PER_NONZERO * max(budgets))
    group = next(g for g in (8, 4, 2, 1) if g == 1 or n_samples >= FEWEST_BUCKETS * g * rows)
    first, most = numbers_of_candidates(
        params, n_features, fewest=FEWEST_CANDIDATES, of_each_nonzero=CANDIDATES_PER_NONZERO
    )
    frequent = min(n_features, max(4 * k, k + 20)) if params.certified else 0
    return Sizes(
        SketchSizes(rows, group, frequent, scaled=bool(params.scale)),
        first,
        most,
        min(n_features, k + OVERSAMPLING),
    )


def two_read_passes(
    params: FitParameters, n_samples: int, n_features: int, *, largest: bool = False
) -> list[tuple[str, Accumulator[Any]]]:
    """Names and recipes of the passes, for planning; numbers in the recipes are placeholders.

    ``largest`` is True for the recipes of the most candidates that a fit to a target may come to.
    """
    d, sizes = n_features, two_read_sizes(params, n_samples, n_features)
    c, ones = sizes.most_candidates if largest else sizes.n_candidates, np.ones(d)
    # broadcast: a placeholder of d numbers for each direction would take as much memory as the directions
    Z = np.broadcast_to(0.0, (d, (1 if params.fold_groups is None else 2) * sizes.n_directions))
    single, design = params.precision == "fast", params.covariates
    plan: FoldPlan | None = params.fold_groups
    folds = None if plan is None else plan.rows
    columns = np.arange(c if folds is None else min(d, c + n_beside(c)))
    products: Accumulator[Any] = CrossProducts(columns, ones, ones, Z, single=single)
    if design is not None:
        q, wide = design.width, np.ones(design.width + d)
        Z = np.broadcast_to(0.0, (q + d, sizes.n_directions))
        beside = CrossProducts(np.arange(q + c), wide, wide, Z, single=single)
        products = Beside(beside, design, d)
    if folds is not None:
        products = Folded(products, folds, d)
    first = sketch_recipe(d, sizes.sketch, params.seed, design, folds)
    passes: list[tuple[str, Accumulator[Any]]] = [("sketch", first)]
    passes.append(("candidates", products))
    if params.missing != "error":
        passes = [(name, Imputed(recipe, ones)) for name, recipe in passes]
    if params.missing == "mean":
        passes = [("column means", means_recipe(d)), *passes]
    return all_weighted(passes, params.row_weights)


def sketches_held(params: FitParameters) -> int:
    """Arrays as large as the sketch that are held while candidates are proposed on it, the sketch among them."""
    if params.method == "iterative":
        return SKETCHES_HELD_BY_ITERATIVE
    return SKETCHES_HELD.get("exchange" if params.shared_support else params.selection, 2)


def two_read_finish_nbytes(params: FitParameters, n_samples: int, n_features: int) -> int:
    """Peak of the linear algebra between and after the reads, in the calling process."""
    sizes = two_read_sizes(params, n_samples, n_features)
    rows, c, p = sizes.sketch.rows, sizes.most_candidates, sizes.n_directions
    searched = 6 * rows * (min(n_features, POOL) + rows)
    # first the sketch, what the selection makes of it, and directions
    proposing = sketches_held(params) * rows + 4 * p
    panels = 3 * rows * min(n_features, PANEL_COLUMNS)
    # then the merged products, and the sketch if other candidates may follow; beside the products scaled ones, or
    # those with what covariates explain and without it
    copies = 4 if params.precision == "fast" else 1 if params.covariates is None else 3
    settling = copies * c + 5 * p + (rows if params.n_nonzero is None else 0)
    if params.fold_groups is not None:
        # states of all folds, that of all but one, and what is made of it
        plan: FoldPlan = params.fold_groups
        states, settled = plan.rows.n_folds, c + n_beside(c) + 2 * p
        proposing += (states + 4) * rows
        settling += (states + 2) * settled + 2 * (c + p)
    wide = max(proposing, settling) * n_features
    return 8 * (wide + panels + max(searched, 12 * (c + p) ** 2))


def beside_second_read(params: FitParameters, n_samples: int, n_features: int) -> int:
    """Bytes held in the calling process while candidates are read: directions, moments, and sketches for a target."""
    sizes = two_read_sizes(params, n_samples, n_features)
    n_folds = 0 if params.fold_groups is None else params.fold_groups.rows.n_folds
    kinds = (2 if n_folds else 1) * (2 if params.precision == "fast" else 1)
    held = MOMENTS_HELD + 4 * n_folds + kinds * sizes.n_directions
    if params.n_nonzero is None:
        held += sizes.sketch.rows * (1 + n_folds)
    return 8 * n_features * held


def fit_two_reads(
    params: FitParameters,
    run_pass: RunPass,
    shape: tuple[int, int],
    *,
    integers: bool = False,
    report: Report | None = None,
) -> tuple[FittedEncoder, Refit]:
    """Fit an encoder in two reads.

    Parameters
    ----------
    params : FitParameters
        Parameters of the fit, checked.
    run_pass : callable
        Reads the data.
    shape : tuple of int
        ``(n, d)``.
    integers : bool
        True if all entries are integers.
    report : callable, optional
        Called with the progress of the search.

    Returns
    -------
    FittedEncoder
        Its loss is exact. PCA's is an estimate from above with certified bounds beside it, or a certified lower bound
        with ``params.certified``.
    Refit
        The candidates' core, for further encoders on them.
    """
    n, d = shape
    sizes, run_pass = two_read_sizes(params, n, d), weighing(run_pass, params.row_weights)
    sketched = read_sketch(
        run_pass,
        d,
        sizes.sketch,
        center=params.center,
        scale=params.scale,
        missing=params.missing,
        seed=params.seed,
        integers=integers,
        design=params.covariates,
        folds=params.fold_groups,
    )
    W, folded, sketched = sketched.W, sketched.folded, sketched.without_sketch()
    scale_in_place(W)  # all that looks at it would scale a copy
    measured, components = tuple[HeldOutComponents, ...](), tuple[HeldOutComponents, ...]()
    if folded is not None:
        measured = sketched_components(folded, params.n_components)
        params, components = chosen_components(params, folded.plan, lambda ks: tuple(measured[k - 1] for k in ks))
    single = params.precision == "fast"

    Z = right_singular(W, sizes.n_directions)[1]

    def read_candidates(n_candidates: int) -> Refit:
        nonlocal W, folded
        candidates = choose_candidates(params, W, Z[:, : params.n_components], n_candidates, report=report)
        of_folds = None if folded is None else FoldCandidates.chosen(params, folded, candidates, n_candidates, report)
        if n_candidates == sizes.most_candidates:  # no others follow, and beside a second read sketches are large
            W, folded = W[:0].copy(), None if folded is None else folded.without_sketches()
        if folded is None or of_folds is None:
            products = run_pass(sketched.products(candidates.columns, Z, single=single), "candidates")
            settled, products = sketched.settled(products, candidates.columns)
            return refit(settled, candidates, products, Z)
        moments = folded.without_sketches()
        wide = with_directions_of_folds(moments, Z)
        recipe = sketched.products(of_folds.columns, wide, single=single, folds=folded.plan.rows)
        found = run_pass(recipe, "candidates")
        kept = FoldedRefit(moments, found, of_folds, sketched, wide, Z.shape[1], measured)
        return replace(refit(sketched, candidates, kept.whole(), Z), folded=kept)

    fitted: FittedEncoder | None = None
    if params.n_nonzero is None:
        fitted, refitted = fit_to_target(params, read_candidates, sizes.n_candidates, sizes.most_candidates, report)
    else:
        refitted = read_candidates(sizes.n_candidates)

    def encode(point: FitParameters, effort: float | None = None) -> FittedEncoder:
        if fitted is not None and point is params and effort is None:
            return fitted
        return refitted.fit(point, effort=effort, report=report)

    if refitted.folded is None:
        return encode(params), refitted
    return encode_with_folds(params, refitted.folded, encode, components, report), refitted


class SketchStrategy(Strategy):
    """Two reads: a sketch proposes candidates, and the second read makes every loss on them exact."""

    name: ClassVar[str] = "sketch"
    pca_loss: ClassVar[str] = "estimated"

    def reason(self, source: RowBlocks) -> str:  # noqa: ARG002 - the same for all data
        return "requested: a sketch selects candidate columns, and a second pass refits on them exactly"

    def cannot(self, params: FitParameters) -> str | None:
        refused = refuse_panel(params) or refuse_no_candidates(params) or refuse_share(params)
        return refused or (refuse_covariates(params) if params.certified or params.folds is not None else None)

    def passes(self, params: FitParameters, source: RowBlocks) -> Passes:
        return two_read_passes(params, *source.shape)

    def finish(self, params: FitParameters, shape: Shape) -> Finish:
        seconds = search_seconds(params, shape[1])
        if params.fold_groups is not None:
            k = params.fold_groups.rows.n_folds
            seconds *= 1 + k + share_of_search(params) * (params.bootstraps + k * N_SIZES)
        nbytes = TASK_OVERHEAD + int(ALLOCATOR_SLACK * two_read_finish_nbytes(params, *shape))
        beside = {"candidates": beside_second_read(params, *shape)}
        if self.n_passes_known(params):
            return Finish(nbytes, seconds, beside)
        largest = dict(two_read_passes(params, *shape, largest=True)[-1:])
        return Finish(nbytes, seconds, beside, largest, (FEWER,))

    def notes(self, params: FitParameters, source: RowBlocks) -> list[str]:
        sizes = two_read_sizes(params, *source.shape)
        more = math.ceil(math.log2(sizes.most_candidates / sizes.n_candidates))
        if not more:
            return []
        passes = "1 more pass" if more == 1 else f"up to {more} more passes"
        return [f"{passes} with more candidates, if no encoder on the first ones reaches the target"]

    def n_passes_known(self, params: FitParameters) -> bool:
        return params.n_nonzero is not None

    def fit(self, params: FitParameters, reader: Reader, source: RowBlocks, reports: Reports) -> Outcome:
        integers = holds_integers(source)
        fitted, refitted = fit_two_reads(
            params, reader.run_pass, source.shape, integers=integers, report=reports.search
        )
        run_pass = weighing(reader.run_pass, params.row_weights)
        return Outcome(measured_if_fragile(fitted, run_pass, params.covariates), refitted)
