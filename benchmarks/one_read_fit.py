"""A fit that reads a store once, against reading the same chunks and computing nothing.

The other side is plain zarr-python: the same row blocks, in as many threads, each block dropped when it has arrived.
Both read from the operating system's cache, so what is compared is decoding and arithmetic, which share the cores.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import zarr
from dask.system import CPU_COUNT

from benchmarks.arithmetic import Strategy, arithmetic_seconds
from benchmarks.problems import SensorCounts
from benchmarks.table import Line
from benchmarks.timing import PassClock, Timed, take_turns, timed
from spae_dask import SparseEncoder, open_matrix, plan

THREADS = int(CPU_COUNT)
"""What a fit without a cluster uses."""

ANY_PASS = 1.2
"""Most that a pass may take, over bare reading plus its arithmetic at BLAS speed."""


def read_and_drop(path: Path, bounds: Sequence[int], threads: int = THREADS) -> int:
    """Read every row block once with zarr-python; gives back the decoded bytes."""
    array = zarr.open_array(path, mode="r")

    def read(rows: tuple[int, int]) -> int:
        return int(np.asarray(array[slice(*rows)]).nbytes)

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(read, pairwise(bounds)))


def fit(path: Path, strategy: Strategy, clock: PassClock | None = None) -> SparseEncoder:
    """Five components of ten nonzeros each, by the paper's batch encoder."""
    return SparseEncoder(5, n_nonzero=10, method="batch", strategy=strategy, progress=clock).fit(path)


@dataclass(frozen=True)
class OneReadFit:
    """One fit of a store.

    Parameters
    ----------
    problem : SensorCounts
        The store.
    strategy : {"gram", "tsqr"}
        What the read leaves behind.
    at_most : float, optional
        Target for the fit over bare reading, where one was promised.
    """

    problem: SensorCounts
    strategy: Strategy
    at_most: float | None = None

    def run(self, scratch: Path, repetitions: int) -> list[Line]:
        """Time bare reading, the fit and its arithmetic in turns."""
        path, strategy = self.problem.make(scratch), self.strategy
        bounds = open_matrix(path).bounds
        planned = plan(path, 5, n_nonzero=10, strategy=strategy)
        flops = sum(one.flops for one in planned.passes)
        passes: list[Timed] = []

        def fit_once() -> Timed:
            clock = PassClock()
            seconds = timed(lambda: fit(path, strategy, clock))
            passes.append(clock.seconds)
            return seconds

        turns = take_turns(
            {
                "read": lambda: timed(lambda: read_and_drop(path, bounds)),
                "fit": fit_once,
                "arithmetic": lambda: arithmetic_seconds(strategy, self.problem.n_features, flops, THREADS),
            },
            repetitions,
        )
        bare, sweeps = turns["read"], passes[-repetitions:]  # without the turn that warmed up
        limit = [a + b for a, b in zip(bare, turns["arithmetic"], strict=True)]
        case = (
            f"{strategy}, d = {self.problem.n_features}, {self.problem.codec}, "
            f"{len(planned.passes)} read of {planned.bytes_read / 2**20:,.0f} MiB"
        )
        return [
            Line("fit / bare reading", case, turns["fit"], bare, at_most=self.at_most),
            Line("its pass / bare reading", case, sweeps, bare),
            Line("its pass / (bare reading + arithmetic)", case, sweeps, limit, at_most=ANY_PASS),
        ]
