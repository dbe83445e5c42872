"""The plans of a pipeline's fits, before it runs, for workers whose memory is left to them."""

from dataclasses import replace

from spae_dask.cli.place import Place
from spae_dask.cli.planned_memory import Planner, is_planned, sized, unknown
from spae_dask.clusters.connect import described
from spae_dask.clusters.specs import Started
from spae_dask.engine.plan import Plan, Resources
from spae_dask.pipelines.data_steps import plan_of
from spae_dask.pipelines.pipeline import Node, Pipeline
from spae_dask.pipelines.schema import Fit
from spae_dask.settings import text_setting
from spae_dask.storage.open import open_matrix


def place_for(pipeline: Pipeline, place: Place) -> Place:
    """The place, with workers that have the memory which the most demanding fit of the pipeline takes.

    Raises
    ------
    InvalidInput
        If a fit cannot be planned yet, since an earlier step makes its data, or there is none.
    MemoryBudgetExceeded, StorageError
        As planning does.
    """
    where = place.cluster or text_setting("cluster")
    spec = None if where is None else described(where)
    if not isinstance(spec, Started) or not is_planned(spec):
        return place
    return replace(place, spec=sized(spec, planners_of(pipeline)))


def planners_of(pipeline: Pipeline) -> list[Planner]:
    """A planner for each fit.

    Raises
    ------
    InvalidInput
        If the data of one are made by an earlier step.
    """
    nodes = [node for node in pipeline.nodes if isinstance(node.step, Fit)]
    for node in nodes:
        if ("data",) in node.made_by:
            raise unknown(f"the data of step {node.step.name} are yet to be made by step {node.made_by[('data',)]}")
    return [_planner(node) for node in nodes]


def _planner(node: Node) -> Planner:
    step = node.step
    assert isinstance(step, Fit)
    source = open_matrix(node.files[("data",)], array=step.array, columns=step.columns)

    def planned(resources: Resources) -> Plan:
        return plan_of(step, source, None, resources)

    return planned
