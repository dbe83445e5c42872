"""The plan of a fit, from metadata alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from distributed import Client

from spae_dask.accumulators import Accumulator, Imputed, RowPool
from spae_dask.algorithms.core import choose_strategy, core_passes
from spae_dask.algorithms.doubly_sparse import pool_size
from spae_dask.algorithms.paper import OVERSAMPLING, paper_options, paper_passes
from spae_dask.algorithms.problem import Problem
from spae_dask.algorithms.sample import sample_passes
from spae_dask.algorithms.two_reads import two_read_finish_nbytes, two_read_passes
from spae_dask.blocks import LazyRowBlocks, RowBlocks, nbytes_of_rows, stored_entries
from spae_dask.engine.memory import ALLOCATOR_SLACK, format_nbytes, usable
from spae_dask.engine.plan import Plan, Resources, make_plan
from spae_dask.estimators.runtime import active_client, resources_for
from spae_dask.estimators.sampling import refuse_large_core, sample_notes
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sentinel import with_missing

CORE_FEATURES = 5000
"""Up to so many features one read into a d x d core is chosen; beyond, its d operations an entry cost more than the
second read that a sketch takes."""

FINISH_MATRICES = 6
"""d x d float64 matrices alive at the peak of the final linear algebra: the state, the core, and an SVD's own."""

KEPT_MATRICES = 4
"""More of them that a sample keeps: the states of what was seen before and now, and both as cores."""


def finish_nbytes(n_features: int) -> int:
    """Peak of the final linear algebra on ``n_features`` features, in the calling process."""
    return FINISH_MATRICES * 8 * n_features * n_features


def thin_finish_nbytes(problem: Problem, n_features: int) -> int:
    """Peak of the final linear algebra of the paper's pipeline: a few matrices of as many rows as columns chosen."""
    return FINISH_MATRICES * 8 * n_features * (problem.shared_size + problem.n_components + OVERSAMPLING)


def plan(
    x: Any,
    n_components: int = 2,
    *,
    n_nonzero: int | Sequence[int] | None = None,
    method: str = "polished",
    strategy: str = "auto",
    missing: str = "error",
    memory_limit: int | str | None = None,
    eps: float = 0.1,
    shared_support: bool = False,
    certified: bool = False,
    n_candidates: int | None = None,
    sketch_rows: int | None = None,
    precision: str = "exact",
    missing_value: float | None = None,
    tolerance: float | None = None,
) -> Plan:
    """Say what a fit would read, hold and take, before reading anything.

    Parameters
    ----------
    x : object
        Anything :func:`open_matrix` opens.
    n_components : int
        k.
    n_nonzero : int or sequence of int, optional
        r.
    method : str
        As for ``SparseEncoder``.
    shared_support : bool
        As for ``SparseEncoder``.
    eps : float
        As for ``SparseEncoder``.
    strategy : {"auto", "gram", "tsqr", "sketch", "sample", "paper"}
        As for ``SparseEncoder``.
    certified : bool
        As for ``SparseEncoder``.
    n_candidates, sketch_rows : int, optional
        As for ``SparseEncoder``.
    precision : {"exact", "fast"}
        As for ``SparseEncoder``.
    missing_value : float, optional
        As for ``SparseEncoder``.
    tolerance : float, optional
        As for ``SparseEncoder``.
    missing : {"error", "mean", "zero"}
        As for ``SparseEncoder``.
    memory_limit : int or str, optional
        Bytes a process may use in all, such as ``"2GB"``; the workers' limits, or this machine's memory, if not given.

    Returns
    -------
    Plan
        Prints as a table.

    Raises
    ------
    MemoryBudgetExceeded
        If it does not fit; the message says what would.
    InvalidInput
        If the data or the parameters cannot be used.
    """
    source = with_missing(open_matrix(x), missing_value)
    problem = Problem(
        n_components,
        n_nonzero,
        eps,
        method=method,
        strategy=strategy,
        missing=missing,
        shared_support=shared_support,
        certified=certified,
        n_candidates=n_candidates,
        sketch_rows=sketch_rows,
        precision=precision,
        tolerance=tolerance,
    )
    return plan_problem(source, problem, active_client(source), memory_limit)


def plan_problem(source: RowBlocks, problem: Problem, client: Client | None, memory_limit: int | str | None) -> Plan:
    """Plan a checked problem on given resources."""
    n, d = source.shape
    problem.check(n, d)
    resources = resources_for(client, memory_limit)
    if problem.samples or (problem.strategy == "auto" and not problem.can_sketch):
        wanted = "sample" if problem.samples else "auto"
        strategy, reason = choose_strategy(wanted, source.dtype, problem.precision)
    else:
        strategy, reason = strategy_for(problem.strategy, source, resources, problem.precision)
    problem.check_strategy(strategy)
    finish = _finish_nbytes(problem, strategy, (n, d))
    notes = layout_notes(source)
    if strategy == "sample":
        refuse_large_core(d, finish, resources)
        notes = [*sample_notes(source, problem.seed), *notes]
    return make_plan(
        source,
        passes_of(problem, strategy, source),
        resources,
        strategy=strategy,
        reason=reason,
        finish_nbytes=finish,
        notes=notes,
    )


def strategy_for(wanted: str, source: RowBlocks, resources: Resources, precision: str = "exact") -> tuple[str, str]:
    """A core where d x d matrices are no trouble, since it makes every loss exact and takes one read; else a sketch."""
    d = source.shape[1]
    fits = finish_nbytes(d) <= usable(resources.memory_limit)
    if wanted != "auto" or (fits and d <= CORE_FEATURES):
        return choose_strategy(wanted, source.dtype, precision)
    why = "a read would cost more in arithmetic than two do" if fits else "they would not fit in memory"
    return "sketch", f"{d:,} features: with d x d matrices {why}"


def _finish_nbytes(problem: Problem, strategy: str, shape: tuple[int, int]) -> int:
    if strategy == "paper":
        return thin_finish_nbytes(problem, shape[1])
    if strategy == "sketch":
        return int(ALLOCATOR_SLACK * two_read_finish_nbytes(problem, *shape))
    # beside the core that is fitted: the state it is of, and the two parts it was merged from, one above the other
    beside = 8 * KEPT_MATRICES * shape[1] ** 2 if strategy == "sample" else 0
    return finish_nbytes(shape[1]) + beside


def passes_of(problem: Problem, strategy: str, source: RowBlocks) -> list[tuple[str, Accumulator[Any]]]:
    """Names and recipes of all passes of a fit, for planning; numbers in the recipes are placeholders."""
    shape, n_features = source.shape, source.shape[1]
    if strategy == "paper":
        return paper_passes(problem, n_features, paper_options(problem))
    if strategy == "sketch":
        return two_read_passes(problem, *shape)
    if strategy == "sample":
        return sample_passes(problem, choose_strategy("auto", source.dtype)[0], n_features)
    passes = list(core_passes(strategy, n_features, problem.missing, problem.precision))
    if problem.method == "doubly-sparse":
        size = n_features if problem.sizes is None else problem.shared_size
        placeholder, columns = np.zeros(n_features), np.arange(size)
        pool = RowPool(pool_size(problem), columns, np.zeros((size, problem.n_components)), placeholder, placeholder)
        passes.append(("rows", pool if problem.missing == "error" else Imputed(pool, placeholder)))
    return passes


def plan_passes(
    source: RowBlocks,
    passes: Sequence[tuple[str, Accumulator[Any]]],
    client: Client | None,
    memory_limit: int | str | None,
    *,
    strategy: str = "rows",
    reason: str,
    finish_nbytes: int,
) -> Plan:
    """Plan any passes over ``source`` on the resources at hand."""
    return make_plan(
        source,
        passes,
        resources_for(client, memory_limit),
        strategy=strategy,
        reason=reason,
        finish_nbytes=finish_nbytes,
        notes=layout_notes(source),
    )


def layout_notes(source: RowBlocks) -> list[str]:
    """What a user should know about how the data are laid out."""
    notes = []
    decodes = getattr(source, "decodes_per_chunk", 1)
    if decodes > 1:
        notes.append(
            f"each chunk is decoded {decodes} times a pass, because a chunk, or a row of chunks, is too large to hold; "
            "`spae ingest` writes the data again in row chunks"
        )
    stored = stored_entries(source)
    if stored is not None and isinstance(source, LazyRowBlocks):
        notes.append(f"blocks are sparse; {stored.density:.0%} of their entries are assumed to be stored")
    elif stored is not None:
        notes.append(f"rows are sparse: {stored.density:.2%} of the entries are stored, and only those are read")
    if source.in_process and not isinstance(source, LazyRowBlocks):
        notes.append("the data are in this process's memory and are summed by its own threads")
    n_blocks = len(source.bounds) - 1
    pointer_nbytes = getattr(source, "pointer_nbytes", 0)
    if n_blocks > 1 and pointer_nbytes > 16 << 20:
        notes.append(
            f"each of {n_blocks:,} blocks decodes {format_nbytes(pointer_nbytes)} of row pointers beside its own; "
            "`spae ingest` writes them again in small chunks"
        )
    if n_blocks > 100_000:
        typical = nbytes_of_rows(source, source.bounds[1])
        notes.append(f"{n_blocks:,} row blocks of {format_nbytes(typical)}: larger chunks would read faster")
    return notes
