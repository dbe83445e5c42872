"""Few columns and few rows: the doubly sparse encoder C Phi R, out of core."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.maths.encoders.doubly_sparse import CodesOnColumns, LemmaRows, lemma_rows, leverage_coefficients
from spae_dask.maths.linalg.loss import sequential_explained
from spae_dask.maths.linalg.scaling import unit_scaled
from spae_dask.maths.linalg.spectral import right_singular
from spae_dask.maths.selection.targeted_greedy import fill
from spae_dask.passes.accumulators import Accumulator, Imputed, PooledRows, RowPool, Together
from spae_dask.passes.accumulators.base import RunPass
from spae_dask.strategies.certify import certify, pair_loss
from spae_dask.strategies.core_summary import CoreSummary, Floats
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sparse_encoder import FittedEncoder, loss_target, padded, smallest_within
from spae_dask.strategies.theory import target_of

Places = npt.NDArray[np.intp]

POOL = 10
"""Rows sampled by leverage for every row to be chosen."""

ROWS_PER_COMPONENT = 4
"""Rows chosen for each component, if their number is not given: more hardly lower the loss."""

POOL_FOR_EPS = 4
"""Rows sampled for every ``k / eps``: all of them together add a quarter of the excess allowed, in expectation."""


def rows_wanted(params: FitParameters) -> int:
    """Rows to choose; a target may take more, if their number is not given."""
    return ROWS_PER_COMPONENT * params.n_components if params.n_rows is None else params.n_rows


def pool_size(params: FitParameters, n_features: int, excess: float | None = None) -> int:
    """Rows to sample: so many for every row wanted, and enough for a target; d rows span everything.

    ``excess`` over PCA's loss is what the target allows; ``eps`` if not given. Before the data are read it is not known
    for ``keep``, and d rows are planned for.
    """
    excess = params.eps if excess is None else excess
    size = POOL * rows_wanted(params)
    if params.n_nonzero is None and params.n_rows is None:
        enough = POOL_FOR_EPS * params.n_components / excess if excess else math.inf
        size = max(size, math.ceil(min(n_features, enough)))
    return size


def rows_recipe(
    params: FitParameters,
    columns: Places,
    T: Floats,
    mean: Floats,
    scale: Floats,
    fill_with: Floats | None,
    excess: float | None = None,
) -> Accumulator[dict[str, Any]]:
    """Recipe of the pass: a pool of rows to choose from, and a sample of its own that the theorem speaks of."""
    sizes = {"pool": pool_size(params, mean.size, excess), "sample": rows_wanted(params)}
    recipe = Together(
        {
            name: RowPool(size, columns, T, mean, scale, seed=params.seed + number)
            for number, (name, size) in enumerate(sizes.items())
        }
    )
    return recipe if fill_with is None else Imputed(recipe, fill_with)


@dataclass(frozen=True, eq=False)
class FittedRows:
    """A doubly sparse encoder.

    Attributes
    ----------
    fitted : FittedEncoder
        Its decoder is a mix of the chosen rows; ``certificate.decoder_loss`` is the loss with that decoder.
    rows : ndarray of int64
        Numbers of the chosen rows of X, ascending.
    """

    fitted: FittedEncoder
    rows: npt.NDArray[np.int64]


def choose_rows(
    params: FitParameters, summary: CoreSummary, run_pass: RunPass, columns_only: FittedEncoder
) -> FittedRows:
    """Choose rows for the columns of a batch encoder, and rebuild encoder and decoder on both.

    Passes: 1, beside that of the core: rows are sampled by leverage. Those of the theorem, and those of targeted greedy
    on the pool, are compared, and the better ones are kept; so the theorem's bound holds. If there is a target, rows
    are added until the loss with the decoder that is returned reaches it, and columns if rows are not enough. The loss
    is exact.

    Parameters
    ----------
    params : FitParameters
        Parameters of the fit.
    summary : CoreSummary
        Core of the data.
    run_pass : callable
        Reads the data.
    columns_only : FittedEncoder
        The batch encoder on the chosen columns.
    """
    core, k, columns = summary.core, params.n_components, columns_only.chosen
    rank_tol = summary.rank_tol(k)
    T = leverage_coefficients(core, columns, k, rank_tol=rank_tol)
    before, excess = columns_only.certificate, None
    if params.wanted_share is not None and before.pca_loss > 0:
        excess = params.allowed_loss(before.pca_loss, before.total) / before.pca_loss - 1
    recipe = rows_recipe(params, columns, T, summary.center, summary.scale, summary.fill, excess)
    found = run_pass(recipe, "rows")
    candidates, numbers, sample = _joined(found["pool"], found["sample"])
    codes = CodesOnColumns.of(core, columns, k, rank_tol=rank_tol)
    n_rows = rows_wanted(params)
    lemma = lemma_rows(codes, found["pool"].rows, n_rows)
    drawn = [int(i) for i in sample[: lemma.n_drawn] if i not in lemma.start]
    options = [codes.grow(candidates, n_rows, start) for start in ([], [*lemma.start, *drawn])]
    made = min((codes.encode(candidates, rows) for rows in options), key=lambda each: each.loss)
    if params.n_nonzero is None and made.loss > loss_target(core, params):
        columns, places = _within(params, core, columns, candidates, made.rows, rank_tol)
        made = CodesOnColumns.of(core, columns, k, rank_tol=rank_tol).encode(candidates, places)
    H, G = padded(made.H.T, k).T, padded(made.G, k)
    bound, theorem = _promised(lemma, codes.loss, before.pca_loss)
    certificate = certify(
        summary,
        H,
        bound=bound,
        theorem=theorem,
        passes=before.passes + 1,
        bytes_read=before.bytes_read,
        target=target_of(params),
        decoder_loss=pair_loss(core, H, G),
    )
    fitted = replace(
        columns_only,
        H=H,
        G=G,
        selected=np.flatnonzero(H.any(axis=1)),
        chosen=columns,
        explained_ratio=sequential_explained(core, H) / certificate.total if certificate.total > 0 else np.zeros(k),
        certificate=certificate,
    )
    return FittedRows(fitted, np.sort(numbers[made.rows]))


def _joined(pool: PooledRows, sample: PooledRows) -> tuple[Floats, npt.NDArray[np.int64], Places]:
    """All rows sampled, each once, those of the pool first; their numbers; and the places of the sample, by key."""
    new = np.flatnonzero(~np.isin(sample.numbers, pool.numbers))
    numbers = np.concatenate([pool.numbers, sample.numbers[new]])
    order = np.argsort(numbers)
    places = order[np.searchsorted(numbers, sample.numbers, sorter=order)]
    return np.concatenate([pool.rows, sample.rows[new]]), numbers, places.astype(np.intp)


def _within(
    params: FitParameters, core: Floats, columns: Places, candidates: Floats, rows: Places, rank_tol: float
) -> tuple[Places, Places]:
    """Columns and places of rows, those given and more, whose loss reaches the target.

    Rows are added first, up to ``params.n_rows``; columns are added, by targeted greedy, if all rows that may be used
    are not enough. If all columns are not enough either, the columns stay as they are.
    """
    k = params.n_components
    target = loss_target(core, params)
    most_rows = candidates.shape[0] if params.n_rows is None else params.n_rows
    V = right_singular(core, k)[1]
    scaled = unit_scaled(core)[0]

    def grown(chosen: Places) -> tuple[CodesOnColumns, Places]:
        codes = CodesOnColumns.of(core, chosen, k, rank_tol=rank_tol)
        return codes, codes.grow(candidates, most_rows, rows)

    def loss(chosen: Places) -> float:
        codes, places = grown(chosen)
        return codes.encode(candidates, places).loss

    every = np.flatnonzero(core.any(axis=0))
    if loss(columns) > target >= loss(every):
        size = smallest_within(target, lambda r: loss(fill(scaled, V, columns, r)), columns.size, every.size)
        columns = fill(scaled, V, columns, size)
    codes, places = grown(columns)
    # if the target cannot be reached, the fewest rows with the same loss
    target = max(target, codes.encode(candidates, places).loss * (1 + 1e-12))
    n_rows = smallest_within(target, lambda n: codes.encode(candidates, places[:n]).loss, rows.size, places.size)
    return columns, places[:n_rows]


def _promised(lemma: LemmaRows, loss: float, pca_loss: float) -> tuple[float | None, str]:
    """Bound on the loss with the encoder's own decoder over PCA's, and the theorem; ``loss`` is that of the columns."""
    theorem = (
        "in expectation over the rows drawn, with the encoder's own decoder. Boutsidis & Woodruff 2014, "
        "Lemma 3.10, by leverage. Rows add at most k/(r2 - 1) ||X - X R1^+ R1||^2 to the loss of the "
        f"columns. r1 = {lemma.start.size}, r2 = {lemma.n_drawn}"
    )
    if not math.isfinite(lemma.excess):
        return None, f"no bound: {theorem}; it needs at least two rows"
    if pca_loss <= 0:
        return None, f"no bound, as PCA loses nothing: {theorem}"
    return (loss + lemma.excess) / pca_loss, theorem
