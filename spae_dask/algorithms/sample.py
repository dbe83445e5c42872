"""The anytime fit: row blocks in random order, until nothing beyond a tolerance is left to gain.

Rounds double what is read: 1 %, 2 %, 4 %, ... of the blocks. None stops before ``LEAST_SHARE`` of all blocks, and
``LEAST_MEASURED`` of them, have been measured. An encoder is fitted on what has been seen. The blocks of the next round
were not, and while they are read they tell what this encoder and PCA lose on them, block by block. Then all that has
been seen makes the next encoder. Each block is read once in all; if all are, the answer is that of a full read, to
rounding. What a round knows is in ``sample_estimate.py``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from spae_dask.accumulators import (
    Accumulator,
    Imputed,
    Kept,
    NonFinite,
    NonFiniteEntries,
    Together,
    UnitLosses,
    UnitSums,
)
from spae_dask.accumulators.base import State
from spae_dask.algorithms.core import core_recipe
from spae_dask.algorithms.core_summary import CoreSummary, Floats, summarize
from spae_dask.algorithms.methods import Report
from spae_dask.algorithms.non_finite import refuse_non_finite
from spae_dask.algorithms.parameters import FitParameters
from spae_dask.algorithms.sample_estimate import (
    CONFIDENCE,
    MOST_UNITS,
    Estimate,
    certified_again,
    estimate,
    losses_of,
    weighted_core,
)
from spae_dask.algorithms.sampling_error import Draw, Unlikeness
from spae_dask.algorithms.sparse_encoder import FittedEncoder, encode_core

Ints = npt.NDArray[np.int64]
Result = TypeVar("Result")

FIRST_SHARE, FEWEST_BLOCKS = 0.01, 8
"""Blocks of the first round: this share, but so many at least, or there is no telling how blocks differ."""

LEAST_MEASURED, LEAST_SHARE = 44, 0.05
"""Blocks that were not fitted on and must have been measured before the fit may stop: so many, and this share of all.

Among 44 blocks is one of any kind that makes up a fifteenth of all, with 95 % probability.
"""

ROWS_PER_FEATURE = 2
"""Rows of the first round, at least: from fewer, an encoder is not worth measuring."""


class ReadBlocks(Protocol):
    """A pass over some blocks: their numbers, a recipe, and a name; returns what the recipe makes of their rows."""

    def __call__(self, numbers: npt.NDArray[np.intp], recipe: Accumulator[Result], name: str) -> Result: ...


@dataclass(frozen=True, eq=False)
class SampledFit:
    """Result of a fit on sampled blocks.

    Attributes
    ----------
    fitted : FittedEncoder
        The encoder. Its certificate is exact if all blocks were read, else an estimate.
    summary : CoreSummary or None
        The core of all rows; None if not all were read.
    unlike : Unlikeness
        Signs that blocks are not alike.
    """

    fitted: FittedEncoder
    summary: CoreSummary | None
    unlike: Unlikeness


def block_order(seed: int, n_blocks: int) -> npt.NDArray[np.intp]:
    """The order in which blocks are visited: by the seed, and nothing else."""
    return np.random.default_rng(seed).permutation(n_blocks).astype(np.intp)


def round_ends(lengths: Ints, n_features: int) -> list[int]:
    """Blocks read after each round, ``lengths`` (b,) being their rows in the order read; the last round reads all.

    One round if not enough could be measured before the end.
    """
    n_blocks = lengths.size
    enough_rows = int(np.searchsorted(np.cumsum(lengths), ROWS_PER_FEATURE * n_features)) + 1
    ends = [max(math.ceil(FIRST_SHARE * n_blocks), FEWEST_BLOCKS, enough_rows)]
    while ends[-1] < n_blocks:
        ends.append(2 * ends[-1])
    ends[-1] = n_blocks
    return ends if may_stop(ends) else [n_blocks]


def may_stop(ends: list[int]) -> list[int]:
    """Ends of those rounds that may be the last: enough blocks have been measured, which the first round's are not."""
    enough = max(LEAST_MEASURED, math.ceil(LEAST_SHARE * ends[-1]))
    return [end for end in ends[:-1] if end - ends[0] >= enough]


def sample_recipe(params: FitParameters, strategy: str, n_features: int, losses: UnitLosses | None) -> Accumulator[Any]:
    """Recipe of a round."""
    parts: dict[str, Accumulator[Any]] = {
        "nonfinite": NonFinite(n_features),
        "core": Kept(core_recipe(strategy, n_features)),
    }
    if losses is not None:
        parts["losses"] = losses
    recipe = Together(parts)
    return recipe if params.missing == "error" else Imputed(recipe, np.zeros(n_features))


def sample_passes(params: FitParameters, strategy: str, n_features: int) -> list[tuple[str, Accumulator[Any]]]:
    """All rounds as the one read that they are at most, for planning; numbers in the recipe are placeholders."""
    d, k = n_features, params.n_components
    r = d if params.sizes is None else min(d, k * int(np.max(params.sizes)))
    wide, bounds = np.broadcast_to(0.0, (d, k)), np.arange(MOST_UNITS + 1)
    losses = UnitLosses(bounds, np.arange(r), wide[:r], wide.T, wide, np.ones(k + 2), wide[:, 0], wide[:, 0])
    return [("sample", sample_recipe(params, strategy, d, losses))]


@dataclass(frozen=True, eq=False)
class _Known:
    """After a round: the state of the core, the core itself, and the encoder fitted on it."""

    state: State
    summary: CoreSummary
    fitted: FittedEncoder


def fit_sample(
    params: FitParameters,
    read: ReadBlocks,
    bounds: Ints,
    n_features: int,
    *,
    strategy: str,
    integers: bool = False,
    report: Callable[[Estimate], None] = lambda _: None,
    report_search: Report | None = None,
) -> SampledFit:
    """Fit an encoder on as few blocks as the tolerance allows.

    It stops after a round, of those that ``may_stop``, if ``Estimate.left_to_gain`` is at most
    ``params.sample_tolerance``. It then returns the encoder that was measured in the round, with a decoder made of all
    that was seen.

    Parameters
    ----------
    params : FitParameters
        Parameters of the fit, checked.
    read : callable
        Reads the blocks it is given.
    bounds : ndarray (b + 1,) of int
        Row bounds of the source's blocks.
    n_features : int
        d.
    strategy : {"gram", "tsqr"}
        Strategy that makes the core.
    integers : bool
        True if all entries are integers, see :func:`~spae_dask.algorithms.core_summary.summarize`.
    report : callable
        Called with the estimate of each round.
    report_search : callable, optional
        Called with the progress of the search in a round.

    Raises
    ------
    NonFiniteInput
        If there are NaN entries and ``missing="error"``, or infinite entries.
    InvalidInput
        If squares of the entries overflow.
    """
    order = block_order(params.seed, bounds.size - 1)
    lengths = np.diff(bounds)[order]
    ends = round_ends(lengths, n_features)
    # Bonferroni: every round that may stop is a look; the last is exact
    looks = may_stop(ends)
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(looks))
    core = core_recipe(strategy, n_features)
    known: _Known | None = None
    earlier: list[Floats] = []
    unlike = Unlikeness()
    for number, (first, last) in enumerate(pairwise([0, *ends]), start=1):
        measured = known if last < order.size else None
        losses = None if measured is None else losses_of(measured.fitted, measured.summary, lengths[first:last])
        recipe = sample_recipe(params, strategy, n_features, losses)
        found = read(order[first:last], recipe, f"sample, round {number}")
        refuse_non_finite(_of_source(found["nonfinite"], bounds, order[first:last]))
        state = found["core"] if known is None else core.merge(known.state, found["core"])
        summary = summarize(core.result(state), center=params.center, scale=params.scale, integers=integers)
        summary = replace(summary, fill=None if params.missing == "error" else np.zeros(n_features))
        refitted: FittedEncoder | None = None
        if measured is not None:
            units: UnitSums = found["losses"]
            draw = Draw(last - first, order.size - first, int(lengths[first:].sum()))
            parts = core.result(measured.state), core.result(found["core"])
            weighted = weighted_core(*parts, draw, summary, measured.fitted, center=params.center)
            fitted = certified_again(params, measured.fitted, weighted)
            now = estimate(measured.fitted, fitted, units, draw, confidence, int(bounds[-1]), earlier)
            earlier.append(now.deviations)
            unlike = unlike.updated(units, draw.of_rows / draw.of_blocks, [each[:, 0] for each in earlier])
            if now.left_to_gain > params.sample_tolerance:
                refitted = encode_core(params, summary, passes=1, bytes_read=0, report=report_search)
                now = now.against(refitted.certificate.ratio)
            report(now)
            if last in looks and now.left_to_gain <= params.sample_tolerance:
                return SampledFit(replace(fitted, certificate=now.certificate), None, unlike)
        known = _Known(
            state, summary, refitted or encode_core(params, summary, passes=1, bytes_read=0, report=report_search)
        )
    assert known is not None, "there is at least one round"
    return SampledFit(known.fitted, known.summary, unlike)


def _of_source(entries: NonFiniteEntries, bounds: Ints, numbers: npt.NDArray[np.intp]) -> NonFiniteEntries:
    """The entries with the rows' numbers in the source, in place of those among the blocks read."""
    if not len(entries.first):
        return entries
    starts = np.concatenate([[0], np.cumsum(np.diff(bounds)[numbers])])
    block = np.searchsorted(starts, entries.first[:, 0], side="right") - 1
    first = entries.first.copy()
    first[:, 0] += bounds[numbers[block]] - starts[block]
    return replace(entries, first=first[np.lexsort((first[:, 1], first[:, 0]))])
