"""The R factor of a dask array, against dask's own ``da.linalg.qr`` (which is ``da.linalg.tsqr`` for tall arrays).

Time on blocks that are in memory; peak memory, in a child process, on blocks that are made as they are read. Both
sides use the threaded scheduler with as many threads and one BLAS thread in each. Ours also centers the columns.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
import psutil

from benchmarks.problems import THREADS, GaussianBlocks
from benchmarks.table import Line, MemoryLine
from benchmarks.timing import take_turns, timed
from spae_dask.engine.runner import DaskRunner
from spae_dask.passes.accumulators import CenteredTriangle, Triangular
from spae_dask.passes.threads import one_blas_thread
from spae_dask.storage.sources.dask_blocks import DaskBlocks


def ours(x: da.Array) -> CenteredTriangle:
    """R of the centered columns, and their means."""
    return DaskRunner(DaskBlocks(x), None, THREADS).run_pass(Triangular(x.shape[1]))


def dasks(x: da.Array) -> npt.NDArray[np.floating[Any]]:
    """R of the columns as they are."""
    with one_blas_thread():
        (triangle,) = dask.compute(da.linalg.qr(x)[1], scheduler="threads", num_workers=THREADS)
    return np.asarray(triangle)


@dataclass(frozen=True)
class RFactorTime:
    """Seconds.

    Parameters
    ----------
    problem : GaussianBlocks
        The array.
    at_least : float
        Target for dask's time over ours.
    """

    problem: GaussianBlocks
    at_least: float = 3.0

    def run(self, scratch: Path, repetitions: int) -> list[Line]:  # noqa: ARG002 - nothing is stored
        """Take turns."""
        x = self.problem.in_memory()
        turns = take_turns(
            {"dask": lambda: timed(lambda: dasks(x)), "ours": lambda: timed(lambda: ours(x))}, repetitions
        )
        case = f"d = {x.shape[1]}, {x.shape[0]:,} rows, {x.numblocks[0]} blocks in memory"
        return [Line("da.linalg.qr / R factor", case, turns["ours"], turns["dask"], at_least=self.at_least)]


@dataclass(frozen=True)
class RFactorMemory:
    """Peak memory for n rows and for a multiple of n.

    Parameters
    ----------
    few : GaussianBlocks
        The array of n rows: enough of them that every thread has its fill.
    more : int
        How many times more rows must not take more memory.
    at_most : float
        Target for the ratio of ours.
    """

    few: GaussianBlocks
    more: int
    at_most: float = 1.1

    def run(self, scratch: Path, repetitions: int) -> list[MemoryLine]:  # noqa: ARG002 - nothing is stored or repeated
        """Measure each in a process of its own."""
        lines = []
        for side, at_most in (("ours", self.at_most), ("dasks", None)):
            few, many = (peak_mib(side, self.few, factor) for factor in (1, self.more))
            case = f"d = {self.few.n_features}, {self.few.n_blocks} blocks of {self.few.block_nbytes >> 20} MiB"
            what = f"{'R factor' if side == 'ours' else 'da.linalg.qr'}: peak memory of {self.more} n rows / n rows"
            lines.append(MemoryLine(what, case, few, many, at_most))
        return lines


def peak_mib(side: str, few: GaussianBlocks, factor: int) -> float:
    """Peak resident memory of a child process above its idle size, in MiB."""
    fields = [few.n_features, few.n_blocks * factor, few.block_nbytes, few.seed]
    command = [sys.executable, "-m", "benchmarks.r_factor", side, *map(str, fields)]
    child = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    return float(json.loads(child.stdout)["peak_mib"])


def _peak_rss() -> int:
    """Bytes, since this process began; what its parent held does not count, as it does in getrusage."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().split("VmHWM:")[1].split()[0])
    return int(psutil.Process().memory_info().rss)


def _child() -> None:
    side, d, n_blocks, block_nbytes, seed = sys.argv[1], *map(int, sys.argv[2:])
    # the first use loads libraries and starts threads
    {"ours": ours, "dasks": dasks}[side](GaussianBlocks(d, 2, 8 * d * d, seed).made_when_read())
    idle = psutil.Process().memory_info().rss
    {"ours": ours, "dasks": dasks}[side](GaussianBlocks(d, n_blocks, block_nbytes, seed).made_when_read())
    sys.stdout.write(json.dumps({"peak_mib": (_peak_rss() - idle) / 2**20}))


if __name__ == "__main__":
    _child()
