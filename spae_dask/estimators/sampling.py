"""A fit on randomly chosen row blocks: what the plan says of it, and its rounds run on dask."""

import numpy as np
import numpy.typing as npt
from distributed import Client

from spae_dask.accumulators import Accumulator
from spae_dask.algorithms.core import choose_strategy
from spae_dask.algorithms.parameters import FitParameters
from spae_dask.algorithms.sample import Result, SampledFit, block_order, fit_sample, may_stop, round_ends
from spae_dask.algorithms.sample_estimate import Estimate
from spae_dask.algorithms.sampling_error import Unlikeness
from spae_dask.blocks import RowBlocks, stored_entries
from spae_dask.engine.checkpoint import Checkpoint
from spae_dask.engine.chosen import choose_blocks
from spae_dask.engine.distributed import DaskRunner
from spae_dask.engine.events import Estimated, Watcher
from spae_dask.engine.layout import PassLayout, Tally
from spae_dask.engine.memory import format_nbytes, refuse, usable, worker_limit_for
from spae_dask.engine.plan import Plan, Resources
from spae_dask.engine.planner import tasks_or_refuse
from spae_dask.errors import UnlikeBlocksWarning, warn
from spae_dask.estimators.runtime import search_report
from spae_dask.storage.sources.census import Counted

UNLIKE = 0.03
"""Share of variance between blocks from which they are called unlike, if chance does not explain it."""

LONG_TAILED_BLOCKS, LONG_TAILED_ROWS = 8.0, 10.0
"""Kurtosis of blocks and of rows from which few of them are said to decide the loss; Gaussian ones have 3."""


def core_of_sample(source: RowBlocks) -> str:
    """Return the kind of core that is built from a sample, "gram" or "tsqr"."""
    return choose_strategy("auto", source.dtype, sparse=stored_entries(source) is not None)[0]


def refuse_large_core(n_features: int, finish_nbytes: int, resources: Resources) -> None:
    """Refuse a core that does not fit, naming the strategy that has none.

    Raises
    ------
    MemoryBudgetExceeded
        If the final linear algebra does not fit this process.
    """
    budget = usable(resources.memory_limit)
    if finish_nbytes > budget:
        limit = format_nbytes(worker_limit_for(finish_nbytes))
        remedies = [f"a memory limit of {limit}", "strategy='sketch', for any number of features, without a tolerance"]
        what = f"strategy='sample' keeps d x d matrices, and on {n_features} features it"
        raise refuse(what, finish_nbytes, budget, remedies)


def sample_notes(source: RowBlocks, seed: int) -> list[str]:
    """Return notes on the way a sample of ``source`` is read."""
    lengths = np.diff(np.asarray(source.bounds))[block_order(seed, len(source.bounds) - 1)]
    ends = round_ends(lengths, source.shape[1])
    if len(ends) == 1:
        return [f"{ends[0]:,} row blocks are too few to learn from some about others: all are read, once"]
    shares = ", ".join(f"{100 * end / ends[-1]:.2g} %" for end in may_stop(ends))
    return [
        f"at most one read, and bytes and time are those of all of it: the {ends[-1]:,} row blocks are visited in "
        f"random order, and the fit stops after {shares} of them if that is enough"
    ]


def fit_by_sample(
    counted: Counted,
    params: FitParameters,
    client: Client | None,
    plan: Plan,
    watch: Watcher,
    checkpoint: Checkpoint | None = None,
) -> tuple[SampledFit, Tally]:
    """Fit by the fit's tolerance, telling the watcher what each round knows.

    Returns
    -------
    SampledFit
        The encoder.
    Tally
        Tally of one pass, and of the bytes of the blocks read.
    """
    source, tally = counted.source, Tally(passes=1)

    def read(numbers: npt.NDArray[np.intp], recipe: Accumulator[Result], name: str) -> Result:
        chosen = choose_blocks(source, numbers)
        footprint = PassLayout.of(chosen, recipe).footprint
        tasks = tasks_or_refuse(f"one task of {name} over {source.describe()}", footprint, plan.resources)
        runner = DaskRunner(chosen, client, tasks, watch, checkpoint, counted.refuse_changed)
        result = runner.run_pass(recipe, name)
        tally.nbytes += runner.tally.nbytes
        return result

    def report(now: Estimate) -> None:
        watch(Estimated(now.fraction_read, now.ratio, now.lower, now.upper))

    core = core_of_sample(source)
    bounds = np.asarray(source.bounds, dtype=np.int64)
    integers = source.dtype.kind in "iub"
    fitted = fit_sample(
        params,
        read,
        bounds,
        source.shape[1],
        strategy=core,
        integers=integers,
        report=report,
        report_search=search_report(watch),
    )
    return fitted, tally


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


def warn_of_unlike_blocks(found: SampledFit) -> None:
    """Warn if blocks may be unlike, as those of sorted data are, and those with rows or blocks of far larger losses."""
    signs = signs_of_unlike_blocks(found.unlike)
    if not signs:
        return
    consequence = (
        "The interval counts blocks, not rows, and so allows for that; but what is in a few blocks only may not have "
        "been seen. strategy='auto' without a tolerance reads all rows."
        if found.summary is None
        else "A sample was not enough, and all rows were read; strategy='auto' without a tolerance does that at once."
    )
    warn(
        f"{'; '.join(signs)}. {consequence} Shuffle the rows when they are stored, or give a larger tolerance, to read "
        "less.",
        UnlikeBlocksWarning,
    )
