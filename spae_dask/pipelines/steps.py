"""Steps of a pipeline: a function for each, and their kinds.

A new kind is a model, a function, and a line in `KINDS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput, OtherCheckpoint
from spae_dask.estimators.applying import open_like
from spae_dask.estimators.checking import check as check_data
from spae_dask.estimators.covariates import columns_beside, open_without
from spae_dask.estimators.evaluation import evaluate as evaluate_encoder
from spae_dask.estimators.evaluation import evaluate_by
from spae_dask.estimators.paths import fit_path
from spae_dask.estimators.planning import mask_note, rows_note
from spae_dask.estimators.planning import plan as plan_fit
from spae_dask.estimators.reporting import curve_from_data, write_report
from spae_dask.estimators.runtime import parse_memory
from spae_dask.estimators.saved import in_order, load_encoder, save_encoder
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.passes.memory import refuse_tiny
from spae_dask.passes.plan import Plan as FitPlan
from spae_dask.passes.plan import Resources
from spae_dask.pipelines.compare_step import compare
from spae_dask.pipelines.schema import (
    Check,
    Compare,
    Evaluate,
    Fit,
    Ingest,
    OnData,
    Path,
    Plan,
    Report,
    Resumable,
    Step,
    Transform,
    arguments_of,
)
from spae_dask.pipelines.work import Result, Say, Target, Work
from spae_dask.report.path_file import origin_of, read_path
from spae_dask.storage.checkpoints.checkpoint_removal import end_checkpoint, remove_checkpoint
from spae_dask.storage.ingesting.ingest import BUDGET
from spae_dask.storage.ingesting.ingest import ingest as ingest_matrix
from spae_dask.storage.writing.json_and_csv import write_csv, write_json
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.drift import Drift
from spae_dask.strategies.parameters import OF_ROWS
from spae_dask.toml.lines import KeyPath


def opened(step: OnData | Report, data: str, encoder: SparseEncoder | None = None, say: Say | None = None) -> RowBlocks:
    """Open the matrix that a step reads, under its own mask or that of an encoder. ``say`` gets a note about it."""
    beside = columns_beside(*(getattr(step, name, None) for name in (*OF_ROWS, "by")))
    if encoder is None:
        source = open_without(data, beside, **step.which)
    else:
        source = open_like(encoder, data, beside=beside, **step.which)
    for told in (rows_note(source), mask_note(source)):
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
        sample_dim=step.sample_dim,
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
            **arguments_of(step),
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
    found = plan_of_step(step, work.data, work.machinery.where)
    write_json(found.as_dict(), work.outputs[".json"])
    return Result(str(found), {"plan": found.as_dict()})


def plan_of_step(step: Plan | Fit, data: str, where: Target) -> FitPlan:
    """The plan of a fit where it would run, for which no process is started."""
    source = opened(step, data)
    with where.planned_resources(source) as resources:
        return where.named(plan_of(step, source, where.memory, resources), source)


def plan_of(step: Plan | Fit, source: RowBlocks, memory: str | None, resources: Resources | None = None) -> FitPlan:
    """The plan of a fit, at nominal rates: what a step records must not depend on how busy the machine was."""
    return plan_fit(source, **step.encoder_parameters, memory_limit=memory, calibrate=False, resources=resources)


Found = TypeVar("Found")


def resumed(step: Resumable, work: Work, sweep: Callable[[str | None], Found]) -> Found:
    """Run a function that resumes from the step's checkpoint, and return its result.

    Parameters
    ----------
    step : Resumable
        The step.
    work : Work
        Its share.
    sweep : callable
        Given the checkpoint's folder or URL, or None for no checkpoint. Called again, if the step's own checkpoint is
        of parameters or data that it had before.
    """
    place = checkpoint_of(step, work)
    try:
        return sweep(place)
    except OtherCheckpoint:
        if place is None or step.checkpoint is not None:
            raise
        remove_checkpoint(place)
        return sweep(place)


def forget(step: Resumable, work: Work) -> None:
    """Remove the checkpoint of a step whose outputs are written."""
    place = checkpoint_of(step, work)
    if place is not None:
        end_checkpoint(place)


def checkpoint_of(step: Resumable, work: Work) -> str | None:
    """Return the folder or URL of a step's checkpoint; None if the step keeps none."""
    if step.checkpoint is False:
        return None
    name = step.checkpoint or f"{step.name}.checkpoint"
    return name if "://" in name else str(work.outputs[step.suffix].parent / name)


def fit(step: Fit, work: Work) -> Result:
    """Find a sparse encoder and certify its loss."""
    source, where = opened(step, work.data, say=work.machinery.say), work.machinery.where
    plan_of(step, source, where.memory)  # refuses an impossible fit before any process starts
    with where.ready(source):
        encoder = SparseEncoder(**step.encoder_parameters, memory_limit=where.memory, progress=work.machinery.progress)
        resumed(step, work, lambda place: encoder.set_params(checkpoint=place).fit(source))
    save_encoder(encoder, work.outputs[".zarr"], source=source, overwrite=True)
    forget(step, work)
    certificate = encoder.certificate_
    selected = encoder.selected_features_.tolist()
    return Result(str(certificate), {"certificate": certificate.as_dict(), "selected_features": selected})


def encoder_of(files: Mapping[KeyPath, str]) -> SparseEncoder:
    """Read the encoder of a step, beside which data may stand."""
    encoder = files[("encoder",)]
    with in_order(files.get(("data",), encoder), encoder, "Swap 'data' and 'encoder' of the step."):
        return load_encoder(encoder)


def transform(step: Transform, work: Work) -> Result:
    """Write the codes of all rows."""
    encoder = encoder_of(work.files)
    source, where = opened(step, work.data, encoder, work.machinery.say), work.machinery.where
    with where.ready(source):
        written = transform_to_zarr(
            source,
            encoder,
            str(work.outputs[".zarr"]),
            covariates=step.covariates,
            overwrite=True,
            memory_limit=where.memory,
            progress=work.machinery.progress,
        )
    return Result(written.describe(), {"codes": written.as_dict()})


def evaluate(step: Evaluate, work: Work) -> Result:
    """Measure the loss of an encoder on data, and on parts of them."""
    if step.figure:  # first, since the libraries it needs may be missing
        from spae_dask.report.drift_figure import write_drift
    encoder = encoder_of(work.files)
    source, where = opened(step, work.data, encoder, work.machinery.say), work.machinery.where

    def measured(place: str | None) -> tuple[Certificate, Drift | None]:
        how: dict[str, Any] = {
            "strategy": step.strategy,
            "covariates": step.covariates,
            "memory_limit": where.memory,
            "checkpoint": place,
            "progress": work.machinery.progress,
        }
        if step.by is None:
            return evaluate_encoder(source, encoder, row_weights=step.row_weights, **how), None
        drift = evaluate_by(source, encoder, step.by, **how)
        return drift.certificate, drift

    with where.ready(source):
        certificate, drift = resumed(step, work, measured)
    record, parts = certificate.as_dict(), {} if drift is None else drift.as_dict()
    write_json(record | parts, work.outputs[".json"])
    for kind in step.figure:
        assert drift is not None, "figures are of parts"
        write_drift(drift, work.outputs[f".{kind}"], encoder=step.encoder, data=step.data, overwrite=True)
    forget(step, work)
    told = str(certificate) if drift is None else f"{certificate}\n\n{drift}"
    return Result(told, {"certificate": record} | parts)


def path(step: Path, work: Work) -> Result:
    """Draw loss against sparsity, for every k and r, from one read."""
    if step.figure:  # first, since the libraries it needs may be missing
        from spae_dask.report.figures import path_figure, save_figure
    source, where = opened(step, work.data, say=work.machinery.say), work.machinery.where
    with where.ready(source):
        found = resumed(
            step,
            work,
            lambda place: fit_path(
                source,
                **arguments_of(step),
                memory_limit=where.memory,
                checkpoint=place,
                progress=work.machinery.progress,
            ),
        )
    write_csv(found.records(), work.outputs[".csv"])
    for kind in step.figure:
        save_figure(path_figure(found), work.outputs[f".{kind}"], overwrite=True)
    forget(step, work)
    return Result(str(found), found.as_dict() | {"method": step.method})


def report(step: Report, work: Work) -> Result:
    """Write the report of an encoder, with the losses of a path, or those drawn from data, if that is asked for."""
    file, output = work.files[("encoder",)], work.outputs[".html"]
    encoder = encoder_of(work.files)
    curve, origin = None, ""
    if step.path is not None:
        table = work.files[("path",)]
        curve, origin = read_path(table, encoder.n_components_), origin_of(table, output)
    elif step.data is not None:
        source, where = opened(step, work.data, encoder, work.machinery.say), work.machinery.where
        with where.ready(source):
            curve, origin = curve_from_data(
                encoder, source, memory_limit=where.memory, progress=work.machinery.progress
            )
    write_report(encoder, file, output, curve=curve, origin=origin, overwrite=True)
    return Result(f"report    {output}", {"encoder": file, "curve": curve is not None or encoder.curve() is not None})


@dataclass(frozen=True)
class Kind:
    """A kind of step.

    Attributes
    ----------
    model : type
        Model of the step's table.
    run : callable
        Function of ``(step, work)`` that writes all of ``work.outputs``. Each appears only when it is complete.
    """

    model: type[Step]
    run: Callable[[Any, Work], Result]


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "ingest": Kind(Ingest, ingest),
        "check": Kind(Check, check),
        "plan": Kind(Plan, plan),
        "fit": Kind(Fit, fit),
        "transform": Kind(Transform, transform),
        "evaluate": Kind(Evaluate, evaluate),
        "path": Kind(Path, path),
        "report": Kind(Report, report),
        "compare": Kind(Compare, compare),
    }
)
"""By the name that ``kind`` gives, in the order of use."""
