"""Exact loss of a fitted encoder on any data, and on parts of them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded
from spae_dask.estimators.applying import open_rows
from spae_dask.estimators.checkpointing import checkpoint_at, open_checkpoint
from spae_dask.estimators.covariates import adjustment_of, columns_beside, labels_of
from spae_dask.estimators.fitting import naming_declared, report_missing_chunks
from spae_dask.estimators.planning import layout_notes
from spae_dask.estimators.row_weights import read_row_weights
from spae_dask.estimators.runtime import active_client, resources_for, runner_for, with_listing
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.passes.accumulators import Cut, RowWeights, weighing, weighted
from spae_dask.passes.checkpoint import digest_of
from spae_dask.passes.events import Event
from spae_dask.passes.plan import Finish, Plan, Resources
from spae_dask.passes.planner import make_plan
from spae_dask.passes.threads import one_blas_thread
from spae_dask.strategies.base import CORE_SECONDS, finish_nbytes
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.core import CORES
from spae_dask.strategies.drift import ALL_ROWS, SAME_PART, Drift, PartLoss
from spae_dask.strategies.evaluation import (
    Adjust,
    Autoencoder,
    evaluate_encoder,
    evaluate_parts,
    evaluation_recipe,
)
from spae_dask.strategies.parameters import EVALUATIONS, OfRows, check_choice, check_value, whole
from spae_dask.strategies.sketch import SketchStrategy
from spae_dask.strategies.table import choose_one_read

MOST_PARTS = 1000
"""Parts that rows may be cut into."""

PCA_SECONDS = 300.0
"""Seconds at nominal rates that PCA of all parts may take."""


def evaluate(
    x: Any,
    encoder: SparseEncoder,
    *,
    strategy: str = "auto",
    covariates: Any = None,
    row_weights: Any = None,
    memory_limit: int | str | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Event], None] | None = None,
) -> Certificate:
    """Measure the loss of an encoder on data, also held-out data, in one pass.

    Parameters
    ----------
    x : object
        Matrix (n, d): anything that :func:`spae_dask.open_matrix` opens, with the encoder's number of columns.
    encoder : SparseEncoder
        Fitted or loaded encoder.
    strategy : {"auto", "gram", "tsqr", "sketch"}
        Strategy of the pass, as for ``SparseEncoder``. With ``"sketch"``, for any number of columns, PCA's loss is a
        certified lower bound.
    covariates : object, optional
        Covariates of the rows, as for ``SparseEncoder.transform``; losses are then of what they leave.
    row_weights : object, optional
        Weights of the rows, as for ``SparseEncoder``; losses are then weighted sums. By default all rows count the
        same, also for an encoder that was fitted with weights.
    memory_limit : int or str, optional
        Memory limit of a process, in bytes or as text such as ``"2GB"``.
    checkpoint : str or Path, optional
        Folder or URL in which the states of the pass are stored, as for ``SparseEncoder``.
    progress : callable, optional
        Function that receives the engine's events.

    Returns
    -------
    Certificate
        Losses on ``x``, taken about the encoder's mean and scale. ``loss`` is that with the best decoder for ``x``,
        ``decoder_loss`` that with the encoder's own decoder. ``pca_loss`` is PCA's loss about the same mean.
        ``metrics`` holds the results of :func:`spae_dask.encoder_metrics`, with correlations of the codes.

    Raises
    ------
    InvalidInput
        If ``x`` or a parameter cannot be used, or ``x`` has another number of columns.
    MemoryBudgetExceeded
        If the evaluation does not fit in memory. Nothing is read then.
    StorageError
        If a chunk cannot be read.
    PassFailed
        If the pass cannot be finished.
    ClusterUnavailable
        If the cluster of the active client does not answer, or has no workers in time.
    """
    found = _evaluated(x, encoder, None, strategy, covariates, row_weights, memory_limit, checkpoint, progress)
    return found.certificate


def evaluate_by(
    x: Any,
    encoder: SparseEncoder,
    by: Any,
    *,
    strategy: str = "auto",
    covariates: Any = None,
    memory_limit: int | str | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Event], None] | None = None,
) -> Drift:
    """Measure the loss of an encoder on parts of data, such as batches or years, in the one pass of ``evaluate``.

    Parameters
    ----------
    x, encoder
        As for ``evaluate``.
    by : int, str or array-like (n,)
        Number of equal parts of the rows, in their order; also as text. Or labels of the rows, each of which is a part:
        the name of a column of ``obs`` of AnnData or of a table, or of a coordinate of a DataArray, or one label for
        each row. A column of a table that is named is no data, unless the encoder was fitted on it.
    strategy, covariates, memory_limit, checkpoint, progress
        As for ``evaluate``.

    Returns
    -------
    Drift
        ``certificate`` of all rows, as of ``evaluate``, and ``parts``: for each the rows, the losses, their ratio, and
        the features that have a larger share of the loss there than in all rows. It prints as a table. Each part is
        compared with PCA of its own rows, if the sums for that fit in memory. Else ``reference`` says so, and PCA's
        loss on all rows is shared out by the number of rows.

    Raises
    ------
    InvalidInput
        If ``by`` cannot be used; also as ``evaluate``.
    MemoryBudgetExceeded, StorageError, PassFailed, ClusterUnavailable
        As ``evaluate``.
    """
    return _evaluated(x, encoder, by, strategy, covariates, None, memory_limit, checkpoint, progress)


def _evaluated(
    x: Any,
    encoder: SparseEncoder,
    by: Any,
    strategy: str,
    covariates: Any,
    row_weights: Any,
    memory_limit: int | str | None,
    checkpoint: str | Path | None,
    progress: Callable[[Event], None] | None,
) -> Drift:
    """Losses on all rows, and on parts of them if ``by`` is not None."""
    check_is_fitted(encoder)
    source = open_rows(encoder, x, beside=columns_beside(by, row_weights))
    check_choice("strategy", strategy, EVALUATIONS)
    client, autoencoder = active_client(source), encoder.autoencoder()
    adjustment = adjustment_of(encoder, x, source, covariates)
    adjust = None if adjustment is None else adjustment.adjusted
    weights = read_row_weights(row_weights, x, source)
    cut, names = (None, ()) if by is None else _cut(by, x, source)
    resources, own_pca = resources_for(client, memory_limit), cut is not None and _is_quick(cut.n_parts, source)
    try:
        plan = plan_evaluation(source, autoencoder, strategy, resources, adjust, weights, cut, own_pca=own_pca)
    except MemoryBudgetExceeded:
        if not own_pca:
            raise
        own_pca = False
        plan = plan_evaluation(source, autoencoder, strategy, resources, adjust, weights, cut)
    chosen = plan.strategy
    own_pca = own_pca and chosen in CORES
    checked = report_missing_chunks(source)
    asked = {"encoder": digest_of(autoencoder)[:24]}
    if adjustment is not None:
        asked["covariates"] = digest_of((adjustment.design, adjustment.coefficients))[:24]
    if cut is not None:
        asked["by"] = digest_of(cut)[:24]
    if weights is not None:
        asked["row_weights"] = digest_of(weights)[:24]
    kept = open_checkpoint(checkpoint_at(checkpoint), checked, "evaluate", chosen, asked)
    runner = runner_for(checked, client, plan, progress, kept)
    parts: tuple[PartLoss, ...] = ()
    with one_blas_thread(), naming_declared(source):
        run_pass = weighing(runner.run_pass, weights)
        if cut is None:
            certificate = evaluate_encoder(run_pass, autoencoder, strategy=chosen, adjust=adjust)
        else:
            certificate, parts = evaluate_parts(
                run_pass, autoencoder, cut, names, strategy=chosen, own_pca=own_pca, adjust=adjust
            )
    certificate = replace(
        certificate,
        bytes_read=runner.tally.nbytes,
        missing_chunks=checked.missing_chunks,
        total_weight=None if weights is None else weights.total,
    )
    told = str(by) if isinstance(by, str) or whole(by) is not None else "labels"
    found = Drift(certificate, told, SAME_PART if own_pca else ALL_ROWS, parts)
    return found.named(encoder.feature_names_in_) if hasattr(encoder, "feature_names_in_") else found


def _cut(by: Any, x: Any, source: RowBlocks) -> tuple[Cut, tuple[str, ...]]:
    """Parts of the rows, and their names."""
    n, number = source.shape[0], int(by) if isinstance(by, str) and by.isdecimal() else whole(by)
    if number is None:
        check_value("by", by, OfRows())
        labels = labels_of(by, x, source)
        levels = labels.levels or ()
        return Cut.by_codes(labels.values, len(levels)), levels
    most = min(n, MOST_PARTS)
    if not 1 <= number <= most:
        raise InvalidInput(
            f"by={number} is not allowed: give a number of parts from 1 to {most:,}, or the name of a column of labels."
        )
    cut = Cut.equal(n, number)
    stops = np.append(cut.starts[1:], n) - 1
    return cut, tuple(f"rows {first}-{last}" for first, last in zip(cut.starts.tolist(), stops.tolist(), strict=True))


def _is_quick(n_parts: int, source: RowBlocks) -> bool:
    """Return True if PCA of each part takes minutes at most."""
    return n_parts * CORE_SECONDS * source.shape[1] ** 3 <= PCA_SECONDS


def plan_evaluation(
    source: RowBlocks,
    autoencoder: Autoencoder,
    strategy: str,
    resources: Resources,
    adjust: Adjust | None = None,
    weights: RowWeights | None = None,
    cut: Cut | None = None,
    *,
    own_pca: bool = False,
) -> Plan:
    """Plan an evaluation.

    Parameters
    ----------
    source : RowBlocks
        Data to evaluate on.
    autoencoder : Autoencoder
        Encoder and decoder. For an encoder that is yet to be fitted: one of its shape and number of nonzeros.
    strategy : {"auto", "gram", "tsqr", "sketch"}
        Strategy of the pass, as for `evaluate`.
    resources : Resources
        Planned resources of the run.
    adjust : callable, optional
        Takes what covariates explain from the rows.
    weights : RowWeights, optional
        Weights of the rows.
    cut : Cut, optional
        Parts of the rows.
    own_pca : bool
        True to make PCA of each part.

    Raises
    ------
    MemoryBudgetExceeded
        If the evaluation does not fit in memory there.
    """
    resources = with_listing(resources, source)
    chosen, reason = choose_one_read(strategy, source, resources, otherwise=SketchStrategy.name)
    recipe = weighted(evaluation_recipe(chosen, autoencoder, adjust, cut, own_pca=own_pca and chosen in CORES), weights)
    finish = finish_nbytes(source.shape[1]) if chosen in CORES else 3 * recipe.state_nbytes
    if cut is not None:
        finish += recipe.state_nbytes
    return make_plan(
        source,
        [("evaluate", recipe)],
        resources,
        strategy=chosen,
        reason=reason,
        finish=Finish(finish),
        notes=layout_notes(source),
    )
