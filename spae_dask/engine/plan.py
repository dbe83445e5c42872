"""What a run will read, hold and take, computed before the first byte; and the refusal of what does not fit. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spae_dask.accumulators.base import Accumulator
from spae_dask.blocks import RowBlocks
from spae_dask.engine.layout import PassLayout
from spae_dask.engine.memory import Footprint, format_nbytes, refuse, tasks_that_fit, usable, worker_limit_for

READ_RATE = 0.25e9
"""Decoded bytes a second and thread of a compressed store: nominal, for a first idea of the time."""

FLOP_RATE = 15e9
"""Float64 operations a second and thread: nominal."""


@dataclass(frozen=True)
class Resources:
    """Where a run may happen.

    Attributes
    ----------
    where : str
        For people.
    n_workers, threads : int
        Processes, and threads in each.
    memory_limit : int
        Bytes a process may use in all.
    """

    where: str
    n_workers: int
    threads: int
    memory_limit: int


@dataclass(frozen=True)
class PassPlan:
    """One sweep over the data.

    Attributes
    ----------
    name : str
        What it is for.
    nbytes : int
        Decoded bytes read.
    n_spans : int
        Tasks.
    block_nbytes, state_nbytes, task_nbytes : int
        The largest row block, one state, and the peak of one task.
    tasks_per_worker : int
        Span tasks that run at once in a process: fewer than its threads if memory is short.
    worker_nbytes : int
        Projected peak of a process above its idle size.
    flops : float
        Floating point operations.
    """

    name: str
    nbytes: int
    n_spans: int
    block_nbytes: int
    state_nbytes: int
    task_nbytes: int
    tasks_per_worker: int
    worker_nbytes: int
    flops: float


@dataclass(frozen=True)
class Plan:
    """A run, before it starts.

    Attributes
    ----------
    source, dtype : str
        What is read.
    shape : tuple of int
        ``(n, d)``.
    strategy, reason : str
        How, and why so.
    passes : tuple of PassPlan
        Reads of the data.
    resources : Resources
        Where.
    finish_nbytes : int
        Projected peak of the final linear algebra, in the calling process.
    seconds : float
        Projected time at nominal rates of reading and arithmetic.
    notes : tuple of str
        What a user should know about the layout of the data.
    """

    source: str
    dtype: str
    shape: tuple[int, int]
    strategy: str
    reason: str
    passes: tuple[PassPlan, ...]
    resources: Resources
    finish_nbytes: int
    seconds: float
    notes: tuple[str, ...]

    @property
    def bytes_read(self) -> int:
        """Decoded bytes of all passes."""
        return sum(p.nbytes for p in self.passes)

    @property
    def worker_nbytes(self) -> int:
        """Projected peak of a process above its idle size."""
        return max(p.worker_nbytes for p in self.passes)

    @property
    def tasks_per_worker(self) -> int:
        """Span tasks at once in a process, in the tightest pass."""
        return min(p.tasks_per_worker for p in self.passes)

    def as_dict(self) -> dict[str, Any]:
        """All fields and totals, for JSON."""
        totals = {
            "bytes_read": self.bytes_read,
            "worker_nbytes": self.worker_nbytes,
            "tasks_per_worker": self.tasks_per_worker,
        }
        return asdict(self) | totals

    def __str__(self) -> str:
        """A table for the terminal."""
        n, d = self.shape
        at_once = f"{self.tasks_per_worker} of {self.resources.threads} threads at once"
        lines = [
            f"data      {self.source}: {n:,} x {d:,} {self.dtype}, {format_nbytes(self.passes[0].nbytes)} decoded",
            f"strategy  {self.strategy}: {self.reason}",
            f"passes    {len(self.passes)} ({', '.join(p.name for p in self.passes)}), "
            f"{format_nbytes(self.bytes_read)} read in {sum(p.n_spans for p in self.passes)} spans",
            f"where     {self.resources.where}: {self.resources.n_workers} x {self.resources.threads} threads",
            f"memory    {format_nbytes(self.worker_nbytes)} a process above its idle size, {at_once}; "
            f"limit {format_nbytes(self.resources.memory_limit)}",
            f"task      blocks of {format_nbytes(self.passes[-1].block_nbytes)}, "
            f"state {format_nbytes(self.passes[-1].state_nbytes)}, {format_nbytes(self.passes[-1].task_nbytes)} in all",
            f"finish    {format_nbytes(self.finish_nbytes)} in this process",
            f"time      about {_format_seconds(self.seconds)} at nominal rates",
        ]
        return "\n".join(lines + [f"note      {note}" for note in self.notes])


def make_plan(
    source: RowBlocks,
    passes: Sequence[tuple[str, Accumulator[Any]]],
    resources: Resources,
    *,
    strategy: str,
    reason: str,
    finish_nbytes: int,
    notes: Sequence[str] = (),
) -> Plan:
    """Plan the given passes over ``source``.

    Parameters
    ----------
    source : RowBlocks
        The data; only metadata is looked at.
    passes : sequence of (str, Accumulator)
        Names and recipes.
    resources : Resources
        Where it would run.
    strategy, reason : str
        For the record.
    finish_nbytes : int
        Peak of the final linear algebra.
    notes : sequence of str
        Remarks on the source's layout.

    Raises
    ------
    MemoryBudgetExceeded
        If one task at a time does not fit a process, or the final linear algebra does not.
    """
    planned = tuple(_plan_pass(source, name, recipe, resources) for name, recipe in passes)
    if finish_nbytes > usable(resources.memory_limit):
        raise refuse(
            f"the final linear algebra on {source.shape[1]} features",
            finish_nbytes,
            usable(resources.memory_limit),
            [f"a memory limit of {format_nbytes(worker_limit_for(finish_nbytes))}", "fewer features"],
        )
    n_threads = resources.n_workers * min(p.tasks_per_worker for p in planned)
    seconds = sum(p.nbytes / READ_RATE + p.flops / FLOP_RATE for p in planned) / max(1, n_threads)
    return Plan(
        source=source.describe(),
        dtype=str(source.dtype),
        shape=source.shape,
        strategy=strategy,
        reason=reason,
        passes=planned,
        resources=resources,
        finish_nbytes=finish_nbytes,
        seconds=seconds,
        notes=tuple(notes),
    )


def tasks_or_refuse(what: str, footprint: Footprint, resources: Resources) -> int:
    """Tasks a process may run at once within its memory limit.

    Raises
    ------
    MemoryBudgetExceeded
        If not even one fits; the message says what would.
    """
    budget = usable(resources.memory_limit)
    tasks = tasks_that_fit(footprint, resources.threads, budget)
    if tasks == 0:
        needed = footprint.worker_nbytes(1)
        remedies = [f"a memory limit of {format_nbytes(worker_limit_for(needed))} a process"]
        if footprint.block_nbytes > footprint.state_nbytes:
            remedies.append("smaller chunks (`spae ingest` writes the data again with good ones)")
        raise refuse(what, needed, budget, remedies)
    return tasks


def _plan_pass(source: RowBlocks, name: str, recipe: Accumulator[Any], resources: Resources) -> PassPlan:
    layout = PassLayout.of(source, recipe)
    tasks = tasks_or_refuse(f"one task of pass {name!r} over {source.describe()}", layout.footprint, resources)
    return PassPlan(
        name=name,
        nbytes=layout.nbytes,
        n_spans=len(layout.spans),
        block_nbytes=layout.footprint.block_nbytes,
        state_nbytes=layout.footprint.state_nbytes,
        task_nbytes=layout.footprint.task_nbytes,
        tasks_per_worker=tasks,
        worker_nbytes=layout.footprint.worker_nbytes(tasks),
        flops=layout.flops,
    )


def _format_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
