"""A fit that reads a store once, against reading the same chunks and computing nothing.

The other side is plain zarr-python: the same row blocks, in as many threads, each block dropped when it has arrived.
Both read from the operating system's cache, so what is compared is decoding and arithmetic, which share the cores.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import zarr
from dask.system import CPU_COUNT

from benchmarks.arithmetic import Strategy, arithmetic_seconds
from benchmarks.problems import SensorCounts
from benchmarks.table import Line
from benchmarks.timing import PassClock, Timed, cpu_ratio, take_turns, timed, typical, wall_ratio
from spae_dask import SparseEncoder, open_matrix, plan
from spae_dask.engine.plan import Plan

THREADS = int(CPU_COUNT)
"""What a fit without a cluster uses."""

ANY_PASS = 1.2
"""Most that a pass may take, over bare reading plus its arithmetic at BLAS speed."""


def read_and_drop(path: Path, bounds: list[int], threads: int = THREADS) -> int:
    """Read every row block once and return the decoded bytes."""
    array = zarr.open_array(path, mode="r")

    def read(start: int, stop: int) -> int:
        return int(array[start:stop].nbytes)

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(lambda rows: read(*rows), pairwise(bounds)))


def fit(path: Path, strategy: Strategy, clock: PassClock | None = None) -> SparseEncoder:
    """Five components of ten nonzeros each."""
    return SparseEncoder(5, n_nonzero=10, strategy=strategy, progress=clock).fit(path)


@dataclass(frozen=True)
class OneReadFit:
    """Fit the problem by one strategy, or several.

    Parameters
    ----------
    problem : SensorCounts
        The store.
    targets : dict of str to float
        Most that a fit by the strategy may take, over bare reading; infinite if nothing was promised.
    """

    problem: SensorCounts
    targets: dict[Strategy, float]

    def run(self, scratch: Path, repetitions: int) -> list[Line]:
        """Time bare reading, the fits and the arithmetic in turns."""
        path = self.problem.make(scratch)
        bounds = list(open_matrix(path).bounds)
        plans: dict[Strategy, Plan] = {s: plan(path, 5, n_nonzero=10, strategy=s) for s in self.targets}
        passes: dict[Strategy, list[Timed]] = {s: [] for s in self.targets}

        def timed_fit(strategy: Strategy) -> Timed:
            clock = PassClock()
            seconds = timed(lambda: fit(path, strategy, clock))
            passes[strategy].append(clock.seconds)
            return seconds

        def arithmetic(strategy: Strategy) -> Timed:
            flops = sum(p.flops for p in plans[strategy].passes)
            return arithmetic_seconds(strategy, self.problem.n_features, flops, THREADS)

        sides = {"read": lambda: timed(lambda: read_and_drop(path, bounds))}
        for strategy in self.targets:
            sides[f"fit {strategy}"] = lambda s=strategy: timed_fit(s)
            sides[f"arithmetic {strategy}"] = lambda s=strategy: arithmetic(s)
        turns = take_turns(sides, repetitions)
        lines = []
        for strategy, target in self.targets.items():
            fits, bare = turns[f"fit {strategy}"], turns["read"]
            sweeps = passes[strategy][1:]  # the first was to warm up
            limit = [a + b for a, b in zip(bare, turns[f"arithmetic {strategy}"], strict=True)]
            made = f"{strategy}, {len(plans[strategy].passes)} read of {plans[strategy].bytes_read / 2**20:,.0f} MiB"
            name = f"d = {self.problem.n_features}, {self.problem.codec}, {made}"
            lines += [
                Line("fit / bare reading", name, fits, bare, at_most=target),
                Line("its pass alone / bare reading", name, sweeps, bare),
                Line("its pass alone / (bare reading + arithmetic)", name, sweeps, limit, at_most=ANY_PASS),
            ]
        return lines
