"""Real services and processes: a Slurm of this machine with two nodes, and fixtures of other rooms.

Every test below this folder is marked ``integration``: ``make test-integration`` runs them, ``make test`` does not.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr

from benchmarks.slurm_lab import missing, running_lab
from spae_dask.cli.main import main
from tests.cli.conftest import encoder, fitted_once, huge, spae, spae_process, store, write_zarr  # noqa: F401 - fixtures
from tests.cli.test_demo import demo  # noqa: F401 - a fixture
from tests.clusters.conftest import ROOT, SLURM_TOML
from tests.engine.conftest import processes, scripted  # noqa: F401 - fixtures
from tests.estimators.conftest import one_worker, two_workers  # noqa: F401 - fixtures
from tests.integration.shipped import copied  # noqa: F401 - a fixture
from tests.test_readme import folder, given  # noqa: F401 - fixtures


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker("integration")


@pytest.fixture(scope="module", autouse=True)
def workers_as_users_have_them() -> Iterator[None]:
    """Workers are started as dask does, with the environment of now: forked ones would have that of their server."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "spawn"}):
        yield


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
