"""Cluster file of kind ``kubernetes``."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spae_dask.clusters import values
from spae_dask.clusters.specs import MEMORY_FOR_ROWS, Driver, Started


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
