"""From a cluster file to what it describes."""

from pathlib import Path

from spae_dask.clusters.kubernetes_spec import KubernetesSpec
from spae_dask.clusters.specs import LocalSpec, MpiSpec, QueueSpec, SchedulerSpec, Spec
from spae_dask.toml.file import TomlFile
from spae_dask.toml.tables import checked_table

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
