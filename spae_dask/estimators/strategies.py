"""The table of strategies: what each reads, holds and takes; and which one a fit takes.

A new strategy is one more line of `STRATEGIES`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from spae_dask.accumulators import Accumulator
from spae_dask.algorithms.core import are_few, choose_strategy, core_passes
from spae_dask.algorithms.doubly_sparse import rows_recipe
from spae_dask.algorithms.paper import paper_finish_columns, paper_passes
from spae_dask.algorithms.parameters import FitParameters
from spae_dask.algorithms.proposal import POOL
from spae_dask.algorithms.sample import sample_passes
from spae_dask.algorithms.streaming import stream_finish_nbytes, stream_recipe
from spae_dask.algorithms.two_reads import UNKNOWN_NONZERO, two_read_finish_nbytes, two_read_passes
from spae_dask.blocks import RowBlocks, stored_entries
from spae_dask.encoding.budgets import budgets_of
from spae_dask.engine.calibration import Calibration
from spae_dask.engine.memory import ALLOCATOR_SLACK, TASK_OVERHEAD, usable
from spae_dask.engine.plan import Alternative, Finish, Resources
from spae_dask.engine.planner import price
from spae_dask.engine.pricing import format_seconds
from spae_dask.estimators.sampling import core_of_sample

Shape = tuple[int, int]
Passes = Sequence[tuple[str, Accumulator[Any]]]

EXACT_WORTH, WORTH_WAITING = 7, 60.0
"""A sketch is taken if a core would take so many times its work, and so many seconds more, at nominal rates on one
core. A core makes PCA's loss exact too, and any other k and r cost no further read. On dense float32 data of many rows
it comes to 7 times at about 5000 features for 10 nonzeros in all, and at 7000 for 50."""

CORE_FEATURES = 5000
"""Features up to which a single pass makes a core."""

KEPT_MATRICES = 4
"""d x d matrices more that a sample keeps: the states of what was seen before and now, and both as cores."""

WORTH_SAYING = 1.5
"""A strategy so many times faster than the one taken is pointed out; smaller differences are noise."""

FINISH_MATRICES = 12
"""d x d float64 matrices alive at the peak of the final linear algebra: the state, the core, the same scaled, and an
SVD's own copies, vectors and work space. Measured at 11.7; at 6.4 where the Gram matrix's eigenvectors are enough."""

CORE_SECONDS = 6e-10
"""Seconds of the decompositions of a core, times d^3. These four were measured on a server core of 15 Gflop/s."""

POLISH_SECONDS = 2e-4
"""Seconds of polishing on a core, times d and the nonzeros of all components: within half and twice of what was
measured for d = 128 to 2000, k = 1 to 10, r = 1 to 30."""

SKETCH_POLISH_SECONDS = 4e-5
"""The same on a sketch and on its candidates, for d = 2000 to 8000."""

SELECTION_SHARE = 0.1
"""Part of that time taken by methods that choose columns and do not polish."""


@dataclass(frozen=True)
class Strategy:
    """Cost of a strategy.

    Attributes
    ----------
    passes : callable
        Names and recipes of all passes for ``(params, source)``; numbers in the recipes are placeholders.
    finish : callable
        The final linear algebra, for ``(params, shape)``.
    pca_loss : str
        Kind of value that PCA's loss is: exact, or an estimate between certified bounds.
    rival : bool
        True if its encoder is as good as those of the others, so that their times can be compared.
    tried : bool
        True if its arithmetic can be tried on a block with the recipes' placeholders in place.
    """

    passes: Callable[[FitParameters, RowBlocks], Passes]
    finish: Callable[[FitParameters, Shape], Finish]
    pca_loss: str
    rival: bool = True
    tried: bool = True


def finish_nbytes(n_features: int) -> int:
    """Peak of the final linear algebra on ``n_features`` features, in the calling process."""
    return TASK_OVERHEAD + FINISH_MATRICES * 8 * n_features * n_features


def _core_finish(params: FitParameters, shape: Shape) -> Finish:
    d = shape[1]
    return Finish(finish_nbytes(d), CORE_SECONDS * d**3 + POLISH_SECONDS * d * _searched(params))


def _tsqr_finish(params: FitParameters, shape: Shape) -> Finish:
    """As of a core; of few rows, which are a core themselves, with n x d numbers in place of d x d."""
    n, d = shape
    if not are_few(n, d):
        return _core_finish(params, shape)
    seconds = CORE_SECONDS * n * n * d + POLISH_SECONDS * d * _searched(params)
    return Finish(TASK_OVERHEAD + FINISH_MATRICES * 8 * n * d, seconds)


def _sketch_finish(params: FitParameters, shape: Shape) -> Finish:
    seconds = SKETCH_POLISH_SECONDS * min(shape[1], POOL) * _searched(params)
    return Finish(TASK_OVERHEAD + int(ALLOCATOR_SLACK * two_read_finish_nbytes(params, *shape)), seconds)


def _paper_finish(params: FitParameters, shape: Shape) -> Finish:
    """A few matrices of as many rows as columns chosen."""
    nbytes = TASK_OVERHEAD + FINISH_MATRICES * 8 * shape[1] * paper_finish_columns(params, shape[1])
    return Finish(nbytes, SELECTION_SHARE * SKETCH_POLISH_SECONDS * shape[1] * _nonzeros(params))


def _nonzeros(params: FitParameters) -> int:
    return sum(budgets_of(params.n_components, UNKNOWN_NONZERO if params.sizes is None else params.sizes))


def _searched(params: FitParameters) -> float:
    return _nonzeros(params) * (1.0 if params.method == "polished" else SELECTION_SHARE)


def _stream_finish(params: FitParameters, shape: Shape) -> Finish:
    return Finish(TASK_OVERHEAD + stream_finish_nbytes(params, shape[1]), _sketch_finish(params, shape).seconds)


def _sample_finish(params: FitParameters, shape: Shape) -> Finish:
    """Beside the core that is fitted: the state it is of, and the two parts it was merged from, one after another."""
    core = _core_finish(params, shape)
    return Finish(core.nbytes + 8 * KEPT_MATRICES * shape[1] ** 2, core.seconds)


def _core_passes(strategy: str, params: FitParameters, source: RowBlocks) -> Passes:
    d = source.shape[1]
    passes = list(core_passes(strategy, d, params.missing, params.precision, source.shape[0]))
    if params.method == "doubly-sparse":
        size = d if params.sizes is None else params.shared_size
        placeholder, columns = np.zeros(d), np.arange(size)
        T, fill = np.zeros((size, params.n_components)), None if params.missing == "error" else placeholder
        passes.append(("rows", rows_recipe(params, columns, T, placeholder, placeholder, fill)))
    return passes


def _sample_passes(params: FitParameters, source: RowBlocks) -> Passes:
    return sample_passes(params, core_of_sample(source), source.shape[1])


STRATEGIES = {
    "gram": Strategy(partial(_core_passes, "gram"), _core_finish, "exact"),
    "tsqr": Strategy(partial(_core_passes, "tsqr"), _tsqr_finish, "exact, to the most digits"),
    "sketch": Strategy(lambda params, source: two_read_passes(params, *source.shape), _sketch_finish, "estimated"),
    "stream": Strategy(
        lambda params, source: [("stream", stream_recipe(params, source.shape[1]))],
        _stream_finish,
        "estimated, as the loss",
        rival=False,
    ),
    "sample": Strategy(
        _sample_passes, _sample_finish, "estimated, as the loss; all rows at most", rival=False, tried=False
    ),
    "paper": Strategy(
        lambda params, source: paper_passes(params, source.shape[1]),
        _paper_finish,
        "bounded from below",
        rival=False,
    ),
}


def price_all(
    params: FitParameters, source: RowBlocks, resources: Resources, calibration: Calibration | None = None
) -> tuple[Alternative, ...]:
    """Prices of all strategies for a fit, whether or not they can do it and fit."""
    found = []
    for name, each in STRATEGIES.items():
        cannot = params.cannot(name)
        if cannot is not None:
            found.append(Alternative(name, each.pca_loss, refusal=f"cannot do this: {cannot}"))
            continue
        passes, finish = each.passes(params, source), each.finish(params, source.shape)
        found.append(
            price(
                source,
                passes,
                resources,
                strategy=name,
                pca_loss=each.pca_loss,
                finish=finish,
                calibration=calibration,
            )
        )
    return tuple(found)


def choose(params: FitParameters, source: RowBlocks, nominal: Sequence[Alternative]) -> tuple[str, str]:
    """The strategy of a fit, and why.

    The choice of a strategy changes results. So it depends only on the parameters, the memory, and the shape and type
    of the data. The costs are those at nominal rates on one core: neither a noisy machine nor the number of workers can
    change the choice.

    A core where it fits, since it makes every loss exact; a sketch where that would cost far more, or does not fit.

    Parameters
    ----------
    params : FitParameters
        Parameters of the fit.
    source : RowBlocks
        The data.
    nominal : sequence of Alternative
        Prices of all strategies at nominal rates.
    """
    wanted = "sample" if params.samples else params.strategy
    sparse = stored_entries(source) is not None
    few = are_few(*source.shape)
    strategy, why = choose_strategy(wanted, source.dtype, params.precision, sparse=sparse, few_rows=few)
    prices = {each.strategy: each for each in nominal}
    core, sketch = prices[strategy], prices["sketch"]
    if wanted != "auto" or sketch.refusal is not None:
        return strategy, why
    features = f"{source.shape[1]:,} features"
    if core.refusal is not None:
        return "sketch", f"{features}: with d x d matrices it {core.refusal}"
    one, two = core.thread_seconds or 0.0, sketch.thread_seconds or 0.0
    if one - two > WORTH_WAITING and one > EXACT_WORTH * two:
        return "sketch", f"{features}: d x d matrices would cost {one / two:.0f} times as much work, by nominal rates"
    return strategy, why


def core_or_sketch(wanted: str, source: RowBlocks, resources: Resources, precision: str = "exact") -> tuple[str, str]:
    """Choose for one pass over rows seen once: a core up to ``CORE_FEATURES`` features if it fits, else a sketch."""
    d = source.shape[1]
    fits = finish_nbytes(d) <= usable(resources.memory_limit)
    if wanted != "auto" or (fits and d <= CORE_FEATURES):
        return choose_strategy(wanted, source.dtype, precision, sparse=stored_entries(source) is not None)
    return "sketch", f"{d:,} features: d x d matrices {'would cost more' if fits else 'do not fit in memory'}"


def standing(strategy: str, prices: Sequence[Alternative]) -> str:
    """Compare the time of the strategy taken with those of the others that fit."""
    seconds = {each.strategy: each.seconds for each in prices if each.refusal is None and each.seconds is not None}
    mine = seconds.pop(strategy, None)
    seconds = {name: each for name, each in seconds.items() if STRATEGIES[name].rival}
    if mine is None:
        return "it cannot be taken here"
    if not seconds:
        return "no other can be taken here"
    best = min(seconds, key=seconds.__getitem__)
    ours, other = format_seconds(mine), format_seconds(seconds[best])
    if mine > WORTH_SAYING * seconds[best] and ours != other:
        return f"it takes {ours}, strategy={best!r} would take {other}"
    if mine <= seconds[best]:
        return f"it fits and is the fastest: {ours}, against {other} ({best})"
    return f"it fits and is about as fast as any: {ours}, against {other} ({best})"
