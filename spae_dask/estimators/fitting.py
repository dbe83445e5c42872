"""Steps of fit that every estimator shares: open, plan, run, warn. The estimators only store the results."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from spae_dask.algorithms.certificate import Certificate
from spae_dask.algorithms.core import RunPass, read_core
from spae_dask.algorithms.core_summary import CoreSummary
from spae_dask.algorithms.doubly_sparse import choose_rows
from spae_dask.algorithms.methods import Report
from spae_dask.algorithms.paper import fit_paper
from spae_dask.algorithms.parameters import FitParameters
from spae_dask.algorithms.settled import Settled
from spae_dask.algorithms.sparse_encoder import FittedEncoder, encode_core, measured_if_fragile
from spae_dask.algorithms.streaming import Streamed, fit_stream, stream_recipe
from spae_dask.algorithms.two_reads import fit_two_reads
from spae_dask.blocks import RowBlocks, total_nbytes
from spae_dask.engine.events import Watcher, ignore
from spae_dask.engine.feed import Feed
from spae_dask.engine.plan import Plan
from spae_dask.engine.stopwatch import Measured, Stopwatch
from spae_dask.engine.threads import one_blas_thread
from spae_dask.errors import (
    MissingChunksWarning,
    NonFiniteInput,
    PrecisionWarning,
    RankDeficientWarning,
    WantedExcessWarning,
    warn,
)
from spae_dask.estimators.checkpointing import CheckpointAt, open_checkpoint, parameters_of, with_note
from spae_dask.estimators.planning import plan_for
from spae_dask.estimators.runtime import active_client, runner_for, search_report
from spae_dask.estimators.sampling import core_of_sample, fit_by_sample, warn_of_unlike_blocks
from spae_dask.storage.sources.census import Counted, count_chunks
from spae_dask.storage.sources.declared import MISSING


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted encoder and what it took.

    Attributes
    ----------
    fitted : FittedEncoder
        The encoder.
    rows : ndarray of int64 or None
        Rows of a doubly sparse encoder.
    summary : CoreSummary, Settled, Streamed or None
        The core it was made on, or the settled candidates; None with ``strategy="paper"``, which has neither, and for
        a sample.
    plan : Plan
        Plan, as made before the first byte is read.
    measured : Measured
        Measured time and memory of the fit.
    feed : Feed or None
        State of the rows with ``strategy="stream"``, to which more rows can be added.
    """

    fitted: FittedEncoder
    rows: npt.NDArray[np.int64] | None
    summary: CoreSummary | Settled | Streamed | None
    plan: Plan
    measured: Measured
    feed: Feed | None = None


def fit(
    source: RowBlocks,
    params: FitParameters,
    memory_limit: int | str | None,
    watch: Watcher | None,
    wanted: CheckpointAt | None = None,
) -> Fit:
    """Plan, read and fit an encoder by the fit's strategy and method, and warn of what is odd about it."""
    client, rows, feed = active_client(source), None, None
    summary: CoreSummary | Settled | Streamed | None = None
    plan = with_note(plan_for(source, params, client, memory_limit), wanted)
    # how many rounds a sample takes, or a sketch to a target, shows on the way
    known = plan.strategy != "sample" and (plan.strategy != "sketch" or params.n_nonzero is not None)
    n_passes = len(plan.passes) if known else None
    counted = told_of_missing_chunks(source)
    source = counted.source
    checkpoint = open_checkpoint(wanted, counted, "fit", plan.strategy, parameters_of(params), n_passes)
    clock = Stopwatch(watch or ignore)
    runner = runner_for(counted, client, plan, clock, checkpoint)
    tally = runner.tally
    report = search_report(clock)
    n, d = source.shape
    integers = source.dtype.kind in "iub"
    with one_blas_thread(), telling_declared(source):
        if plan.strategy == "paper":
            fitted = fit_paper(params, runner.run_pass, d, integers=integers)
        elif plan.strategy == "sketch":
            fitted, summary = fit_two_reads(params, runner.run_pass, source.shape, integers=integers, report=report)
        elif plan.strategy == "sample":
            sampled, tally = fit_by_sample(counted, params, client, plan, clock, checkpoint)
            fitted, summary = sampled.fitted, sampled.summary
            warn_of_unlike_blocks(sampled)
        elif plan.strategy == "stream":
            recipe = stream_recipe(params, d)
            feed = Feed(recipe, runner.run_state(recipe, "stream"), n)
            fitted, summary = fit_stream(params, feed.run_pass, d, integers=integers, report=report)
        else:
            fitted, summary = fit_core(
                params, plan.strategy, runner.run_pass, d, integers=integers, n_rows=n, report=report
            )
            if params.method == "doubly-sparse":
                chosen = choose_rows(params, summary, runner.run_pass, fitted)
                fitted, rows = chosen.fitted, chosen.rows
        if plan.strategy not in ("sample", "stream") and rows is None:
            fitted = measured_if_fragile(fitted, runner.run_pass)
    n_counts = getattr(source, "n_counts", 0)
    certificate = replace(
        fitted.certificate,
        passes=tally.passes + n_counts,
        bytes_read=tally.nbytes + n_counts * total_nbytes(source),
        missing_chunks=counted.missing_chunks,
    )
    core = core_of_sample(source) if plan.strategy == "sample" else plan.strategy
    warn_of_certificate(certificate, int(fitted.H.any(axis=0).sum()), core, params.precision)
    return Fit(replace(fitted, certificate=certificate), rows, summary, plan, clock.read(), feed)


def fit_core(
    params: FitParameters,
    strategy: str,
    run_pass: RunPass,
    n_features: int,
    *,
    integers: bool = False,
    n_rows: int | None = None,
    report: Report | None = None,
) -> tuple[FittedEncoder, CoreSummary]:
    """Read a core by ``strategy``, "gram" or "tsqr", and fit the encoder on it."""
    summary = read_core(
        run_pass,
        n_features,
        strategy=strategy,
        center=params.center,
        scale=params.scale,
        missing=params.missing,
        precision=params.precision,
        integers=integers,
        n_rows=n_rows,
    )
    return encode_core(params, summary, passes=0, bytes_read=0, report=report), summary


def told_of_missing_chunks(source: RowBlocks) -> Counted:
    """Count chunks, and warn if some are not stored: they read as the fill value, whether or not that was meant."""
    counted = count_chunks(source)
    census = counted.census
    if census is not None and census.n_absent:
        warn(
            f"{source.describe()}: {census.describe()}. That is right if the writer left out chunks that hold "
            "nothing but this value, and wrong if files were lost.",
            MissingChunksWarning,
        )
    return counted


@contextmanager
def telling_declared(source: RowBlocks) -> Iterator[None]:
    """Extend the error about NaN if the store declares numbers that stand for missing entries."""
    try:
        yield
    except NonFiniteInput as error:
        attributes = (getattr(source, "decoded", None) or {}).get("attributes", {})
        missing = ", ".join(f"{key} {attributes[key]}" for key in MISSING if attributes.get(key) is not None)
        if not missing or not str(error).startswith("Input X contains NaN"):
            raise
        told = NonFiniteInput(
            f"{error} The array declares its missing values ({missing}), which are read as NaN; --raw (decode=False) "
            "reads the stored numbers."
        )
        told.place = error.place
        raise told from None


def warn_of_certificate(certificate: Certificate, n_found: int, strategy: str, precision: str) -> None:
    """Warn if components are empty, or if the loss has few correct digits."""
    k = certificate.n_components
    if n_found < k:
        warn(
            f"only {n_found} of {k} components carry anything: the data, or the columns chosen, have rank {n_found}. "
            f"The other {k - n_found} are zero.",
            RankDeficientWarning,
        )
    if certificate.misses_eps:
        warn(
            f"{certificate.target} could not be reached: {certificate.reached}."
            + ("" if certificate.decoder_loss is None else " Give a larger n_rows, or none."),
            WantedExcessWarning,
        )
    if certificate.pca_loss > 0 and _few_digits(certificate, strategy, precision):
        warn(
            f"the loss, {certificate.loss:.3g}, is known to about {certificate.loss_error:.1g} only, because "
            + _cause(certificate, strategy, precision),
            PrecisionWarning,
        )


def _few_digits(certificate: Certificate, strategy: str, precision: str) -> bool:
    """Tell whether rounding leaves the loss so few digits that another strategy, or other data, would give more."""
    loss, error = certificate.loss, certificate.loss_error
    if precision == "fast":
        return 0.0 < loss < 1e2 * error
    if strategy == "gram":
        return 0.0 < loss < 1e3 * error
    # a loss that is zero to rounding is as exact as it can be
    return error < loss < 1e2 * error or certificate.left_out > loss


def _cause(certificate: Certificate, strategy: str, precision: str) -> str:
    """Cause of an uncertain loss, and the remedy."""
    if certificate.left_out > certificate.loss_error / 2:
        return (
            f"{certificate.n_left_out} columns vary by no more than the rounding of their entries and are left out. "
            "Subtract a constant near their mean before they are stored."
        )
    if precision == "fast":
        return "products are made in float32. Use precision='exact' for more digits."
    if strategy == "gram":
        return "a Gram matrix rounds small directions away. Use strategy='tsqr' for more digits."
    return (
        "float64 holds few digits of data whose mean is so large beside their spread, or integers beyond 2**53: "
        "mean_ is rounded. Subtract a constant near the mean of each column before they are stored."
    )
