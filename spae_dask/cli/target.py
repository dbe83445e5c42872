"""Execution target of a command, and the checks before it starts."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import distributed  # noqa: F401 - sets up handlers of its own when imported, which are replaced here
from dask.system import CPU_COUNT

from spae_dask.blocks import RowBlocks, total_nbytes
from spae_dask.cli.console import Console
from spae_dask.cli.performance import NO_REPORT, PerformanceReport
from spae_dask.cli.planned_memory import Planner, is_planned, sized, unknown
from spae_dask.clusters.connect import connect, described
from spae_dask.clusters.running import dashboard_link
from spae_dask.clusters.specs import KubernetesSpec, LocalSpec, QueueSpec, Spec, Started
from spae_dask.errors import InvalidInput
from spae_dask.estimators.runtime import parse_memory, resources_for
from spae_dask.machine import memory_nbytes
from spae_dask.passes.memory import refuse_tiny
from spae_dask.passes.plan import Plan, Resources
from spae_dask.quantities import format_nbytes, format_seconds
from spae_dask.settings import setting, text_setting
from spae_dask.storage.checkpoints.checkpoint_record import read_job, states_at
from spae_dask.storage.checkpoints.local_states import LocalStates
from spae_dask.storage.remote.address import is_remote
from spae_dask.storage.writing.output_paths import refuse_same
from spae_dask.storage.writing.outputs import check_destination

LOGGERS = ("spae_dask", "distributed", "distributed.client", "asyncio")
LEVELS = (logging.CRITICAL, logging.INFO, logging.DEBUG)
"""Log levels, by the number of times ``-v`` is given. Without it the command itself reports errors, once."""


class _ScreenHandler(logging.Handler):
    """Writes records to the console, so that they do not cut through a progress bar."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.console.log(self.format(record), record.levelname.lower())


@contextmanager
def logs_on(console: Console) -> Iterator[None]:
    """Route the loggers to the console while the ``with`` block runs."""
    handler = _ScreenHandler(console)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(LEVELS[min(console.verbose, len(LEVELS) - 1)])
    try:
        yield
    finally:
        for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)


SMALL_NBYTES = 512 << 20
"""Decoded bytes below which threads of this process read the data in the time that processes take to start: 3 s."""

HERE = "processes of this machine"


@dataclass(frozen=True)
class Target:
    """Execution target of a command.

    Parameters
    ----------
    cluster, memory : str or None
        Target and memory limit as given on the command line. Else the settings ``cluster`` and ``memory-limit`` count.
    tls_dir : str, optional
        Certificates for a scheduler at ``tls://``.
    performance : PerformanceReport
        Dask's page about what a cluster did; none if not given.
    spec : Started, optional
        Cluster that the cluster file describes, with the memory that its plans need.
    """

    cluster: str | None
    memory: str | None
    tls_dir: str | None = None
    performance: PerformanceReport = NO_REPORT
    spec: Started | None = None

    def where(self, source: RowBlocks) -> str:
        """Return the target that was asked for, or else one that suits the size of the data."""
        wanted = self.cluster or text_setting("cluster")
        return wanted or ("none" if source.in_process or total_nbytes(source) < SMALL_NBYTES else "local")

    def sized(self, source: RowBlocks, planners: Sequence[Planner]) -> "Target":
        """The place for these fits, where a cluster file leaves the memory of workers to their plans.

        Raises
        ------
        InvalidInput, MemoryBudgetExceeded
            As `planned_memory.sized` does.
        """
        spec = described(self.where(source))
        if not isinstance(spec, Started) or not is_planned(spec):
            return self
        return replace(self, spec=sized(spec, list(planners)))

    def request(self) -> str | None:
        """Describe the memory that the plans added to the cluster file; None if the file names it."""
        if not isinstance(self.spec, QueueSpec | KubernetesSpec):
            return None
        if isinstance(self.spec, KubernetesSpec):
            what = "pod"
        else:
            what = f"job of {self.spec.n_processes} process{'es' if self.spec.n_processes > 1 else ''}"
        return f"{format_nbytes(self.spec.memory)} for each {what}, from the plan"

    def described(self, where: str) -> Spec | None:
        """Return the cluster that ``where`` describes, with its memory.

        Raises
        ------
        InvalidInput
            If that is left to a plan, and there was none.
        """
        spec = self.spec or described(where)
        if is_planned(spec):
            raise unknown("this command does not make a plan")
        return spec

    @contextmanager
    def ready(self, source: RowBlocks, console: Console) -> Iterator[None]:
        """Have the active Dask client that suits, for a ``with`` block; none for work in this process."""
        limit = parse_memory(self.memory or setting("memory-limit"))
        where = self.where(source)
        spec = self.described(where)
        starts = isinstance(spec, LocalSpec)
        self.performance.check(where)
        if starts and limit is not None:
            refuse_tiny(limit)
        if isinstance(spec, Started) and not starts:
            console.note(f"waiting   up to {format_seconds(spec.timeout)} for a worker of {where}")
        with (
            logs_on(console),
            console.signals.held(starts=starts) as release,
            connect(spec or where, limit, self.tls_dir) as client,
        ):
            release()
            if client is not None:
                link = dashboard_link(client)
                console.note(f"cluster   {client.scheduler.address}{f', dashboard {link}' if link else ''}")
            with self.performance.watching(client, console):
                yield

    @contextmanager
    def planned_resources(self, source: RowBlocks, console: Console) -> Iterator[Resources | None]:
        """Yield the planned resources of a run, which starts no process; None if ``ready`` has a client already."""
        where = self.where(source)
        spec = self.described(where)
        if isinstance(spec, Started) and spec.n_workers:
            yield self._started(spec, where)
        else:
            with self.ready(source, console):
                yield None

    def foreseen(self, source: RowBlocks) -> Resources | None:
        """Resources on which an impossible fit is refused before any process starts; None for those of this process."""
        where = self.where(source)
        if where == "none":
            return None
        spec = described(where)
        if isinstance(spec, LocalSpec) and spec.n_workers:
            return self._started(spec, where)
        return replace(resources_for(None, self.memory), limit_is_given=False)  # workers of which nothing is known

    def _started(self, spec: Started, where: str) -> Resources:
        """Resources of the workers that a cluster would have."""
        n_workers, here = spec.n_workers, isinstance(spec, LocalSpec)
        has = spec.worker_nbytes or memory_nbytes() // n_workers
        wanted = parse_memory(self.memory or setting("memory-limit")) or has
        limit = wanted if here else min(has, wanted)
        cores = int(CPU_COUNT) if here else None
        return Resources(HERE if here else f"workers of {where}", n_workers, spec.n_threads, limit, cores)

    def named(self, plan: Plan, source: RowBlocks) -> Plan:
        """The plan, saying where it would run rather than at which address."""
        if not isinstance(described(self.where(source)), LocalSpec):
            return plan
        return replace(plan, resources=replace(plan.resources, where=HERE))


def report_request(place: Target, console: Console) -> None:
    """Say how much memory is asked for, where the plan decided."""
    request = place.request()
    if request is not None:
        console.note(f"request   {request}")


def check_paths(output: str, sources: Sequence[str], *, force: bool) -> None:
    """Refuse an output that is one of the inputs, exists, or cannot be written, before anything is read.

    Raises
    ------
    InvalidInput, OutputExists, StorageError
        As ``refuse_same`` and ``check_destination`` do.
    """
    for source in sources:
        refuse_same(source, output)
    check_destination(output, overwrite=force)


def check_checkpoint(checkpoint: str | None, data: str, output: str | None = None) -> None:
    """Refuse a checkpoint that is no checkpoint, or is or lies inside the data or the output, before anything is read.

    Raises
    ------
    InvalidInput
        If it is, or if something else is at its place.
    """
    if checkpoint is None:
        return
    store = states_at(checkpoint)
    if is_remote(checkpoint):
        for other in (data, output):
            if other is not None:
                refuse_same(other, checkpoint)
    if isinstance(store, LocalStates):
        refuse_same(data, checkpoint)
        if output is not None and "://" not in output:
            written = Path(output).resolve()
            if written == store.root or written in store.root.parents or store.root in written.parents:
                raise InvalidInput(
                    f"the checkpoint {checkpoint} and the output {output} are the same, or one contains the other. "
                    "Give the checkpoint its own folder."
                )
    read_job(store)


class HeldTarget:
    """Context manager: what the first step that needs processes starts serves the later ones, and ends with the block.

    Parameters
    ----------
    place : Target
        Target that the command line asks for.
    console : Console
        Console of the command.
    """

    def __init__(self, place: Target, console: Console) -> None:
        self.place = place
        self.console = console
        self._stack = ExitStack()
        self._held = False

    def __enter__(self) -> "HeldTarget":
        """Start nothing yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """End what was started."""
        return self._stack.__exit__(kind, error, trace)

    @property
    def memory(self) -> str | None:
        """Memory limit of each process, as given."""
        return self.place.memory

    @contextmanager
    def ready(self, source: RowBlocks) -> Iterator[None]:
        """Have the active dask client that suits, for a ``with`` block."""
        if self.place.where(source) == "none":
            with self.place.ready(source, self.console):
                yield  # a client that is held serves these data too
            return
        if not self._held:
            self._stack.enter_context(self.place.ready(source, self.console))
            self._held = True
        yield

    @contextmanager
    def planned_resources(self, source: RowBlocks) -> Iterator[Resources | None]:
        """Yield the planned resources of a run; None if the active client or this process does the work."""
        with nullcontext() if self._held else self.place.planned_resources(source, self.console) as resources:
            yield resources

    def named(self, plan: Plan, source: RowBlocks) -> Plan:
        """The plan, saying where it would run."""
        return self.place.named(plan, source)
