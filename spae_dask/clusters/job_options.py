"""Jobs of a queue as dask-jobqueue takes them, and the folder of their logs.

The options are pure, so that whole scripts are compared in tests. dask-jobqueue puts strings into job scripts as they
are. Those that a shell reads are quoted here; those that the batch system reads were checked when the file was.
"""

import os
import shlex
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import psutil

from spae_dask.clusters.specs import QueueSpec
from spae_dask.clusters.values import clock, word
from spae_dask.errors import InvalidInput, StorageError

DEATH_TIMEOUT = 30
"""Seconds after which a worker that does not find its scheduler ends, and with it its job."""

COUNT_ADDRESSES = ("h_vmem", "s_vmem")
"""Resources of Grid Engine that limit the addresses of a process, whether there is memory behind them or not."""

ADDRESSES_NBYTES = 1 << 30
"""Bytes of addresses added for a worker: it holds 300 MiB or more that it does not use, more on large nodes."""


def job_options(spec: QueueSpec, name: str) -> dict[str, Any]:
    """Keyword arguments for the job class of the queue.

    Parameters
    ----------
    spec : QueueSpec
        The queue.
    name : str
        Name of the jobs.
    """
    options: dict[str, Any] = {
        "job_name": name,
        "cores": spec.cores,
        "processes": spec.n_processes,
        "memory": str(spec.worker_nbytes * spec.n_processes),
        "walltime": clock(spec.walltime),
        "queue": spec.queue,
        "interface": spec.interface,
        "log_directory": str(Path(spec.logs).expanduser()),
        "local_directory": None if spec.scratch is None else shlex.quote(spec.scratch),
        "python": shlex.quote(spec.python or sys.executable),
        "death_timeout": DEATH_TIMEOUT,
        "worker_extra_args": ["--no-dashboard", *lifetime(spec.walltime)],
        "job_script_prologue": prologue(spec),
        "job_extra_directives": list(spec.options),
    }
    mebibytes = spec.memory >> 20
    if spec.kind == "slurm":
        return options | {"account": spec.account, "job_mem": f"{mebibytes}M"}
    if spec.kind == "pbs":
        wanted = f"select=1:ncpus={spec.cores}:mem={mebibytes}MB"
        return options | {"account": spec.account, "resource_spec": wanted}
    if spec.kind == "sge":
        return options | {
            "project": spec.account,
            "resource_spec": grid_engine_memory(spec),
            "job_extra_directives": grid_engine_directives(spec),
        }
    return options | {"project": spec.account, "mem": spec.memory, "walltime": clock(spec.walltime)[:-3]}


def grid_engine_memory(spec: QueueSpec) -> str:
    """Return the memory request for ``-l``. It is the memory of each slot, since Grid Engine counts by slot."""
    asked = []
    for resource in (spec.memory_resource or "h_vmem").split(","):
        nbytes = spec.memory + (ADDRESSES_NBYTES * spec.n_processes if resource in COUNT_ADDRESSES else 0)
        asked.append(f"{resource}={-(-nbytes // (spec.cores << 20))}M")
    return ",".join(asked)


def grid_engine_directives(spec: QueueSpec) -> list[str]:
    """Return the directives that dask-jobqueue's SGE leaves out, then the user's own.

    Without ``-S``, Grid Engine lets the queue's shell run the script, whatever its first line says: often csh, which
    knows no ``export``, or a sh that knows no ``source``. Without ``-pe``, a job of several cores gets one. And a job
    that the queue itself ran again, after the death of its host, would come on top of the one that replaced it.
    """
    environment = [f"-pe {spec.parallel_environment} {spec.cores}"] if spec.parallel_environment else []
    return ["-S /bin/bash", "-r n", *environment, *spec.options]


def lifetime(walltime: int) -> list[str]:
    """Arguments with which workers leave, not all at once, before the batch system would kill them."""
    margin = min(300, walltime // 10)
    return ["--lifetime", f"{walltime - 2 * margin}s", "--lifetime-stagger", f"{margin}s"]


def prologue(spec: QueueSpec) -> list[str]:
    """Lines of shell before the work: modules, variables, then the user's own, which are run as they are."""
    loads = [f"module load {shlex.quote(each)}" for each in spec.modules]
    exports = [f"export {key}={shlex.quote(value)}" for key, value in variables(spec).items()]
    return [*loads, *exports, *spec.prologue]


def variables(spec: QueueSpec) -> dict[str, str]:
    """Return the environment of the workers. Each process has one thread, and there are as many processes as cores."""
    ours = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if spec.kind == "sge":  # an allocator with 64 MiB of addresses per thread soon reaches h_vmem
        ours["MALLOC_ARENA_MAX"] = "2"
    return ours | spec.environment


def certificates_folder(spec: QueueSpec) -> Path:
    """Return the folder that holds the certificates of workers during a run: the folder of the logs.

    Raises
    ------
    InvalidInput
        If it cannot be named in a job script.
    """
    logs = log_folder(spec)
    try:
        word(str(logs))  # dask-jobqueue does not quote it
    except ValueError as error:
        raise InvalidInput(
            f"the certificates of workers would be written to {logs}, and a job script cannot contain that "
            "path. Set 'logs' in the cluster file to an absolute path without spaces, in a folder that all "
            "nodes see."
        ) from error
    return logs


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
