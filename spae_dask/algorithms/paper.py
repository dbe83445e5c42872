"""The seed's own pipeline: randomized projection, residual norms, dual-set and adaptive sampling, finish.

Magdon-Ismail & Boutsidis (2015), Theorem 2 (ii), on Boutsidis, Drineas & Magdon-Ismail (2014), Theorem 5. Every stage
is a pass over the row blocks and leaves a thin summary, so nothing n-sized and nothing d x d is ever held:

1. ``sketch``: W = S X with S Gaussian, column moments, and a Frequent Directions sketch for a certified bound;
2. ``projection``: a triangular factor of X Q_W (distributed TSQR) and X'X Q_W, hence approximate V_k; repeated for each
   power iteration;
3. ``residual norms``: what V_k leaves of every column, for dual-set;
4. ``start``: products of the dual-set columns, hence what they leave of every column, for adaptive sampling;
5. ``finish``: products of all selected columns, hence the encoder and its exact loss.

5 passes, one more a power iteration, one more with ``missing="mean"``. ``n_repeats`` sampling rounds share the passes;
the one of smallest exact loss is kept, which turns the bound in expectation into one of probability
``1 - 2^-n_repeats``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from spae_dask.accumulators import (
    Accumulator,
    CrossProducts,
    Imputed,
    Projection,
    ResidualColumns,
)
from spae_dask.algorithms.certify import certify_between
from spae_dask.algorithms.core import RunPass, means_recipe
from spae_dask.algorithms.core_summary import Floats
from spae_dask.algorithms.problem import Problem
from spae_dask.algorithms.sketched import Columns, Sketched, SketchSizes, read_sketch, sketch_recipe
from spae_dask.algorithms.sparse_encoder import FittedEncoder, padded
from spae_dask.encoding import encoder_from_columns
from spae_dask.linalg.candidates import candidate_core
from spae_dask.linalg.loss import encoder_loss, sequential_explained
from spae_dask.linalg.scaling import squared_columns
from spae_dask.selection.adaptive import best_split
from spae_dask.selection.dual_set import dual_set_weights
from spae_dask.selection.pivoting import pivot_columns
from spae_dask.selection.problem import distinct, first_of_best
from spae_dask.selection.targeted_greedy import fill

OVERSAMPLING = 10
"""p: rows of the sketch beyond k; ``E ||X - XZZ'||^2 <= (1 + k/(p - 1)) opt_k`` (Halko, Martinsson & Tropp, 10.5)."""


@dataclass(frozen=True)
class PaperOptions:
    """What the theorem leaves open.

    Attributes
    ----------
    power_iterations : int
        Extra passes that sharpen V_k.
    n_repeats : int
        Sampling rounds to choose from.
    split : {"best", "paper"}
        Columns of the dual-set start: those that minimise the bound, or the paper's 5k (where r > 5k).
    """

    power_iterations: int = 0
    n_repeats: int = 1
    split: str = "best"


def paper_options(problem: Problem) -> PaperOptions:
    """The options a problem states."""
    return PaperOptions(problem.power_iterations, problem.n_repeats)


def fit_paper(problem: Problem, run_pass: RunPass, n_features: int, options: PaperOptions) -> FittedEncoder:
    """Fit the batch encoder as the paper does, in thin passes.

    Passes: 5, ``options.power_iterations`` more, one more with ``missing="mean"``.

    Parameters
    ----------
    problem : Problem
        With ``n_nonzero`` given.
    run_pass : callable
        Sweeps the data.
    n_features : int
        d.
    options : PaperOptions
        What the theorem leaves open.

    Returns
    -------
    FittedEncoder
        ``certificate.pca_loss`` is a certified lower bound, by Frequent Directions; the loss itself is exact.
    """
    k, r = problem.n_components, problem.shared_size
    sketched = read_sketch(
        run_pass,
        n_features,
        _sizes(problem, n_features),
        center=problem.center,
        scale=problem.scale,
        missing=problem.missing,
        seed=problem.seed,
    )
    Z, sigma = _directions(sketched, run_pass, k, options.power_iterations)
    left = run_pass(sketched.recipe(_residual_of(Z, sketched)), "residual norms")
    start_size = _start_size(Z.shape[1], r, options.split)
    start = _start(sketched, Z, left, min(start_size, r))
    draws = _adaptive_draws(problem, sketched, run_pass, start, r, options.n_repeats)
    chosen = [fill(sketched.W, Z, distinct(np.concatenate([start, drawn])), r) for drawn in draws]
    bound = _bound(k, start_size, len(draws[0]))
    return _finish(problem, sketched, run_pass, chosen, sigma, float(np.sum(left)), bound)


def paper_passes(problem: Problem, n_features: int, options: PaperOptions) -> list[tuple[str, Accumulator[Any]]]:
    """Names and recipes of the passes, for planning; numbers in the recipes are placeholders."""
    d, k, r = n_features, problem.n_components, problem.shared_size
    s = min(n_features, problem.n_components + OVERSAMPLING)
    width = min(d, r + (options.n_repeats - 1) * max(0, r - k))
    columns, ones = np.arange(d), np.ones(d)
    # broadcast: a placeholder of d numbers a direction would be as large as the thing itself
    Z, decoder = np.broadcast_to(0.0, (d, k)), np.broadcast_to(0.0, (k, d))
    passes: list[tuple[str, Accumulator[Any]]] = [("sketch", sketch_recipe(d, _sizes(problem, d), problem.seed))]
    passes += [("projection", Projection(np.broadcast_to(0.0, (d, s)), ones, ones))] * (1 + options.power_iterations)
    passes += [
        ("residual norms", ResidualColumns(columns, Z, decoder, ones, ones)),
        ("start", CrossProducts(columns[:r], ones, ones)),
        ("finish", CrossProducts(columns[:width], ones, ones)),
    ]
    if problem.missing != "error":
        passes = [(name, Imputed(recipe, ones)) for name, recipe in passes]
    return [("column means", means_recipe(d)), *passes] if problem.missing == "mean" else passes


def _sizes(problem: Problem, d: int) -> SketchSizes:
    """A Gaussian sketch for the projection; Frequent Directions for the bound."""
    k = problem.n_components
    return SketchSizes(min(d, k + OVERSAMPLING), frequent_rows=min(d, max(4 * k, k + 20)))


def _directions(sketched: Sketched, run_pass: RunPass, k: int, power_iterations: int) -> tuple[Floats, Floats]:
    """Approximate V_k and leading singular values: the SVD of X on the row space of the sketch, by TSQR."""
    Q = np.linalg.qr(sketched.W.T)[0]
    for iteration in range(power_iterations + 1):
        seen = run_pass(sketched.recipe(Projection(Q, sketched.mean, sketched.scale)), "projection")
        if iteration < power_iterations:
            Q = np.linalg.qr(seen.cross)[0]
    _, sigma, Yt = np.linalg.svd(seen.triangle)
    rank = int(np.count_nonzero(sigma > len(sigma) * np.finfo(np.float64).eps * sigma[0])) if sigma[0] > 0 else 0
    return Q @ Yt[: min(k, rank)].T, sigma


def _residual_of(Z: Floats, sketched: Sketched) -> ResidualColumns:
    return ResidualColumns(np.arange(Z.shape[0]), Z, Z.T, sketched.mean, sketched.scale)


def _start_size(k: int, r: int, split: str) -> int:
    """Columns of the deterministic start: the paper's 5k, or those of smallest bound."""
    if k == 0 or r <= k:
        return min(k, r)
    return 5 * k if split == "paper" and r > 5 * k else best_split(k, r).start


def _start(sketched: Sketched, Z: Floats, left: Floats, size: int) -> Columns:
    """Deterministic columns: dual-set on V_k and the residual norms; pivoting if there are no more than k."""
    k = min(Z.shape[1], size)
    if k == 0:
        return np.zeros(0, dtype=np.intp)
    if size > k:
        return distinct(dual_set_weights(Z, left, size).picks)
    return pivot_columns(Z[:, :k], sketched.W - (sketched.W @ Z[:, :k]) @ Z[:, :k].T)[0]


def _adaptive_draws(
    problem: Problem, sketched: Sketched, run_pass: RunPass, start: Columns, r: int, n_repeats: int
) -> list[Columns]:
    """Rounds of columns drawn with probability proportional to what the start leaves of them."""
    products = run_pass(sketched.recipe(CrossProducts(start, sketched.mean, sketched.scale)), "start")
    norms = products.column_norms
    left = norms - squared_columns(candidate_core(products.gram, products.cross)) if start.size else norms.copy()
    # a difference of squares: below 1e-12 of the column it is rounding
    left[left < 1e-12 * norms] = 0.0
    left[start] = 0.0
    total = float(np.sum(left))
    if total <= 0.0 or start.size >= r:
        return [np.zeros(0, dtype=np.intp)]
    rng = np.random.default_rng(problem.seed)
    return [rng.choice(left.size, size=r - start.size, p=left / total) for _ in range(n_repeats)]


def _finish(
    problem: Problem,
    sketched: Sketched,
    run_pass: RunPass,
    chosen: list[Columns],
    sigma: Floats,
    pca_upper: float,
    bound: tuple[float | None, str],
) -> FittedEncoder:
    """Pass 5: exact products of all columns drawn; the best of the rounds; its certificate."""
    k, d = problem.n_components, sketched.mean.size
    union = np.unique(np.concatenate(chosen))
    products = run_pass(sketched.recipe(CrossProducts(union, sketched.mean, sketched.scale)), "finish")
    # of constant or zero data no column is chosen
    core = candidate_core(products.gram, products.cross) if union.size else np.zeros((1, d))
    total = sketched.total
    outside = max(total - float(np.sum(squared_columns(core))), 0.0)
    encoders = [encoder_from_columns(core, columns, k) for columns in chosen]
    losses = [outside + encoder_loss(core, H) for H, _ in encoders]
    best = first_of_best([-loss for loss in losses], [columns.tolist() for columns in chosen])
    H, G = padded(encoders[best][0].T, k).T, padded(encoders[best][1], k)
    lower, upper = sketched.pca_interval(k)
    certificate = certify_between(
        core,
        H,
        losses[best],
        (lower, min(upper, pca_upper)),
        total=total,
        error=100 * d * float(np.finfo(np.float64).eps) * total,
        certified=True,
        bound=bound[0],
        theorem=bound[1],
    )
    explained = sequential_explained(core, H)
    return FittedEncoder(
        H=H,
        G=G,
        mean=sketched.mean,
        scale=sketched.scale,
        selected=np.flatnonzero(H.any(axis=1)),
        chosen=chosen[best],
        explained_ratio=explained / total if total > 0 else np.zeros(k),
        spectrum=sigma,
        constant=sketched.constant,
        fill=sketched.fill,
        n_samples=sketched.n_samples,
        certificate=certificate,
    )


def _bound(k: int, start_size: int, n_drawn: int) -> tuple[float | None, str]:
    """A priori bound in expectation: that of the projection times that of the start with adaptive sampling."""
    if n_drawn == 0:
        return None, "Magdon-Ismail & Boutsidis 2015, Theorem 2: r is too small for its bound"
    projection = 1 + k / (OVERSAMPLING - 1)
    start = 1 + 1 / (1 - float(np.sqrt(k / start_size))) ** 2 if start_size > k else 1.0 + k
    return (
        projection * (1 + start * k / n_drawn),
        f"in expectation; Magdon-Ismail & Boutsidis 2015, Theorem 2 (ii): a projection of {OVERSAMPLING} rows more "
        f"than k, a start of {start_size} columns, {n_drawn} sampled",
    )
