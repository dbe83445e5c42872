"""A pass over an array in memory by the plain loop, for tests of algorithms."""

from typing import Any

from spae_dask.blocks import ArrayBlocks
from spae_dask.passes.serial import SerialRunner
from spae_dask.strategies.core import read_core
from spae_dask.strategies.core_summary import CoreSummary


def runner(X: Any, rows_per_block: int = 16) -> SerialRunner:
    return SerialRunner(ArrayBlocks(X, rows_per_block))


def core_of(
    X: Any, *, strategy: str = "tsqr", center: bool = True, scale: bool = False, missing: str = "error"
) -> CoreSummary:
    return read_core(runner(X).run_pass, X.shape[1], strategy=strategy, center=center, scale=scale, missing=missing)
