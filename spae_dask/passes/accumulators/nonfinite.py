"""NaN and infinite entries of X: their number in each column, and their first positions."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.errors import NonFiniteInput
from spae_dask.passes.accumulators.base import Rows, State, panel_rows_for
from spae_dask.passes.accumulators.by_columns import Columns, Parts, join_arrays

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NonFiniteEntries:
    """Entries that are not finite numbers.

    Attributes
    ----------
    nan_by_column, inf_by_column : ndarray (d,) of int64
        Counts.
    first : ndarray (p, 2) of int64
        Row and column of the first few, by row, then column.
    """

    nan_by_column: Ints
    inf_by_column: Ints
    first: Ints

    @property
    def n_nan(self) -> int:
        """NaN entries in all."""
        return int(self.nan_by_column.sum())

    @property
    def n_inf(self) -> int:
        """Infinite entries in all."""
        return int(self.inf_by_column.sum())


def all_finite(rows: Rows) -> bool:
    """Return True if every entry is finite; the usual answer costs one fast sum."""
    if rows.dtype.kind not in "fc":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        # a NaN or an infinity survives any sum; the second check separates a finite overflow
        return bool(np.isfinite(rows.sum())) or bool(np.isfinite(rows).all())


@dataclass(frozen=True)
class NonFinite:
    """Recipe that counts and locates NaN and infinite entries.

    One pass; integers and booleans cost nothing.

    Parameters
    ----------
    n_features : int
        d.
    n_first : int
        Number of positions to keep.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.nonfinite.NonFinite"
    exact_sums: ClassVar[bool] = True

    n_features: int
    n_first: int = 10

    @property
    def state_nbytes(self) -> int:
        """Two counters a column and the positions."""
        return 16 * (self.n_features + self.n_first)

    @property
    def panel_rows(self) -> int:
        """Number of rows that stay in cache."""
        return panel_rows_for(self.n_features, at_least=1)

    def work_nbytes(self, n_rows: int) -> int:
        """One byte an entry, in the worst case."""
        return self.n_features * n_rows

    @property
    def flops_per_row(self) -> float:
        """One addition an entry."""
        return float(self.n_features)

    def zero(self) -> State:
        """State with no entries found."""
        return {
            "nan": np.zeros(self.n_features, dtype=np.int64),
            "inf": np.zeros(self.n_features, dtype=np.int64),
            "first": np.zeros((0, 2), dtype=np.int64),
        }

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Look at the rows; closer only where something is not finite."""
        if all_finite(rows):
            return state
        state["nan"] += np.isnan(rows).sum(axis=0)
        state["inf"] += np.isinf(rows).sum(axis=0)
        room = self.n_first - len(state["first"])
        if room > 0:
            bad = ~np.isfinite(rows)
            at = np.flatnonzero(bad.any(axis=1))[:room]  # so that positions are listed for a few rows only
            row, column = np.nonzero(bad[at])
            found = np.stack([first_row + at[row], column], axis=1)[:room]
            state["first"] = np.concatenate([state["first"], found])
        return state

    @property
    def sparse_up_to(self) -> float:
        """Never slower."""
        return 1.0

    def sparse_flops_per_row(self, density: float) -> float:
        """One addition a stored entry."""
        return density * self.n_features

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """Masks, and the places of all stored entries in the worst case."""
        return 44 * n_stored + 8 * n_rows + 16 * self.n_features

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Look at the stored entries."""
        if all_finite(rows.data):
            return state
        for name, found in (("nan", np.isnan(rows.data)), ("inf", np.isinf(rows.data))):
            state[name] += np.bincount(rows.indices[found], minlength=self.n_features)
        at = np.flatnonzero(~np.isfinite(rows.data))[: self.n_first - len(state["first"])]
        row = np.searchsorted(rows.indptr, at, side="right") - 1
        found = np.stack([first_row + row, rows.indices[at].astype(np.int64)], axis=1)
        state["first"] = np.concatenate([state["first"], found])
        return state

    def merge(self, a: State, b: State) -> State:
        """Add counts; the first positions of both, in row order."""
        first = np.concatenate([a["first"], b["first"]])
        order = np.lexsort((first[:, 1], first[:, 0]))[: self.n_first]
        return {"nan": a["nan"] + b["nan"], "inf": a["inf"] + b["inf"], "first": first[order]}

    def of_columns(self, columns: Columns) -> "NonFinite":
        """Recipe of some columns."""
        return replace(self, n_features=columns.size)

    def joined(self, parts: Parts) -> State:
        """Counts of all columns, and the first positions of all."""
        found = [np.stack([part["first"][:, 0], columns[part["first"][:, 1]]], axis=1) for columns, part in parts]
        first = np.concatenate(found)
        order = np.lexsort((first[:, 1], first[:, 0]))[: self.n_first]
        counts = join_arrays({name: array for name, array in self.zero().items() if name != "first"}, parts)
        return counts | {"first": first[order]}

    def result(self, state: State) -> NonFiniteEntries:
        """Counts and positions."""
        return NonFiniteEntries(state["nan"].copy(), state["inf"].copy(), state["first"].copy())


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
            f"Input X contains infinity: {entries.n_inf} infinite entries in "
            f"{np.count_nonzero(entries.inf_by_column)} column(s), the first column being "
            f"{column}{_first(entries)}. Infinite entries cannot be filled. Correct the data, or drop the "
            "column."
        )
        raise _placed(NonFiniteInput(message), entries)


def _nan_message(entries: NonFiniteEntries, once: bool) -> str:
    columns = np.flatnonzero(entries.nan_by_column)
    remedy = (
        "Fit with missing='zero', or correct the data."
        if once
        else "Fit with missing='mean' (one more read of the data) or missing='zero', or correct the data. `spae "
        "check` lists the entries."
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
