"""Steps of fit that every estimator shares: open, plan, run, warn. The estimators only store the results."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from distributed import Client

from spae_dask.blocks import LazyRowBlocks, RowBlocks, total_nbytes
from spae_dask.errors import (
    InvalidInput,
    MissingChunksWarning,
    NonFiniteInput,
    PrecisionWarning,
    RankDeficientWarning,
    WantedExcessWarning,
    warn,
)
from spae_dask.estimators.checkpointing import CheckpointAt, open_checkpoint, parameters_of, with_note
from spae_dask.estimators.planning import SUMS, plan_for, target_recipe
from spae_dask.estimators.preparing import raw_rows, warn_of_fractions, warn_of_twice, with_top
from spae_dask.estimators.runtime import active_client, runner_for, search_report
from spae_dask.estimators.top_features import by_counts, most_variable, ranked
from spae_dask.passes.accumulators.base import has_exact_sums
from spae_dask.passes.checkpoint import Checkpoint
from spae_dask.passes.events import Estimated, Watcher, ignore
from spae_dask.passes.layout import Tally
from spae_dask.passes.online import OnlinePass
from spae_dask.passes.plan import Plan
from spae_dask.passes.stopwatch import Measured, Stopwatch
from spae_dask.passes.threads import one_blas_thread
from spae_dask.rules import Rules
from spae_dask.storage.sources.recipe_blocks import with_target
from spae_dask.storage.sources.stored_chunks import CheckedSource, check_chunks
from spae_dask.strategies.base import Reports, Strategy
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.core_summary import CoreSummary
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.refit import Refit
from spae_dask.strategies.sample_estimate import Estimate
from spae_dask.strategies.sparse_encoder import FittedEncoder
from spae_dask.strategies.stream import Streamed
from spae_dask.strategies.table import STRATEGIES


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted encoder and what it took.

    Attributes
    ----------
    fitted : FittedEncoder
        The encoder.
    rows : ndarray of int64 or None
        Rows of a doubly sparse encoder.
    summary : CoreSummary, Refit, Streamed or None
        The core it was made on, or the refitted candidates; None with ``strategy="paper"``, which has neither, and for
        a sample.
    plan : Plan
        Plan, as made before the first byte is read.
    measured : Measured
        Measured time and memory of the fit.
    source : RowBlocks
        The data that it was fitted on.
    online : OnlinePass or None
        State of the rows with ``strategy="stream"``, to which more rows can be added.
    target : float or None
        Target of a recipe that a read of its own found.
    columns : ndarray of int or None
        Columns that vary most, as reads of their own found.
    rules : Rules
        Rules of the fit, by the columns that it used.
    """

    fitted: FittedEncoder
    rows: npt.NDArray[np.int64] | None
    summary: CoreSummary | Refit | Streamed | None
    plan: Plan
    measured: Measured
    source: RowBlocks
    online: OnlinePass | None = None
    target: float | None = None
    columns: npt.NDArray[np.intp] | None = None
    rules: Rules = field(default_factory=Rules)


def fit(
    source: RowBlocks,
    params: FitParameters,
    memory_limit: int | str | None,
    watch: Watcher | None,
    wanted: CheckpointAt | None = None,
) -> Fit:
    """Plan, read and fit an encoder by the fit's strategy and method, and warn of what is odd about it."""
    client = active_client(source)
    plan = with_note(plan_for(source, params, client, memory_limit), wanted)
    strategy = STRATEGIES[plan.strategy]
    n_passes = len(plan.passes) if strategy.n_passes_known(params) else None
    checked = report_missing_chunks(source)
    warn_of_twice(source)
    source = checked.source
    exact = wanted is not None and any(has_exact_sums(recipe) for _, recipe in strategy.passes(params, source))
    checkpoint = open_checkpoint(
        wanted, checked, "fit", plan.strategy, parameters_of(params), n_passes, exact_sums=exact
    )
    clock = Stopwatch(watch or ignore)
    checked, target, first = find_target(checked, client, plan, clock, checkpoint)
    checked, columns, second = find_top(checked, params, client, plan, clock, checkpoint)
    source = checked.source
    if columns is not None:
        params = params.with_rules(params.rules.on(columns.tolist()))
        params.check_rules(columns.size)
    runner = runner_for(checked, client, plan, clock, checkpoint)
    with one_blas_thread(), naming_declared(source):
        made = strategy.fit(params, runner, source, reports_to(clock))
    fitted, n_counts = made.fitted, getattr(source, "n_counts", 0)
    certificate = replace(
        fitted.certificate,
        passes=runner.tally.passes + first.passes + second.passes + n_counts,
        bytes_read=runner.tally.nbytes + first.nbytes + second.nbytes + n_counts * total_nbytes(source),
        missing_chunks=checked.missing_chunks,
        total_weight=None if params.row_weights is None else params.row_weights.total,
    )
    for text, category in made.warnings:
        warn(text, category)
    n_found = int(fitted.H.any(axis=0).sum())
    warn_of_certificate(certificate, n_found, strategy.arithmetic(source), params.precision)
    n_seen = fitted.n_samples if params.row_weights is None else source.shape[0]  # else it is a sum of weights
    fitted = replace(fitted, certificate=certificate, n_samples=n_seen)
    measured = clock.read()
    return Fit(fitted, made.rows, made.summary, plan, measured, source, made.online, target, columns, params.rules)


def find_target(
    checked: CheckedSource, client: Client | None, plan: Plan, watch: Watcher, checkpoint: Checkpoint | None
) -> tuple[CheckedSource, float | None, Tally]:
    """The data with the target of their recipe, found in a read of raw rows if it is not known, and that read.

    Raises
    ------
    InvalidInput
        If all rows sum to 0.
    """
    raw = raw_rows(checked.source)
    if raw is None:
        return checked, None, Tally()
    runner = runner_for(_as_checked(checked, raw), client, plan, watch, checkpoint)
    with naming_declared(raw):
        target = runner.run_pass(target_recipe(raw), SUMS)
    if target == 0:
        raise InvalidInput(
            f"all rows of {raw.describe()} sum to 0, so their sums have no median. Give normalize_total a number, or "
            "check the data."
        )
    return _as_checked(checked, with_target(checked.source, target)), target, runner.tally


def _as_checked(checked: CheckedSource, source: RowBlocks) -> CheckedSource:
    """Other numbers of data that were checked. What was checked of one task graph is not what another one reads."""
    return check_chunks(source) if isinstance(source, LazyRowBlocks) else checked._replace(source=source)


def find_top(
    checked: CheckedSource,
    params: FitParameters,
    client: Client | None,
    plan: Plan,
    watch: Watcher,
    checkpoint: Checkpoint | None,
) -> tuple[CheckedSource, npt.NDArray[np.intp] | None, Tally]:
    """The data with the columns that vary most alone, if a number of them is asked for, and the reads of it."""
    source = checked.source
    if params.n_top_features is None:
        return checked, None, Tally()
    data = ranked(source, params)
    if by_counts(params):
        warn_of_fractions(data)
    runner = runner_for(checked if data is source else _as_checked(checked, data), client, plan, watch, checkpoint)
    with naming_declared(data):
        columns = most_variable(runner.run_pass, data, params)
    return checked._replace(source=with_top(source, columns)), columns, runner.tally


def reports_to(watch: Watcher) -> Reports:
    """Tell a watcher of the progress of a search, and of what each round of a sample knows."""

    def estimated(now: Estimate) -> None:
        watch(Estimated(now.fraction_read, now.ratio, now.lower, now.upper))

    return Reports(search_report(watch), estimated)


def report_missing_chunks(source: RowBlocks) -> CheckedSource:
    """Count chunks, and warn if some are not stored: they read as the fill value, whether or not that was meant."""
    checked = check_chunks(source)
    chunks = checked.chunks
    if chunks is not None and chunks.n_absent:
        warn(
            f"{source.describe()}: {chunks.describe()}. This is right if the writer left out chunks that "
            "contain only this value. It is wrong if files were lost.",
            MissingChunksWarning,
        )
    return checked


@contextmanager
def naming_declared(source: RowBlocks) -> Iterator[None]:
    """Extend the error about NaN if the store declares numbers that stand for missing entries."""
    try:
        yield
    except NonFiniteInput as error:
        missing = getattr(source, "missing_told", None)
        if missing is None or not str(error).startswith("Input X contains NaN"):
            raise
        told = NonFiniteInput(f"{error} {missing}")
        told.place = error.place
        raise told from None


def warn_of_certificate(certificate: Certificate, n_found: int, strategy: Strategy, precision: str) -> None:
    """Warn if components are empty, or if the loss has few correct digits."""
    k = certificate.n_components
    if n_found < k:
        warn(
            f"only {n_found} of {k} components are nonzero: the data, or the chosen columns, have rank "
            f"{n_found}. The other {k - n_found} components are zero.",
            RankDeficientWarning,
        )
    if certificate.misses_eps:
        warn(
            f"the fit did not reach {certificate.target}: {certificate.reached}."
            + ("" if certificate.decoder_loss is None else " Give a larger n_rows, or leave it out."),
            WantedExcessWarning,
        )
    if certificate.pca_loss > 0 and strategy.lacks_digits(certificate, precision):
        warn(
            f"the loss, {certificate.loss:.3g}, is accurate only to about {certificate.loss_error:.1g}, "
            "because " + strategy.rounding_cause(certificate, precision),
            PrecisionWarning,
        )
