"""The memory of workers whose cluster file leaves it to the plan.

The memory that a plan needs depends on the memory it has: it decides the strategy, and the number of tasks that run at
once. So the plan is made for workers of `ASSUMED_NBYTES` with all threads busy, or without a limit if that is too
little. The command then asks for the memory that this plan needs, plus the margin of a worker's limit over its arrays.
A plan made again with that much memory finds it enough.
"""

from collections.abc import Callable
from dataclasses import replace

from spae_dask.clusters.specs import MEMORY_FOR_ROWS, KubernetesSpec, QueueSpec, Started
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded
from spae_dask.passes.memory import usable, worker_limit_for
from spae_dask.passes.plan import Plan, Resources

Planner = Callable[[Resources], Plan]

ASSUMED_NBYTES = 4 << 30
"""Memory of a worker, in bytes, that a plan assumes."""

BOUNDLESS_NBYTES = 1 << 50
"""To plan with, where that is too little."""

STEP_NBYTES = 64 << 20
"""Step, in bytes, to which the memory of a job is rounded up."""


def is_planned(spec: object) -> bool:
    """Return True if a plan has yet to find the memory of the workers."""
    return isinstance(spec, QueueSpec | KubernetesSpec) and spec.n_workers > 0 and spec.memory == 0


def sized(spec: Started, planners: list[Planner]) -> Started:
    """The cluster with as much memory as the most demanding of some plans takes.

    Parameters
    ----------
    spec : Started
        Cluster that the file describes. A cluster that names its memory stays as it is.
    planners : list of callable
        Plans of fits and of other passes, on given resources.

    Raises
    ------
    InvalidInput
        If there are no plans.
    MemoryBudgetExceeded
        If one does not fit in any memory.
    """
    if not isinstance(spec, QueueSpec | KubernetesSpec) or not is_planned(spec):
        return spec
    if not planners:
        raise unknown("only fits, paths and evaluations have plans, and it contains none")
    limit = max(_worker_limit(Resources("", spec.n_workers, spec.n_threads, ASSUMED_NBYTES), each) for each in planners)
    n_processes = spec.n_processes if isinstance(spec, QueueSpec) else 1
    nbytes = int((limit + 1) * n_processes / MEMORY_FOR_ROWS)
    return spec.model_copy(update={"memory": (nbytes // STEP_NBYTES + 1) * STEP_NBYTES})


def unknown(why: str) -> InvalidInput:
    """The error for memory that no plan tells."""
    return InvalidInput(
        f"the cluster file takes the memory of workers from the plan, but {why}. Give the memory in the file, "
        "such as memory = '16GB'. `spae plan DATA -k K -r R --cluster FILE.toml` prints the memory of a fit."
    )


def _worker_limit(there: Resources, planner: Planner) -> int:
    try:
        plan = planner(there)
        if plan.tasks_per_worker < there.threads:
            plan = planner(replace(there, memory_limit=BOUNDLESS_NBYTES))
    except MemoryBudgetExceeded:
        plan = planner(replace(there, memory_limit=BOUNDLESS_NBYTES))
    # the last step runs in the calling process, with the same limit
    limit = worker_limit_for(max(plan.worker_nbytes, plan.finish_nbytes))
    assert usable(limit) >= plan.worker_nbytes, "a limit that its own plan does not fit; please report this"
    return limit
