"""Losses on the matrix where no choice of columns does well, between what no encoder can and what theorems promise.

Run ``python -m benchmarks.lower_bound`` (seconds); with ``--markdown`` it writes lower_bound.md.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.machine import describe_machine
from spae_dask.datasets.lower_bound import even_choice_ratio, lower_bound_matrix
from spae_dask.maths.encoders import encode_batch, theorem_bound
from spae_dask.maths.linalg.loss import encoder_loss
from spae_dask.strategies.methods import METHODS, Search
from spae_dask.strategies.parameters import FitParameters

HERE = Path(__file__).parent

SELECTIONS = ("dual-set", "adaptive", "adaptive-derandomized", "greedy", "pivoted-qr", "leverage")
POLISHED = "polished, shared support"
SEEDS = 20
"""Draws of adaptive sampling, whose bound is on the mean."""


@dataclass(frozen=True)
class Case:
    """A matrix of ``k`` blocks of ``b`` columns that differ by ``alpha``, and r columns to choose."""

    k: int
    b: int
    alpha: float
    r: int

    @property
    def least(self) -> float:
        """The least information loss of r nonzero rows: that of an even choice."""
        return even_choice_ratio(self.k, self.b, self.alpha, self.r)

    def bound(self, name: str) -> float | None:
        """What a theorem promises of a selection; polishing starts from dual-set and keeps its bound."""
        return theorem_bound("dual-set" if name == POLISHED else name, self.k, self.r).bound

    def measured(self, name: str) -> float:
        """Information loss reached; the mean over seeds where columns are drawn."""
        X = lower_bound_matrix(self.k, self.b, self.alpha)
        best = self.k * (self.b - 1) * self.alpha**2
        if name == POLISHED:
            params = FitParameters(self.k, self.r, shared_support=True)
            return encoder_loss(X, METHODS["polished"](params, X, self.r, Search()).H) / best
        seeds = range(SEEDS if name == "adaptive" else 1)
        made = (encode_batch(X, self.k, self.r, selection=name, rng=np.random.default_rng(seed)) for seed in seeds)
        return float(np.mean([encoder_loss(X, each.H) / best for each in made]))


CASES = (
    Case(1, 200, 0.01, 10),
    Case(2, 50, 0.1, 10),
    Case(4, 30, 0.1, 20),
    Case(4, 100, 0.01, 8),
    Case(4, 100, 0.01, 20),
    Case(4, 100, 0.01, 22),
    Case(4, 100, 0.01, 80),
    Case(5, 100, 0.01, 50),
)


def lines() -> Iterator[str]:
    """Rows of the Markdown table."""
    names = [*SELECTIONS, POLISHED]
    bounds = ("dual-set", "adaptive")
    head = ["k", "b", "alpha", "r", "1 + k/r", "even choice", *names, *(f"bound of {name}" for name in bounds)]
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for case in CASES:
        cells = [f"{case.k}", f"{case.b}", f"{case.alpha:g}", f"{case.r}", f"{1 + case.k / case.r:.4f}"]
        cells += [f"{case.least:.4f}", *(f"{case.measured(name):.4f}" for name in names)]
        yield f"| {' | '.join([*cells, *(f'{case.bound(name):.4f}' for name in bounds)])} |"


TEXT = """# Lower bound

Information loss (loss over PCA's at the same k, at least 1) on the matrix of Boutsidis, Drineas & Magdon-Ismail
2014, section 9.2. It has k blocks of b columns that point almost the same way and differ by alpha. *Even choice* is
the closed form for r columns spread evenly over the blocks. No encoder with r nonzero rows loses less. It tends to
1 + k/r as b grows and alpha falls. The last two columns are bounds by theorems, which hold for any data. The first
is for dual-set and for polishing, which starts there. The second is for adaptive sampling in expectation (the table
shows the mean of {seeds} draws) and for its derandomised form. The other methods have no bound. Leverage shows why:
all its scores are equal here, so it takes all columns from one block. Made by `python -m benchmarks.lower_bound
--markdown`, on {machine}.

{table}
"""


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="write lower_bound.md")
    given = parser.parse_args()
    machine = "; ".join(describe_machine())
    rows = []
    for line in lines():
        print(line, flush=True)
        rows.append(line)
    if given.markdown:
        text = TEXT.format(seeds=SEEDS, machine=machine, table="\n".join(rows))
        (HERE / "lower_bound.md").write_text(text)


if __name__ == "__main__":
    main()
