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
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks
from spae_dask.errors import UnlikeBlocksWarning
from spae_dask.passes.accumulators import (
    Accumulator,
    Imputed,
    Kept,
    NonFinite,
    NonFiniteEntries,
    Together,
    UnitLosses,
    UnitSums,
)
from spae_dask.passes.accumulators.base import State
from spae_dask.passes.accumulators.nonfinite import refuse_non_finite
from spae_dask.passes.plan import Finish
from spae_dask.strategies.base import (
    Outcome,
    Passes,
    Reader,
    Reports,
    RunBlocks,
    Shape,
    Strategy,
    core_finish,
    holds_integers,
    refuse_covariates,
    refuse_fast,
    refuse_folds,
    refuse_mean,
    refuse_row_weights,
    refuse_share,
)
from spae_dask.strategies.core import CORES, core_for, core_recipe
from spae_dask.strategies.core_summary import CoreSummary, Floats, summarize
from spae_dask.strategies.methods import Report
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sample_estimate import (
    CONFIDENCE,
    MOST_UNITS,
    Draw,
    Estimate,
    Unlikeness,
    certified_again,
    estimate,
    losses_of,
    weighted_core,
)
from spae_dask.strategies.sparse_encoder import FittedEncoder, encode_core

Ints = npt.NDArray[np.int64]

FIRST_SHARE, FEWEST_BLOCKS = 0.01, 8
"""Blocks of the first round: this share, but so many at least, or there is no telling how blocks differ."""

LEAST_MEASURED, LEAST_SHARE = 44, 0.05
"""Blocks that were not fitted on and must have been measured before the fit may stop: so many, and this share of all.

Among 44 blocks is one of any kind that makes up a fifteenth of all, with 95 % probability.
"""

ROWS_PER_FEATURE = 2
"""Rows of the first round, at least: from fewer, an encoder is not worth measuring."""


UNLIKE = 0.03
"""Share of variance between blocks from which they are called unlike, if chance does not explain it."""

LONG_TAILED_BLOCKS, LONG_TAILED_ROWS = 8.0, 10.0
"""Kurtosis of blocks and of rows from which few of them are said to decide the loss; Gaussian ones have 3."""

KEPT_MATRICES = 4
"""d x d matrices more that a sample keeps: the states of what was seen before and now, and both as cores."""


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
    read: RunBlocks,
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
        True if all entries are integers, see :func:`~spae_dask.strategies.core_summary.summarize`.
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


class SampleStrategy(Strategy):
    """At most one read: row blocks in random order, until nothing beyond the tolerance is left to gain."""

    name: ClassVar[str] = "sample"
    pca_loss: ClassVar[str] = "estimated, as the loss; all rows at most"
    is_rival: ClassVar[bool] = False
    is_tried: ClassVar[bool] = False

    def reason(self, source: RowBlocks) -> str:
        return f"requested: row blocks in random order, summed into a {self._core(source)} core until enough are read"

    def cannot(self, params: FitParameters) -> str | None:
        refused = refuse_fast(params) or refuse_mean(params) or refuse_covariates(params) or refuse_folds(params)
        refused = refused or refuse_row_weights(params) or refuse_share(params)
        if refused is None and params.method == "doubly-sparse":
            return "method='doubly-sparse' chooses among all rows, and it does not read all rows"
        return refused

    def passes(self, params: FitParameters, source: RowBlocks) -> Passes:
        return sample_passes(params, self._core(source), source.shape[1])

    def finish(self, params: FitParameters, shape: Shape) -> Finish:
        """The solve on the core; and beside it the state it is made of, and the two parts it was merged from."""
        core = core_finish(params, shape[1], shape[1])
        return Finish(core.nbytes + 8 * KEPT_MATRICES * shape[1] ** 2, core.seconds)

    def notes(self, params: FitParameters, source: RowBlocks) -> list[str]:
        lengths = np.diff(np.asarray(source.bounds))[block_order(params.seed, len(source.bounds) - 1)]
        ends = round_ends(lengths, source.shape[1])
        if len(ends) == 1:
            return [f"{ends[0]:,} row blocks are too few for an estimate, so all are read once"]
        shares = ", ".join(f"{100 * end / ends[-1]:.2g} %" for end in may_stop(ends))
        return [
            f"the plan counts one full pass, an upper limit. The fit visits the {ends[-1]:,} row blocks in "
            f"random order, and stops after {shares} of them if that is enough"
        ]

    def n_passes_known(self, params: FitParameters) -> bool:  # noqa: ARG002 - rounds show on the way
        return False

    def fit(self, params: FitParameters, reader: Reader, source: RowBlocks, reports: Reports) -> Outcome:
        found = fit_sample(
            params,
            reader.run_blocks,
            np.asarray(source.bounds, dtype=np.int64),
            source.shape[1],
            strategy=self._core(source),
            integers=holds_integers(source),
            report=reports.estimate,
            report_search=reports.search,
        )
        return Outcome(found.fitted, found.summary, warnings=_warnings(found))

    def arithmetic(self, source: RowBlocks) -> Strategy:
        return CORES[self._core(source)]

    def _core(self, source: RowBlocks) -> str:
        return core_for(source)[0]


def signs_of_unlike_blocks(unlike: Unlikeness) -> list[str]:
    """Reasons to doubt that blocks not read are like those that were; none on most data whose rows are shuffled."""
    signs = []
    if unlike.between >= UNLIKE:
        share = f"{unlike.between:.0%} of the variance of a leading score or loss lies between them"
        signs.append(f"row blocks differ: {share}, as in sorted data")
    if unlike.of_blocks >= LONG_TAILED_BLOCKS:
        signs.append(f"few row blocks decide the loss: its kurtosis between blocks is {unlike.of_blocks:.0f}, not 3")
    if unlike.of_rows >= LONG_TAILED_ROWS:
        signs.append(f"few rows decide the loss: as few as {1 / unlike.of_rows:.1%} of them")
    return signs


def _warnings(found: SampledFit) -> tuple[tuple[str, type[Warning]], ...]:
    """Warn that blocks may be unlike, as those of sorted data are, and those with rows or blocks of larger losses."""
    signs = signs_of_unlike_blocks(found.unlike)
    if not signs:
        return ()
    consequence = (
        "The interval is computed over blocks, not rows, and so allows for that. But it may miss what "
        "only a few blocks contain. strategy='auto' without a tolerance reads all rows."
        if found.summary is None
        else "A sample was not enough, and all rows were read. strategy='auto' without a tolerance does that at once."
    )
    advice = "To read less, shuffle the rows when you store them, or give a larger tolerance."
    return ((f"{'; '.join(signs)}. {consequence} {advice}", UnlikeBlocksWarning),)
