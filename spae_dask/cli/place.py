"""Where a command runs, and what must be so before it does."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec

from dask.system import CPU_COUNT
from distributed.system import MEMORY_LIMIT

from spae_dask.blocks import RowBlocks, total_nbytes
from spae_dask.cli.logs import logs_on
from spae_dask.cli.screen import Screen
from spae_dask.clusters.connect import connect
from spae_dask.engine.memory import refuse_tiny
from spae_dask.engine.plan import Plan, Resources
from spae_dask.estimators.runtime import parse_memory
from spae_dask.storage.publish import check_output, refuse_same

SMALL_NBYTES = 64 << 20
"""Decoded bytes below which processes take longer to start than the data to read."""

HERE = "processes of this machine"


@dataclass(frozen=True)
class Place:
    """Where to run.

    Parameters
    ----------
    cluster, memory, tls_dir : str or None
        As given on the command line.
    """

    cluster: str | None
    memory: str | None
    tls_dir: str | None = None

    def where(self, source: RowBlocks) -> str:
        """What was asked for, or what suits the size of the data."""
        return self.cluster or ("none" if total_nbytes(source) < SMALL_NBYTES else "local")

    @contextmanager
    def ready(self, source: RowBlocks, screen: Screen) -> Iterator[None]:
        """Have the active Dask client that suits, for a ``with`` block; none for work in this process."""
        limit = parse_memory(self.memory)
        where = self.where(source)
        starts = where.startswith("local")
        if starts and limit is not None:
            refuse_tiny(limit)
        with (
            logs_on(screen),
            screen.signals.held(starts=starts) as release,
            connect(where, limit, self.tls_dir) as client,
        ):
            release()
            if client is not None:
                dashboard = f", dashboard {client.dashboard_link}" if find_spec("bokeh") else ""
                screen.note(f"cluster   {client.scheduler.address}{dashboard}")
            yield

    @contextmanager
    def imagined(self, source: RowBlocks, screen: Screen) -> Iterator[Resources | None]:
        """For a plan: the processes that a run would start, none of which is; else None, with ``ready``'s client."""
        where = self.where(source)
        if where.startswith("local"):
            n_workers = int(where.partition(":")[2] or CPU_COUNT)
            limit = parse_memory(self.memory) or MEMORY_LIMIT // n_workers
            yield Resources(HERE, n_workers, 1, limit, int(CPU_COUNT))
        else:
            with self.ready(source, screen):
                yield None

    def named(self, plan: Plan, source: RowBlocks) -> Plan:
        """The plan, saying where it would run rather than at which address."""
        if not self.where(source).startswith("local"):
            return plan
        return replace(plan, resources=replace(plan.resources, where=HERE))


def check_paths(output: str, sources: Sequence[str], *, force: bool) -> None:
    """Refuse an output that is one of the inputs, exists, or cannot be written, before anything is read.

    Raises
    ------
    InvalidInput, OutputExists, StorageError
        As ``refuse_same`` and ``check_output`` do.
    """
    for source in sources:
        refuse_same(source, output)
    check_output(output, overwrite=force)
