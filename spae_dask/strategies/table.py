"""The table of strategies, their prices, and the choice of one for a fit. A new strategy is one more line here."""

from collections.abc import Sequence

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput
from spae_dask.passes.calibration import Calibration
from spae_dask.passes.memory import usable
from spae_dask.passes.plan import Alternative, Resources
from spae_dask.passes.planner import price
from spae_dask.quantities import format_seconds
from spae_dask.strategies.base import Strategy, finish_nbytes
from spae_dask.strategies.core import CORES, are_few, core_for
from spae_dask.strategies.paper import PaperStrategy
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sample import SampleStrategy
from spae_dask.strategies.sketch import SketchStrategy
from spae_dask.strategies.stream import StreamStrategy

STRATEGIES: dict[str, Strategy] = {
    each.name: each
    for each in (
        *CORES.values(),
        SketchStrategy(),
        StreamStrategy(),
        SampleStrategy(),
        PaperStrategy(),
    )
}

AUTO = "auto"

EXACT_WORTH, WORTH_WAITING = 7, 20.0
"""A sketch is taken if a core would take so many times its work, and so many seconds more, at nominal rates on one
core. A core makes PCA's loss exact too, and any other k and r cost no further read. On dense float32 data of many rows
it comes to 7 times at about 5000 features for 10 nonzeros in all, and at 7000 for 50."""

CORE_FEATURES = 5000
"""Features up to which a single pass makes a core."""

WORTH_SAYING = 1.5
"""A strategy so many times faster than the one taken is pointed out; smaller differences are noise."""


def refusal(strategy: Strategy, params: FitParameters) -> str | None:
    """Return the reason for which a strategy cannot make a fit; None if it can."""
    if params.keep_state and not strategy.takes_batches:
        return "it keeps no state to which rows can be added, as keep_state=True asks for"
    return strategy.cannot(params)


def wanted_strategy(params: FitParameters) -> str:
    """Return the strategy that the user asked for, or ``"auto"``. A tolerance asks for a sample."""
    return SampleStrategy.name if params.samples else params.strategy


def check_strategy(params: FitParameters) -> None:
    """Refuse a fit that the strategy asked for cannot make; ``"auto"`` chooses one that can.

    Raises
    ------
    InvalidInput
        Saying what the strategy can do.
    """
    name = wanted_strategy(params)
    cannot = None if name == AUTO else refusal(STRATEGIES[name], params)
    if cannot is not None:
        raise InvalidInput(
            f"strategy={name!r} cannot do this: {cannot}. Given were method={params.method!r}, "
            f"shared_support={params.shared_support}, n_nonzero={params.n_nonzero!r}, "
            f"missing={params.missing!r} and precision={params.precision!r}. strategy='gram' can, where d x d "
            "matrices fit in memory."
        )


def check_batches(params: FitParameters) -> None:
    """Refuse a fit that needs rows more than once, which ``partial_fit`` cannot give.

    Raises
    ------
    InvalidInput
        Saying what ``partial_fit`` takes.
    """
    wanted = wanted_strategy(params)
    if params.rules:
        raise InvalidInput(
            f"partial_fit keeps to no rules, and these were given: {params.rules}. Use fit, or leave them out."
        )
    once = wanted == AUTO or STRATEGIES[wanted].takes_batches
    if params.covariates is not None:
        raise InvalidInput("partial_fit cannot remove covariates. Use fit, or leave out the covariates.")
    if params.row_weights is not None:
        raise InvalidInput("partial_fit cannot weigh rows. Use fit, or leave out the row weights.")
    if not once or params.method == "doubly-sparse" or params.missing == "mean":
        names = ", ".join(repr(name) for name, each in STRATEGIES.items() if each.takes_batches)
        raise InvalidInput(
            f"partial_fit sees every row once, but strategy={params.strategy!r}, method={params.method!r} "
            f"with missing={params.missing!r} needs another pass. Use strategy 'auto' or one of {names}, "
            "method 'polished', 'batch' or 'iterative', and missing 'error' or 'zero'. Or use fit, which "
            "allows all of them."
        )


def price_all(
    params: FitParameters, source: RowBlocks, resources: Resources, calibration: Calibration | None = None
) -> tuple[Alternative, ...]:
    """Prices of all strategies for a fit, whether or not they can do it and fit."""
    found = []
    for name, each in STRATEGIES.items():
        cannot = refusal(each, params)
        if cannot is not None:
            found.append(Alternative(name, each.pca_loss, refusal=f"cannot do this: {cannot}"))
            continue
        found.append(
            price(
                source,
                each.passes(params, source),
                resources,
                strategy=name,
                pca_loss=each.pca_loss,
                finish=each.finish(params, source.shape),
                calibration=calibration,
            )
        )
    return tuple(found)


def choose(params: FitParameters, source: RowBlocks, nominal: Sequence[Alternative]) -> tuple[str, str]:
    """Choose the strategy of a fit, and say why.

    The choice of a strategy changes results. So it depends only on the parameters, the memory, and the shape and type
    of the data. The costs are those at nominal rates on one core: neither a noisy machine nor the number of workers can
    change the choice.

    A core where it fits, since it makes every loss exact; a sketch where that would cost far more, or does not fit. If
    neither fits, the one that needs less memory, so that the refusal names the smaller limit.

    Parameters
    ----------
    params : FitParameters
        Parameters of the fit.
    source : RowBlocks
        The data.
    nominal : sequence of Alternative
        Prices of all strategies at nominal rates.
    """
    wanted = wanted_strategy(params)
    if wanted != AUTO:
        return wanted, STRATEGIES[wanted].reason(source)
    strategy, why = core_for(source, params.precision, few_rows=are_few(*source.shape) and not params.keep_state)
    prices = {each.strategy: each for each in nominal}
    core, sketch = prices[strategy], prices[SketchStrategy.name]
    features = f"{source.shape[1]:,} features"
    if sketch.refusal is not None and (core.refusal is None or core.peak_nbytes <= sketch.peak_nbytes):
        return strategy, why
    if core.refusal is not None:
        return SketchStrategy.name, f"{features}: with d x d matrices it {core.refusal}"
    one, two = core.thread_seconds or 0.0, sketch.thread_seconds or 0.0
    if one - two > WORTH_WAITING and one > EXACT_WORTH * two:
        times = f"{one / two:.0f} times as much work, by nominal rates"
        return SketchStrategy.name, f"{features}: d x d matrices would cost {times}"
    return strategy, why


def choose_one_read(
    wanted: str, source: RowBlocks, resources: Resources, precision: str = "exact", *, otherwise: str
) -> tuple[str, str]:
    """Choose for one read of rows: a core up to ``CORE_FEATURES`` features if it fits, else another strategy.

    Parameters
    ----------
    wanted : str
        A strategy, or ``"auto"``.
    source : RowBlocks
        The data.
    resources : Resources
        Planned resources.
    precision : {"exact", "fast"}
        Precision of a core.
    otherwise : str
        Strategy without d x d matrices.
    """
    if wanted != AUTO:
        return wanted, STRATEGIES[wanted].reason(source)
    d = source.shape[1]
    fits = finish_nbytes(d) <= usable(resources.memory_limit)
    if fits and d <= CORE_FEATURES:
        return core_for(source, precision)
    return otherwise, f"{d:,} features: d x d matrices {'would cost more' if fits else 'do not fit in memory'}"


def standing(strategy: str, prices: Sequence[Alternative]) -> str:
    """Compare the time of the strategy taken with those of the others that fit."""
    seconds = {each.strategy: each.seconds for each in prices if each.refusal is None and each.seconds is not None}
    mine = seconds.pop(strategy, None)
    seconds = {name: each for name, each in seconds.items() if STRATEGIES[name].is_rival}
    if mine is None:
        return "it cannot be used here"
    if not seconds:
        return "no other strategy can be used here"
    best = min(seconds, key=seconds.__getitem__)
    ours, other = format_seconds(mine), format_seconds(seconds[best])
    if mine > WORTH_SAYING * seconds[best] and ours != other:
        return f"it needs {ours}, strategy={best!r} would need {other}"
    if mine <= seconds[best]:
        return f"it fits and is the fastest: {ours}, against {other} ({best})"
    return f"it fits and is about as fast as any: {ours}, against {other} ({best})"
