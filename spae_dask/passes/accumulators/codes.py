"""Cross products in two reads, each of some columns at a time: what a row needs of all columns is kept in between.

``CrossProducts`` multiplies the chosen columns of a row, and its products with the directions, with all of the row.
Where rows come a few columns at a time, a first read keeps both for all rows, and a second one multiplies.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from spae_dask.passes.accumulators.base import Accumulator, Floats, Rows, State
from spae_dask.passes.accumulators.by_columns import Columns, Parts, join_arrays
from spae_dask.passes.accumulators.cross import CrossProducts, Products
from spae_dask.passes.accumulators.wrapped import Imputed


@dataclass(frozen=True, eq=False)
class RowCodes:
    """Numbers of all rows that are kept between two reads.

    Attributes
    ----------
    chosen : ndarray (n, r)
        The chosen columns, as they are read.
    codes : ndarray (n, k)
        Products of the rows with the directions.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.codes.RowCodes"

    chosen: npt.NDArray[Any]
    codes: Floats


@dataclass(frozen=True, eq=False)
class Codes:
    """Recipe for what `ProductsGiven` needs of all rows. One pass; 2 k operations an entry.

    Parameters
    ----------
    products : CrossProducts
        Recipe of the products, of the columns that rows have.
    n_rows : int
        n.
    dtype : str
        Type in which chosen columns are kept.
    local, places : ndarray of int, optional
        Chosen columns among those that rows have, and their places among all chosen ones; all if not given.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.codes.Codes"
    is_shared: ClassVar[bool] = True

    products: CrossProducts
    n_rows: int
    dtype: str
    local: Columns | None = None
    places: Columns | None = None

    @property
    def _widths(self) -> tuple[int, int, int]:
        """Columns of rows, chosen columns, and directions."""
        products = self.products
        return products.mean.shape[-1], products.columns.size, 0 if products.Z is None else products.Z.shape[1]

    @property
    def state_nbytes(self) -> int:
        """Chosen columns and codes of all rows."""
        _, r, k = self._widths
        return int(self.n_rows * (r * np.dtype(self.dtype).itemsize + 8 * k))

    @property
    def panel_rows(self) -> int:
        """Number of rows that stay in cache."""
        return self.products.panel_rows

    def work_nbytes(self, n_rows: int) -> int:
        """The counted rows, their codes, and the directions."""
        d, _, k = self._widths
        return 8 * (n_rows * (d + k) + d * k)

    @property
    def flops_per_row(self) -> float:
        """One product."""
        d, _, k = self._widths
        return 2.0 * d * k + 4.0 * d

    def zero(self) -> State:
        """No rows."""
        _, r, k = self._widths
        return {"chosen": np.zeros((self.n_rows, r), self.dtype), "codes": np.zeros((self.n_rows, k))}

    def of_columns(self, columns: Columns) -> "Codes":
        """Recipe of some columns, which adds to the same state."""
        at = np.minimum(np.searchsorted(columns, self.products.columns), columns.size - 1)
        places = np.flatnonzero(columns[at] == self.products.columns)
        return replace(self, products=of_some(self.products, columns), local=at[places], places=places)

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Keep what is needed of these rows."""
        where = slice(first_row, first_row + rows.shape[0])
        chosen = rows[:, self.products.columns if self.local is None else self.local]
        state["chosen"][where, slice(None) if self.places is None else self.places] = chosen
        state["codes"][where] += self.products.codes_of(self.products.counted(rows))
        return state

    def merge(self, a: State, b: State) -> State:
        """Every chosen entry is in one of them, and zero in the other; codes add."""
        return {name: a[name] + b[name] for name in a}

    def result(self, state: State) -> RowCodes:
        """Chosen columns and codes."""
        return RowCodes(state["chosen"], state["codes"])


@dataclass(frozen=True, eq=False)
class ProductsGiven:
    """Recipe for cross products of rows whose chosen columns and codes are known.

    Parameters
    ----------
    products : CrossProducts
        Recipe of the products, of the columns that rows have.
    about : CrossProducts
        The same of the chosen columns alone.
    known : RowCodes
        Of all rows.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.codes.ProductsGiven"

    products: CrossProducts
    about: CrossProducts
    known: RowCodes

    @property
    def state_nbytes(self) -> int:
        """That of the products."""
        return self.products.state_nbytes

    @property
    def panel_rows(self) -> int:
        """That of the products."""
        return self.products.panel_rows

    def work_nbytes(self, n_rows: int) -> int:
        """That of the products, and what is known of all rows, which every process holds."""
        return self.products.work_nbytes(n_rows) + int(self.known.chosen.nbytes + self.known.codes.nbytes)

    @property
    def flops_per_row(self) -> float:
        """Two products."""
        d, k = int(self.products.mean.shape[-1]), int(self.known.codes.shape[1])
        return self.products.flops_per_row - 2.0 * d * k

    def zero(self) -> State:
        """No rows."""
        return self.products.zero()

    def of_columns(self, columns: Columns) -> "ProductsGiven":
        """Recipe of some columns."""
        return replace(self, products=of_some(self.products, columns))

    def joined(self, parts: Parts) -> State:
        """Products of all columns."""
        return join_arrays(self.zero(), parts)

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Add the products of these rows."""
        if rows.shape[0] == 0:
            return state
        where, counted = slice(first_row, first_row + rows.shape[0]), self.products.counted(rows)
        codes: Any = self.known.codes[where].astype(counted.dtype)
        return self.products.add(state, counted, self.about.counted(self.known.chosen[where]), codes)

    def merge(self, a: State, b: State) -> State:
        """That of the products."""
        return self.products.merge(a, b)

    def result(self, state: State) -> Products:
        """That of the products."""
        return self.products.result(state)


def of_some(products: CrossProducts, columns: Columns) -> CrossProducts:
    """Recipe for rows of some columns; the chosen ones keep their numbers among all."""
    scale, Z = products.scale, products.Z
    return replace(
        products,
        mean=products.mean[..., columns],
        scale=None if scale is None else scale[columns],
        Z=None if Z is None else Z[columns],
    )


def codes_before(recipe: Accumulator[Any], n_rows: int, dtype: np.dtype[Any]) -> Accumulator[Any] | None:
    """Recipe of the read before that of cross products, if rows come some columns at a time; None for other recipes."""
    if isinstance(recipe, Imputed):
        inner = codes_before(recipe.inner, n_rows, np.dtype(np.float64))  # filled entries are of this type
        return None if inner is None else replace(recipe, inner=inner)
    return Codes(recipe, n_rows, dtype.str) if isinstance(recipe, CrossProducts) else None


def unknown_codes(recipe: Accumulator[Any]) -> RowCodes:
    """Zeros in place of the result of such a recipe, that take no memory."""
    codes = recipe.inner if isinstance(recipe, Imputed) else recipe
    assert isinstance(codes, Codes)
    (_, r, k), n = codes._widths, codes.n_rows
    return RowCodes(np.broadcast_to(np.zeros((), codes.dtype), (n, r)), np.broadcast_to(0.0, (n, k)))


def with_codes(recipe: Accumulator[Any], known: RowCodes) -> Accumulator[Any]:
    """The recipe of cross products with what the read before found."""
    if isinstance(recipe, Imputed):
        return replace(recipe, inner=with_codes(recipe.inner, known))
    assert isinstance(recipe, CrossProducts)
    return ProductsGiven(recipe, of_some(recipe, recipe.columns), known)
