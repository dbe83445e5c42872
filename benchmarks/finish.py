"""What a fit does after its pass: selection, encoding and losses on a d x d core, however many rows there were."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.problems import SensorCounts
from benchmarks.table import SecondsLine
from benchmarks.timing import PassClock
from spae_dask import SparseEncoder


@dataclass(frozen=True)
class Finish:
    """A fit of a small store by one method, less its pass.

    Parameters
    ----------
    problem : SensorCounts
        The store.
    method : str
        As for ``SparseEncoder``.
    n_components, n_nonzero : int
        k and r.
    at_most : float, optional
        Target, in seconds.
    """

    problem: SensorCounts
    method: str
    n_components: int
    n_nonzero: int
    at_most: float | None = None

    def run(self, scratch: Path, repetitions: int) -> list[SecondsLine]:  # noqa: ARG002 - no other side to pair with
        """Time one fit after a smaller one has loaded the libraries."""
        path = self.problem.make(scratch)
        replace(self, n_components=1, n_nonzero=1).seconds(path)
        case = f"{self.method}, d = {self.problem.n_features}, k = {self.n_components}, r = {self.n_nonzero}"
        return [SecondsLine("fit less its pass", case, self.seconds(path), at_most=self.at_most)]

    def seconds(self, path: Path) -> float:
        """Seconds of one fit outside its pass."""
        clock, began = PassClock(), time.perf_counter()
        SparseEncoder(
            self.n_components, n_nonzero=self.n_nonzero, method=self.method, strategy="gram", progress=clock
        ).fit(path)
        return time.perf_counter() - began - clock.seconds.wall
