"""Steps about a matrix before anything is fitted to it: ingest, check, plan."""

from typing import Any

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput
from spae_dask.estimators.applying import open_like
from spae_dask.estimators.checking import check as check_data
from spae_dask.estimators.layout_notes import mask_note
from spae_dask.estimators.planning import plan as plan_fit
from spae_dask.estimators.runtime import parse_memory
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.passes.memory import refuse_tiny
from spae_dask.passes.plan import Plan as FitPlan
from spae_dask.passes.plan import Resources
from spae_dask.pipelines.files import write_json
from spae_dask.pipelines.schema import Check, Fit, Ingest, OnData, Plan, Report
from spae_dask.pipelines.work import Result, Say, Where, Work
from spae_dask.storage.ingesting.ingest import BUDGET
from spae_dask.storage.ingesting.ingest import ingest as ingest_matrix
from spae_dask.storage.open import open_matrix


def opened(step: OnData | Report, data: str, encoder: SparseEncoder | None = None, say: Say | None = None) -> RowBlocks:
    """Open the matrix that a step reads, under its own mask or that of an encoder. ``say`` gets a note about it."""
    which: dict[str, Any] = {"array": step.array, "columns": step.columns, "mask": step.mask, "decode": not step.raw}
    source = open_matrix(data, **which) if encoder is None else open_like(encoder, data, **which)
    told = mask_note(source)
    if say is not None and told is not None:
        say(told)
    return source


def ingest(step: Ingest, work: Work) -> Result:
    """Write a matrix as a Zarr array that reads fast."""
    progress, limit = work.machinery.progress, parse_memory(work.machinery.where.memory)
    progress.begin(step.name)
    report = ingest_matrix(
        work.files[("source",)],
        work.outputs[".zarr"],
        chunks=step.chunks,
        codec=step.codec,
        array=step.array,
        columns=step.columns,
        mask=step.mask,
        dtype=step.dtype,
        header=step.header,
        variable=step.variable,
        sample_dim=None if step.sample_dim is None else tuple(step.sample_dim.split(",")),
        decode=not step.raw,
        overwrite=True,
        budget=BUDGET if limit is None else refuse_tiny(limit),
        watch=progress.stand_at,
    )
    progress.end()
    return Result(report.describe(), {"ingest": report.as_dict()})


def check(step: Check, work: Work) -> Result:
    """Look at every entry once."""
    where = work.machinery.where
    source = opened(step, work.data)
    with where.ready(source):
        found = check_data(
            source,
            missing_value=step.missing_value,
            deep=step.deep,
            memory_limit=where.memory,
            progress=work.machinery.progress,
        )
    write_json(found.as_dict(), work.outputs[".json"])
    if step.strict and found.problems:
        raise InvalidInput(
            f"{work.data} has {len(found.problems)} problem(s), and 'strict' allows none: {'; '.join(found.problems)}."
        )
    return Result(str(found), {"check": found.as_dict()})


def plan(step: Plan, work: Work) -> Result:
    """Say what a fit would take, and refuse what would not fit."""
    found = imagined_plan(step, work.data, work.machinery.where)
    write_json(found.as_dict(), work.outputs[".json"])
    return Result(str(found), {"plan": found.as_dict()})


def imagined_plan(step: Plan | Fit, data: str, where: Where) -> FitPlan:
    """The plan of a fit where it would run, for which no process is started."""
    source = opened(step, data)
    with where.imagined(source) as resources:
        return where.named(plan_of(step, source, where.memory, resources), source)


def plan_of(step: Plan | Fit, source: RowBlocks, memory: str | None, resources: Resources | None = None) -> FitPlan:
    """The plan of a fit, at nominal rates: what a step records must not depend on how busy the machine was."""
    return plan_fit(source, **step.encoder_parameters, memory_limit=memory, calibrate=False, resources=resources)
