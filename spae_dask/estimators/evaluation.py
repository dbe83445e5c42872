"""Exact loss of a fitted encoder on any data."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from spae_dask.algorithms.certificate import Certificate
from spae_dask.algorithms.evaluation import Codec, evaluate_encoder, evaluation_recipe
from spae_dask.algorithms.parameters import EVALUATIONS, check_choice
from spae_dask.blocks import RowBlocks
from spae_dask.engine.events import Event
from spae_dask.engine.plan import Finish, Plan, Resources
from spae_dask.engine.planner import make_plan
from spae_dask.engine.recipe_digest import digest_of
from spae_dask.engine.threads import one_blas_thread
from spae_dask.estimators.applying import open_rows
from spae_dask.estimators.checkpointing import checkpoint_at, open_checkpoint
from spae_dask.estimators.fitting import telling_declared, told_of_missing_chunks
from spae_dask.estimators.layout_notes import layout_notes
from spae_dask.estimators.runtime import active_client, resources_for, runner_for, with_listing
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.estimators.strategies import core_or_sketch, finish_nbytes


def evaluate(
    x: Any,
    encoder: SparseEncoder,
    *,
    strategy: str = "auto",
    memory_limit: int | str | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Event], None] | None = None,
) -> Certificate:
    """Measure the loss of an encoder on data, held-out data too. One pass.

    Parameters
    ----------
    x : object
        Anything :func:`spae_dask.open_matrix` opens, with the encoder's number of columns.
    encoder : SparseEncoder
        Fitted, or loaded.
    strategy : {"auto", "gram", "tsqr", "sketch"}
        As for ``SparseEncoder``. With ``"sketch"``, for any number of columns, PCA's loss is a certified lower bound.
    memory_limit : int or str, optional
        Bytes a process may use in all.
    checkpoint : str or Path, optional
        As for ``SparseEncoder``.
    progress : callable, optional
        Called with the engine's events.

    Returns
    -------
    Certificate
        ``loss`` with the decoder that is best for ``x`` and ``decoder_loss`` with the encoder's own, X taken about the
        encoder's mean and scale; ``pca_loss`` is that of ``x`` about the same mean. ``metrics`` holds what
        :func:`spae_dask.encoder_metrics` measures, correlations of the codes among them.
    """
    check_is_fitted(encoder)
    source = open_rows(encoder, x)
    check_choice("strategy", strategy, EVALUATIONS)
    client, codec = active_client(source), encoder.codec()
    plan = plan_evaluation(source, codec, strategy, resources_for(client, memory_limit))
    chosen = plan.strategy
    counted = told_of_missing_chunks(source)
    asked = {"encoder": digest_of(codec)[:24]}
    kept = open_checkpoint(checkpoint_at(checkpoint), counted, "evaluate", chosen, asked)
    runner = runner_for(counted, client, plan, progress, kept)
    with one_blas_thread(), telling_declared(source):
        certificate = evaluate_encoder(runner.run_pass, codec, strategy=chosen)
    return replace(certificate, bytes_read=runner.tally.nbytes, missing_chunks=counted.missing_chunks)


def plan_evaluation(source: RowBlocks, codec: Codec, strategy: str, resources: Resources) -> Plan:
    """Plan an evaluation.

    Parameters
    ----------
    source : RowBlocks
        The data.
    codec : Codec
        The encoder; of one that is yet to be fitted, one of its shape and number of nonzeros.
    strategy : {"auto", "gram", "tsqr", "sketch"}
        As for `evaluate`.
    resources : Resources
        Planned resources of the run.

    Raises
    ------
    MemoryBudgetExceeded
        If it does not fit there.
    """
    resources = with_listing(resources, source)
    chosen, reason = core_or_sketch(strategy, source, resources)
    recipe = evaluation_recipe(chosen, codec)
    finish = finish_nbytes(source.shape[1]) if chosen != "sketch" else 3 * recipe.state_nbytes
    return make_plan(
        source,
        [("evaluate", recipe)],
        resources,
        strategy=chosen,
        reason=reason,
        finish=Finish(finish),
        notes=layout_notes(source),
    )
