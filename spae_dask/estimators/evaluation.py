"""Exact loss of a fitted encoder on any data."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from spae_dask.blocks import RowBlocks
from spae_dask.estimators.applying import open_rows
from spae_dask.estimators.checkpointing import checkpoint_at, open_checkpoint
from spae_dask.estimators.covariates import adjustment_of, columns_beside
from spae_dask.estimators.fitting import naming_declared, report_missing_chunks
from spae_dask.estimators.planning import layout_notes
from spae_dask.estimators.row_weights import read_row_weights
from spae_dask.estimators.runtime import active_client, resources_for, runner_for, with_listing
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.passes.accumulators import RowWeights, weighing, weighted
from spae_dask.passes.checkpoint import digest_of
from spae_dask.passes.events import Event
from spae_dask.passes.plan import Finish, Plan, Resources
from spae_dask.passes.planner import make_plan
from spae_dask.passes.threads import one_blas_thread
from spae_dask.strategies.base import finish_nbytes
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.core import CORES
from spae_dask.strategies.evaluation import Adjust, Autoencoder, evaluate_encoder, evaluation_recipe
from spae_dask.strategies.parameters import EVALUATIONS, check_choice
from spae_dask.strategies.sketch import SketchStrategy
from spae_dask.strategies.table import choose_one_read


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
    check_is_fitted(encoder)
    source = open_rows(encoder, x, beside=columns_beside(row_weights))
    check_choice("strategy", strategy, EVALUATIONS)
    client, autoencoder = active_client(source), encoder.autoencoder()
    adjustment = adjustment_of(encoder, x, source, covariates)
    adjust = None if adjustment is None else adjustment.adjusted
    weights = read_row_weights(row_weights, x, source)
    plan = plan_evaluation(source, autoencoder, strategy, resources_for(client, memory_limit), adjust, weights)
    chosen = plan.strategy
    checked = report_missing_chunks(source)
    asked = {"encoder": digest_of(autoencoder)[:24]}
    if adjustment is not None:
        asked["covariates"] = digest_of((adjustment.design, adjustment.coefficients))[:24]
    if weights is not None:
        asked["row_weights"] = digest_of(weights)[:24]
    kept = open_checkpoint(checkpoint_at(checkpoint), checked, "evaluate", chosen, asked)
    runner = runner_for(checked, client, plan, progress, kept)
    with one_blas_thread(), naming_declared(source):
        run_pass = weighing(runner.run_pass, weights)
        certificate = evaluate_encoder(run_pass, autoencoder, strategy=chosen, adjust=adjust)
    return replace(
        certificate,
        bytes_read=runner.tally.nbytes,
        missing_chunks=checked.missing_chunks,
        total_weight=None if weights is None else weights.total,
    )


def plan_evaluation(
    source: RowBlocks,
    autoencoder: Autoencoder,
    strategy: str,
    resources: Resources,
    adjust: Adjust | None = None,
    weights: RowWeights | None = None,
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

    Raises
    ------
    MemoryBudgetExceeded
        If the evaluation does not fit in memory there.
    """
    resources = with_listing(resources, source)
    chosen, reason = choose_one_read(strategy, source, resources, otherwise=SketchStrategy.name)
    recipe = weighted(evaluation_recipe(chosen, autoencoder, adjust), weights)
    finish = finish_nbytes(source.shape[1]) if chosen in CORES else 3 * recipe.state_nbytes
    return make_plan(
        source,
        [("evaluate", recipe)],
        resources,
        strategy=chosen,
        reason=reason,
        finish=Finish(finish),
        notes=layout_notes(source),
    )
