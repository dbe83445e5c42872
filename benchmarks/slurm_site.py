"""A folder with data, a cluster file and a pipeline, beside a Slurm: submit it, look at the queue and at what came."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr

from benchmarks.slow_reads import write_hook

N_BLOCKS, N_NEW_BLOCKS, CHUNK_ROWS, N_COLUMNS = 48, 4, 250, 24

PIPELINE = f"""output = "out"

[[step]]
kind = "ingest"
name = "x"
source = "x.npy"
chunks = [{CHUNK_ROWS}, {N_COLUMNS}]

[[step]]
kind = "fit"
name = "enc"
data = "@x"
n_components = 2
n_nonzero = 4

[[step]]
kind = "evaluate"
name = "held-out"
data = "new.zarr"
encoder = "@enc"

[[step]]
kind = "report"
name = "page"
encoder = "@enc"
"""

CLUSTER = """kind = "slurm"
jobs = 2
memory = "1GB"
walltime = "20m"
queue = "debug"
interface = "lo"
timeout = "60s"

[driver]
memory = "1GB"
walltime = "{walltime}"
"""

ARRAYS = ("indptr", "indices", "values", "decoder", "mean")


@dataclass(frozen=True)
class Site:
    """The folder, and the environment of commands in it.

    Parameters
    ----------
    folder : Path
        Made here.
    environment : dict
        What leads to the Slurm.
    seconds : float
        For each block that a worker reads.
    walltime : str
        Of the job that runs the pipeline.
    """

    folder: Path
    environment: dict[str, str]
    seconds: float
    walltime: str

    def __post_init__(self) -> None:
        self.folder.mkdir()
        rng = np.random.default_rng(0)
        np.save(self.folder / "x.npy", rng.standard_normal((N_BLOCKS * CHUNK_ROWS, N_COLUMNS)))
        new = rng.standard_normal((N_NEW_BLOCKS * CHUNK_ROWS, N_COLUMNS))
        zarr.create_array(self.folder / "new.zarr", data=new, chunks=(CHUNK_ROWS, N_COLUMNS))
        (self.folder / "p.toml").write_text(PIPELINE)
        (self.folder / "slurm.toml").write_text(CLUSTER.format(walltime=self.walltime))
        write_hook(self.folder / "hook")

    @property
    def told(self) -> Path:
        """A line for every block that a worker read."""
        return self.folder / "told"

    @property
    def deaf(self) -> Path:
        """While this file is there, the commands of jobs do not hear SIGTERM."""
        return self.folder / "deaf"

    def run(self, *words: str) -> str:
        """Output of a program."""
        ours = {
            "PYTHONPATH": f"{self.folder / 'hook'}:{self.environment['PYTHONPATH']}",
            "SLOW_SECONDS": str(self.seconds),
            "SLOW_TOLD": str(self.told),
            "SLOW_DEAF": str(self.deaf),
        }
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=os.environ | self.environment | ours,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} failed: {done.stderr}")
        return done.stdout

    def spae(self, *words: str) -> str:
        """Output of a command of ours."""
        return self.run(sys.executable, "-m", "spae_dask", *words)

    def submit(self, *words: str) -> str:
        """Submit the pipeline; the number of its job."""
        said = self.spae("submit", "slurm", "p.toml", "--cluster", "slurm.toml", "--json", *words)
        (job,) = json.loads(said)["jobs"]
        return str(job)

    def queue(self) -> list[list[str]]:
        """Number, name and state of all jobs that are not over."""
        return [line.split() for line in self.run("squeue", "--noheader", "--format=%i %j %T").splitlines()]

    def workers(self) -> set[str]:
        """Numbers of the worker jobs that run."""
        return {number for number, name, state in self.queue() if name != "spae-p" and state == "RUNNING"}

    def n_read(self, name: str = "x.zarr") -> int:
        """Blocks that workers have read of a matrix."""
        return sum(f"/{name} " in line for line in self.lines_told())

    def lines_told(self) -> list[str]:
        """All that workers have read."""
        return self.told.read_text().splitlines() if self.told.exists() else []

    def log(self, job: str) -> str:
        """What a job has said in all its turns."""
        path = self.folder / f"spae-logs/spae-p-{job}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def faults(self) -> list[str]:
        """What is not as it is after a run in one process."""
        self.spae("run", "p.toml", "--output", "serial", "--cluster", "none", "-q")
        found = []
        page = self.folder / "out/page.html"
        if not page.exists() or "</html>" not in page.read_text():
            return ["no report"]
        if self._bits("out") != self._bits("serial"):
            found.append("other bits")
        one, other = ((self.folder / name / "held-out.json").read_bytes() for name in ("out", "serial"))
        if one != other:
            found.append("another loss")
        left = {each.name for each in (self.folder / "out").iterdir()}
        if left != {each.name for each in (self.folder / "serial").iterdir()}:
            found.append(f"files {sorted(left)}")
        return found

    def _bits(self, output: str) -> list[bytes]:
        group = zarr.open_group(self.folder / output / "enc.zarr", mode="r")
        return [group[name][...].tobytes() for name in ARRAYS]  # type: ignore[union-attr,index]


def wait_until(true: Callable[[], object], seconds: float, what: str) -> None:
    """Wait for ``what``.

    Raises
    ------
    TimeoutError
        If it does not come true in time.
    """
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:.0f} seconds")
        time.sleep(0.2)
