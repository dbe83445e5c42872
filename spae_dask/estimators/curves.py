"""Loss against sparsity about a fitted encoder: what its report draws, made without a read where it costs little."""

from dataclasses import replace

import numpy as np

from spae_dask.maths.encoders.budgets import budgets_of
from spae_dask.passes.threads import one_blas_thread
from spae_dask.strategies.core_summary import CoreSummary
from spae_dask.strategies.parameters import SHARED, FitParameters
from spae_dask.strategies.path import SparsityPath, Summary, sparsity_path
from spae_dask.strategies.table import STRATEGIES

WORTH_SECONDS = 2.5
"""A curve is made with the encoder if it takes no longer, at nominal rates, so that no clock decides about it."""

QUICK = 0.25
"""Time of a quick search over that of the usual one. Quick encoders lost up to 0.4 % more in trials."""

BEYOND = 5
"""Nonzeros a curve goes beyond those of a component at least."""

MOST_POINTS, FEWEST_POINTS = 10, 4
"""Points of a curve; of fewer no shape could be seen."""


def curve_sizes(r: int, least: int, most: int, n_points: int) -> list[int]:
    """Numbers of nonzeros from ``least`` to twice ``r``, denser where they are small; ``r`` is one of them."""
    spaced = np.geomspace(least, max(least, min(max(2 * r, r + BEYOND), most)), n_points)
    return sorted({*(int(each) for each in spaced.round()), r})


def sizes_of(params: FitParameters, found: int, d: int, n_points: int = MOST_POINTS) -> list[int]:
    """Sizes of a curve about an encoder of ``found`` nonzeros a component on ``d`` features."""
    # orthonormal components have more nonzeros than were asked for
    r = found if params.sizes is None else max(budgets_of(params.n_components, params.sizes))
    least = params.n_components if params.method in SHARED or params.shared_support else 1
    return curve_sizes(r, min(least, r), d, n_points)


def cheap_curve(
    params: FitParameters, summary: Summary | None, strategy: str, found: int, d: int
) -> SparsityPath | None:
    """The curve about an encoder, if what the fit left allows one and it costs little; else None.

    Parameters
    ----------
    params : FitParameters
        That of the encoder.
    summary : CoreSummary, Refit, Streamed or None
        Summary that the fit left, in memory.
    strategy : str
        That of the fit.
    found, d : int
        The most nonzeros of a component, and columns of the data.
    """
    if summary is None or params.method == "doubly-sparse":
        return None
    if params.shared_support or params.selection == "exchange":  # no quick search: each point takes seconds
        return None
    if not isinstance(summary, CoreSummary) and params.method != "polished":
        return None
    for n_points in range(MOST_POINTS, FEWEST_POINTS - 1, -1):
        sizes = sizes_of(params, found, d, n_points)
        if sum(_seconds(params, strategy, size, int(summary.n_samples), d) for size in sizes) <= WORTH_SECONDS:
            with one_blas_thread():
                return sparsity_path(params, summary, [params.n_components], sizes, effort=0.0)
    return None


def _seconds(params: FitParameters, strategy: str, r: int, n: int, d: int) -> float:
    return QUICK * STRATEGIES[strategy].finish(replace(params, n_nonzero=r), (n, d)).seconds
