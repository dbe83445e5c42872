"""Data that commands are run on, and two ways to run a command: in this process, or in one of its own."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from spae_dask.cli.main import main
from tests.cli.forked import ForkedCommand, Redirections

N, D, K, R = 3000, 12, 2, 4
SPAE = [sys.executable, "-m", "spae_dask"]

QUICK = ("--method", "batch")
"""Options of a fit that is over at once: the search of the default method is tested where it is written."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What is on stdout, which must be one JSON document."""
        return json.loads(self.out)


@pytest.fixture
def spae(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, few_points: None
) -> Callable[..., Outcome]:
    """Run a command in this process, which plans as in one of its own; curves of fits have few points."""
    monkeypatch.setattr("spae_dask.machine._fixed", True)

    def run(*argv: object) -> Outcome:
        capsys.readouterr()
        code = main([str(word) for word in argv])
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run


def environment(**more: str) -> dict[str, str]:
    """This process's, without what forces or forbids colours."""
    silent = re.compile("NO_COLOR|FORCE_COLOR|PY_COLORS|GITHUB_ACTIONS|TTY_COMPATIBLE|COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not silent.fullmatch(name)}
    return kept | {"OMP_NUM_THREADS": "1", "TERM": "xterm-256color"} | more


def hear_interrupts() -> None:
    """In a child: undo what `make test &` does to SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def spae_process() -> Iterator[Callable[..., Any]]:
    """Start a command in a process and a process group of its own, with pipes for its output."""
    started = []

    def start(*argv: object, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*SPAE, *map(str, argv)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**env),
            start_new_session=True,
            preexec_fn=hear_interrupts,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def spae_forked() -> Iterator[Callable[..., ForkedCommand]]:
    """Start a command as ``spae_process`` does, where it does not matter how its interpreter begins."""
    started = []

    def start(*argv: object, redirections: Redirections | None = None) -> ForkedCommand:
        started.append(ForkedCommand([str(word) for word in argv], redirections))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may have ended meanwhile
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()


def planted(seed: int = 0) -> np.ndarray[Any, Any]:
    """Rows of rank 3 with a little noise."""
    rng = np.random.default_rng(seed)
    signal_part = rng.normal(size=(N, 3)) @ rng.normal(size=(3, D))
    return (signal_part + 0.1 * rng.normal(size=(N, D)) + 2).astype(np.float32)


def write_zarr(path: Path, values: np.ndarray[Any, Any], chunk_rows: int = 500) -> Path:
    """A Zarr array of full-width chunks."""
    array = zarr.create_array(str(path), shape=values.shape, chunks=(chunk_rows, values.shape[1]), dtype=values.dtype)
    array[...] = values
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A small Zarr array."""
    return write_zarr(tmp_path / "x.zarr", planted())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The same numbers as a table of named columns."""
    import pandas as pd  # not above: the wheel is tested where it is absent

    path = tmp_path / "x.parquet"
    pd.DataFrame(planted(), columns=[f"G{place}" for place in range(D)]).to_parquet(path)
    return path


@pytest.fixture(scope="session")
def fitted_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder of data as in ``store``, by the default method."""
    folder = tmp_path_factory.mktemp("fitted")
    words = ["fit", str(write_zarr(folder / "x.zarr", planted())), "-k", str(K), "-r", str(R), "-q"]
    assert main([*words, "-o", str(folder / "enc.zarr")]) == 0
    return folder / "enc.zarr"


@pytest.fixture
def encoder(fitted_once: Path, store: Path, tmp_path: Path) -> Path:
    """A copy of it, which may be damaged, beside the store."""
    return Path(shutil.copytree(fitted_once, tmp_path / "enc.zarr"))


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    """12 GB of zeros, none of them stored: minutes to read, nothing to make."""
    path = tmp_path / "huge.zarr"
    zarr.create_array(str(path), shape=(50_000_000, 64), chunks=(100_000, 64), dtype="f4")
    return path
