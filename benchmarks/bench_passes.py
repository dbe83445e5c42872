"""What a pass costs: against bare reading, against arithmetic at BLAS speed, against peers, on more workers.

Run from the repository's root::

    python -m benchmarks.bench_passes [--size tiny|quick|full] [--only GROUP] [--markdown FILE]
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from benchmarks.cells import CellCounts
from benchmarks.column_chunks import ColumnChunks
from benchmarks.finish import Finish
from benchmarks.folded_pass import FoldedPass
from benchmarks.integer_sums import IntegerSums
from benchmarks.machine import describe_machine
from benchmarks.peers import Peers
from benchmarks.problems import GaussianBlocks, SensorCounts
from benchmarks.r_factor import RFactorMemory, RFactorTime
from benchmarks.recipe_pass import RecipePass
from benchmarks.store_fit import StoreFit
from benchmarks.table import HEAD, RULE, AnyLine, markdown_row, write_markdown
from benchmarks.workers import TwoWorkers

MIB = 1 << 20


class Case(Protocol):
    """Something to measure."""

    def run(self, scratch: Path, repetitions: int) -> Sequence[AnyLine]:
        """Measure, with stores made below ``scratch``."""
        ...


def cases(size: str) -> dict[str, list[Case]]:
    """Cases of a size, by group."""
    if size == "tiny":  # shows that everything runs; the times mean nothing
        return {
            "fits": [StoreFit(SensorCounts(32, MIB, "zstd", MIB // 8), s) for s in ("gram", "tsqr")],
            "fast": [StoreFit(SensorCounts(32, MIB, "zstd", MIB // 8), "gram", precision="fast")],
            "integers": [
                StoreFit(SensorCounts(32, MIB, "zstd", MIB // 8, dtype="u1"), "gram"),
                IntegerSums(128, MIB),
            ],
            "two-reads": [StoreFit(SensorCounts(300, MIB, "zstd", MIB // 8), "sketch")],
            "column-chunks": [ColumnChunks(SensorCounts(300, MIB, "zstd", MIB // 8), 20)],
            "folds": [FoldedPass(SensorCounts(32, MIB, "zstd", MIB // 8), 4)],
            "recipes": [RecipePass(CellCounts(300, 60))],
            "peers": [Peers(SensorCounts(32, MIB, "zstd", MIB // 8), memory=512 * MIB)],
            "finish": [Finish(SensorCounts(32, MIB, "zstd", MIB // 8), "polished", 2, 3)],
            "r-factor": [RFactorTime(GaussianBlocks(32, 8, MIB // 8))],
            "memory": [RFactorMemory(GaussianBlocks(32, 2, MIB), more=2)],
            "workers": [TwoWorkers(SensorCounts(32, MIB, "zstd", MIB // 8))],
        }
    scale = {"quick": 1, "full": 8}[size]
    return {
        "fits": [
            StoreFit(SensorCounts(128, 1024 * scale * MIB), "gram", at_most=1.5),
            StoreFit(SensorCounts(512, 1024 * scale * MIB), "gram", at_most=2.3),
            StoreFit(SensorCounts(128, 512 * scale * MIB, "lz4"), "gram"),
            StoreFit(SensorCounts(512, 512 * scale * MIB, "lz4"), "gram"),
            StoreFit(SensorCounts(128, 256 * scale * MIB), "tsqr"),
            StoreFit(SensorCounts(512, 256 * scale * MIB), "tsqr"),
        ],
        "fast": [
            StoreFit(SensorCounts(128, 1024 * scale * MIB), "gram", at_most=1.3, precision="fast"),
            StoreFit(SensorCounts(512, 1024 * scale * MIB), "gram", at_most=1.75, precision="fast"),
        ],
        "integers": [
            StoreFit(SensorCounts(128, 256 * scale * MIB, dtype="u1"), "gram"),
            StoreFit(SensorCounts(512, 256 * scale * MIB, dtype="u1"), "gram"),
            *(IntegerSums(d, 64 * MIB, at_most=0.6) for d in (128, 512, 2000)),
        ],
        "two-reads": [StoreFit(SensorCounts(20_000, 1024 * scale * MIB), "sketch", at_most=2.6)],
        "column-chunks": [ColumnChunks(SensorCounts(20_000, 1024 * scale * MIB), 200, at_most=1.2)],
        "folds": [FoldedPass(SensorCounts(512, 1024 * scale * MIB), 10, at_most=1.15)],
        "recipes": [RecipePass(CellCounts(25_000 * scale, 30_000), at_most=1.15)],
        "peers": [Peers(SensorCounts(128, 2048 * scale * MIB))],
        "finish": [
            Finish(SensorCounts(500, 16 * MIB), "batch", 10, 12),
            Finish(SensorCounts(500, 16 * MIB), "polished", 10, 12, at_most=5),
        ],
        "r-factor": [RFactorTime(GaussianBlocks(d, 16 * scale)) for d in (64, 128, 512)],
        "memory": [RFactorMemory(GaussianBlocks(128, 8, 32 * MIB), more={"quick": 4, "full": 16}[size])],
        "workers": [TwoWorkers(SensorCounts(512, 256 * scale * MIB))],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; the command line is described at the top."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_passes", description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=("tiny", "quick", "full"), default="quick")
    parser.add_argument(
        "--only", choices=tuple(cases("tiny")), action="append", help="a group of cases; may be given again"
    )
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--scratch", type=Path, help="keep the stores here, to be used again")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there, between its marks")
    given = parser.parse_args(arguments)
    machine = [
        *describe_machine(),
        f"size {given.size}, median of {given.repetitions} paired ratios (least to largest)",
    ]
    print("\n".join(machine), HEAD, RULE, sep="\n", flush=True)
    rows: list[str] = []
    with tempfile.TemporaryDirectory(prefix="spae-bench-") as temporary:
        scratch = given.scratch or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        for group, members in cases(given.size).items():
            for case in members if given.only is None or group in given.only else []:
                for line in case.run(scratch, given.repetitions):
                    rows.append(markdown_row(line))
                    print(rows[-1], flush=True)
    if given.markdown is not None:
        write_markdown(given.markdown, machine, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
