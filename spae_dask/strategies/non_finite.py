"""Errors for NaN and infinite entries, with the position of the entry and a remedy."""

import numpy as np

from spae_dask.errors import NonFiniteInput
from spae_dask.passes.accumulators import NonFiniteEntries


def refuse_non_finite(entries: NonFiniteEntries, *, once: bool = False) -> None:
    """Raise ``NonFiniteInput`` if anything was not a finite number; ``once`` if the data cannot be read again."""
    if entries.n_nan:
        raise _placed(NonFiniteInput(_nan_message(entries, once)), entries)
    refuse_infinite(entries)


def refuse_infinite(entries: NonFiniteEntries) -> None:
    """Raise ``NonFiniteInput`` if anything was infinite, whatever else was NaN."""
    if entries.n_inf:
        column = int(np.flatnonzero(entries.inf_by_column)[0])
        message = (
            f"Input X contains infinity: {entries.n_inf} infinite entries in {np.count_nonzero(entries.inf_by_column)} "
            f"column(s), the first column being {column}{_first(entries)}. No value can stand for an infinite "
            "one: mend the data, or drop the column."
        )
        raise _placed(NonFiniteInput(message), entries)


def _nan_message(entries: NonFiniteEntries, once: bool) -> str:
    columns = np.flatnonzero(entries.nan_by_column)
    remedy = (
        "Pass missing='zero', or mend the data."
        if once
        else "Pass missing='mean' (one more read of the data) or missing='zero', or mend the data; `spae check` lists "
        "them."
    )
    return (
        f"Input X contains NaN: {entries.n_nan} NaN entries in {columns.size} column(s), the first column being "
        f"{int(columns[0])}{_first(entries)}. {remedy}"
    )


def _placed(error: NonFiniteInput, entries: NonFiniteEntries) -> NonFiniteInput:
    """The error, which knows the place for callers whose rows and columns have names."""
    if len(entries.first):
        row, column = entries.first[0]
        error.place = int(row), int(column)
    return error


def _first(entries: NonFiniteEntries) -> str:
    if not len(entries.first):
        return ""
    row, column = entries.first[0]
    return f"; the first non-finite entry is at row {row}, column {column}"
