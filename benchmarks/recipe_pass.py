"""A fit of raw counts with a recipe and covariates, against the same fit of the counts as they are, in turns."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.cells import CellCounts
from benchmarks.table import Line
from benchmarks.timing import take_turns, timed
from spae_dask import SparseEncoder

RECIPE = "normalize_total(1e4), log1p"
N_BATCHES = 4


@dataclass(frozen=True)
class RecipePass:
    """Fits of one store of sparse rows, each of ten components of twelve nonzeros by the paper's batch encoder.

    Parameters
    ----------
    problem : CellCounts
        The store.
    at_most : float, optional
        Target for the fit with the recipe and covariates over that without.
    """

    problem: CellCounts
    at_most: float | None = None

    def run(self, scratch: Path, repetitions: int) -> list[Line]:
        """Time fits of raw counts, with the recipe, and with the recipe and two covariates."""
        path, n = self.problem.make(scratch), self.problem.n_samples
        rng = np.random.default_rng(0)
        covariates = {"batch": rng.integers(0, N_BATCHES, n).astype(str), "share": rng.random(n)}
        sides = {
            "raw": {},
            "recipe": {"recipe": RECIPE},
            "covariates": {"recipe": RECIPE, "covariates": covariates},
        }

        def fit(side: str) -> None:
            SparseEncoder(10, n_nonzero=12, method="batch", **sides[side]).fit(path)

        turns = take_turns({side: lambda side=side: timed(lambda: fit(side)) for side in sides}, repetitions)
        case = self.problem.describe()
        return [
            Line(f"{what} / raw counts", case, turns[side], turns["raw"], at_most=self.at_most)
            for side, what in (("recipe", "recipe"), ("covariates", "recipe and covariates"))
        ]
