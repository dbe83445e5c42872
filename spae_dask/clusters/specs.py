"""Cluster files: their reader, and one model for each kind of cluster that they describe."""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spae_dask.clusters import values
from spae_dask.errors import InvalidInput
from spae_dask.toml.file import TomlFile, checked_table


def required(module: str, extra: str) -> ModuleType:
    """A module of this room whose library comes with an extra.

    Parameters
    ----------
    module : str
        Its full name.
    extra : str
        The extra.

    Raises
    ------
    InvalidInput
        If that library is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("spae_dask"):
            raise
        raise InvalidInput(
            f'this kind of cluster needs {error.name}, which is not installed. Run pip install "spae-dask[{extra}]".'
        ) from error


MEMORY_FOR_ROWS = 0.9
"""Share of a job's memory that its workers may use; their parents and libraries take the rest."""


class Spec(BaseModel):
    """Fields that all kinds of cluster share.

    ``timeout`` is how long the first worker may take to appear.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: str
    timeout: values.Seconds = 60


class Started(Spec):
    """Processes that are started for the work, so that what they will be is known before."""

    @property
    def n_workers(self) -> int:
        """Worker processes in all."""
        raise NotImplementedError

    @property
    def n_threads(self) -> int:
        """Threads of each."""
        return 1

    @property
    def worker_nbytes(self) -> int | None:
        """Bytes that each may use; None for the machine's, shared out."""
        raise NotImplementedError


class LocalSpec(Started):
    """Worker processes on this machine."""

    kind: Literal["local"]
    workers: values.Count
    memory: values.Bytes | None = None

    @property
    def n_workers(self) -> int:
        """Worker processes in all."""
        return self.workers

    @property
    def worker_nbytes(self) -> int | None:
        """Bytes that each may use."""
        return self.memory


class SchedulerSpec(Spec):
    """Running scheduler to connect to."""

    kind: Literal["scheduler"]
    address: values.Address


class Driver(BaseModel):
    """Resources of the job that runs a whole pipeline, when `spae submit` makes one."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    cores: values.Count = 1
    memory: values.Bytes = 4 << 30
    walltime: values.Seconds = 3600


class QueueSpec(Started):
    """Workers that are jobs of a batch system.

    A job has ``cores`` cores and ``memory`` bytes (0: as many as the plan takes), shared out to ``processes`` workers
    (one a core if not given). With no ``jobs``, a run that is itself a job does all the work. Without ``tls``, whoever
    reaches the ports of scheduler and workers can run code as the user. Grid Engine gives several cores in a
    ``parallel_environment``, and limits memory by the resources that a site names: ``memory_resource``, several of them
    with commas between.
    """

    kind: Literal["slurm", "pbs", "lsf", "sge"]
    jobs: values.Amount
    cores: values.Count = 1
    processes: values.Count | None = None
    memory: values.PlannedBytes = 0
    walltime: values.Seconds = 3600
    queue: values.Word | None = None
    account: values.Word | None = None
    parallel_environment: values.Word | None = None
    memory_resource: values.Resources | None = None
    interface: values.Word | None = None
    scratch: values.Folder | None = None
    logs: values.Word = "spae-logs"
    python: values.Line | None = None
    tls: bool = True
    options: tuple[values.Option, ...] = Field(default=(), strict=False)
    modules: tuple[values.Line, ...] = Field(default=(), strict=False)
    environment: values.Environment = Field(default_factory=dict)
    prologue: tuple[values.Line, ...] = Field(default=(), strict=False)
    timeout: values.Seconds = 600
    driver: Driver = Driver()

    @model_validator(mode="after")
    def _share(self) -> "QueueSpec":
        if self.cores % (processes := self.processes or self.cores):
            raise ValueError(
                f"'cores' is {self.cores}, which is not a multiple of 'processes', {processes}. Give a multiple."
            )
        if self.walltime < 120:
            raise ValueError("'walltime' is less than two minutes, too short for any work. Give a longer one.")
        return self

    @model_validator(mode="after")
    def _grid_engine(self) -> "QueueSpec":
        if self.kind != "sge":
            for key in ("parallel_environment", "memory_resource"):
                if getattr(self, key) is not None:
                    raise ValueError(f"'{key}' is for Grid Engine, kind = 'sge'. Leave it out.")
        elif self.cores > 1 and not self.parallel_environment and not any(map(_names_environment, self.options)):
            raise ValueError(
                f"'cores' is {self.cores}, but Grid Engine gives more than one core only in a parallel "
                "environment. Give 'parallel_environment', such as 'smp'. `qconf -spl` lists those of the site."
            )
        return self

    @property
    def n_processes(self) -> int:
        """Workers of a job."""
        return self.processes or self.cores

    @property
    def n_workers(self) -> int:
        """Worker processes in all."""
        return self.jobs * self.n_processes

    @property
    def n_threads(self) -> int:
        """Threads of each."""
        return self.cores // self.n_processes

    @property
    def worker_nbytes(self) -> int:
        """Bytes that each may use."""
        return int(self.memory * MEMORY_FOR_ROWS) // self.n_processes


def _names_environment(option: str) -> bool:
    return option.split()[0] == "-pe"


class MpiSpec(Spec):
    """Ranks that mpirun started; ``spae mpi`` makes a scheduler and workers of them."""

    kind: Literal["mpi"]
    threads: values.Count = 1
    memory: values.Bytes | None = None
    interface: values.Word | None = None
    scratch: values.Folder | None = None


class Volume(BaseModel):
    """A persistent volume claim, or a folder of the node, and where pods see it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    claim: values.KubernetesName | None = None
    host_path: values.MountPath | None = None
    path: values.MountPath
    read_only: bool = False

    @model_validator(mode="after")
    def _one(self) -> "Volume":
        if (self.claim is None) == (self.host_path is None):
            raise ValueError(
                "give a volume either 'claim' (the name of a persistent volume claim) or 'host_path' (a folder "
                "on the nodes)."
            )
        return self


class Toleration(BaseModel):
    """A taint that nodes may have; any value of it, if none is given, and all its effects, if none is given."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    key: values.LabelKey
    value: values.LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class KubernetesSpec(Started):
    """Pods that the Dask operator starts, or that ``spae submit`` has Kubernetes start.

    ``cores`` and ``memory`` (0: as much as the plan takes) are of a worker. ``secrets`` become variables of the
    environment, ``pull_secrets`` are for the registry of the image.
    """

    kind: Literal["kubernetes"]
    image: values.Line
    pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    pull_secrets: tuple[values.KubernetesName, ...] = Field(default=(), strict=False)
    namespace: values.KubernetesName = "default"
    workers: values.Amount
    cores: values.Count = 1
    memory: values.PlannedBytes = 0
    scheduler_memory: values.Bytes = 2 << 30
    scratch: values.Bytes = 4 << 30
    environment: values.Environment = Field(default_factory=dict)
    secrets: tuple[values.KubernetesName, ...] = Field(default=(), strict=False)
    volumes: tuple[Volume, ...] = Field(default=(), strict=False)
    service_account: values.KubernetesName | None = None
    node_selector: values.Labels = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = Field(default=(), strict=False)
    host_network: bool = False
    dashboard: bool = False
    timeout: values.Seconds = 600
    driver: Driver = Driver()

    @property
    def n_workers(self) -> int:
        """Worker processes in all."""
        return self.workers

    @property
    def n_threads(self) -> int:
        """Threads of each."""
        return self.cores

    @property
    def worker_nbytes(self) -> int:
        """Bytes that each may use."""
        return int(self.memory * MEMORY_FOR_ROWS)


SUFFIX = ".toml"
"""Suffix of the name of a cluster file."""

SPECS: dict[str, type[Spec]] = {
    "local": LocalSpec,
    "scheduler": SchedulerSpec,
    "slurm": QueueSpec,
    "pbs": QueueSpec,
    "lsf": QueueSpec,
    "sge": QueueSpec,
    "kubernetes": KubernetesSpec,
    "mpi": MpiSpec,
}
"""Models by kind."""


def read_cluster(path: str | Path) -> Spec:
    """Read and check a cluster file; nothing is started.

    Parameters
    ----------
    path : str or Path
        The TOML file.

    Raises
    ------
    InvalidInput
        If a key is wrong. The message names the line of every wrong key.
    NotFound, StorageError
        If the file cannot be read.
    """
    file = TomlFile(Path(path), "a cluster")
    made = checked_table((), file.table, SPECS, lambda _: {})
    if isinstance(made, Spec):
        return made
    raise file.error(made)
