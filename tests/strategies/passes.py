"""A pass over an array in memory by the plain loop, for tests of algorithms."""

import tracemalloc
from typing import Any

import numpy as np

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


class Traced:
    """Passes over an array, and the bytes that their caller holds in Python and numpy arrays.

    Attributes
    ----------
    peaks : list of int
        Peak before each pass, and after the last one; those of passes themselves are left out.
    held : list of (str, int)
        Name of each pass, and the bytes held when it begins.
    left : int
        Bytes held at the end.
    """

    def __init__(self, source: ArrayBlocks) -> None:
        self.source = source
        self.peaks: list[int] = []
        self.held: list[tuple[str, int]] = []
        self.left = 0

    def __enter__(self) -> "Traced":
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.left, peak = tracemalloc.get_traced_memory()
        self.peaks.append(peak)
        tracemalloc.stop()

    def run_pass(self, recipe: Any, name: str = "pass") -> Any:
        held, peak = tracemalloc.get_traced_memory()
        self.peaks.append(peak)
        self.held.append((name, held))
        result = SerialRunner(self.source).run_pass(recipe, name)
        tracemalloc.reset_peak()  # what a sweep takes is planned elsewhere
        return result


def wide_data(n: int) -> ArrayBlocks:
    """Rows of 8,000 columns in two or three blocks, with one strong direction."""
    wide = np.random.default_rng(5).standard_normal((n, 8_000)).astype(np.float32)
    return ArrayBlocks(wide + 3 * wide[:, :1] * wide[:1], min(n // 2, 100))
