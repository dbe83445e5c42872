"""How long a pass's floating point operations take at this machine's BLAS rate, everything else away.

``dsyrk`` for a Gram matrix, ``tpqrt`` for a triangular factor and ``dgemm`` for sketches and cross products, on rows
that lie in cache, one single-threaded call after another in as many threads as a pass uses. Plans count operations in
float32 half, so they need no rate of their own.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dgemm, dsyrk
from scipy.linalg.lapack import dtpqrt

from benchmarks.timing import Timed, timed
from spae_dask.passes.threads import one_blas_thread

Strategy = Literal["gram", "tsqr", "sketch"]

PANEL_ROWS = 256
"""Rows that lie in cache."""

SKETCH_ROWS, SKETCH_COLUMNS = 200, 1024
"""Rows of the sketch, and the columns of a wide matrix that lie in cache with them."""

SHARE = 4
"""Only this part of the operations is done; the time is multiplied."""


def arithmetic_seconds(strategy: Strategy, n_features: int, flops: float, threads: int) -> Timed:
    """Seconds that ``flops`` operations take on ``threads`` threads."""
    calls = max(1, round(flops / SHARE / threads / _flops_per_call(strategy, n_features)))
    done = calls * threads * _flops_per_call(strategy, n_features)
    kernels = [kernel(strategy, n_features)[0] for _ in range(threads)]

    def turn() -> None:
        with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda add: [add() for _ in range(calls)], kernels))

    return timed(turn).times(flops / done)


def _flops_per_call(strategy: Strategy, d: int) -> float:
    if strategy == "sketch":
        return 2.0 * PANEL_ROWS * SKETCH_ROWS * SKETCH_COLUMNS
    return float(PANEL_ROWS * d * (d + 1)) if strategy == "gram" else 2.0 * PANEL_ROWS * d * d


def kernel(strategy: Strategy, d: int) -> tuple[Callable[[], None], npt.NDArray[np.float64]]:
    """One call's work, and the summary it adds to: the upper triangle (d, d) of a Gram matrix or of R, or products."""
    if strategy == "sketch":
        return _products()
    rows = np.random.default_rng(0).standard_normal((PANEL_ROWS, d))
    summary = np.zeros((d, d), order="F")
    if strategy == "gram":

        def add_products() -> None:
            dsyrk(1.0, rows.T, beta=1.0, c=summary, overwrite_c=1)

        return add_products, summary
    column_major, scratch = np.asfortranarray(rows), np.empty_like(rows, order="F")
    width = max(8, min(24, d // 16))  # of the panels: the fastest of 8, 12, 16, 24, 32, 48 at d = 64, 128, 512

    def add_rows() -> None:
        np.copyto(scratch, column_major)
        dtpqrt(0, width, summary, scratch, overwrite_a=1, overwrite_b=1)

    return add_rows, summary


def _products() -> tuple[Callable[[], None], npt.NDArray[np.float64]]:
    rows = np.random.default_rng(0).standard_normal((PANEL_ROWS, SKETCH_COLUMNS))
    weights = rows[:, :SKETCH_ROWS].copy()
    summary = np.zeros((SKETCH_COLUMNS, SKETCH_ROWS), order="F")

    def add_products() -> None:
        dgemm(1.0, rows.T, weights.T, beta=1.0, c=summary, trans_b=1, overwrite_c=1)

    return add_products, summary
