"""The plans of a pipeline's steps, before it runs, for workers whose memory is left to them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spae_dask.cli.planned_memory import Planner, is_planned, sized, unknown
from spae_dask.cli.target import Target
from spae_dask.clusters.connect import described
from spae_dask.clusters.specs import Started
from spae_dask.estimators.covariates import adjustment_of
from spae_dask.estimators.evaluation import plan_evaluation
from spae_dask.estimators.paths import plan_path
from spae_dask.estimators.preparing import prepared
from spae_dask.estimators.row_weights import read_row_weights
from spae_dask.pipelines.pipeline import Node, Pipeline
from spae_dask.pipelines.schema import Evaluate, Fit, Path, arguments_of
from spae_dask.pipelines.steps import encoder_of, opened, plan_of
from spae_dask.settings import text_setting
from spae_dask.strategies.evaluation import Autoencoder


def place_for(pipeline: Pipeline, place: Target) -> Target:
    """The place, with workers that have the memory which the most demanding step of the pipeline takes.

    Raises
    ------
    InvalidInput
        If a step cannot be planned yet, since an earlier step makes its data, or there is none.
    MemoryBudgetExceeded, StorageError
        As planning does.
    """
    where = place.cluster or text_setting("cluster")
    spec = None if where is None else described(where)
    if not isinstance(spec, Started) or not is_planned(spec):
        return place
    return replace(place, spec=sized(spec, planners_of(pipeline)))


def planners_of(pipeline: Pipeline) -> list[Planner]:
    """A planner for each fit, each table of losses and each evaluation: the steps that hold more than a block or two.

    Raises
    ------
    InvalidInput
        If the data of one are made by an earlier step.
    """
    nodes = [node for node in pipeline.nodes if isinstance(node.step, Fit | Path | Evaluate)]
    for node in nodes:
        if ("data",) in node.made_by:
            raise unknown(f"step {node.made_by[('data',)]} has not yet made the data of step {node.step.name}")
    return [_planner(node, pipeline) for node in nodes]


def _planner(node: Node, pipeline: Pipeline) -> Planner:
    step = node.step
    assert isinstance(step, Fit | Path | Evaluate)
    data = node.files[("data",)]
    if isinstance(step, Evaluate):
        maker = node.made_by.get(("encoder",))
        encoder = encoder_of(node.files) if maker is None else None
        made = encoder or _fit_of(maker, pipeline)
        source = prepared(opened(step, data, encoder), made.missing_value, made.recipe)
        autoencoder = encoder.autoencoder() if encoder is not None else _autoencoder(made, source.shape[1])
        adjustment = None if encoder is None else adjustment_of(encoder, data, source, step.covariates)
        adjust = None if adjustment is None else adjustment.adjusted
        weights = read_row_weights(step.row_weights, data, source)
        return lambda resources: plan_evaluation(source, autoencoder, step.strategy, resources, adjust, weights)
    source = opened(step, data)
    if isinstance(step, Path):
        return lambda resources: plan_path(source, **arguments_of(step), resources=resources)
    return lambda resources: plan_of(step, source, None, resources)


def _fit_of(name: str | None, pipeline: Pipeline) -> Fit:
    """The step of a name, which makes an encoder."""
    (step,) = (each.step for each in pipeline.nodes if each.step.name == name)
    assert isinstance(step, Fit)
    return step


def _autoencoder(step: Any, d: int) -> Autoencoder:
    """A stand-in for the encoder that a step is yet to fit: one that takes as much room."""
    k, r = step.n_components, step.n_nonzero
    most = d if r is None else min(d, max(r) if isinstance(r, Sequence) else r)
    H = np.zeros((d, k))
    for component in range(k):
        H[(component * most + np.arange(most)) % d, component] = 1.0
    fill = None if step.missing == "error" else np.zeros(d)
    return Autoencoder(H, np.zeros((k, d)), np.zeros(d), np.ones(d), fill)
