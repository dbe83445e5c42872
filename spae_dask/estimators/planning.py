"""Plan of a fit, from metadata and, for its times, a few blocks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from dask.system import CPU_COUNT
from distributed import Client

from spae_dask.blocks import (
    LazyRowBlocks,
    RowBlocks,
    asked_of,
    column_groups,
    nbytes_of_rows,
    stored_entries,
    total_nbytes,
)
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded
from spae_dask.estimators.covariates import columns_beside, open_without, resolved
from spae_dask.estimators.folds import with_folds
from spae_dask.estimators.preparing import (
    prepared,
    raw_rows,
    recipe_note,
    recorded_twice,
    scale_given,
    with_rules,
    with_top,
)
from spae_dask.estimators.row_weights import with_row_weights
from spae_dask.estimators.runtime import active_client, resources_for, with_listing
from spae_dask.estimators.top_features import largest, top_reads, with_batches
from spae_dask.flags import flags_checked
from spae_dask.maths.linalg.design import Design
from spae_dask.passes.accumulators import Accumulator, MedianSum, RowWeights
from spae_dask.passes.accumulators.by_columns import ByColumns
from spae_dask.passes.calibration import Calibration
from spae_dask.passes.calibration import calibrate as calibrate_source
from spae_dask.passes.memory import refuse, refuse_wide, usable, worker_limit_for
from spae_dask.passes.orientation import CODES, as_read, oriented
from spae_dask.passes.plan import Alternative, Finish, Plan, Resources
from spae_dask.passes.planner import make_plan, taken
from spae_dask.quantities import format_nbytes
from spae_dask.storage.sources.recipe_blocks import with_target
from spae_dask.strategies.folds import FoldPlan
from spae_dask.strategies.parameters import OF_ROWS, PARAMETERS, FitParameters, takes_parameters
from spae_dask.strategies.stream import StreamStrategy
from spae_dask.strategies.table import (
    STRATEGIES,
    check_batches,
    check_strategy,
    choose,
    choose_one_read,
    price_all,
    standing,
)

SUMS = "sums of rows"
"""Name of the read that finds the target of a recipe."""

MANY_OBJECTS, SMALL_OBJECT = 10_000, 1 << 20
"""Number of stored objects below that size from which a note says that they are slow to read."""


def layout_notes(source: RowBlocks, passes: Sequence[tuple[str, Accumulator[Any]]] = ()) -> list[str]:
    """Return notes for the user on the layout of the data, and on how these passes read it."""
    decoding = getattr(source, "decoding", None)
    notes = [] if decoding is None else [decoding]
    told = (
        rows_note(source),
        mask_note(source),
        top_note(source),
        recipe_note(source),
        recorded_twice(getattr(source, "recipe", None), source),
    )
    notes[:0] = [each for each in told if each is not None]
    passed_over = getattr(source, "passed_over", ())
    if passed_over:
        notes.append(f"stored numbers are read; the array declares {', '.join(passed_over)}, which --raw ignores")
    valid_range = getattr(source, "valid_range", None)
    if valid_range is not None:
        listed = ", ".join(f"{key} {value}" for key, value in valid_range.items())
        notes.append(f"the array declares a valid range of stored numbers ({listed}), which is not applied")
    notes += orientation_notes(source, passes)
    notes += _object_notes(source)
    if getattr(source, "n_counts", 0):
        notes.append("the number of rows was unknown, so a separate pass counted them before this plan")
    stored = stored_entries(source)
    if stored is not None and isinstance(source, LazyRowBlocks):
        notes.append(f"blocks are sparse; {stored.density:.0%} of their entries are assumed to be stored")
    elif stored is not None:
        notes.append(f"rows are sparse: {stored.density:.2%} of the entries are stored, and only those are read")
    if source.in_process and not isinstance(source, LazyRowBlocks):
        notes.append("the data are in the memory of this process, and its own threads sum them")
    n_blocks = len(source.bounds) - 1
    pointer_nbytes = getattr(source, "pointer_nbytes", 0)
    if n_blocks > 1 and pointer_nbytes > 16 << 20:
        notes.append(
            f"each of {n_blocks:,} blocks decodes {format_nbytes(pointer_nbytes)} of row pointers besides its "
            "own; `spae ingest` rewrites them in small chunks"
        )
    if n_blocks > 100_000:
        typical = nbytes_of_rows(source, source.bounds[1])
        notes.append(f"{n_blocks:,} row blocks of {format_nbytes(typical)}: larger chunks would read faster")
    return notes


def orientation_notes(source: RowBlocks, passes: Sequence[tuple[str, Accumulator[Any]]] = ()) -> list[str]:
    """Say which passes read a source by groups of columns, and how often the others decode each chunk."""
    decodes, groups = getattr(source, "decodes_per_chunk", 1), column_groups(source)
    if decodes == 1:
        return []
    reads = [(name, oriented(source, recipe)[1]) for name, recipe in as_read(source, passes)]
    by_columns = [name for name, recipe in reads if isinstance(recipe, ByColumns)]
    by_rows = [name for name, recipe in reads if not isinstance(recipe, ByColumns)]
    notes = []
    if by_columns and groups is not None:
        notes.append(
            f"reads by columns ({', '.join(by_columns)}): a row of chunks does not fit in a block. {len(groups):,} "
            f"groups of up to {max(group.size for group in groups):,} columns are read one after another, and each "
            "chunk is decoded once a pass"
        )
    for name, recipe in reads:
        if name == CODES:
            notes.append(f"the read {name!r} keeps {format_nbytes(recipe.state_nbytes)} of all rows for the next one")
    if by_rows or not reads:
        told = f" ({', '.join(by_rows)})" if by_columns else ""
        notes.append(
            f"each chunk is decoded {decodes} times a pass{told}: a chunk, a row of chunks or a CSC matrix does not "
            "fit in a block. `spae ingest` rewrites the data by rows"
        )
    return notes


def covariates_notes(params: FitParameters) -> list[str]:
    """Say how many columns of covariates a fit reads beside the data; nothing without any."""
    if params.covariates is None:
        return []
    design: Design = params.covariates
    return [
        f"removes what {len(design.values)} covariate(s) explain, in the read: {design.width} more column(s) beside "
        f"the data, made of {format_nbytes(design.nbytes)} that every worker holds"
    ]


def folds_notes(params: FitParameters) -> list[str]:
    """Say how rows are dealt to folds, and the size of what a fit keeps for them; nothing without folds."""
    if params.fold_groups is None:
        return []
    plan: FoldPlan = params.fold_groups
    sizes = plan.rows.sizes()
    several = plan.components or plan.nonzeros
    drawn = f", and those of {params.bootstraps:,} resamples of the folds on themselves" if params.bootstraps else ""
    chosen = "; time and memory are those of the largest size to choose from" if several else ""
    return [
        f"keeps a summary of each of {plan.described}, of {int(sizes.min()):,} to {int(sizes.max()):,} rows. The "
        f"encoders of the other folds are measured on each{drawn}{chosen}"
    ]


def weights_notes(params: FitParameters) -> list[str]:
    """Say that a fit weighs rows; nothing without weights."""
    weights: RowWeights | None = params.row_weights
    if weights is None:
        return []
    n_zero = int(np.count_nonzero(weights.roots == 0.0))
    return [
        f"weighs rows, in the read: the weights sum to {weights.total:.6g}"
        + (f", and {n_zero:,} of them are 0" if n_zero else "")
        + f"; every worker holds {format_nbytes(weights.nbytes)} of them"
    ]


def rows_note(source: RowBlocks) -> str | None:
    """Describe the rows that were chosen; None without a choice."""
    asked = asked_of(source)
    if "n_rows" not in asked:
        return None
    how = f": {asked['rows']}" if "rows" in asked else ""
    return f"uses {source.shape[0]:,} of {asked['n_rows']:,} rows{how}"


def mask_note(source: RowBlocks) -> str | None:
    """Describe the columns that a mask chose; None without a mask."""
    asked = asked_of(source)
    if "n_columns" not in asked:
        return None
    return f"uses {asked.get('n_before', source.shape[1]):,} of {asked['n_columns']:,} columns: {asked['mask']}"


def top_note(source: RowBlocks) -> str | None:
    """Describe the columns that vary most; None if all are used."""
    asked = asked_of(source)
    if "top" not in asked:
        return None
    return f"uses {source.shape[1]:,} of {asked['n_before']:,} columns: those that vary most, found before the fit"


def _object_notes(source: RowBlocks) -> list[str]:
    """Describe the number of stored objects, and the share that the codes of an encoder need."""
    by_columns = getattr(source, "n_chunk_columns", 1) > 1
    if isinstance(source, LazyRowBlocks):
        return (
            ["transform computes only those column chunks that contain features of the encoder"] if by_columns else []
        )
    n_objects = getattr(source, "n_objects", None)
    if n_objects is None:
        return []
    typical = total_nbytes(source) / n_objects
    plural = "" if n_objects == 1 else "s"
    note = f"{n_objects:,} stored object{plural} of about {format_nbytes(typical)} before encoding"
    if n_objects > MANY_OBJECTS and typical < SMALL_OBJECT:
        note += ", which is slow on object stores (`spae ingest` writes fewer and larger ones)"
    return [
        f"{note}; transform reads {'only those that contain features of the encoder' if by_columns else 'all of them'}"
    ]


@flags_checked
@takes_parameters()
def plan(
    x: Any,
    n_components: int | float | str = 2,
    *,
    memory_limit: int | str | None = None,
    calibrate: bool = True,
    resources: Resources | None = None,
    **parameters: Any,
) -> Plan:
    """Plan a fit: its passes, memory and time, and those of each other strategy.

    Bytes and memory come from metadata. For the times, a few blocks are read: 64 MiB at most, unless one block is
    larger, and 512 Zarr chunks of each, unless a row of chunks has more. The arithmetic of each strategy is tried on
    one of them, in about a second. The strategy is that of a fit, and never depends on measured rates. The plan says
    if another strategy is much faster here, and how to get it.

    Parameters
    ----------
    x : object
        Matrix (n, d): anything that :func:`open_matrix` opens.
    n_components : int, float or "cv"
        Number of components, k, or the share of the total variance that PCA is to explain.
    memory_limit : int or str, optional
        Memory limit of a process, in bytes or as text such as ``"2GB"``; by default the workers' limits, or this
        machine's memory.
    calibrate : bool
        True to measure rates by reading a little of the data. False to use nominal rates and to read nothing. Dask
        arrays always use nominal rates, since planning computes none of their blocks.
    resources : Resources, optional
        Resources to plan for; by default those of the active client, or of this process. If given, ``memory_limit`` is
        ignored.
    **parameters
        All other parameters of ``SparseEncoder``, except ``checkpoint`` and ``progress``.

    Returns
    -------
    Plan
        Plan of the fit. It prints as a table.

    Raises
    ------
    MemoryBudgetExceeded
        If the fit does not fit in memory. The message names what would fit.
    InvalidInput
        If the data or the parameters cannot be used.
    StorageError
        If a block that is read for the times cannot be read.
    """
    opened = open_without(x, columns_beside(*(parameters[name] for name in OF_ROWS)))
    source = prepared(opened, parameters["missing_value"], parameters["recipe"])
    given = {"n_components": n_components, **parameters, "random_state": seed_of(parameters["random_state"])}
    scale = {"scale": scale_given(parameters["scale"])}
    params = resolved(with_row_weights(FitParameters.of(given | scale), x, opened), x, opened)[0]
    params = with_folds(with_rules(with_batches(params, x, opened), source), x, opened)
    client = active_client(source) if resources is None else None
    return plan_for(source, params, client, memory_limit, calibrate=calibrate, resources=resources)


def plan_for(
    source: RowBlocks,
    params: FitParameters,
    client: Client | None,
    memory_limit: int | str | None,
    *,
    calibrate: bool = False,
    resources: Resources | None = None,
) -> Plan:
    """Plan a fit on given resources; the strategy is the same whether or not rates are measured."""
    whole, top = source, params.n_top_features
    if top is not None:
        PARAMETERS["n_top_features"].check(top, {"features": source.shape[1]})
        scores = np.zeros(source.shape[1])  # they are not known yet
        scores[np.array(params.rules.exclude, dtype=np.intp)] = -1.0  # the rules can be kept with some
        columns = largest(scores, params)
        source = with_top(source, columns)
        placed = params.with_rules(params.rules.on(columns.tolist()).of_features)
        placed.check(*source.shape)
        params.check_rules(whole.shape[1])
        params = placed
    params.check(*source.shape)
    check_strategy(params)
    there = resources_for(client, memory_limit) if resources is None else resources
    there = with_listing(there, source)
    refuse_wide(source.shape[1], there.memory_limit)
    nominal = price_all(params, source, there)
    strategy, why = choose(params, source, nominal)
    made = STRATEGIES[strategy]
    of_rows = [*covariates_notes(params), *folds_notes(params), *weights_notes(params)]
    passes = made.passes(params, source)
    notes = [*of_rows, *made.notes(params, source), *layout_notes(source, passes)]

    def planned(prices: Sequence[Alternative], calibration: Calibration | None) -> Plan:
        prices = taken(prices, strategy, there)
        return make_plan(
            source,
            passes,
            there,
            strategy=strategy,
            reason=f"{why}; {standing(strategy, prices)}",
            finish=made.finish(params, source.shape),
            notes=notes,
            calibration=calibration,
            alternatives=prices,
        )

    first = plan_first(whole, params, there)
    try:
        plan = planned(nominal, None)
    except MemoryBudgetExceeded as error:
        remedies = []
        others = [each.strategy for each in nominal if each.refusal is None]
        others += [each.strategy for each in nominal if each.peak_nbytes <= there.most_nbytes]
        if others:
            remedies.append(f"use strategy={others[0]!r}, which fits")
        if params.folds is not None:
            remedies.append(f"give fewer folds, or none: each of the {params.folds} keeps a summary of its own")
        if _fits_in_threads(source, params, there):
            remedies.append("use threads of one process and no workers (--cluster none), which fits")
        if not remedies:
            raise
        raise MemoryBudgetExceeded(" ".join([str(error), *(f"Or {each}." for each in remedies)])) from None
    if calibrate and not isinstance(source, LazyRowBlocks):
        known = source if raw_rows(source) is None else with_target(source, 1.0)
        measured = _calibrated(params, known, plan)
        plan = planned(price_all(params, source, there, measured), measured)
    return plan if first is None else _after(first, plan)


def _fits_in_threads(source: RowBlocks, params: FitParameters, there: Resources) -> bool:
    """Return True if workers of this machine are too small for a fit, and threads of one process are not."""
    if there.in_process or there.cores is None:
        return False
    alone = replace(
        resources_for(None, there.memory_limit),
        listing_nbytes=there.listing_nbytes,
        # several workers share the memory of the machine if no limit is given, and one process then has more than each
        limit_is_given=there.n_workers > 1,
    )
    prices = price_all(params, source, alone)
    strategy, _ = choose(params, source, prices)
    return any(each.strategy == strategy and each.peak_nbytes <= alone.most_nbytes for each in prices)


def _after(first: Plan, plan: Plan) -> Plan:
    """The plan with the passes of another one before its own, whatever the strategy."""
    prices = tuple(
        each
        if each.n_passes is None or each.bytes_read is None or each.seconds is None or each.thread_seconds is None
        else replace(
            each,
            n_passes=each.n_passes + len(first.passes),
            bytes_read=each.bytes_read + first.bytes_read,
            seconds=each.seconds + first.seconds,
            thread_seconds=each.thread_seconds + sum(each.thread_seconds for each in first.passes),
        )
        for each in plan.alternatives
    )
    return replace(plan, passes=(*first.passes, *plan.passes), alternatives=prices)


def plan_first(source: RowBlocks, params: FitParameters, resources: Resources) -> Plan | None:
    """Plan the reads that find the target of a recipe and the columns that vary most; None if there are none."""
    raw, found = raw_rows(source), list[tuple[RowBlocks, str, Accumulator[Any]]]()
    if raw is not None:
        refuse_weighted_median(params)
        found.append((raw, SUMS, target_recipe(raw)))
    found += top_reads(source, params)
    plans = [
        # the calling process holds the state and its result
        make_plan(
            each, [(name, recipe)], resources, strategy="rows", reason=name, finish=Finish(2 * recipe.state_nbytes)
        )
        for each, name, recipe in found
    ]
    return None if not plans else replace(plans[0], passes=tuple(each for plan in plans for each in plan.passes))


def refuse_weighted_median(params: FitParameters) -> None:
    """Refuse the median of the sums of rows that have weights: it counts each row once."""
    if params.row_weights is not None:
        raise InvalidInput(
            "normalize_total(median) takes the median of all rows, and cannot weigh them. Give the target as a number, "
            "such as normalize_total(1e4), or leave out the row weights."
        )


def target_recipe(raw: RowBlocks) -> MedianSum:
    """Recipe of the read that finds the target of a recipe."""
    n, d = raw.shape
    return MedianSum(d, n)


def _calibrated(params: FitParameters, source: RowBlocks, plan: Plan) -> Calibration:
    """Rates measured for the strategies that fit, the chosen one's first."""
    prices = plan.alternatives
    fit = [each.strategy for each in prices if each.refusal is None and STRATEGIES[each.strategy].is_tried]
    fit.sort(key=lambda name: name != plan.strategy)
    return calibrate_source(
        source,
        {name: STRATEGIES[name].passes(params, source) for name in fit},
        min(int(CPU_COUNT), plan.resources.n_workers * plan.tasks_per_worker),
        room=usable(plan.resources.memory_limit) // 2,
    )


def plan_stream(
    params: FitParameters, source: RowBlocks, memory_limit: int | str | None
) -> tuple[str, Accumulator[Any]]:
    """Return strategy and recipe for rows that come a batch at a time, in this process.

    ``source`` is the first batch.

    Raises
    ------
    InvalidInput
        If the fit cannot be done on rows that are seen once.
    MemoryBudgetExceeded
        If the state does not fit in memory.
    """
    d = source.shape[1]
    if params.folds is not None:
        raise InvalidInput("partial_fit cannot keep folds of rows. Use fit, or leave out folds.")
    params.check(None, d)
    check_strategy(params)
    check_batches(params)
    resources = resources_for(None, memory_limit)
    wanted, otherwise = params.strategy, StreamStrategy.name
    strategy = choose_one_read(wanted, source, resources, params.precision, otherwise=otherwise)[0]
    kept = STRATEGIES[strategy]
    recipe = kept.batch_recipe(params, d)
    # the state, a copy that the rows still waiting are added to, and its result
    needed = 3 * recipe.state_nbytes + max(
        recipe.work_nbytes(recipe.panel_rows), kept.finish(params, source.shape).nbytes
    )
    if needed > usable(resources.memory_limit):
        raise refuse(
            f"a stream of {d} features",
            needed,
            usable(resources.memory_limit),
            [f"a memory limit of {format_nbytes(worker_limit_for(needed))}", "fewer features"],
        )
    return strategy, recipe


def plan_passes(
    source: RowBlocks,
    passes: Sequence[tuple[str, Accumulator[Any]]],
    client: Client | None,
    memory_limit: int | str | None,
    *,
    reason: str,
    finish_nbytes: int,
) -> Plan:
    """Plan any passes over ``source`` on the resources at hand."""
    return make_plan(
        source,
        passes,
        with_listing(resources_for(client, memory_limit), source),
        strategy="rows",
        reason=reason,
        finish=Finish(finish_nbytes),
        notes=layout_notes(source, passes),
    )


def seed_of(random_state: Any) -> int:
    """Return a seed for this package's generators from a ``random_state`` of scikit-learn."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, bool) or not hasattr(random_state, "__index__") or random_state.__index__() < 0:
        raise InvalidInput(
            f"random_state={random_state!r} is not allowed: give a whole number of at least 0, a numpy Generator or "
            "RandomState, or None, which is 0."
        )
    return int(random_state)
