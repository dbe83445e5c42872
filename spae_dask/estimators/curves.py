"""Loss against sparsity about a fitted encoder: what its report draws, made without a read where it costs little."""

from dataclasses import replace

from spae_dask.passes.threads import one_blas_thread
from spae_dask.strategies.core_summary import CoreSummary
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.path import SparsityPath, Summary, sparsity_path
from spae_dask.strategies.sizes import MOST_POINTS, sizes_of
from spae_dask.strategies.table import STRATEGIES

WORTH_SECONDS = 2.5
"""A curve is made with the encoder if it takes no longer, at nominal rates, so that no clock decides about it."""

QUICK = 0.25
"""Time of a quick search over that of the usual one. Quick encoders lost up to 0.4 % more in trials."""

FEWEST_POINTS = 4
"""Points of a curve; of fewer no shape could be seen."""


def cheap_curve(params: FitParameters, summary: Summary, strategy: str, found: int, d: int) -> SparsityPath | None:
    """The curve about an encoder, if what the fit left allows one and it costs little; else None.

    Parameters
    ----------
    params : FitParameters
        That of the encoder.
    summary : CoreSummary, Refit or Streamed
        Summary that the fit left, in memory.
    strategy : str
        That of the fit.
    found, d : int
        The most nonzeros of a component, and columns of the data.
    """
    if params.method == "doubly-sparse":
        return None
    # no quick search: each point takes seconds
    if params.shared_support or params.n_features is not None or params.selection == "exchange":
        return None
    if not isinstance(summary, CoreSummary) and params.method != "polished":
        return None
    for n_points in range(MOST_POINTS, FEWEST_POINTS - 1, -1):
        sizes = sizes_of(params, found, d, n_points)
        if sum(_seconds(params, strategy, size, int(summary.n_samples), d) for size in sizes) <= WORTH_SECONDS:
            with one_blas_thread():
                return sparsity_path(params, summary, [params.n_components], sizes, effort=0.0, hold_out=False)
    return None


def _seconds(params: FitParameters, strategy: str, r: int, n: int, d: int) -> float:
    return QUICK * STRATEGIES[strategy].finish(replace(params, n_nonzero=r), (n, d)).seconds
