"""A fit with held-out folds against the same fit without them: one read each, in turns."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.problems import SensorCounts
from benchmarks.table import Line
from benchmarks.timing import take_turns, timed
from spae_dask import SparseEncoder


@dataclass(frozen=True)
class FoldedPass:
    """Fits of one store, each of five components of ten nonzeros by the paper's batch encoder.

    Parameters
    ----------
    problem : SensorCounts
        The store.
    n_folds : int
        Folds, of each of which an encoder of the other folds is measured.
    at_most : float, optional
        Target for the fit with folds over that without.
    """

    problem: SensorCounts
    n_folds: int
    at_most: float | None = None

    def run(self, scratch: Path, repetitions: int) -> list[Line]:
        """Time both fits, whose losses must be the same."""
        path, losses = self.problem.make(scratch), dict[int | None, float]()

        def fit(folds: int | None) -> None:
            encoder = SparseEncoder(5, n_nonzero=10, method="batch", strategy="gram", folds=folds).fit(path)
            losses[folds] = encoder.certificate_.loss

        sides = {f"{folds}": lambda folds=folds: timed(lambda: fit(folds)) for folds in (None, self.n_folds)}
        turns = take_turns(sides, repetitions)
        apart = abs(losses[self.n_folds] / losses[None] - 1.0)
        if apart > 1e-9:
            raise AssertionError(f"losses of the two fits are {apart:.1e} apart")
        case = f"gram, d = {self.problem.n_features:,}, {self.problem.nbytes >> 20:,} MiB, {self.n_folds} folds"
        folded, plain = turns[f"{self.n_folds}"], turns["None"]
        return [Line("fit with folds / fit", case, folded, plain, at_most=self.at_most)]
