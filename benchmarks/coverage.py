"""Coverage of the intervals of ``strategy="sample"`` over eight kinds of data, from alike blocks to one decisive block.

Run ``python -m benchmarks.coverage`` (minutes); with ``--markdown`` it writes coverage.md.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import describe_machine
from spae_dask.blocks import ArrayBlocks
from spae_dask.passes.chosen import choose_blocks
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.threads import one_blas_thread
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sample import (
    LEAST_MEASURED,
    SampledFit,
    fit_sample,
    may_stop,
    round_ends,
    signs_of_unlike_blocks,
)

HERE = Path(__file__).parent

SEEDS = 200
BLOCKS, ROWS, D, K, R = 120, 60, 20, 2, 4
TOLERANCE = 0.1
ROUNDING = 1e-9
"""Of a ratio, in two ways of computing it."""

Matrix = NDArray[np.float64]


def factors(rng: np.random.Generator, scores: Matrix, noise: float = 0.6) -> Matrix:
    """Rows of ``scores`` on loadings that are the same for a seed, and noise."""
    loadings = rng.standard_normal((scores.shape[-1], D)) * np.linspace(2.0, 0.7, scores.shape[-1])[:, None]
    return scores @ loadings + noise * rng.standard_normal((*scores.shape[:-1], D))


def clean(rng: np.random.Generator) -> Matrix:
    """Rows of four factors, all alike."""
    return factors(rng, rng.standard_normal((BLOCKS * ROWS, 4)))


def shuffled(rng: np.random.Generator) -> Matrix:
    """Rows of two populations, in random order."""
    X = clean(rng)
    X[: len(X) // 5] = factors(rng, rng.standard_normal((len(X) // 5, 4)))
    return rng.permutation(X)


def in_order(rng: np.random.Generator) -> Matrix:
    """Rows sorted by their first entry."""
    X = clean(rng)
    return X[np.argsort(X[:, 0])]


def drifting(rng: np.random.Generator) -> Matrix:
    """Rows whose loadings turn from one set to another."""
    scores = rng.standard_normal((BLOCKS * ROWS, 4))
    share = np.linspace(0.0, 1.0, len(scores))[:, None]
    return np.sqrt(1 - share) * factors(rng, scores) + np.sqrt(share) * factors(rng, scores)


def clustered(rng: np.random.Generator) -> Matrix:
    """Blocks from six clusters, each with a center and loadings of its own."""
    made = [factors(rng, rng.standard_normal((BLOCKS, ROWS, 3))) + rng.standard_normal(D) for _ in range(6)]
    member = rng.integers(0, 6, BLOCKS)
    return np.stack([made[member[i]][i] for i in range(BLOCKS)]).reshape(-1, D)


def odd_blocks(rng: np.random.Generator, n_odd: int = 8, size: float = 2.0) -> Matrix:
    """Alike blocks, but for eight with other loadings and twice the size."""
    X = clean(rng).reshape(BLOCKS, ROWS, D)
    odd = rng.choice(BLOCKS, n_odd, replace=False)
    X[odd] = size * factors(rng, rng.standard_normal((n_odd, ROWS, 4)))
    return X.reshape(-1, D)


def decisive_block(rng: np.random.Generator) -> Matrix:
    """Alike blocks, but for one that holds more variance than most of the others together."""
    return odd_blocks(rng, 1, 10.0)


def lognormal(rng: np.random.Generator) -> Matrix:
    """Rows of four factors, the size of each row lognormal."""
    X = clean(rng)
    return X * np.exp(rng.standard_normal((len(X), 1)))


KINDS: dict[str, Callable[[np.random.Generator], Matrix]] = {
    "clean": clean,
    "shuffled": shuffled,
    "sorted": in_order,
    "drifting": drifting,
    "clustered": clustered,
    "8 odd blocks": odd_blocks,
    "one decisive block": decisive_block,
    "lognormal rows": lognormal,
}

HEAD = ("data", "runs", "stopped early", "covered", "share", "misses warned of", "runs warned of", "mean share read")


@dataclass(frozen=True)
class Run:
    """One fit.

    Attributes
    ----------
    stopped : bool
        Not all blocks were read.
    covered : bool
        The interval holds the exact ratio; an exact certificate does.
    warned : bool
        The user is told that blocks may be unlike.
    share : float
        Share of the rows read.
    """

    stopped: bool
    covered: bool
    warned: bool
    share: float


def exact_ratio(X: Matrix, H: Matrix) -> float:
    """Loss of an encoder over PCA's on all rows, by dense singular value decompositions."""
    centered = X - X.mean(axis=0)
    U = np.linalg.svd(centered @ H, full_matrices=False)[0]
    pca_loss = np.sum(np.linalg.svd(centered, compute_uv=False)[H.shape[1] :] ** 2)
    return float(np.sum((centered - U @ (U.T @ centered)) ** 2) / pca_loss)


def sampled(X: Matrix, seed: int, tolerance: float) -> SampledFit:
    """Fit on a sample of blocks of ``ROWS`` rows."""
    source = ArrayBlocks(X, ROWS)

    def read(numbers: NDArray[np.intp], recipe: Any, name: str) -> Any:
        return SerialRunner(choose_blocks(source, numbers)).run_pass(recipe, name)

    params = FitParameters(K, R, method="batch", strategy="sample", tolerance=tolerance, seed=seed)
    return fit_sample(params, read, np.asarray(source.bounds, dtype=np.int64), D, strategy="gram")


def run(kind: str, seed: int, tolerance: float = TOLERANCE) -> Run:
    """Make data of a kind, fit, and compare the interval with the exact ratio."""
    X = KINDS[kind](np.random.default_rng(seed))
    found = sampled(X, seed, tolerance)
    certificate = found.fitted.certificate
    stopped, ratio = found.summary is None, exact_ratio(X, found.fitted.H)
    lower, upper = certificate.ratio_lower, certificate.ratio_upper
    if lower is None or upper is None:
        lower = upper = certificate.ratio
    covered = lower * (1 - ROUNDING) <= ratio <= upper * (1 + ROUNDING)
    return Run(stopped, covered, bool(signs_of_unlike_blocks(found.unlike)), certificate.fraction_read)


def line(kind: str, runs: list[Run]) -> str:
    """Row of the Markdown table."""
    stopped = [each for each in runs if each.stopped]
    missed = [each for each in stopped if not each.covered]
    covered = len(stopped) - len(missed)
    cells = [
        kind,
        f"{len(runs)}",
        f"{len(stopped)}",
        f"{covered}",
        f"{covered / len(stopped):.1%}" if stopped else "",
        f"{sum(each.warned for each in missed)} of {len(missed)}",
        f"{np.mean([each.warned for each in runs]):.1%}",
        f"{np.mean([each.share for each in runs]):.0%}",
    ]
    return f"| {' | '.join(cells)} |"


def lines(seeds: int) -> Iterator[str]:
    """Rows of the Markdown table."""
    yield f"| {' | '.join(HEAD)} |"
    yield "|" + "---|" * len(HEAD)
    for kind in KINDS:
        yield line(kind, [run(kind, seed) for seed in range(seeds)])


TEXT = """# Coverage of sample intervals

Fits of `strategy="sample"` to a tolerance of {tolerance:g} on {blocks} blocks of {rows} rows and {d} columns, k =
{k}, r = {r}, {seeds} seeds each. *Covered* counts fits that stopped before they had read all blocks and whose 95 %
interval contains the encoder's ratio on all rows, computed by a dense SVD. *Share* is their share of the fits that
stopped. *Misses warned of* counts the misses with an `UnlikeBlocksWarning`. With {blocks} blocks, a fit may stop
after {first} at the earliest: rounds double, and {least} blocks must have been measured by encoders that were not
fitted on them. Of 1,000 blocks, a fit may stop after 80.

{table}

To read the table:

- Blocks of clean and of shuffled rows have the same distribution. Their intervals miss by chance, as 5 % of them may.
  Nothing in the blocks that were read shows such a miss. The fit therefore warns of misses where blocks differ, and
  hardly ever where they do not.
- One decisive block has more variance than most others together. A fit that has not read it has read clean data, bit
  for bit, so neither an interval nor a warning can show the difference. Such a fit misses the ratio as often as the
  block is unread. A fit that has measured the block does not stop. The certificate therefore says "if all row blocks
  have the same distribution". Data in which a single block may decide everything must be read in full
  (`strategy="auto"` without a tolerance), or be stored in shuffled order.

Made by `python -m benchmarks.coverage --markdown`, on {machine}.
"""


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="fits of each kind")
    parser.add_argument("--markdown", action="store_true", help="write coverage.md")
    given = parser.parse_args()
    machine = "; ".join(describe_machine())
    rows = []
    with one_blas_thread():
        for each in lines(given.seeds):
            print(each, flush=True)
            rows.append(each)
    if given.markdown:
        first = may_stop(round_ends(np.full(BLOCKS, ROWS), D))[0]
        shape = {"blocks": BLOCKS, "rows": ROWS, "d": D, "k": K, "r": R, "tolerance": TOLERANCE}
        text = TEXT.format(
            seeds=given.seeds, first=first, least=LEAST_MEASURED, machine=machine, table="\n".join(rows), **shape
        )
        (HERE / "coverage.md").write_text(text)


if __name__ == "__main__":
    main()
