"""Sources whose rows follow a recipe as they are read: raw counts become data without a second copy of the store.

The arithmetic is in float64. Its result is float64 too, or float32 where the source is of at most 32-bit floats.
Entries that are not finite stay as they are, and count for nothing in the sum of their row.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.blocks import (
    Block,
    RowBlocks,
    as_csr,
    asked_of,
    column_groups,
    columns_alone,
    in_canonical_form,
    largest_block_nbytes,
    remember,
)
from spae_dask.errors import InvalidInput
from spae_dask.passes.accumulators.nonfinite import all_finite
from spae_dask.recipes import OF_ROWS, Recipe
from spae_dask.storage.sources.changed import ChangedBlocks
from spae_dask.storage.sources.dask_blocks import DaskBlocks
from spae_dask.storage.sources.submatrix import beneath_choice

Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]

PANEL_ENTRIES = 1 << 17
"""Entries changed at once, unless a single row has more: a float64 copy of them stays in cache."""

COPIES = 6
"""Copies of a panel, in float64, that the arithmetic holds at most."""


@dataclass(frozen=True)
class Wrong:
    """An entry, or a row, that a recipe cannot be followed with.

    Attributes
    ----------
    row : int
        Row of the block.
    column : int or None
        Column; None for the whole row.
    value : float
        The entry, or the sum of the row.
    """

    row: int
    column: int | None
    value: float


class CannotFollow(Exception):
    """Raised where a block does not suit a recipe; `wrong_in` finds the place."""


def followed_dtype(dtype: np.dtype[Any]) -> np.dtype[np.generic]:
    """Type of the entries that a recipe makes of entries of ``dtype``."""
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64)


def follow(recipe: Recipe, block: Any, dtype: np.dtype[Any]) -> Any:
    """The rows that a recipe makes of raw ones; of sparse rows only stored entries are changed.

    Parameters
    ----------
    recipe : Recipe
        The recipe.
    block : ndarray or sparse array (m, d)
        Raw rows, with all columns if the recipe normalises rows. They are not changed.
    dtype : numpy.dtype
        Type of the result.

    Raises
    ------
    CannotFollow
        If an entry is negative where that is not allowed, or the sum of a row overflows.
    """
    if sp.issparse(block):
        rows = in_canonical_form(as_csr(block))  # entries given twice are one entry
        values = np.empty(rows.data.shape, dtype)
        for start, stop in _panels(rows.indptr):
            first, last = rows.indptr[start], rows.indptr[stop]
            panel = rows.data[first:last].astype(np.float64)
            values[first:last] = _changed(recipe, panel, rows.indptr[start : stop + 1] - first)
        return sp.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    dense = np.asarray(block)
    n, d = dense.shape
    made = np.empty((n, d), dtype)
    step = max(1, PANEL_ENTRIES // max(1, d))
    for start in range(0, n, step):
        panel = np.array(dense[start : start + step], dtype=np.float64, order="C")  # sums depend on the order
        made[start : start + step] = _changed(recipe, panel)
    return made


def _panels(indptr: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Row ranges of about as many stored entries, by row pointers."""
    start, n_rows = 0, len(indptr) - 1
    while start < n_rows:
        fits = int(np.searchsorted(indptr, int(indptr[start]) + PANEL_ENTRIES, side="right")) - 1
        stop = min(n_rows, start + PANEL_ENTRIES, max(start + 1, fits))
        yield start, stop
        start = stop


def _changed(recipe: Recipe, panel: Floats, pointers: npt.NDArray[Any] | None = None) -> Floats:
    """Rows, or stored entries of rows between row pointers, changed in place."""
    flat = panel.reshape(-1)
    bad = None if all_finite(flat) else np.flatnonzero(~np.isfinite(flat))
    kept = None if bad is None else flat[bad]
    if bad is not None:
        flat[bad] = 0.0
    if recipe.non_negative is not None and flat.size and flat.min() < 0:
        raise CannotFollow
    with np.errstate(over="ignore"):  # infinite entries are told of by whoever reads them
        for step in recipe.steps:
            if step.name == OF_ROWS:
                assert not isinstance(step.argument, str), "the target of a recipe is found before rows follow it"
                sums = row_sums(panel, pointers)
                if not np.isfinite(sums).all():
                    raise CannotFollow
                factors = np.divide(float(step.argument or 0), sums, out=np.zeros_like(sums), where=sums > 0)
                panel *= factors[:, None] if pointers is None else np.repeat(factors, np.diff(pointers))
            else:
                _ELEMENTWISE[step.name](flat, step.argument)
    if bad is not None:
        flat[bad] = kept
    return panel


def row_sums(panel: Floats, pointers: npt.NDArray[Any] | None = None) -> Floats:
    """Sums of rows, or of stored entries between row pointers. That of a row depends on no other row."""
    if pointers is None:
        dense: Floats = panel.sum(axis=1)
        return dense
    sums = np.zeros(len(pointers) - 1)
    filled = np.flatnonzero(np.diff(pointers))
    if filled.size:
        sums[filled] = np.add.reduceat(panel, pointers[filled])
    return sums


def wrong_in(recipe: Recipe, block: Any) -> Wrong:
    """The first entry, or row, of a block that the recipe cannot be followed with."""
    rows = in_canonical_form(as_csr(block)).astype(np.float64) if sp.issparse(block) else np.array(block, np.float64)
    entries: Any = rows.data if sp.issparse(block) else rows
    entries[~np.isfinite(entries)] = 0.0  # told of by whoever reads them
    row, column = (rows < 0).nonzero()
    if recipe.non_negative is not None and row.size:
        first = np.lexsort((column, row))[0]
        return Wrong(int(row[first]), int(column[first]), float(rows[row[first], column[first]]))
    with np.errstate(over="ignore"):
        sums = np.asarray(rows.sum(axis=1)).ravel()
    return Wrong(int(np.flatnonzero(np.isinf(sums))[0]), None, np.inf)


def _arcsinh(values: Floats, cofactor: Any) -> None:
    values /= cofactor
    np.arcsinh(values, out=values)


def _binarize(values: Floats, _: Any) -> None:
    values[:] = values != 0


_ELEMENTWISE: dict[str, Callable[[Floats, Any], Any]] = {
    "log1p": lambda values, _: np.log1p(values, out=values),
    "sqrt": lambda values, _: np.sqrt(values, out=values),
    "arcsinh": _arcsinh,
    "clip": lambda values, upper: np.minimum(values, upper, out=values),
    "binarize": _binarize,
}
"""Steps that change entries in place, given their number."""


@dataclass(frozen=True, eq=False)
class RecipeBlocks(ChangedBlocks):
    """Another source's blocks, which follow a recipe as they are read.

    Parameters
    ----------
    source : RowBlocks
        Source of raw rows, with all of their columns. It has no lazy blocks.
    recipe : Recipe
        The recipe.
    numbers : ndarray of int, optional
        Numbers of its columns in messages, if they are some of more.
    """

    recipe: Recipe
    numbers: Indices | None = None

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the data."""
        return followed_dtype(self.source.dtype)

    @property
    def n_chunk_columns(self) -> int:
        """Parts of the columns that can be read alone: 1 if rows are normalised, which takes all columns."""
        return 1 if self.recipe.of_rows else int(getattr(self.source, "n_chunk_columns", 1))

    @property
    def column_groups(self) -> tuple[Indices, ...] | None:
        """Those of the source; None if rows are normalised, which takes all columns."""
        return None if self.recipe.of_rows else column_groups(self.source)

    @property
    def raw(self) -> RowBlocks:
        """The source as it is."""
        return self.source

    @property
    def read_nbytes(self) -> int:
        """A raw block, and copies of a panel, beside what reading takes."""
        return self.source.read_nbytes + largest_block_nbytes(self.source) + panels_nbytes(self.shape[1])

    def read(self, i: int) -> Block:
        """Block ``i`` of the data.

        Raises
        ------
        InvalidInput
            If an entry is negative where the recipe allows none; row and column are named.
        """
        raw: Any = self.source.read(i)
        try:
            block: Block = follow(self.recipe, raw, self.dtype)
        except CannotFollow:
            wrong, names = wrong_in(self.recipe, raw), getattr(self.source, "feature_names", None)
            name = None if names is None or wrong.column is None else names[wrong.column]
            if wrong.column is not None and self.numbers is not None:
                wrong = replace(wrong, column=int(self.numbers[wrong.column]))
            raise told_wrong(self.recipe, wrong, self.source.bounds[i], self.describe(), name) from None
        return block

    def of_columns(self, columns: Indices) -> RowBlocks | None:
        """Some of its columns, unless their rows are normalised, which takes all columns."""
        alone = None if self.recipe.of_rows else columns_alone(self.source, columns)
        if alone is None:
            return None
        return RecipeBlocks(alone, self.recipe, columns if self.numbers is None else self.numbers[columns])


def with_target(source: RowBlocks, target: float) -> RowBlocks:
    """The same data, whose recipe has the target that was found; beneath a choice of columns too."""

    def found(whole: Any) -> RowBlocks:
        recipe = whole.recipe.with_target(target)
        return replace(whole, recipe=recipe) if isinstance(whole, RecipeBlocks) else with_recipe(whole.raw, recipe)

    return beneath_choice(source, found)


def panels_nbytes(n_columns: int) -> int:
    """Bytes of the copies of a panel that the arithmetic holds."""
    return COPIES * 8 * max(PANEL_ENTRIES, n_columns)


def told_wrong(recipe: Recipe, wrong: Wrong, first_row: float, called: str, name: object = None) -> InvalidInput:
    """The error about an entry, or a row, of the block that starts at ``first_row``, NaN if that is not known."""
    row = f"row {wrong.row} of a row chunk" if np.isnan(first_row) else f"row {int(first_row) + wrong.row}"
    if wrong.column is None:
        return InvalidInput(f"the sum of {row} of {called} is infinite. Correct the data.")
    column = f"column {wrong.column}" + ("" if name is None else f" ({name})")
    return InvalidInput(
        f"{recipe.non_negative} takes numbers of at least 0, but {row}, {column} of {called} is {wrong.value:g}. The "
        "data may be centred or transformed already. Give raw data, such as array='layers/counts' of AnnData, or "
        "leave out the recipe."
    )


def with_recipe(source: RowBlocks, recipe: Recipe | None) -> RowBlocks:
    """The source of the data that a recipe makes of raw rows, block by block as they are read.

    Parameters
    ----------
    source : RowBlocks
        Source of any real type, with all of its columns.
    recipe : Recipe or None
        The recipe; None for the source itself.
    """
    if recipe is None:
        return source
    followed: Callable[[Recipe], RowBlocks] | None = getattr(source, "followed", None)
    if followed is not None:  # what the source does to its entries comes after
        return followed(recipe)
    if not isinstance(source, DaskBlocks):
        return RecipeBlocks(source, recipe)
    raw = largest_block_nbytes(source)
    rechunked = raw if recipe.of_rows and source.n_chunk_columns > 1 else 0
    made = replace(
        source,
        array=lazily_followed(source.array, recipe, source.describe(), source.feature_names),
        beside_nbytes=source.beside_nbytes + raw + rechunked + panels_nbytes(source.shape[1]),
        recipe=recipe,
        raw=source,
    )
    return remember(made, **asked_of(source))


def lazily_followed(array: Any, recipe: Recipe | None, called: str, names: tuple[str, ...] | None = None) -> Any:
    """A dask array of the data that a recipe makes of a raw one; itself without a recipe."""
    if recipe is None:
        return array
    if recipe.of_rows and array.numblocks[1] > 1:
        array = array.rechunk({1: -1})
    dtype = followed_dtype(array.dtype)
    return array.map_blocks(
        _follow_chunk, recipe, dtype, called=called, names=names, dtype=dtype, meta=array._meta.astype(dtype)
    )


def _follow_chunk(
    chunk: Any,
    recipe: Recipe,
    dtype: np.dtype[Any],
    called: str = "",
    names: tuple[str, ...] | None = None,
    block_info: Any = None,
) -> Any:
    try:
        return follow(recipe, chunk, dtype)
    except CannotFollow:
        wrong = wrong_in(recipe, chunk)
        (first_row, _), (first_column, _) = block_info[0]["array-location"]
        if wrong.column is not None:
            wrong = replace(wrong, column=wrong.column + int(first_column))
        name = None if names is None or wrong.column is None else names[wrong.column]
        raise told_wrong(recipe, wrong, first_row, called, name) from None
