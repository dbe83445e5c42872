"""A run as it is planned: what it will read, hold and take, and what other strategies would. Pure."""

from dataclasses import asdict, dataclass
from typing import Any

from spae_dask.engine.calibration import Calibration
from spae_dask.engine.memory import ALLOCATOR_SLACK
from spae_dask.engine.plan_text import plan_html, plan_text


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
    """

    where: str
    n_workers: int
    threads: int
    memory_limit: int
    cores: int | None = None
    slack: float = ALLOCATOR_SLACK
    in_process: bool = False
    listing_nbytes: int = 0

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
    """The final linear algebra, in the calling process.

    Attributes
    ----------
    nbytes : int
        Projected peak.
    seconds : float
        Predicted time, on one core.
    """

    nbytes: int
    seconds: float = 0.0


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
