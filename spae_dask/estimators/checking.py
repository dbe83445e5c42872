"""Check of data for errors and oddities, in one pass, before a fit fails on them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spae_dask.blocks import RowBlocks, asked_of
from spae_dask.estimators.planning import layout_notes, plan_passes
from spae_dask.estimators.preparing import LOGGED_ALREADY, checked_recipe, looks_logged, recorded_twice
from spae_dask.estimators.runtime import active_client, runner_for
from spae_dask.flags import flags_checked
from spae_dask.passes.accumulators import (
    Accumulator,
    ColumnMoments,
    Moments,
    NonFinite,
    NonFiniteEntries,
    RowSummary,
    RowTotals,
    Together,
)
from spae_dask.passes.events import Event
from spae_dask.recipes import Recipe, RecipeLike
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources.sentinel import MissingValue, with_missing
from spae_dask.storage.sources.stored_chunks import ChunkCount, check_chunks
from spae_dask.strategies.core_summary import constant_columns

N_NAMED = 10
"""Columns and positions named in full."""

DOMINANT_SHARE = 0.9
"""Share of the variance above which a single column is reported."""

FEW_COLUMNS = 4
"""Fewest columns of which one is reported: of fewer, one often holds nearly all."""


@dataclass(frozen=True)
class DataCheck:
    """Findings about a matrix.

    Attributes
    ----------
    source, dtype, layout : str
        Data that were checked, type of their entries, and layout of their row blocks.
    shape : tuple of int
        ``(n, d)``.
    expected_chunks, missing_chunks : int or None
        Number of chunks of a full Zarr array, and of those that are not stored; None if there is no store to list.
    first_missing : tuple of str
        Keys of the first few missing chunks.
    missing_inner_chunks : int or None
        Number of missing inner chunks of stored shards; None if they were not checked.
    n_nan, n_inf : int
        Number of entries that are NaN, and of infinite entries.
    nan_columns, inf_columns : tuple of (int, int)
        Column and count, for the first columns that have any.
    first_non_finite : tuple of (int, int)
        Row and column of the first few such entries.
    n_constant : int
        Number of columns without variance.
    constant_columns : tuple of int
        First of these columns.
    smallest, largest : float or None
        Smallest and largest of all finite entries.
    decoded : dict or None
        Attributes of a Zarr array that declare the coding of its numbers, with the stored type and the type of the
        data. None if stored numbers are the data.
    valid_range : dict or None
        Attributes that declare a range of valid stored numbers, which is not applied.
    whole_numbers : bool
        True if all finite entries are whole numbers.
    row_sums : tuple of float, or None
        Smallest, median and largest sum of the finite entries of a row; the median is within 1 %.
    share_filled : float
        Share of the entries that are not 0.
    problems, notes : tuple of str
        Problems that make a fit fail or its results unreliable, and notes for the user.
    """

    source: str
    dtype: str
    layout: str
    shape: tuple[int, int]
    expected_chunks: int | None
    missing_chunks: int | None
    first_missing: tuple[str, ...]
    missing_inner_chunks: int | None
    n_nan: int
    n_inf: int
    nan_columns: tuple[tuple[int, int], ...]
    inf_columns: tuple[tuple[int, int], ...]
    first_non_finite: tuple[tuple[int, int], ...]
    n_constant: int
    constant_columns: tuple[int, ...]
    smallest: float | None
    largest: float | None
    decoded: dict[str, Any] | None
    valid_range: dict[str, Any] | None
    whole_numbers: bool
    row_sums: tuple[float, float, float] | None
    share_filled: float
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """A table for the terminal."""
        n, d = self.shape
        lines = [f"data      {self.source}: {n:,} x {d:,} {self.dtype}", f"layout    {self.layout}"]
        if self.smallest is not None:
            whole = "whole numbers" if self.whole_numbers else "not all of them whole numbers"
            lines.append(f"range     {self.smallest:g} to {self.largest:g}, {whole}")
            lines.append(f"filled    {self.share_filled:.2%} of the entries are not 0")
        if self.row_sums is not None:
            least, median, most = self.row_sums
            lines.append(f"row sums  {least:g} to {most:g}, median about {median:.3g}")
        lines.extend(f"problem   {problem}" for problem in self.problems)
        lines.extend(f"note      {note}" for note in self.notes)
        if not self.problems:
            lines.append("result    no problem found")
        return "\n".join(lines)


@flags_checked
def check(
    x: Any,
    *,
    missing_value: MissingValue = None,
    recipe: RecipeLike = None,
    deep: bool = False,
    memory_limit: int | str | None = None,
    progress: Callable[[Event], None] | None = None,
) -> DataCheck:
    """Check every entry of a matrix in one pass: missing chunks, NaN, infinite entries, constant columns.

    Parameters
    ----------
    x : object
        Matrix (n, d): anything that :func:`spae_dask.open_matrix` opens.
    missing_value : float or sequence of float, optional
        Number, or numbers, that stand for missing beside NaN. They count as NaN, and gaps are then a note and no
        problem.
    recipe : str, Recipe or sequence of str, optional
        Recipe that a fit would follow, as for ``SparseEncoder``. All that is reported is about the raw data; those that
        do not suit the recipe are a problem.
    deep : bool
        True to look also for missing inner chunks of shards where that takes a request for each shard. Up to 10,000
        shards on a disk are always looked into.
    memory_limit : int or str, optional
        Memory limit of a process, in bytes or as text such as ``"2GB"``.
    progress : callable, optional
        Function that receives the engine's events.
    """
    steps, opened = checked_recipe(recipe), open_matrix(x)
    source, names = with_missing(opened, missing_value), getattr(opened, "feature_names", None)
    d = source.shape[1]
    parts: dict[str, Accumulator[Any]] = {
        "nonfinite": NonFinite(d, N_NAMED),
        "moments": Moments(d),
        "rows": RowTotals(d),
    }
    looked = Together(parts)
    client = active_client(source)
    plan = plan_passes(source, [("check", looked)], client, memory_limit, reason="every entry once", finish_nbytes=0)
    checked = check_chunks(source, deep=deep)
    source, chunks = checked.source, checked.chunks
    found = runner_for(checked, client, plan, progress).run_pass(looked, "check")
    entries: NonFiniteEntries = found["nonfinite"]
    moments: ColumnMoments = found["moments"]
    summed: RowSummary = found["rows"]
    still = np.flatnonzero(constant_columns(moments.standard_deviation, moments.mean))
    any_finite = bool((moments.count > 0).any())
    rows = source.bounds[1] - source.bounds[0]
    return DataCheck(
        source=source.describe(),
        dtype=str(source.dtype),
        layout=f"{len(source.bounds) - 1:,} row blocks of {rows:,} rows",
        shape=source.shape,
        expected_chunks=chunks.n_expected if chunks else None,
        missing_chunks=chunks.n_missing if chunks else None,
        first_missing=chunks.first_missing if chunks else (),
        missing_inner_chunks=chunks.inner.n_missing if chunks and chunks.inner else None,
        n_nan=entries.n_nan,
        n_inf=entries.n_inf,
        nan_columns=_counted(entries.nan_by_column),
        inf_columns=_counted(entries.inf_by_column),
        first_non_finite=tuple((int(row), int(column)) for row, column in entries.first),
        n_constant=still.size,
        constant_columns=tuple(int(column) for column in still[:N_NAMED]),
        smallest=float(moments.minimum.min()) if any_finite else None,
        largest=float(moments.maximum.max()) if any_finite else None,
        decoded=getattr(source, "decoded", None),
        valid_range=getattr(source, "valid_range", None),
        whole_numbers=summed.whole,
        row_sums=(summed.least, summed.median, summed.most) if any_finite else None,
        share_filled=summed.n_filled / (source.shape[0] * d),
        problems=(*_problems(chunks, entries, names, missing_value), *_unsuited(steps, source, summed, moments)),
        notes=(
            *_gaps_note(entries, names, missing_value),
            *_constant_note(still, names),
            *_dominant_note(moments, names, steps),
            *layout_notes(source),
            *_unseen_note(steps, source),
        ),
    )


def _counted(by_column: np.ndarray[Any, Any]) -> tuple[tuple[int, int], ...]:
    return tuple((int(column), int(by_column[column])) for column in np.flatnonzero(by_column)[:N_NAMED])


def _named(column: int, names: Sequence[object] | None) -> str:
    return str(column if names is None else names[column])


def _problems(
    chunks: ChunkCount | None, entries: NonFiniteEntries, names: Sequence[object] | None, missing_value: MissingValue
) -> list[str]:
    problems = []
    if chunks is not None and chunks.n_absent:
        problems.append(chunks.describe())
    if entries.n_nan and missing_value is None:
        where = _counts(entries.n_nan, "NaN entries", entries.nan_by_column, names)
        problems.append(f"{where}; fit with missing='mean' or missing='zero', or correct the data")
    if entries.n_inf:
        problems.append(f"{_counts(entries.n_inf, 'infinite entries', entries.inf_by_column, names)}; correct the data")
    if len(entries.first) and (entries.n_inf or missing_value is None):
        places = ", ".join(f"({row}, {column})" for row, column in entries.first)
        problems.append(f"first non-finite entries (row, column): {places}")
    return problems


def _unsuited(recipe: Recipe | None, source: RowBlocks, summed: RowSummary, moments: ColumnMoments) -> list[str]:
    """Problems that a recipe would have with the raw data."""
    if recipe is None:
        return []
    problems = []
    if recipe.non_negative is not None and summed.first_negative is not None:
        row, column = summed.first_negative
        told = f"{summed.n_negative:,} negative entries, the first at row {row}, column {column}"
        problems.append(f"{told}; {recipe.non_negative} takes none")
    twice = recorded_twice(recipe, source)
    if twice is None and recipe.logs and (moments.count > 0).any():
        logged = looks_logged(float(moments.minimum.min()), float(moments.maximum.max()), summed.whole)
        twice = LOGGED_ALREADY if logged else None
    return problems if twice is None else [*problems, twice]


def _unseen_note(recipe: Recipe | None, source: RowBlocks) -> list[str]:
    """Columns that a recipe sums, and this check did not see."""
    if recipe is None or not recipe.of_rows or "n_columns" not in asked_of(source):
        return []
    return ["the recipe sums all columns, and the others were not looked at: --mask none (mask='none') looks at all"]


def _gaps_note(entries: NonFiniteEntries, names: Sequence[object] | None, missing_value: MissingValue) -> list[str]:
    """Gaps of data for which the caller names a missing value: they are expected."""
    if missing_value is None or not entries.n_nan:
        return []
    told = " or ".join(f"{float(each):g}" for each in np.ravel(missing_value))
    where = _counts(entries.n_nan, f"missing entries (NaN or {told})", entries.nan_by_column, names)
    return [f"{where}; fit with missing='mean' or missing='zero'"]


def _counts(n: int, what: str, by_column: np.ndarray[Any, Any], names: Sequence[object] | None) -> str:
    columns = np.flatnonzero(by_column)
    listed = ", ".join(f"{_named(c, names)} ({by_column[c]:,})" for c in columns[:N_NAMED])
    return f"{n:,} {what} in {columns.size} columns: {listed}{', ...' if columns.size > N_NAMED else ''}"


def _dominant_note(moments: ColumnMoments, names: Sequence[object] | None, recipe: Recipe | None) -> list[str]:
    """A column beside which the others do not count, as a number of the row or another unit is; as the data are."""
    squares = moments.squared_deviations
    if recipe is not None or squares.size < FEW_COLUMNS or not 0.0 < squares.sum() < np.inf:
        return []
    column = int(np.argmax(squares))
    share = float(squares[column] / squares.sum())
    if share < DOMINANT_SHARE:
        return []
    return [
        f"column {_named(column, names)} holds {share:.1%} of the variance: if units differ, fit with scale=True "
        "(--scale), or leave it out"
    ]


def _constant_note(still: np.ndarray[Any, Any], names: Sequence[object] | None) -> list[str]:
    if not still.size:
        return []
    listed = ", ".join(_named(c, names) for c in still[:N_NAMED]) + (", ..." if still.size > N_NAMED else "")
    return [f"{still.size} constant columns, which are never selected: {listed}"]
