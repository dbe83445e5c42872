"""From passes to a plan, before the first byte of them; and the refusal of what does not fit. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spae_dask.blocks import RowBlocks, column_groups
from spae_dask.errors import MemoryBudgetExceeded
from spae_dask.passes.accumulators.base import Accumulator
from spae_dask.passes.calibration import Calibration, nominal_work
from spae_dask.passes.layout import PassLayout
from spae_dask.passes.memory import (
    IDLE_NBYTES,
    LAST_SHARE,
    LIMIT_SHARE,
    Footprint,
    refuse,
    resident_nbytes,
    tasks_that_fit,
)
from spae_dask.passes.orientation import as_read, oriented
from spae_dask.passes.plan import Alternative, Finish, PassPlan, Plan, Resources
from spae_dask.quantities import format_nbytes

NOTED_NBYTES = 16 << 20
"""Bytes of a listing that a plan speaks of."""


def make_plan(
    source: RowBlocks,
    passes: Sequence[tuple[str, Accumulator[Any]]],
    resources: Resources,
    *,
    strategy: str,
    reason: str,
    finish: Finish,
    notes: Sequence[str] = (),
    calibration: Calibration | None = None,
    alternatives: Sequence[Alternative] = (),
) -> Plan:
    """Plan the given passes over ``source``.

    Parameters
    ----------
    source : RowBlocks
        The data; only metadata is looked at.
    passes : sequence of (str, Accumulator)
        Names and recipes.
    resources : Resources
        Processes that the run would use.
    strategy, reason : str
        For the record; ``calibration`` knows passes by the strategy's name.
    finish : Finish
        The final linear algebra.
    notes : sequence of str
        Remarks on the source's layout.
    calibration : Calibration, optional
        Measured rates; nominal ones without.
    alternatives : sequence of Alternative
        For the record.

    Raises
    ------
    MemoryBudgetExceeded
        If one task at a time does not fit a process, or the final linear algebra does not.
    """
    planned = _plan_passes(source, passes, resources, strategy, calibration, finish)
    refusal = _refusal(source, planned, resources, finish)
    if refusal is not None:
        raise refusal
    if resources.listing_nbytes >= NOTED_NBYTES:
        what = f"listing of stored chunks: {format_nbytes(resources.listing_nbytes)} of the memory of this process"
        notes = [*notes, f"{what}, included in all of the above; larger chunks, or shards, take less"]
    peak = _peak_nbytes(planned, finish, resources)
    if peak > resources.usable_nbytes:
        share = f"{LIMIT_SHARE:.0%} of the memory limit would not do, so up to {LAST_SHARE:.0%} may be used"
        notes = [*notes, f"{share}, idle size included: {format_nbytes(IDLE_NBYTES + peak)} are planned"]
    least = min(p.tasks_per_worker for p in planned)
    if least < resources.threads:
        notes = [*notes, f"of {resources.threads} threads a process, {least} work at once: memory does not allow more"]
    return Plan(
        source=source.describe(),
        dtype=str(source.dtype),
        shape=source.shape,
        strategy=strategy,
        reason=reason,
        passes=planned,
        resources=resources,
        finish_nbytes=_finish_nbytes(finish, resources),
        finish_seconds=finish.seconds,
        calibration=calibration,
        alternatives=tuple(alternatives),
        notes=tuple(notes),
    )


def price(
    source: RowBlocks,
    passes: Sequence[tuple[str, Accumulator[Any]]],
    resources: Resources,
    *,
    strategy: str,
    pca_loss: str,
    finish: Finish,
    calibration: Calibration | None = None,
) -> Alternative:
    """Price of a plan of these passes, even if it does not fit."""
    planned = _plan_passes(source, passes, resources, strategy, calibration, finish)
    return Alternative(
        strategy=strategy,
        pca_loss=pca_loss,
        n_passes=len(planned),
        bytes_read=sum(p.nbytes for p in planned),
        worker_nbytes=max(p.worker_nbytes for p in planned),
        finish_nbytes=_finish_nbytes(finish, resources),
        seconds=sum(p.seconds for p in planned) + finish.seconds,
        thread_seconds=sum(p.thread_seconds for p in planned) + finish.seconds,
        refusal=None
        if _peak_nbytes(planned, finish, resources) <= resources.usable_nbytes
        else f"does not fit in the {format_nbytes(resources.usable_nbytes)} that may be used",
    )


def taken(prices: Sequence[Alternative], strategy: str, resources: Resources) -> tuple[Alternative, ...]:
    """The prices, in which the strategy taken is not refused if it fits in what is used rather than refuse."""
    return tuple(
        replace(each, refusal=None) if each.strategy == strategy and each.peak_nbytes <= resources.most_nbytes else each
        for each in prices
    )


def tasks_or_refuse(what: str, footprint: Footprint, resources: Resources) -> int:
    """Tasks a process may run at once within its memory limit.

    Raises
    ------
    MemoryBudgetExceeded
        If not even one fits; the message says what would.
    """
    tasks = _tasks_that_fit(footprint, resources, resources.beside_nbytes)
    if tasks == 0:
        blame_chunks = footprint.block_nbytes > footprint.state_nbytes
        needed = _process_nbytes(footprint, 1, resources) + resources.beside_nbytes
        raise _refuse_task(what, needed, resources, blame_chunks=blame_chunks)
    return tasks


def _tasks_that_fit(footprint: Footprint, resources: Resources, beside_nbytes: int) -> int:
    """Span tasks at once: as many as fit in what may be used, or a single one in what is used rather than refuse."""
    usual, most = (each - beside_nbytes for each in (resources.usable_nbytes, resources.most_nbytes))
    tasks = tasks_that_fit(footprint, resources.threads, usual, resources.slack, in_process=resources.in_process)
    return tasks or int(_process_nbytes(footprint, 1, resources) <= most)


def _process_nbytes(footprint: Footprint, tasks: int, resources: Resources) -> int:
    return footprint.worker_nbytes(tasks, resources.slack, in_process=resources.in_process)


def _finish_nbytes(finish: Finish, resources: Resources) -> int:
    """Peak of what the calling process does after the passes, beside the listing of what is stored."""
    return resident_nbytes(finish.nbytes, resources.slack) + resources.listing_nbytes


def _peak_nbytes(passes: Sequence[PassPlan], finish: Finish, resources: Resources) -> int:
    return max(_finish_nbytes(finish, resources), *(each.worker_nbytes for each in passes))


def _refuse_task(
    what: str,
    needed: int,
    resources: Resources,
    *,
    blame_chunks: bool,
    enough: int | None = None,
    others: Sequence[str] = (),
) -> MemoryBudgetExceeded:
    budget, limit = resources.most_nbytes, resources.limit_for(enough or needed)
    remedies = [f"a memory limit of {format_nbytes(limit, up=True)} a process", *others]
    if blame_chunks:
        remedies.append("smaller chunks (`spae ingest` rewrites the data in suitable ones)")
    return refuse(what, needed, budget, remedies)


def _refusal(
    source: RowBlocks, passes: Sequence[PassPlan], resources: Resources, finish: Finish
) -> MemoryBudgetExceeded | None:
    """The error to raise if the passes, or what comes after them, do not fit; the limit it names is enough for all."""
    finish_nbytes, enough = _finish_nbytes(finish, resources), _peak_nbytes(passes, finish, resources)
    for each in passes:
        if each.tasks_per_worker == 0:
            what = f"one task of pass {each.name!r} over {source.describe()}"
            return _refuse_task(
                what,
                each.worker_nbytes,
                resources,
                blame_chunks=each.block_nbytes > max(each.state_nbytes, resources.beside_nbytes),
                enough=enough,
                others=finish.remedies,
            )
    if finish_nbytes > resources.most_nbytes:
        return refuse(
            f"the final linear algebra on {source.shape[1]} features",
            finish_nbytes,
            resources.most_nbytes,
            [
                f"a memory limit of {format_nbytes(resources.limit_for(finish_nbytes), up=True)}",
                "fewer features",
                *finish.remedies,
            ],
        )
    return None


def _plan_passes(
    source: RowBlocks,
    passes: Sequence[tuple[str, Accumulator[Any]]],
    resources: Resources,
    strategy: str,
    calibration: Calibration | None,
    finish: Finish,
) -> tuple[PassPlan, ...]:
    read = as_read(source, passes)
    largest = read
    if finish.largest:
        largest = as_read(source, [(name, finish.largest.get(name, recipe)) for name, recipe in passes])
    return tuple(
        _plan_pass(source, name, recipe, at_most, resources, strategy, calibration, finish.beside.get(name, 0))
        for (name, recipe), (_, at_most) in zip(read, largest, strict=True)
    )


def _plan_pass(
    source: RowBlocks,
    name: str,
    recipe: Accumulator[Any],
    at_most: Accumulator[Any],
    resources: Resources,
    strategy: str,
    calibration: Calibration | None,
    held_nbytes: int,
) -> PassPlan:
    layout = PassLayout.of(*oriented(source, recipe))
    footprint = layout.footprint if at_most is recipe else PassLayout.of(*oriented(source, at_most)).footprint
    beside = resources.beside_nbytes + int(resources.slack * held_nbytes)
    tasks = _tasks_that_fit(footprint, resources, beside)
    at_least_one = max(1, tasks)
    work = nominal_work(source, layout)
    if calibration is not None:
        # of a source with groups of columns, the blocks that were measured were of one group
        decodes = 1 if column_groups(source) is None else layout.decodes_per_chunk
        work = calibration.work(strategy, name, layout.nbytes, work, decodes)
    return PassPlan(
        name=name,
        nbytes=layout.nbytes,
        n_spans=len(layout.spans),
        block_nbytes=footprint.block_nbytes,
        state_nbytes=footprint.state_nbytes,
        task_nbytes=footprint.task_nbytes,
        tasks_per_worker=tasks,
        worker_nbytes=_process_nbytes(footprint, at_least_one, resources) + beside,
        flops=layout.flops,
        seconds=work.seconds(layout, resources.busy_cores, resources.n_workers * at_least_one),
        thread_seconds=work.thread_seconds,
    )
