"""Projected bytes of tasks and workers, and the refusal of what does not fit. Pure."""

from dataclasses import dataclass

from spae_dask.errors import MemoryBudgetExceeded
from spae_dask.quantities import format_nbytes

ALLOCATOR_SLACK = 1.1
"""Measured resident memory over the sum of the arrays: fragments that the allocator keeps."""

HEAP_SLACK = 2.0
"""The same where glibc's threshold moves, see `machine.return_freed_arrays`: in a user's own process, where it is not
ours to fix. Measured at 1.3 to 1.8."""

HEAP_NBYTES = 128 << 20
"""Bytes of the final linear algebra that may lie on heaps, at most: larger matrices always have their own mappings."""

TASK_OVERHEAD = 6 << 20
"""Bytes of a thread's arena, its reader's buffers and BLAS work space; the final linear algebra has such space too."""

IDLE_NBYTES = 258 << 20
"""Resident size of an idle process that has imported all libraries: 225 MiB of a worker, up to 257 of a command."""

FEWEST_WIDE = 4
"""Rows as wide as the data, in float64, that any pass holds at least: means, scales, sums, and one to work on."""

LIMIT_SHARE = 0.7
"""Share of a process's memory limit that may be in use: dask's workers spill above it, and pause at 0.8."""

LAST_SHARE = 0.9
"""The same of threads of the calling process, of a limit that was given: nothing spills, and plans are upper bounds.
Only what would be refused otherwise takes more than the usual share, so that a strategy depends on that one alone."""


@dataclass(frozen=True)
class Footprint:
    """Bytes a pass holds.

    Attributes
    ----------
    block_nbytes : int
        Largest decoded row block.
    n_blocks_held : int
        Blocks one task holds at once, with those that are read ahead or not yet released.
    read_nbytes : int
        Held by a reader beside its block.
    work_nbytes : int
        Scratch of an update.
    state_nbytes : int
        One state.
    n_states_waiting : int
        States that wait on one worker to be merged, at most, if spans end in order; with the last child of a merge.
    fan_in : int
        States merged by one task.
    n_spans : int or None
        Tasks there are in all, if that is known.
    merge_nbytes : int
        Scratch of a merge, beside the merged state.
    """

    block_nbytes: int
    n_blocks_held: int
    read_nbytes: int
    work_nbytes: int
    state_nbytes: int
    n_states_waiting: int
    fan_in: int
    n_spans: int | None = None
    merge_nbytes: int = 0

    @property
    def task_nbytes(self) -> int:
        """Peak of one span task: blocks, one read under way, scratch and its state."""
        blocks = self.n_blocks_held * self.block_nbytes + self.read_nbytes
        return blocks + self.work_nbytes + self.state_nbytes + TASK_OVERHEAD

    def worker_nbytes(self, tasks: int, slack: float = ALLOCATOR_SLACK, *, in_process: bool = False) -> int:
        """Peak of a process that runs ``tasks`` span tasks at once, above its idle size.

        In threads of the calling process, a merge takes the thread of the span that completed it. A worker may have
        begun the next span before the client submits the merge.
        """
        at_once = tasks if self.n_spans is None else min(tasks, self.n_spans)
        if self.fan_in == 1:
            return int(slack * at_once * self.task_nbytes)
        sweeping = self._held(at_once, self.n_states_waiting - 1)
        merging = self._held(at_once - in_process, self.n_states_waiting)
        merging += self._merged * self.state_nbytes + self.merge_nbytes
        return int(slack * max(sweeping, merging))

    @property
    def _merged(self) -> int:
        """States that a merge makes: one, or what is merged so far and the next one."""
        return 1 if min(self.fan_in, self.n_spans or self.fan_in) == 2 else 2

    def _held(self, at_once: int, n_waiting: int) -> int:
        """Bytes of span tasks and of states that wait: no two have a span in common."""
        n_states = at_once + n_waiting if self.n_spans is None else min(at_once + n_waiting, self.n_spans)
        return at_once * (self.task_nbytes - self.state_nbytes) + n_states * self.state_nbytes


def resident_nbytes(nbytes: int, slack: float) -> int:
    """Resident peak of linear algebra whose arrays take ``nbytes``, in a process with this slack."""
    return int(nbytes + (slack - ALLOCATOR_SLACK) * min(nbytes, HEAP_NBYTES))


def tasks_that_fit(
    footprint: Footprint, threads: int, budget: int, slack: float = ALLOCATOR_SLACK, *, in_process: bool = False
) -> int:
    """Span tasks a process may run at once within ``budget``: at most ``threads``, 0 if not even one fits."""

    def fits(tasks: int) -> bool:
        return footprint.worker_nbytes(tasks, slack, in_process=in_process) <= budget

    return next((tasks for tasks in range(threads, 0, -1) if fits(tasks)), 0)


def usable(memory_limit: int, share: float = LIMIT_SHARE) -> int:
    """Bytes above the idle size that a plan may use in a process limited to ``memory_limit``."""
    return max(0, int(share * memory_limit) - IDLE_NBYTES)


def worker_limit_for(nbytes: int, share: float = LIMIT_SHARE) -> int:
    """The smallest memory limit under which ``nbytes`` above the idle size may be used, rounded up to a MiB."""
    return (int((nbytes + IDLE_NBYTES) / share) // (1 << 20) + 1) << 20


def refuse(what: str, needed: int, budget: int, remedies: list[str]) -> MemoryBudgetExceeded:
    """The error for a plan that does not fit: what was given, what would fit, what to do."""
    return MemoryBudgetExceeded(
        f"{what} needs {format_nbytes(needed)}, but only {format_nbytes(budget)} may be used beside an "
        f"idle process. Nothing was read. Use {'; or '.join(remedies)}."
    )


def refuse_tiny(limit: int) -> int:
    """Bytes above its idle size that a process limited to ``limit`` may use.

    Raises
    ------
    MemoryBudgetExceeded
        If that is less than any work takes.
    """
    free = usable(limit)
    if free < TASK_OVERHEAD:
        raise MemoryBudgetExceeded(
            f"a process with a limit of {format_nbytes(limit)} cannot work, because an idle one takes "
            f"{format_nbytes(IDLE_NBYTES)}. Nothing was read. The smallest limit that could fit: --memory "
            f"{worker_limit_for(TASK_OVERHEAD) >> 20}MiB."
        )
    return free


def refuse_wide(n_features: int, limit: int) -> None:
    """Refuse rows of which a few do not fit, before anything is made as wide as they are.

    Raises
    ------
    MemoryBudgetExceeded
        If `FEWEST_WIDE` vectors of ``n_features`` numbers take more than a process limited to ``limit`` may use.
    """
    nbytes = 8 * FEWEST_WIDE * n_features
    if nbytes > max(usable(limit), TASK_OVERHEAD):
        raise MemoryBudgetExceeded(
            f"{n_features:,} columns are too many: {FEWEST_WIDE} float64 rows of that width take "
            f"{format_nbytes(nbytes)}, and the limit of a process is {format_nbytes(limit)}. Nothing was "
            f"read. The smallest limit that could fit: --memory {worker_limit_for(nbytes) >> 20}MiB."
        )
