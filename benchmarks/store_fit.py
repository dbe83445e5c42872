"""A fit that reads a store once or twice, against reading the same chunks once and computing nothing.

The other side is plain zarr-python: the same row blocks, in as many threads, each block dropped when it has arrived.
Both read from the operating system's cache, so what is compared is decoding and arithmetic, which share the cores.
"""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.arithmetic import Strategy, arithmetic_seconds
from benchmarks.plain import read_and_drop
from benchmarks.problems import THREADS, SensorCounts
from benchmarks.table import Line
from benchmarks.timing import PassClock, Timed, take_turns, timed
from spae_dask import SparseEncoder, open_matrix, plan

ANY_PASS = 1.2
"""Most that a pass may take, over bare reading plus its arithmetic at BLAS speed."""


def fit(path: Path, strategy: Strategy, clock: PassClock | None = None, precision: str = "exact") -> SparseEncoder:
    """Five components of ten nonzeros each, by the paper's batch encoder."""
    return SparseEncoder(5, n_nonzero=10, method="batch", strategy=strategy, precision=precision, progress=clock).fit(
        path
    )


@dataclass(frozen=True)
class StoreFit:
    """One fit of a store, or several turns of it.

    Parameters
    ----------
    problem : SensorCounts
        The store.
    strategy : {"gram", "tsqr", "sketch"}
        What the read leaves behind; a sketch takes a second one.
    at_most : float, optional
        Target for the fit over bare reading, where one was promised.
    precision : {"exact", "fast"}
        Of the products.
    """

    problem: SensorCounts
    strategy: Strategy
    at_most: float | None = None
    precision: str = "exact"

    def run(self, scratch: Path, repetitions: int) -> list[Line]:
        """Time bare reading, the fit and its arithmetic in turns."""
        path, strategy = self.problem.make(scratch), self.strategy
        bounds = open_matrix(path).bounds
        planned = plan(path, 5, n_nonzero=10, method="batch", strategy=strategy, precision=self.precision)
        n_reads = len(planned.passes)
        flops = sum(one.flops for one in planned.passes)
        passes: list[Timed] = []

        def fit_once() -> Timed:
            clock = PassClock()
            seconds = timed(lambda: fit(path, strategy, clock, self.precision))
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
        limit = [a.times(n_reads) + b for a, b in zip(bare, turns["arithmetic"], strict=True)]
        case = (
            f"{strategy}{' fast' if self.precision == 'fast' else ''}, d = {self.problem.n_features:,}, "
            f"{'' if self.problem.dtype == 'f4' else f'{self.problem.dtype}, '}"
            f"{self.problem.codec}, {n_reads} read{'s' if n_reads > 1 else ''} of {self.problem.nbytes >> 20:,} MiB"
        )
        named, reading = ("its pass", "bare reading") if n_reads == 1 else ("its passes", f"{n_reads} bare readings")
        return [
            Line("fit / bare reading", case, turns["fit"], bare, at_most=self.at_most),
            Line(f"{named} / bare reading", case, sweeps, bare),
            Line(f"{named} / ({reading} + arithmetic)", case, sweeps, limit, at_most=ANY_PASS),
        ]
