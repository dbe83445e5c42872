"""From the description of a queue to what dask-jobqueue takes: pure, so that whole scripts are compared in tests.

dask-jobqueue puts strings into job scripts as they are. Those that a shell reads are quoted here; those that the batch
system reads were checked when the file was.
"""

import shlex
import sys
from pathlib import Path
from typing import Any

from spae_dask.clusters.log_folder import log_folder
from spae_dask.clusters.specs import QueueSpec
from spae_dask.clusters.values import clock, word
from spae_dask.errors import InvalidInput

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
