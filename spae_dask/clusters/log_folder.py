"""The folder of the logs of jobs: where it is, and that a batch system can write there."""

import os
from pathlib import Path
from tempfile import TemporaryFile

import psutil

from spae_dask.clusters.specs import QueueSpec
from spae_dask.errors import InvalidInput, StorageError

SHARED = ("nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb", "panfs", "weka", "glusterfs", "afs", "orangefs")
"""File systems of a network, by how their names begin, perhaps after ``fuse.``."""


def log_folder(spec: QueueSpec) -> Path:
    """Its absolute path: a job may start in another folder.

    Raises
    ------
    InvalidInput
        If Slurm would take the path for another.
    """
    folder = Path(spec.logs).expanduser().absolute()
    if spec.kind == "slurm" and (odd := sorted({"%", "\\"} & set(str(folder)))):
        raise InvalidInput(
            f"the log folder of the jobs would be {folder}, but Slurm replaces {' and '.join(odd)} in log "
            "paths. It would then find no such folder and run no job. Start from another folder, or set "
            "'logs' in the cluster file to an absolute path without it. All nodes must see that folder."
        )
    return folder


def make_writable(folder: Path) -> None:
    """Make a folder, and see that files can be made there: Slurm does neither, and drops jobs whose log it cannot open.

    Raises
    ------
    StorageError
        If it cannot be done.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(prefix=".spae-", dir=folder) as file:
            file.write(b"\n")
    except OSError as error:
        raise StorageError(
            f"the folder {folder} cannot be written to: {error.strerror}. Give another folder, or free some space."
        ) from error


def described_folder(folder: Path) -> str:
    """Tell whether a folder can be written to or made, and whether its file system is one that machines share.

    Raises
    ------
    StorageError
        If it cannot.
    """
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise StorageError(f"the folder {folder} cannot be written to: no permission in {there}. Give another folder.")
    mounts = [each for each in psutil.disk_partitions(all=True) if there.is_relative_to(each.mountpoint)]
    kind = max(mounts, key=lambda each: len(each.mountpoint)).fstype if mounts else "unknown"
    shared = kind.removeprefix("fuse.").startswith(SHARED)
    where = f"on {kind}, which machines share" if shared else f"on {kind}, and nodes must see it too"
    return f"{'can be written to' if there == folder else 'can be made'}; {where}"
