"""Execution target of a run: the active dask client if there is one, else threads of this process."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
from dask.system import CPU_COUNT
from dask.utils import parse_bytes
from distributed import Client

from spae_dask.blocks import RowBlocks, asked_of
from spae_dask.engine.runner import DaskRunner
from spae_dask.engine.versions import check_versions
from spae_dask.errors import ClusterUnavailable, InvalidInput
from spae_dask.machine import memory_nbytes, returns_freed_arrays
from spae_dask.passes.checkpoint import Checkpoint
from spae_dask.passes.events import Searching, Watcher, ignore
from spae_dask.passes.memory import ALLOCATOR_SLACK, HEAP_SLACK
from spae_dask.passes.plan import Plan, Resources
from spae_dask.quantities import format_seconds
from spae_dask.settings import setting
from spae_dask.storage.sources.dask_blocks import refuse_asynchronous
from spae_dask.storage.sources.stored_chunks import CheckedSource, listing_nbytes
from spae_dask.strategies.methods import Report, SearchProgress
from spae_dask.workers import no_workers_seconds, wait_for_worker

LOOPBACK = "127.0.0.1"
"""Host of workers that run on this machine, and share its cores."""

ANSWER_SECONDS = 30
"""Longest time, in seconds, that a scheduler may take to list its workers."""


def search_report(watch: Watcher) -> Report:
    """Reporter of a search that tells a watcher."""

    def report(now: SearchProgress) -> None:
        watch(Searching(now.n_nonzero, now.n_done, now.n_rounds, now.ratio))

    return report


CLOSED = (
    "the active dask client is closed. Make a new one, `Client(...)`, or leave the block of its "
    "`as_current()`. Without a client, this process does the work."
)


def active_client(source: RowBlocks) -> Client | None:
    """The client that passes over ``source`` run on.

    None without an active client, and for data that live in this process only: shipping them to workers would cost
    more than summing them here.

    Raises
    ------
    InvalidInput
        If the client is asynchronous.
    """
    if source.in_process:
        return None
    refuse_asynchronous()
    try:
        return Client.current()
    except ValueError:
        return None


def resources_for(client: Client | None, memory_limit: int | str | None) -> Resources:
    """Return the available resources. The smallest worker counts, and ``memory_limit`` if it is smaller still.

    Raises
    ------
    ClusterUnavailable
        If the client was closed, or its scheduler does not answer in time. If no worker appears in time, or the
        workers' versions differ from this process's.
    """
    wanted = memory_given(memory_limit)
    if client is None:
        limit = memory_nbytes() if wanted is None else wanted
        slack = ALLOCATOR_SLACK if returns_freed_arrays() else HEAP_SLACK
        return Resources(
            "threads of this process",
            1,
            int(CPU_COUNT),
            int(limit),
            slack=slack,
            in_process=True,
            limit_is_given=wanted is not None,
        )
    if client.status in ("closing", "closed") or client.scheduler is None:
        raise ClusterUnavailable(CLOSED)
    identity = _identity(client)
    if not identity["workers"]:
        seconds = no_workers_seconds()
        none = ClusterUnavailable(
            f"the scheduler at {client.scheduler.address} has no workers after {format_seconds(seconds)}. Start "
            "some. To wait longer, set distributed.scheduler.no-workers-timeout in dask's configuration."
        )
        wait_for_worker(client, seconds, lambda: none, tell=True)
        identity = _identity(client)
    workers = identity["workers"].values()
    check_versions(client)
    limits = [w["memory_limit"] or memory_nbytes() for w in workers]
    limit = min(limits) if wanted is None else min(*limits, wanted)
    where = f"dask workers of {client.scheduler.address}"
    here = all(w["host"] == LOOPBACK for w in workers)
    cores = int(CPU_COUNT) if here else None
    return Resources(where, len(workers), min(w["nthreads"] for w in workers), int(limit), cores)


def with_listing(resources: Resources, source: RowBlocks) -> Resources:
    """The same, less the memory of this process that the listing of the stored objects of a source takes."""
    return replace(resources, listing_nbytes=listing_nbytes(source))


def _identity(client: Client) -> dict[str, Any]:
    """The scheduler's description of itself and its workers."""
    try:
        identity: dict[str, Any] = client.sync(client.scheduler.identity, callback_timeout=ANSWER_SECONDS)
    except (TimeoutError, OSError) as error:
        raise ClusterUnavailable(
            f"the scheduler at {client.scheduler.address} does not answer within {format_seconds(ANSWER_SECONDS)}. "
            "Check that it runs, and check the network."
        ) from error
    except TypeError:  # a scheduler of another release takes other arguments
        check_versions(client)
        raise
    if "workers" not in identity:  # the connection closed during the request
        raise ClusterUnavailable(CLOSED)
    return identity


def memory_given(memory_limit: int | str | None) -> int | None:
    """Bytes of a memory limit that is given, else of the setting; None without either."""
    return parse_memory(setting("memory-limit") if memory_limit is None else memory_limit)


def parse_memory(memory_limit: int | str | None) -> int | None:
    """Bytes of ``4000000000``, ``"4GB"`` or ``"4GiB"``.

    Raises
    ------
    InvalidInput
        If it is not a positive number of bytes.
    """
    if memory_limit is None:
        return None
    try:
        # parse_bytes reads a bool as 0 or 1 and a text without digits as 1 of its unit, which no user means
        if isinstance(memory_limit, bool) or (isinstance(memory_limit, str) and not re.search(r"\d", memory_limit)):
            raise ValueError("not a number")
        nbytes = int(parse_bytes(memory_limit))
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidInput(
            f"memory limit {memory_limit!r} is not a number of bytes. Write it as 4GB or 512MiB."
        ) from error
    if nbytes <= 0:
        raise InvalidInput(f"memory limit {memory_limit!r} is not allowed: it must be more than 0 bytes.")
    return nbytes


def runner_for(
    checked: CheckedSource,
    client: Client | None,
    plan: Plan,
    watch: Watcher | None,
    checkpoint: Checkpoint | None = None,
) -> DaskRunner:
    """A runner that keeps to the plan, and to the data as they were checked."""
    source, tasks = checked.source, plan.tasks_per_worker
    return DaskRunner(source, client, tasks, watch or ignore, checkpoint, checked.refuse_changed)


def store_names(estimator: Any, X: Any, source: RowBlocks) -> None:
    """Set ``feature_names_in_`` to the column names of a table or a store, if all are strings; else remove it.

    The choices made among the data are stored too, so that the same part is read again.
    """
    estimator._asked, estimator._grid = asked_of(source), getattr(source, "grid_cells", None)
    columns = getattr(source, "feature_names", None)
    if columns is None:
        columns = getattr(X, "columns", None)
    if columns is not None and all(isinstance(name, str) for name in columns):
        estimator.feature_names_in_ = np.array([str(name) for name in columns], dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
