"""The paper's own pipeline: approximate V_k, residual norms, dual-set and adaptive sampling, finish.

Magdon-Ismail & Boutsidis (2015), Theorem 2 (ii), on Boutsidis, Drineas & Magdon-Ismail (2014), Theorem 5. Every stage
is a pass over the row blocks and leaves a thin summary, so nothing n-sized and nothing d x d is ever held:

1. ``sketch``: W = S X with S Gaussian, column moments, and a Frequent Directions sketch for a certified bound;
2. ``projection``: a triangular factor of X Q_W (distributed TSQR) and X'X Q_W, hence approximate V_k; repeated for each
   power iteration;
3. ``residual norms``: what V_k leaves of every column, for dual-set;
4. ``start``: products of the dual-set columns, hence what they leave of every column, for adaptive sampling;
5. ``finish``: products of all selected columns, hence the encoder and its exact loss.

5 passes, one more a power iteration, one more with ``missing="mean"``. ``projection="frequent-directions"`` takes V_k
from the sketch of pass 1 and needs no pass 2. With ``split="dual-set"``, which samples nothing, it is the paper's
deterministic algorithm.

The bound, for Z of orthonormal columns in place of V_k and ``E = X - XZZ'``, whose column norms are exact:

1. ``||E||^2`` is at most ``alpha ||X - X_k||^2``: on average, alpha ``1 + k/(p - 1)``, for k + p rows of S (Halko,
   Martinsson & Tropp 2011, Theorem 10.5; a power iteration lowers no Ritz value); for certain, alpha
   ``1 + k/(l + 1 - k)``, for l rows of Frequent Directions.
2. Dual-set with r_1 columns C: ``||X - X_{C,k}||^2 <= c ||E||^2``, ``c = 1 + 1/(1 - sqrt(k/r_1))^2``, for any Z.
3. Sampling s more: given C the loss is on average at most ``||X - X_k||^2 + (k/s) ||X - P_C X||^2``, by the lemma of
   adaptive sampling for the exact V_k, which only the analysis needs. So it is on average at most
   ``(1 + alpha c k/s) ||X - X_k||^2``: alpha is on the term of the start alone.

``n_repeats`` repeats share the passes. Each has its own sketch, V_k, start and draws, and the one of smallest exact
loss is kept. They are independent, so the loss is with probability ``1 - 2^-n_repeats`` at most PCA's and twice the
excess of the bound (Markov).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from spae_dask.blocks import RowBlocks
from spae_dask.maths.encoders import encoder_from_columns
from spae_dask.maths.linalg.candidates import candidate_core
from spae_dask.maths.linalg.loss import sequential_explained
from spae_dask.maths.linalg.scaling import squared_columns
from spae_dask.maths.linalg.spectral import thin_svd
from spae_dask.maths.selection.dual_set import dual_set_factor, dual_set_weights
from spae_dask.maths.selection.pivoting import pivot_columns
from spae_dask.maths.selection.problem import distinct, first_of_best
from spae_dask.passes.accumulators import (
    Accumulator,
    CrossProducts,
    Imputed,
    Projection,
    Residual,
    Together,
)
from spae_dask.passes.accumulators.base import RunPass
from spae_dask.passes.memory import ALLOCATOR_SLACK, TASK_OVERHEAD
from spae_dask.passes.plan import Finish
from spae_dask.strategies.base import (
    Outcome,
    Passes,
    Reader,
    Reports,
    Shape,
    Strategy,
    holds_integers,
    nonzeros,
    refuse_covariates,
    refuse_fast,
    refuse_folds,
    refuse_panel,
    refuse_row_weights,
    refuse_rules,
    refuse_share,
)
from spae_dask.strategies.certificate import symmetric_bounds
from spae_dask.strategies.certify import better_decoder, certify_between
from spae_dask.strategies.core import means_recipe
from spae_dask.strategies.core_summary import Floats
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.refit import loss_from_products
from spae_dask.strategies.sketched import MOMENTS_HELD, Columns, Sketched, SketchSizes, read_sketch, sketch_recipe
from spae_dask.strategies.sparse_encoder import FittedEncoder, measured_if_fragile, padded
from spae_dask.strategies.theory import in_expectation

ROWS_PER_COMPONENT = 6
"""Rows of the sketch beyond k, for each component: alpha is then ``1 + 1/6``. So the paper's split has the paper's
bound, ``1 + 5k/(r - 5k)``, which takes ``alpha (1 + 1/(1 - sqrt(1/5))^2) <= 5``."""


QR_ARRAYS = 4
"""Arrays as large as its input that a QR holds beside the input: a copy, two of LAPACK, and the result."""

INTERVAL_ARRAYS = 5
"""Arrays as large as a Frequent Directions sketch at the peak of a bound: the sketch, the same in units of the data,
about another point and scaled, and a copy of LAPACK."""

SVD_ARRAYS = 4
"""The same of an SVD, its input included: the input, two of LAPACK, and the vectors."""

PIVOTING_ARRAYS = 3
"""Arrays as large as a sketch that pivoting holds beside it: the residual, a copy, and a change of that."""

COLUMN_SECONDS = 4e-6
"""Seconds of choosing one column of d, over d."""


@dataclass(frozen=True)
class Split:
    """Division of the r columns between the deterministic start and the sample.

    Attributes
    ----------
    start : int
        Columns of the deterministic start.
    drawn : int
        Columns sampled after it.
    factor : float or None
        The start loses at most so many times what V_k loses; None if that is no theorem.
    """

    start: int
    drawn: int
    factor: float | None

    def bound(self, k: int, alpha: float) -> float:
        """Bound on the ratio to PCA's loss, if V_k is within ``alpha`` of PCA."""
        if self.factor is None:
            return math.inf
        return 1.0 + alpha * self.factor * k / self.drawn if self.drawn else alpha * self.factor


@dataclass(frozen=True, eq=False)
class Directions:
    """Approximate V_k of one repeat.

    Attributes
    ----------
    Z : ndarray (d, k')
        Orthonormal columns; ``k'`` is the rank of X, if that is below k.
    core : ndarray (m, d) or None
        Sketch that Z was found on, if the start pivots on it.
    spectrum : ndarray
        Leading singular values of X, as this repeat sees them.
    """

    Z: Floats
    core: Floats | None
    spectrum: Floats


def fit_paper(params: FitParameters, run_pass: RunPass, n_features: int, *, integers: bool = False) -> FittedEncoder:
    """Fit the batch encoder as the paper does, in thin passes.

    Passes: 5, or 4 with ``projection="frequent-directions"``; ``power_iterations`` more, and one more with
    ``missing="mean"``.

    Parameters
    ----------
    params : FitParameters
        With ``n_nonzero`` given.
    run_pass : callable
        Reads the data.
    n_features : int
        d.
    integers : bool
        True if all entries are integers.

    Returns
    -------
    FittedEncoder
        ``certificate.pca_loss`` is a certified lower bound, by Frequent Directions; the loss itself is exact.
    """
    k, r, d = params.n_components, params.shared_size, n_features
    sketched = read_sketch(
        run_pass,
        d,
        _sizes(params, d),
        center=params.center,
        scale=params.scale,
        missing=params.missing,
        seed=params.seed,
        integers=integers,
    )
    split = _split(params, d)
    pca, cores = sketched.pca_interval(k), _cores(params, sketched)
    # sketches are large beside a pass, so none is held for longer than it is needed
    sketched = replace(sketched.without_sketch(), frequent=None)
    seen = _directions(params, sketched, run_pass, cores, keep=_pivots(split, k))
    residuals = _residuals([each.Z for each in seen], sketched.center, sketched.scale)
    norms = [each.norms for each in run_pass(sketched.recipe(residuals), "residual norms").values()]
    starts = [_start(each, e, split.start) for each, e in zip(seen, norms, strict=True)]
    if len(starts) == 1 and split.drawn:
        starts = starts * params.n_repeats  # one V_k has one start, and repeats differ in their draws
    losses = [float(np.sum(e)) for e in norms]
    best = int(np.argmin(losses))
    spectrum = seen[best].spectrum
    del seen, residuals, norms
    chosen = _sampled(params, sketched, run_pass, starts, r if split.drawn else 0)
    bound = _bound(params, split, _alpha(params, d, sketched))
    return _finish(params, sketched, run_pass, chosen, spectrum, (*pca, losses[best]), bound)


def paper_passes(params: FitParameters, n_features: int) -> list[tuple[str, Accumulator[Any]]]:
    """Names and recipes of the passes, for planning; numbers in the recipes are placeholders."""
    d, k, r, n = n_features, params.n_components, params.shared_size, params.n_repeats
    sizes, copies = _sizes(params, d), _copies(params, d)
    split = _split(params, d)
    columns, ones = np.arange(d), np.ones(d)
    # broadcast: a placeholder of d numbers for each direction would take as much memory as the directions
    Z, Q = np.broadcast_to(0.0, (d, k)), np.broadcast_to(0.0, (d, _sketch_rows(params, d)))
    passes: list[tuple[str, Accumulator[Any]]] = [("sketch", sketch_recipe(d, sizes, params.seed))]
    passes += [("projection", _projections([Q] * copies, ones, ones))] * _n_projections(params)
    passes += [
        ("residual norms", _residuals([Z] * copies, ones, ones)),
        ("start", CrossProducts(columns[: copies * split.start], ones, ones)),
        ("finish", CrossProducts(columns[: n * r], ones, ones)),
    ]
    if params.missing != "error":
        passes = [(name, Imputed(recipe, ones)) for name, recipe in passes]
    return [("column means", means_recipe(d)), *passes] if params.missing == "mean" else passes


def paper_columns_beside(params: FitParameters, n_features: int) -> dict[str, int]:
    """Vectors of length d that are held beside the tasks of a pass: those in its recipe, and those needed after it."""
    n, s = _copies(params, n_features), _sketch_rows(params, n_features)
    cores = n * s if _pivots(_split(params, n_features), params.n_components) else 0
    directions = {"projection": n * s, "residual norms": n * params.n_components}
    beside = {name: MOMENTS_HELD + cores + each for name, each in directions.items()}
    return {**beside, "start": MOMENTS_HELD, "finish": MOMENTS_HELD}


def paper_finish_columns(params: FitParameters, n_features: int) -> int:
    """Vectors of length d that the linear algebra between and after the passes holds at once, at most."""
    d, k, r, repeats = n_features, params.n_components, params.shared_size, params.n_repeats
    n, s, sizes, union = _copies(params, d), _sketch_rows(params, d), _sizes(params, d), min(d, repeats * r)
    pivots = _pivots(_split(params, d), k)
    cores = n * s if pivots else 0
    stages = (
        # the sketches as they were read, and a bound made of one of them
        n * sizes.rows + INTERVAL_ARRAYS * sizes.frequent_rows,
        # the QR of the last sketch, beside the other sketches and their bases
        (2 * n - 1 + QR_ARRAYS) * s,
        # directions and the products with them; the QR of the last product, beside the other bases
        cores + ((3 * n - 1 + QR_ARRAYS) * s if _n_projections(params) > 1 else 2 * n * s),
        # the start of one repeat
        cores + PIVOTING_ARRAYS * s * pivots + (n + 2) * k,
        # products and core of all columns, the core scaled, and an SVD of those of one repeat; or two residuals
        max(3 * union + SVD_ARRAYS * min(d, r), 5 * union) + (2 * repeats + 6) * k,
    )
    return MOMENTS_HELD + 2 * repeats + max(stages)


def _oversampling(params: FitParameters) -> int:
    """Rows p of the sketch beyond k."""
    given = params.oversampling
    return ROWS_PER_COMPONENT * params.n_components + 1 if given is None else given


def _sizes(params: FitParameters, d: int) -> SketchSizes:
    """A Gaussian sketch for the projection of each repeat; Frequent Directions for the bound, or for both."""
    k = params.n_components
    rows, bound_rows = min(d, k + _oversampling(params)), min(d, max(4 * k, k + 20))
    if params.projection == "frequent-directions":
        return SketchSizes(0, frequent_rows=max(rows, bound_rows))
    return SketchSizes(rows, frequent_rows=bound_rows, copies=_copies(params, d))


def _sketch_rows(params: FitParameters, d: int) -> int:
    """Most rows of a sketch of one repeat: a sketch about another point than the mean has one more."""
    sizes = _sizes(params, d)
    return sizes.rows or min(d, sizes.frequent_rows + 1)


def _copies(params: FitParameters, d: int) -> int:
    """Projections: one a repeat where they are random, and not of all of X."""
    random = params.projection == "randomized" and params.n_components + _oversampling(params) < d
    return params.n_repeats if random else 1


def _n_projections(params: FitParameters) -> int:
    """Passes of the projection: Frequent Directions have V_k already."""
    return params.power_iterations + (1 if params.projection == "randomized" else 0)


def _alpha(params: FitParameters, d: int, sketched: Sketched | None = None) -> float:
    """Factor of PCA's loss that V_k loses: in expectation if it is randomized, at most if by Frequent Directions.

    Frequent Directions sketch columns that are not scaled yet. For columns divided by D, they miss at most the k
    largest of ``D^-2`` times as much, and PCA loses at least the least of ``D^-2`` times as much. ``sketched`` knows D;
    without it columns count as not scaled.
    """
    k, sizes = params.n_components, _sizes(params, d)
    if (sizes.rows or sizes.frequent_rows) >= d:
        return 1.0
    if sizes.rows:
        return 1.0 + k / (sizes.rows - k - 1)
    scale = np.ones(1) if sketched is None else sketched.scale
    if sketched is not None and params.center and sketched.constant.size < d:
        scale = np.delete(scale, sketched.constant)
    squares = np.sort(scale**2)
    return 1.0 + float(np.mean(squares[-1] / squares[:k])) * k / (sizes.frequent_rows + 1 - k)


def paper_split(k: int, r: int, how: str, alpha: float) -> Split:
    """Divide r columns between the start and the sample.

    Parameters
    ----------
    k : int
        Rank to approximate.
    r : int
        Columns in all.
    how : {"best", "paper", "dual-set"}
        Of smallest bound; the paper's 5k; all of them.
    alpha : float
        Factor of PCA's loss that V_k loses.

    Returns
    -------
    Split
        The start is dual-set for k > 1 and ``r > k``. For k = 1 it may be the one column of least ``e_j / v_j^2``,
        within a factor 2. Both need residual norms only, which are exact. For other r there is no theorem: pivoting
        needs the residual itself, and is done on the sketch.
    """
    if how == "paper":
        return Split(5 * k, r - 5 * k, dual_set_factor(k, 5 * k))
    everything = Split(r, 0, dual_set_factor(k, r) if r > k else 2.0 if r == k == 1 else None)
    if how == "dual-set" or r <= k:
        return everything
    candidates = [everything, Split(1, 0, 2.0), Split(1, r - 1, 2.0)] if k == 1 else [everything]
    sizes = np.arange(k + 1, r)
    if sizes.size:
        size = int(sizes[np.argmin((1.0 + 1.0 / (1.0 - np.sqrt(k / sizes)) ** 2) / (r - sizes))])
        candidates.append(Split(size, r - size, dual_set_factor(k, size)))
    return min(candidates, key=lambda split: split.bound(k, alpha))


def _split(params: FitParameters, d: int) -> Split:
    """Division of the columns as it is known before the data are read."""
    return paper_split(params.n_components, params.shared_size, params.split, _alpha(params, d))


def _pivots(split: Split, k: int) -> bool:
    """Return True if the start pivots on the residual of a sketch; see :func:`_start`."""
    return k > 1 and split.start <= k


def _projections(Qs: Sequence[Floats], mean: Floats, scale: Floats) -> Together:
    """Projections of all repeats in one pass, named by their numbers."""
    return Together({str(number): Projection(Q, mean, scale) for number, Q in enumerate(Qs)})


def _residuals(Zs: Sequence[Floats], mean: Floats, scale: Floats) -> Together:
    """Residual norms of all repeats in one pass, named by their numbers."""
    columns = np.arange(mean.shape[-1])
    return Together({str(number): Residual(columns, Z, Z.T, mean, scale) for number, Z in enumerate(Zs)})


def _cores(params: FitParameters, sketched: Sketched) -> list[Floats]:
    """Sketches of which V_k is found in the row space: one of each repeat, or the one of Frequent Directions."""
    if params.projection == "randomized":
        return np.array_split(sketched.W, _copies(params, sketched.scale.size))
    assert sketched.frequent is not None, "the read keeps Frequent Directions"
    B = sketched.frequent.about(sketched.center, sketched.scale)[0]
    if params.center:
        B[:, sketched.constant] = 0.0
    return [B]


def _directions(
    params: FitParameters, sketched: Sketched, run_pass: RunPass, cores: list[Floats], *, keep: bool
) -> list[Directions]:
    """Approximate V_k of each repeat: the SVD of X on the row space of its sketch, by TSQR.

    Without ``keep`` the list of sketches is emptied as soon as they are not needed.
    """
    k, n_projections = params.n_components, _n_projections(params)
    Qs = [np.linalg.qr(core.T)[0] for core in cores]
    # without a projection the sketch stands for X
    triangles = [] if n_projections else [core @ Q for core, Q in zip(cores, Qs, strict=True)]
    kept = list[Floats | None](cores) if keep else [None] * len(cores)
    cores.clear()
    for iteration in range(n_projections):
        recipe = sketched.recipe(_projections(Qs, sketched.center, sketched.scale))
        seen = list(run_pass(recipe, "projection").values())
        triangles = [each.triangle for each in seen]
        if iteration < n_projections - 1:
            Qs = [np.linalg.qr(each.cross)[0] for each in seen]
        del recipe, seen
    return [_leading(core, Q, triangle, k) for core, Q, triangle in zip(kept, Qs, triangles, strict=True)]


def _leading(core: Floats | None, Q: Floats, triangle: Floats, k: int) -> Directions:
    """The best k directions within the span of Q, for ``triangle`` (m, s) with ``R'R = (XQ)'XQ``."""
    _, sigma, Yt = thin_svd(triangle)
    rank = int(np.count_nonzero(sigma > len(sigma) * np.finfo(np.float64).eps * sigma[0])) if sigma[0] > 0 else 0
    return Directions(Q @ Yt[: min(k, rank)].T, core, sigma)


def _start(seen: Directions, e: Floats, size: int) -> Columns:
    """Deterministic columns: dual-set on V_k and the residual norms; pivoting if there are no more than k."""
    Z = seen.Z
    k = min(Z.shape[1], size)
    if k == 0:
        return np.zeros(0, dtype=np.intp)
    if size > k:
        return distinct(dual_set_weights(Z, e, size).picks)
    # one pivot on one direction needs norms only, and those are exact; more need the residual, which the sketch has
    if Z.shape[1] == 1:
        return pivot_columns(Z[:, :k], np.sqrt(e)[None])[0]
    assert seen.core is not None, "the sketch is kept for this"
    return pivot_columns(Z[:, :k], seen.core - (seen.core @ Z[:, :k]) @ Z[:, :k].T)[0]


def _sampled(
    params: FitParameters, sketched: Sketched, run_pass: RunPass, starts: Sequence[Columns], until: int
) -> list[Columns]:
    """Columns of each repeat: the start, a sample, and columns that the start leaves most of, r in all.

    Draws up to ``until`` columns have probabilities proportional to what the start leaves of a column. Those that
    repeat make room for others, and more columns never lose more.
    """
    r, union = params.shared_size, np.unique(np.concatenate(starts))
    products = run_pass(sketched.recipe(CrossProducts(union, sketched.center, sketched.scale)), "start")
    norms, rng = products.column_norms.copy(), np.random.default_rng(params.seed)
    if params.center:
        norms[sketched.constant] = 0.0
    chosen: list[Columns] = []
    for start in starts:
        at = np.searchsorted(union, start)
        left = norms.copy()
        if start.size:
            core, _ = candidate_core(products.gram[np.ix_(at, at)], products.cross[at], products.noise)
            left -= squared_columns(core)
        # a difference of squares: below 1e-12 of the column it is rounding
        left[left < 1e-12 * norms] = 0.0
        left[start] = 0.0
        total = float(np.sum(left))
        size = max(until - start.size, 0) if total > 0.0 else 0
        drawn = rng.choice(left.size, size=size, p=left / total) if size else np.zeros(0, dtype=np.intp)
        # nine digits, so that rounding does not decide between equal columns; zero columns are never taken
        order = np.lexsort([-norms, -np.round(left / max(total, np.finfo(np.float64).tiny), 9)])
        chosen.append(distinct(np.concatenate([start, drawn, order[norms[order] > 0.0]]))[:r])
    return chosen


def _finish(
    params: FitParameters,
    sketched: Sketched,
    run_pass: RunPass,
    chosen: list[Columns],
    sigma: Floats,
    pca: tuple[float, float, float],
    bound: tuple[float | None, str],
) -> FittedEncoder:
    """Last pass: exact products of the columns of all repeats; the best of these; its certificate.

    ``pca`` are certified bounds on PCA's loss, and what the best V_k loses.
    """
    k, d, (lower, upper, pca_upper) = params.n_components, sketched.scale.size, pca
    union = np.unique(np.concatenate(chosen))
    products = run_pass(sketched.recipe(CrossProducts(union, sketched.center, sketched.scale)), "finish")
    # constant or zero data have no column to choose
    core, dropped = np.zeros((1, d)), 0.0
    if union.size:
        core, dropped = candidate_core(products.gram, products.cross, products.noise)
    total, lengths = sketched.total, sketched.lengths
    rounding = replace(sketched.rounding, products=products.error, noise=products.noise + dropped, by_products=True)
    rank_tol = rounding.rank_tol(max(min(pca_upper, total), 0.0))
    made = [encoder_from_columns(core, columns, k, rank_tol=rank_tol) for columns in chosen]
    encoders = [(H, better_decoder(core, H, G)) for H, G in made]
    losses = [loss_from_products(lengths, products.gram, products.cross, H[union], G) for H, G in encoders]
    best = first_of_best([-loss for loss in losses], [columns.tolist() for columns in chosen])
    H, G = padded(encoders[best][0].T, k).T, padded(encoders[best][1], k)
    pca_upper = max(min(upper, pca_upper + rounding.pca_error(pca_upper, k)), lower)
    certificate = certify_between(
        core,
        H,
        losses[best],
        (lower, pca_upper),
        total=total,
        error=rounding.loss_error(losses[best], H, G),
        n_left_out=sketched.n_left_out,
        left_out=rounding.left_out,
        certified=True,
        bound=bound[0],
        theorem=bound[1],
    )
    symmetric_lower, symmetric_upper = symmetric_bounds(certificate, H, G)
    certificate = replace(certificate, symmetric_lower=symmetric_lower, symmetric_upper=symmetric_upper)
    explained = sequential_explained(core, H)
    return FittedEncoder(
        H=H,
        G=G,
        center=sketched.center,
        scale=sketched.scale,
        selected=np.flatnonzero(H.any(axis=1)),
        chosen=chosen[best],
        explained_ratio=explained / total if total > 0 else np.zeros(k),
        spectrum=sigma,
        constant=sketched.constant,
        fill=sketched.fill,
        n_samples=sketched.n_samples,
        certificate=certificate,
        rounding=rounding,
    )


def _bound(params: FitParameters, split: Split, alpha: float) -> tuple[float | None, str]:
    """A priori bound, and the theorem with the numbers that it is made of."""
    k, r = params.n_components, params.shared_size
    if split.factor is None:
        return None, (
            f"Magdon-Ismail & Boutsidis 2015: no theorem for r = {r} columns and k = {k}, because it needs r > k"
        )
    deterministic = params.projection == "frequent-directions" or alpha == 1.0
    how = "by Frequent Directions" if params.projection == "frequent-directions" else "by a random projection"
    directions = "exact V_k" if alpha == 1.0 else f"V_k within {alpha:.4g} of PCA {how}"
    start = f"{split.start} column{'s' if split.start > 1 else ''} within {split.factor:.4g} of that"
    bound = split.bound(k, alpha)
    if not split.drawn:
        theorem = f"Boutsidis, Drineas & Magdon-Ismail 2014, Theorem 2 (dual-set): {directions}, {start}"
        return bound, theorem if deterministic else in_expectation(theorem, bound, params.n_repeats)
    theorem = (
        f"Magdon-Ismail & Boutsidis 2015, Theorem 2 (ii): {directions}, a start of {start}, {split.drawn} sampled; "
        f"the paper's bound {f'is 1 + 5k/(r - 5k) = {1 + 5 * k / (r - 5 * k):.4g}' if r > 5 * k else 'takes r > 5k'}"
    )
    return bound, in_expectation(theorem, bound, params.n_repeats)


class PaperStrategy(Strategy):
    """The pipeline of the paper's batch encoder: thin passes, no core."""

    name: ClassVar[str] = "paper"
    pca_loss: ClassVar[str] = "bounded from below"
    is_rival: ClassVar[bool] = False

    def reason(self, source: RowBlocks) -> str:  # noqa: ARG002 - the same for all data
        return "requested: the paper's own passes, each with a thin state"

    def cannot(self, params: FitParameters) -> str | None:
        if params.method not in ("batch", "polished") or params.n_nonzero is None:
            return (
                refuse_fast(params)
                or refuse_rules(params)
                or (
                    "it is the paper's own pipeline for its batch encoder and has no core to polish. It needs the "
                    "default method or method='batch', and a given n_nonzero"
                )
            )
        refused = refuse_fast(params) or refuse_rules(params) or refuse_panel(params) or refuse_share(params)
        return refused or refuse_covariates(params) or refuse_folds(params) or refuse_row_weights(params)

    def passes(self, params: FitParameters, source: RowBlocks) -> Passes:
        return paper_passes(params, source.shape[1])

    def finish(self, params: FitParameters, shape: Shape) -> Finish:
        """A few matrices of as many rows as the sketches have, or as columns are chosen."""
        d = shape[1]
        nbytes = TASK_OVERHEAD + int(ALLOCATOR_SLACK * 8 * d * paper_finish_columns(params, d))
        beside = {name: 8 * d * columns for name, columns in paper_columns_beside(params, d).items()}
        return Finish(nbytes, COLUMN_SECONDS * d * nonzeros(params), beside)

    def fit(self, params: FitParameters, reader: Reader, source: RowBlocks, reports: Reports) -> Outcome:  # noqa: ARG002
        fitted = fit_paper(params, reader.run_pass, source.shape[1], integers=holds_integers(source))
        return Outcome(measured_if_fragile(fitted, reader.run_pass))
