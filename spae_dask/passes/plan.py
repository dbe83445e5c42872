"""A run as it is planned: what it will read, hold and take, and what other strategies would. Pure."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from spae_dask.markup import html_table, labelled_lines
from spae_dask.passes.accumulators.base import Accumulator
from spae_dask.passes.calibration import Calibration
from spae_dask.passes.memory import ALLOCATOR_SLACK, LAST_SHARE, LIMIT_SHARE, usable, worker_limit_for
from spae_dask.quantities import format_nbytes, format_seconds


@dataclass(frozen=True)
class Resources:
    """Processes that a run may use.

    Attributes
    ----------
    where : str
        For people.
    n_workers, threads : int
        Processes, and threads in each.
    memory_limit : int
        Bytes a process may use in all.
    cores : int or None
        Cores they share, where that is known to be fewer than threads in all.
    slack : float
        Resident memory over the sum of the arrays, by how their allocators are set.
    in_process : bool
        True if passes run on threads of the calling process.
    listing_nbytes : int
        Bytes that the calling process takes to list the stored objects of the data, before and after each pass.
    limit_is_given : bool
        True if threads of the calling process have a limit that the user gave, not that of the machine.
    """

    where: str
    n_workers: int
    threads: int
    memory_limit: int
    cores: int | None = None
    slack: float = ALLOCATOR_SLACK
    in_process: bool = False
    listing_nbytes: int = 0
    limit_is_given: bool = False

    @property
    def usable_nbytes(self) -> int:
        """Bytes above the idle size that a plan may use in a process."""
        return usable(self.memory_limit)

    @property
    def most_nbytes(self) -> int:
        """Bytes above the idle size that a plan may use rather than be refused."""
        return usable(self.memory_limit, self._last_share)

    def limit_for(self, nbytes: int) -> int:
        """The smallest memory limit under which ``nbytes`` above the idle size are not refused."""
        return worker_limit_for(nbytes, self._last_share)

    @property
    def _last_share(self) -> float:
        return LAST_SHARE if self.limit_is_given else LIMIT_SHARE

    @property
    def beside_nbytes(self) -> int:
        """Bytes of a process that runs passes which its tasks cannot have."""
        return self.listing_nbytes if self.in_process else 0

    @property
    def busy_cores(self) -> int:
        """Cores that can be busy at once."""
        n_threads = self.n_workers * self.threads
        return n_threads if self.cores is None else min(self.cores, n_threads)


@dataclass(frozen=True)
class PassPlan:
    """One sweep over the data.

    Attributes
    ----------
    name : str
        Name of the pass.
    nbytes : int
        Decoded bytes read.
    n_spans : int
        Tasks.
    block_nbytes, state_nbytes, task_nbytes : int
        The largest row block, one state, and the peak of one task.
    tasks_per_worker : int
        Span tasks that run at once in a process: fewer than its threads if memory is short, 0 if not one fits.
    worker_nbytes : int
        Projected peak of a process above its idle size, with one task at least.
    flops : float
        Floating point operations.
    seconds, thread_seconds : float
        Predicted time there, and on one core.
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
    seconds: float
    thread_seconds: float


@dataclass(frozen=True)
class Finish:
    """The linear algebra between the passes and after them, in the calling process.

    Attributes
    ----------
    nbytes : int
        Projected peak.
    seconds : float
        Predicted time, on one core.
    beside : mapping of str to int
        Bytes that a process holds beside its tasks in a pass of that name: arrays of the recipe, and what the calling
        process needs afterwards.
    largest : mapping of str to Accumulator
        Recipe, as large as it may become, of a pass of that name which may be made again with more columns.
    remedies : tuple of str
        Changes to the parameters that take less memory.
    """

    nbytes: int
    seconds: float = 0.0
    beside: Mapping[str, int] = field(default_factory=dict)
    largest: Mapping[str, Accumulator[Any]] = field(default_factory=dict)
    remedies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alternative:
    """One strategy's price.

    Attributes
    ----------
    strategy : str
        Its name.
    pca_loss : str
        Kind of knowledge of PCA's loss.
    n_passes, bytes_read, worker_nbytes, finish_nbytes : int or None
        As of a plan; None if the strategy cannot do the problem.
    seconds, thread_seconds : float or None
        Predicted time in all, there and on one core.
    refusal : str or None
        Reason for which the strategy cannot be used.
    """

    strategy: str
    pca_loss: str
    n_passes: int | None = None
    bytes_read: int | None = None
    worker_nbytes: int | None = None
    finish_nbytes: int | None = None
    seconds: float | None = None
    thread_seconds: float | None = None
    refusal: str | None = None

    @property
    def peak_nbytes(self) -> float:
        """Memory of the process that needs most; infinite if the strategy cannot do the problem."""
        known = [each for each in (self.worker_nbytes, self.finish_nbytes) if each is not None]
        return max(known, default=math.inf)


@dataclass(frozen=True)
class Plan:
    """A run, before it starts.

    Attributes
    ----------
    source, dtype : str
        Name of the data.
    shape : tuple of int
        ``(n, d)``.
    strategy, reason : str
        Strategy, and the reason for it.
    passes : tuple of PassPlan
        Reads of the data.
    resources : Resources
        Processes that the run uses.
    finish_nbytes : int
        Projected peak of the final linear algebra, in the calling process.
    finish_seconds : float
        Predicted time of it.
    calibration : Calibration or None
        Measured rates behind the times; None for nominal rates, which need no read.
    alternatives : tuple of Alternative
        Prices of all strategies, the chosen one among them.
    notes : tuple of str
        Notes for the user about the layout of the data.
    """

    source: str
    dtype: str
    shape: tuple[int, int]
    strategy: str
    reason: str
    passes: tuple[PassPlan, ...]
    resources: Resources
    finish_nbytes: int
    finish_seconds: float
    calibration: Calibration | None
    alternatives: tuple[Alternative, ...]
    notes: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Predicted time in all; starting processes is not in it."""
        return sum(p.seconds for p in self.passes) + self.finish_seconds

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
            "seconds": self.seconds,
        }
        return asdict(self) | totals

    def __str__(self) -> str:
        """A table for the terminal."""
        return plan_text(self)

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        return plan_html(self)


NAME_WIDTH = 10
"""Characters of a name in the table for the terminal."""

HEAD = ("strategy", "passes", "read", "process", "finish", "time", "PCA's loss")


def plan_text(plan: Plan) -> str:
    """One line a fact, the fact's name first; the table of strategies last but for notes."""
    return "\n".join([*_facts(plan), *_table(plan), *_notes(plan)])


def plan_html(plan: Plan) -> str:
    """The same as two tables, of facts and of strategies."""
    facts = labelled_lines("\n".join([*_facts(plan), *_notes(plan)]), NAME_WIDTH)
    head, *rows = _prices(plan) or [HEAD]
    prices = html_table("Cost of each strategy; * marks the chosen one", head, rows) if rows else ""
    return html_table("Plan", (), facts) + prices


def _notes(plan: Plan) -> list[str]:
    return [f"note      {note}" for note in plan.notes]


def _facts(plan: Plan) -> list[str]:
    (n, d), resources, last = plan.shape, plan.resources, plan.passes[-1]
    names = ", ".join(p.name for p in plan.passes)
    at_once = f"{plan.tasks_per_worker} of {resources.threads} threads at once"
    return [
        f"data      {plan.source}: {n:,} x {d:,} {plan.dtype}, {format_nbytes(plan.passes[0].nbytes)} decoded",
        f"strategy  {plan.strategy}: {plan.reason}",
        f"passes    {len(plan.passes)} ({names}), "
        f"{format_nbytes(plan.bytes_read)} read in {sum(p.n_spans for p in plan.passes)} spans",
        f"where     {resources.where}: {resources.n_workers} x {resources.threads} threads",
        f"memory    {format_nbytes(plan.worker_nbytes)} a process above its idle size, {at_once}; "
        f"limit {format_nbytes(resources.memory_limit)}",
        f"task      blocks of {format_nbytes(last.block_nbytes)}, state {format_nbytes(last.state_nbytes)}, "
        f"{format_nbytes(last.task_nbytes)} in all",
        f"finish    {format_nbytes(plan.finish_nbytes)} in this process",
        f"time      about {_time_text(plan)}",
        f"rates     {plan.calibration or 'nominal; nothing was read for them'}",
    ]


def _time_text(plan: Plan) -> str:
    sweeps = sum(p.seconds for p in plan.passes)
    parts = f": {format_seconds(sweeps)} of passes, {format_seconds(plan.finish_seconds)} after them"
    how = "nominal" if plan.calibration is None else "measured"
    return f"{format_seconds(plan.seconds)} at {how} rates{parts if plan.finish_seconds else ''}"


def _prices(plan: Plan) -> list[tuple[str, ...]]:
    """Headings and a row a strategy; empty if no prices are known."""
    rows = [_cells(each, chosen=each.strategy == plan.strategy) for each in plan.alternatives]
    return [HEAD, *rows] if rows else []


def _table(plan: Plan) -> list[str]:
    rows = _prices(plan)
    if not rows:
        return []
    columns = list(zip(*rows, strict=True))[:-1]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for name, *numbers, remark in rows:
        cells = [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))]
        lines.append(f"          {'  '.join(cells)}  {remark}")
    return [f"prices  {lines[0][8:]}", *lines[1:]]


def _cells(each: Alternative, *, chosen: bool) -> tuple[str, ...]:
    name = f"{each.strategy} *" if chosen else each.strategy
    if each.seconds is None or each.bytes_read is None or each.worker_nbytes is None or each.finish_nbytes is None:
        return name, "-", "-", "-", "-", "-", str(each.refusal)
    nbytes = (format_nbytes(each.bytes_read), format_nbytes(each.worker_nbytes), format_nbytes(each.finish_nbytes))
    return name, str(each.n_passes), *nbytes, format_seconds(each.seconds), each.refusal or each.pca_loss
