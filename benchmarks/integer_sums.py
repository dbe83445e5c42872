"""Exact sums of 8-bit integers against sums of the same rows in float64, one thread, rows in memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.table import Line
from benchmarks.timing import Timed, take_turns, timed
from spae_dask.passes.accumulators import Accumulator, Gram, integer_gram
from spae_dask.passes.sweep import update_by_panels
from spae_dask.passes.threads import one_blas_thread


@dataclass(frozen=True)
class IntegerSums:
    """Update of a Gram matrix by rows of uint8.

    Parameters
    ----------
    n_features : int
        d.
    nbytes : int
        Bytes of the rows.
    at_most : float, optional
        Target for the time of integer sums over that of float64 sums.
    """

    n_features: int
    nbytes: int
    at_most: float | None = None

    def run(self, scratch: Path, repetitions: int) -> Sequence[Line]:  # noqa: ARG002 - nothing is stored
        """Time both in turns."""
        n, d = self.nbytes // self.n_features, self.n_features
        rows = np.random.default_rng(0).integers(0, 256, (n, d), dtype=np.uint8)
        exact = integer_gram(d, rows.dtype, n)
        assert exact is not None

        def sums(recipe: Accumulator[object]) -> Timed:
            with one_blas_thread():
                return timed(lambda: update_by_panels(recipe, recipe.zero(), rows, 0))

        turns = take_turns({"exact": lambda: sums(exact), "floats": lambda: sums(Gram(d))}, repetitions)
        case = f"uint8, d = {d:,}, {self.nbytes >> 20:,} MiB in memory, 1 thread"
        return [Line("exact sums / float64 sums", case, turns["exact"], turns["floats"], at_most=self.at_most)]
