"""What a pass costs: against bare reading, against arithmetic at BLAS speed, against dask's own QR, on more workers.

Run from the repository's root::

    python -m benchmarks.bench_passes [--size tiny|quick|full] [--only NAME] [--markdown FILE]
"""

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.machine import describe_machine
from benchmarks.one_read_fit import OneReadFit
from benchmarks.problems import GaussianBlocks, SensorCounts
from benchmarks.r_factor import RFactorMemory, RFactorTime
from benchmarks.table import HEAD, Line, MemoryLine, markdown_table, write_markdown
from benchmarks.workers import TwoWorkers

MIB = 1 << 20


class Case(Protocol):
    """Something to measure."""

    def run(self, scratch: Path, repetitions: int) -> Sequence[Line | MemoryLine]:
        """Measure, with stores made below ``scratch``."""
        ...


def one_read_fits(nbytes: int, chunk_nbytes: int) -> list[Case]:
    """Fits of d = 128 and 512 from both codecs; promises were made for the float64 Gram matrix on Zarr's default."""
    promised = {("zstd", 128): 1.5, ("zstd", 512): 2.3}
    return [
        OneReadFit(
            SensorCounts(d, nbytes, codec, chunk_nbytes),
            {"gram": promised.get((codec, d), math.inf), "tsqr": math.inf},
        )
        for codec in ("zstd", "lz4")
        for d in (128, 512)
    ]


def cases(size: str) -> dict[str, list[Case]]:
    """Cases of a size, by the name ``--only`` takes."""
    if size == "tiny":  # for the test suite
        return {
            "fits": [OneReadFit(SensorCounts(32, MIB, "zstd", MIB // 8), {"gram": 1.5, "tsqr": math.inf})],
            "r-factor": [RFactorTime(GaussianBlocks(32, 8, MIB // 8))],
            "memory": [RFactorMemory(GaussianBlocks(32, 2, MIB))],
            "workers": [TwoWorkers(SensorCounts(32, MIB, "zstd", MIB // 8))],
        }
    nbytes, chunk_nbytes = {"quick": 512 * MIB, "full": 4096 * MIB}[size], 8 * MIB
    return {
        "fits": one_read_fits(nbytes, chunk_nbytes),
        "r-factor": [RFactorTime(GaussianBlocks(d, nbytes // (32 * MIB) * 8 // 2)) for d in (64, 128, 512)],
        "memory": [RFactorMemory(GaussianBlocks(d, 8)) for d in (64, 512)],
        "workers": [TwoWorkers(SensorCounts(512, nbytes // 2, "lz4", chunk_nbytes))],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; the command line is described at the top."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_passes", description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=("tiny", "quick", "full"), default="quick")
    parser.add_argument("--only", choices=list(cases("tiny")), action="append", help="run these cases only")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--scratch", type=Path, help="keep the stores here, to be used again")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there, between its marks")
    given = parser.parse_args(arguments)
    machine = describe_machine()
    print("\n".join(machine), flush=True)
    print(f"\nmedian of {given.repetitions} paired ratios (least to largest)\n{HEAD}", flush=True)
    lines: list[Line | MemoryLine] = []
    with tempfile.TemporaryDirectory(prefix="spae-bench-") as own:
        scratch = given.scratch or Path(own)
        scratch.mkdir(parents=True, exist_ok=True)
        for name, group in cases(given.size).items():
            for case in group if given.only is None or name in given.only else []:
                for line in case.run(scratch, given.repetitions):
                    lines.append(line)
                    print(f"| {' | '.join(line.cells())} |", flush=True)
    if given.markdown is not None:
        write_markdown(given.markdown, machine, markdown_table(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
