"""What tests of clusters share."""

import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from spae_dask.clusters.specs import required
from spae_dask.errors import InvalidInput

ROOT = Path(__file__).parents[2]


def listening() -> set[tuple[str, int]]:
    """Addresses on which this process and its children take connections."""
    me = psutil.Process()
    found = [each for process in (me, *me.children(recursive=True)) for each in process.net_connections("inet")]
    return {tuple(each.laddr) for each in found if each.status == psutil.CONN_LISTEN}


def wait_until(true: Callable[[], object], seconds: float, what: str) -> None:
    """Wait, and fail with ``what`` did not come true."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            pytest.fail(f"{what}: not within {seconds} seconds")
        time.sleep(0.1)


SLURM_TOML = """kind = "slurm"
jobs = 2
memory = "1GB"
walltime = "20m"
queue = "debug"
interface = "lo"
timeout = "60s"
"""


def loaded_mpi() -> ModuleType:
    """The room of MPI; the test is skipped where its library is not installed."""
    try:
        return required("spae_dask.clusters.mpi", "mpi")
    except InvalidInput as error:
        pytest.skip(str(error))
