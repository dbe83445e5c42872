"""Strategy ``stream``: one read into a Frequent Directions sketch and exact column norms, and a fit on those.

The read reduces X to a sketch B of l rows and the squared length of every column. These give the diagonal of ``E = X'X
- B'B``. Frequent Directions certifies ``0 <= E <= shrunk I``. The encoder and its decoder are fitted on the model ``B'B
+ diag(E)``, a factor model and one of the matrices that X'X may be. So the model's loss lies in the certified interval
of :mod:`spae_dask.maths.linalg.encoder_interval`, and usually near the true loss. A row sketch of as many rows
estimates losses to a few percent, and its noise misleads the choice of columns; the model adds no noise. Only the
search is random.

The rest is the second half of :mod:`spae_dask.strategies.sketch`, with the model in place of the second read.

The sizes do not depend on n, which is unknown for a stream. If d is not much more than l, a Gram matrix or a triangular
factor costs the same and is exact: use ``strategy="gram"`` or ``"tsqr"``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from spae_dask.blocks import RowBlocks
from spae_dask.maths.linalg.encoder_interval import encoder_interval
from spae_dask.maths.linalg.loss import information_loss
from spae_dask.maths.linalg.scaling import PANEL_COLUMNS, scale_in_place
from spae_dask.maths.linalg.sketch import sign_rows
from spae_dask.maths.linalg.spectral import WIDE, right_singular
from spae_dask.passes.accumulators import Accumulator, Imputed, Products
from spae_dask.passes.accumulators.base import RunPass
from spae_dask.passes.memory import ALLOCATOR_SLACK, TASK_OVERHEAD
from spae_dask.passes.online import OnlinePass
from spae_dask.passes.plan import Finish
from spae_dask.strategies.base import (
    Outcome,
    Passes,
    Reader,
    Reports,
    Shape,
    Strategy,
    holds_integers,
    refuse_covariates,
    refuse_fast,
    refuse_folds,
    refuse_mean,
    refuse_no_candidates,
    refuse_panel,
    refuse_row_weights,
    refuse_rules,
    refuse_share,
)
from spae_dask.strategies.candidate_set import (
    FEWER,
    POOL,
    choose_candidates,
    numbers_of_candidates,
    search_seconds,
)
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.core_summary import Floats
from spae_dask.strategies.methods import Report
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.refit import Refit, fit_to_target, refit
from spae_dask.strategies.sketch import sketches_held
from spae_dask.strategies.sketched import MOMENTS_HELD, Sketched, SketchSizes, read_sketch, sketch_recipe
from spae_dask.strategies.sparse_encoder import FittedEncoder

FEWEST_ROWS, ROWS_PER_COMPONENT = 128, 4
"""Rows of the sketch: its bounds are ``shrunk <= opt_k / (l + 1 - k)``, and usually far better."""

DIAGONAL = 512
"""Rows that stand for the diagonal where columns are proposed: exactly up to so many columns, else by random signs."""

FEWEST_CANDIDATES, CANDIDATES_PER_NONZERO = 256, 8
"""Candidate columns: more than two reads take, since they cost arithmetic only."""

OVERSAMPLING = 20
"""Directions beyond k in which PCA is looked for."""

HELD_FOR_TARGET = 5
"""Arrays as large as the stand-in that are held where a target decides on the candidates, of which there may be more
than the stand-in has rows."""

SKETCH_ERRORS = 3.0
"""Error of a product of two columns of the sketch, over that of a column: one of each, and one of the product."""

IN_ONE_READ = "columns are selected in one pass, on a sketch of all rows: no bound is known before the data are seen"


def stream_recipe(params: FitParameters, n_features: int) -> Accumulator[Any]:
    """Recipe of the read; the same whatever the number of rows."""
    recipe = sketch_recipe(n_features, _sizes(params, n_features), params.seed)
    return recipe if params.missing == "error" else Imputed(recipe, np.zeros(n_features))


def stream_finish_nbytes(params: FitParameters, n_features: int) -> int:
    """Peak of the linear algebra after the read, in the calling process."""
    d, rows = n_features, _sizes(params, n_features).frequent_rows
    c, p = _numbers_of_candidates(params, d)[1], min(d, params.n_components + OVERSAMPLING)
    before, held = 0, max(sketches_held(params), 4 if d <= WIDE else 0)
    if params.n_nonzero is None:
        before, held = c // 2 + rows, max(held, HELD_FOR_TARGET)
    stand_in, panel = rows + min(d, DIAGONAL), min(d, PANEL_COLUMNS)
    searched = 8 * stand_in * (min(d, POOL) + stand_in)
    # the sketch as it was read and in units of the data; then the stand-in and what the selection makes of it, or an
    # SVD of a narrow one
    proposed = (held * stand_in + 4 * p) * d + max(3 * stand_in * panel, searched)
    # or the products of the candidates, and their refit or the bounds of the sketch
    refitted = (c + 5 * p) * d + c * c + max(3 * (c + p) * panel + 12 * (c + p) ** 2, 4 * rows * d)
    return 8 * ((2 * rows + before + MOMENTS_HELD) * d + max(proposed, refitted))


def fit_stream(
    params: FitParameters, run_pass: RunPass, n_features: int, *, integers: bool = False, report: Report | None = None
) -> tuple[FittedEncoder, "Streamed"]:
    """Fit an encoder in one read.

    Parameters
    ----------
    params : FitParameters
        Parameters of the fit, checked.
    run_pass : callable
        Reads the data, or returns the result of an earlier read with :func:`stream_recipe`.
    n_features : int
        d.
    integers : bool
        True if all entries are integers.
    report : callable, optional
        Called with the progress of the search.

    Returns
    -------
    FittedEncoder
        Its loss is an estimate between certified bounds, and so is PCA's.
    Streamed
        The candidates, for further encoders on them.
    """
    sketched = read_sketch(
        run_pass,
        n_features,
        _sizes(params, n_features),
        center=params.center,
        scale=params.scale,
        missing=params.missing,
        seed=params.seed,
        integers=integers,
    )

    def refit_on(n: int) -> Streamed:
        return _refitted_on_model(params, sketched, n, report)

    return fit_to_target(params, refit_on, *_numbers_of_candidates(params, n_features), report)


@dataclass(frozen=True, eq=False)
class Streamed:
    """Result of one read: the model, refitted on candidate columns, and the bounds that hold for X itself.

    Attributes
    ----------
    refitted : Refit
        Refit on the model ``B'B + diag(E)``.
    sketch : ndarray (l, d)
        B, centered and scaled.
    left : ndarray (d,)
        The diagonal of E.
    """

    refitted: Refit
    sketch: Floats
    left: Floats

    @property
    def n_samples(self) -> float:
        """Rows seen."""
        return self.refitted.n_samples

    @property
    def mean(self) -> Floats:
        """Subtracted from X (d,)."""
        return self.refitted.mean

    def fit(
        self,
        params: FitParameters,
        known: Sequence[Floats] = (),
        *,
        effort: float | None = None,
        report: Report | None = None,
    ) -> FittedEncoder:
        """Build the encoder of a fit on the candidates, and certify it; no data are read.

        ``known`` are encoders (d, k') on the candidates; the answer loses no more on the model than those of no more
        columns and nonzeros. ``effort`` is that of ``Search``. ``report`` is called with the progress.
        """
        fitted = self.refitted.fit(_on_model(params), known, effort=effort, report=report)
        return replace(fitted, certificate=self._certificate(params, fitted))

    def reaches(self, params: FitParameters, fitted: FittedEncoder) -> bool:
        """Return True if an encoder is estimated to reach the target, judged by the estimate of PCA's loss."""
        return self.refitted.reaches(_on_model(params), fitted)

    def _certificate(self, params: FitParameters, fitted: FittedEncoder) -> Certificate:
        """The model's certificate with the bounds that are certain of X."""
        first, found, frequent = self.refitted.sketched, fitted.certificate, self.refitted.sketched.frequent
        assert frequent is not None, "a stream keeps Frequent Directions"
        total, rounding = found.total, replace(fitted.rounding, products=SKETCH_ERRORS * frequent.error)
        error = rounding.loss_error(found.loss, fitted.H, fitted.G)
        divisor = first.scale / frequent.units
        lower, upper = encoder_interval(self.sketch, self.left, frequent.shrunk, divisor, fitted.H, fitted.G)
        lower, upper = max(lower - error, 0.0), min(upper + error, total + error)
        pca_lower, pca_upper = first.pca_interval(params.n_components)
        pca_upper = min(pca_upper, upper)
        pca_lower = min(pca_lower, pca_upper)
        loss = float(np.clip(found.loss, lower, upper))
        pca_estimate = min(max(found.pca_loss, pca_lower), loss)
        pca = pca_lower if params.certified else pca_estimate
        return replace(
            found,
            loss=loss,
            loss_kind="certified interval",
            loss_lower=lower,
            loss_upper=upper,
            explained=1 - loss / total if total > 0 else 0.0,
            pca_loss=pca,
            pca_loss_kind="certified lower bound" if params.certified else "estimate",
            pca_loss_lower=pca_lower,
            pca_loss_upper=pca_upper,
            loss_error=error,
            ratio=information_loss(loss, pca, total, error=error),
            symmetric_ratio=found.symmetric_explained / (total - pca) if total > pca else 1.0,
            theorem=IN_ONE_READ,
        )


def _on_model(params: FitParameters) -> FitParameters:
    """The parameters as the model sees it: PCA's loss on it is known, so a target is over that."""
    return replace(params, certified=False)


def _sizes(params: FitParameters, n_features: int) -> SketchSizes:
    k = params.n_components
    rows = params.sketch_rows or max(FEWEST_ROWS, ROWS_PER_COMPONENT * k)
    return SketchSizes(rows=0, frequent_rows=min(n_features, rows), scaled=bool(params.scale))


def _numbers_of_candidates(params: FitParameters, n_features: int) -> tuple[int, int]:
    """Numbers of candidates at first and at most."""
    return numbers_of_candidates(params, n_features, fewest=FEWEST_CANDIDATES, of_each_nonzero=CANDIDATES_PER_NONZERO)


def _refitted_on_model(params: FitParameters, sketched: Sketched, n_candidates: int, report: Report | None) -> Streamed:
    """Propose candidates on the model, and refit on them with the model's products in place of those of X."""
    assert sketched.frequent is not None, "a stream keeps Frequent Directions"
    B, left = sketched.frequent.about(sketched.center, sketched.scale)
    if params.center:
        B[:, sketched.constant], left[sketched.constant] = 0.0, 0.0
    stand_in = _stand_in(B, left, params.seed)
    if stand_in is not B:
        scale_in_place(stand_in)  # all that looks at it would scale a copy
    k = params.n_components
    Z = right_singular(stand_in, min(B.shape[1], k + OVERSAMPLING))[1]
    candidates = choose_candidates(params, stand_in, Z[:, :k], n_candidates, report=report)
    del stand_in  # beside products of candidates it is large
    columns = candidates.columns
    cross = B[:, columns].T @ B
    cross[np.arange(columns.size), columns] += left[columns]
    products = Products(
        count=sketched.n_samples,
        gram=cross[:, columns],
        cross=cross,
        directions=B.T @ (B @ Z) + left[:, None] * Z,
        column_norms=np.einsum("ij,ij->j", B, B) + left,
        error=SKETCH_ERRORS * sketched.frequent.error,
    )
    return Streamed(refit(sketched, candidates, products, Z), B, left)


def _stand_in(B: Floats, left: Floats, seed: int) -> Floats:
    """Core of the model, (m, d); of many columns the diagonal is drawn together by random signs."""
    if not left.any():
        return B
    if left.size <= DIAGONAL:
        return np.vstack([B, np.diag(np.sqrt(left))])
    return np.vstack([B, sign_rows(seed, 0, 0, left.size, DIAGONAL).T * np.sqrt(left)])


class StreamStrategy(Strategy):
    """One read into a sketch whose size does not depend on the number of rows; ``partial_fit`` adds more rows."""

    name: ClassVar[str] = "stream"
    pca_loss: ClassVar[str] = "estimated, as the loss"
    is_rival: ClassVar[bool] = False
    takes_batches: ClassVar[bool] = True

    def reason(self, source: RowBlocks) -> str:  # noqa: ARG002 - the same for all data
        return "requested: one pass into a sketch whose size does not depend on n, losses in certified intervals"

    def cannot(self, params: FitParameters) -> str | None:
        refused = refuse_fast(params) or refuse_rules(params) or refuse_panel(params) or refuse_no_candidates(params)
        refused = refused or refuse_mean(params) or refuse_covariates(params)
        return refused or refuse_folds(params) or refuse_share(params) or refuse_row_weights(params)

    def passes(self, params: FitParameters, source: RowBlocks) -> Passes:
        return [("stream", stream_recipe(params, source.shape[1]))]

    def finish(self, params: FitParameters, shape: Shape) -> Finish:
        seconds = search_seconds(params, shape[1])
        nbytes = TASK_OVERHEAD + int(ALLOCATOR_SLACK * stream_finish_nbytes(params, shape[1]))
        return Finish(nbytes, seconds, remedies=() if params.n_nonzero is not None else (FEWER,))

    def fit(self, params: FitParameters, reader: Reader, source: RowBlocks, reports: Reports) -> Outcome:
        n, d = source.shape
        recipe = stream_recipe(params, d)
        online = OnlinePass(recipe, reader.run_state(recipe, "stream"), n)
        integers = holds_integers(source)
        fitted, streamed = fit_stream(params, online.run_pass, d, integers=integers, report=reports.search)
        return Outcome(fitted, streamed, online=online)

    def batch_recipe(
        self,
        params: FitParameters,
        n_features: int,
        n_rows: int | None = None,  # noqa: ARG002 - the same for any number
        dtype: np.dtype[Any] | None = None,  # noqa: ARG002 - and any type
    ) -> Accumulator[Any]:
        return stream_recipe(replace(params, missing="error"), n_features)

    def fit_batches(
        self,
        params: FitParameters,
        online: OnlinePass,
        n_features: int,
        report: Report | None,
        *,
        integers: bool = False,
    ) -> Outcome:
        return Outcome(*fit_stream(params, online.run_pass, n_features, integers=integers, report=report))
