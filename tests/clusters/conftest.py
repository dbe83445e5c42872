"""A Slurm of this machine with two nodes, where its programs are; its jobs import this clone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import psutil
import pytest
import zarr

from benchmarks.slurm_lab import missing, running_lab
from spae_dask.cli.main import main
from spae_dask.clusters.specs import required
from spae_dask.errors import InvalidInput
from tests.cli.conftest import write_zarr

ROOT = Path(__file__).parents[2]
MPI_PROGRAM = "mpirun"


def listening() -> set[tuple[str, int]]:
    """Addresses on which this process and its children take connections."""
    me = psutil.Process()
    found = [each for process in (me, *me.children(recursive=True)) for each in process.net_connections("inet")]
    return {tuple(each.laddr) for each in found if each.status == psutil.CONN_LISTEN}


@pytest.fixture(scope="session")
def slurm() -> Iterator[Callable[[], list[str]]]:
    """A running Slurm, as function that lists the queue: ``ID NAME STATE`` of each job."""
    if lacking := missing():
        pytest.skip(f"needs root and slurm-wlm and munge of Debian; not here: {lacking}")
    with running_lab() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield queue


def queue() -> list[str]:
    """The jobs that are not over."""
    words = ["squeue", "--noheader", "--format", "%i %j %T"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()


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


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An array of three spans."""
    values = np.random.default_rng(3).integers(0, 9, size=(196_608, 128)) + np.arange(128) % 5
    return write_zarr(tmp_path_factory.mktemp("data") / "x.zarr", values.astype(np.float32), chunk_rows=16_384)


@pytest.fixture(scope="session")
def serial(data: Path) -> list[bytes]:
    """What a fit of it finds in one process."""
    words = ["fit", str(data), "-k", "3", "-r", "5", "-o", str(data.with_name("e.zarr")), "--cluster", "none", "-q"]
    assert main(words) == 0
    return bits_of(data.with_name("e.zarr"))


def bits_of(path: Path) -> list[bytes]:
    """All arrays of an encoder."""
    group = zarr.open_group(path, mode="r")
    return [group[name][...].tobytes() for name in ("indptr", "indices", "values", "decoder", "mean")]


def ended(process: subprocess.Popen[str], seconds: float = 90) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


@pytest.fixture
def place(data: Path, tmp_path: Path) -> Path:
    """A folder with data ``x.zarr``, a cluster file and a pipeline, and nothing else."""
    (tmp_path / "x.zarr").symlink_to(data)
    (tmp_path / "slurm.toml").write_text(SLURM_TOML)
    (tmp_path / "p.toml").write_text(
        'output = "out"\n\n[[step]]\nkind = "fit"\nname = "enc"\ndata = "x.zarr"\nn_components = 3\nn_nonzero = 5\n'
    )
    return tmp_path


@pytest.fixture
def start(place: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command in ``place``, in a process group of its own."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: object, command: tuple[str, ...] = (sys.executable, "-m", "spae_dask")) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*command, *map(str, words)],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def loaded_mpi() -> ModuleType:
    """The room of MPI; the test is skipped where its library is not installed."""
    try:
        return required("spae_dask.clusters.mpi", "mpi")
    except InvalidInput as error:
        pytest.skip(str(error))
