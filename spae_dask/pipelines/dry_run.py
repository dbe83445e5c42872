"""Description of a run, step by step, without running any of it."""

from dataclasses import replace

from spae_dask.errors import SpaeError
from spae_dask.passes.memory import format_nbytes
from spae_dask.passes.plan import Plan
from spae_dask.pipelines import schema
from spae_dask.pipelines.data_steps import imagined_plan
from spae_dask.pipelines.pipeline import Node, Pipeline
from spae_dask.pipelines.record import begin, read_record, reason_to_run
from spae_dask.pipelines.runner import UP_TO_DATE, Tell, naming, outcome_of, refuse_file, refuse_foreign
from spae_dask.pipelines.work import Result, Where


def dry_run(pipeline: Pipeline, where: Where, *, force: bool, tell: Tell) -> None:
    """Say of every step whether it would run, and plan every fit whose data are there. Writes nothing.

    Parameters
    ----------
    pipeline : Pipeline
        Pipeline to describe.
    where : Where
        Execution target of the run.
    force : bool
        As for a run.
    tell : callable
        Called with the outcome expected of each step.

    Raises
    ------
    SpaeError
        If a step would fail. It is the first such error, raised after all steps were reported. For example, a plan
        that does not fit raises ``MemoryBudgetExceeded``.
    """
    refuse_file(pipeline.output)
    known: dict[str, str] = {}
    waits: set[str] = set()
    first: SpaeError | None = None
    for node in pipeline.nodes:
        with naming(pipeline, node):
            now, last = begin(node, known), read_record(node.record)
        known[node.step.name] = now.fingerprint
        reason = "--force" if force else reason_to_run(node, now, last)
        if reason is not None:
            waits.add(node.step.name)
        status = "to skip" if reason is None else "to run"
        told = outcome_of(node, status, reason or UP_TO_DATE, 0.0 if last is None else last.seconds, {})
        try:
            with naming(pipeline, node):
                if not force:
                    refuse_foreign(node)
                if isinstance(node.step, schema.Fit | schema.Plan) and reason is not None:
                    planned = _planned(node, node.step, where, waits)
                    told = replace(told, result=planned.document, text=planned.text)
        except SpaeError as error:
            first = first or error
            told = replace(told, result={"refused": str(error)}, text="would be refused, see below")
        tell(told)
    if first is not None:
        raise first


def _planned(node: Node, step: schema.Fit | schema.Plan, where: Where, waits: set[str]) -> Result:
    """The plan of a fit whose data are there."""
    maker = node.made_by.get(("data",))
    if maker in waits:
        return Result(f"no plan yet: its data are made by step {maker}", {})
    plan = imagined_plan(step, node.files[("data",)], where)
    return Result(_summary(plan), {"plan": plan.as_dict()})


def _summary(plan: Plan) -> str:
    return (
        f"reads {format_nbytes(plan.bytes_read)} in {len(plan.passes)} pass(es), holds "
        f"{format_nbytes(plan.worker_nbytes)} a process above its idle size, of {plan.resources.n_workers} "
        f"({plan.resources.where}); limit {format_nbytes(plan.resources.memory_limit)}"
    )
