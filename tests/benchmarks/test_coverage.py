"""The benchmark of sample intervals: its oracle, its data, and the table it makes."""

import numpy as np
import pytest

from benchmarks import coverage
from spae_dask.blocks import ArrayBlocks
from spae_dask.passes.serial import SerialRunner
from spae_dask.strategies.evaluation import Autoencoder, evaluate_encoder


def test_the_exact_ratio_is_that_of_a_full_read() -> None:
    X = coverage.odd_blocks(np.random.default_rng(0))
    found = coverage.sampled(X, 0, 0.1).fitted
    autoencoder = Autoencoder(found.H, found.G, X.mean(axis=0), found.scale)
    read = evaluate_encoder(SerialRunner(ArrayBlocks(X, 500)).run_pass, autoencoder, strategy="tsqr")
    assert coverage.exact_ratio(X, found.H) == pytest.approx(read.ratio, rel=1e-9)


@pytest.mark.parametrize("kind", coverage.KINDS)
def test_every_kind_has_the_shape_of_the_others(kind: str) -> None:
    X = coverage.KINDS[kind](np.random.default_rng(1))
    assert X.shape == (coverage.BLOCKS * coverage.ROWS, coverage.D)
    assert np.isfinite(X).all()


def test_a_row_of_the_table_counts_misses_among_the_fits_that_stopped() -> None:
    runs = [
        coverage.Run(True, True, False, 0.5),
        coverage.Run(True, False, True, 0.5),
        coverage.Run(True, False, False, 0.5),
        coverage.Run(False, True, True, 1.0),
    ]
    assert coverage.line("any", runs) == "| any | 4 | 3 | 1 | 33.3% | 1 of 2 | 50.0% | 62% |"
