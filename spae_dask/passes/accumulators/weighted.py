"""Recipes on weighted rows: a row of weight w counts as w rows would.

A sum over rows becomes the sum of the rows times their weights, because an accumulator multiplies each row, less its
shift, and the one beside it, by the root of the weight. Means are then weighted, and counts are sums of weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from spae_dask.passes.accumulators.base import Accumulator, Floats, Result, Rows, RunPass, State
from spae_dask.passes.accumulators.gram import Gram
from spae_dask.passes.accumulators.integer_gram import IntegerGram
from spae_dask.passes.accumulators.nonfinite import NonFinite
from spae_dask.passes.accumulators.row_sketch import RowSketch
from spae_dask.passes.accumulators.sparse import SparseAccumulator, update_dense
from spae_dask.passes.accumulators.together import Together
from spae_dask.passes.accumulators.whole_rows import WholeRows
from spae_dask.passes.accumulators.wrapped import Wrapped


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Weights of all rows of a matrix.

    Parameters
    ----------
    roots : ndarray (n,)
        Square roots of the weights, which are at least 0.
    """

    recipe_kind: ClassVar[str] = "row-weights"

    roots: Floats

    @property
    def n_rows(self) -> int:
        """n."""
        return int(self.roots.size)

    @property
    def weights(self) -> Floats:
        """The weights (n,), to rounding."""
        weights: Floats = self.roots**2
        return weights

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.roots @ self.roots)

    @property
    def nbytes(self) -> int:
        """Bytes of the roots."""
        return self.roots.nbytes

    def of(self, first_row: int, n_rows: int) -> Floats:
        """Roots of the weights of some rows."""
        return self.roots[first_row : first_row + n_rows]


class HasRoots(Protocol):
    """Square roots of the weights of all rows."""

    @property
    def nbytes(self) -> int:
        """Bytes of them."""
        ...

    def of(self, first_row: int, n_rows: int) -> Floats:
        """Roots of the weights of some rows."""
        ...


@dataclass(frozen=True, eq=False)
class Weighted(Wrapped):
    """Recipe ``inner`` on rows with weights. Rows of weight 0 are left out.

    Parameters
    ----------
    inner : Accumulator
        Recipe whose ``update`` takes the roots of the weights of its rows.
    weights : RowWeights or OneFold
        Weights of all rows.
    """

    recipe_kind: ClassVar[str] = "weighted"
    takes_weights: ClassVar[bool] = False

    inner: Any
    weights: HasRoots

    def work_nbytes(self, n_rows: int) -> int:
        """The weights, the rows that count, and the work of ``inner``."""
        d = self.inner.mean.shape[-1] if hasattr(self.inner, "mean") else self.inner.n_features
        return int(super().work_nbytes(n_rows) + 8 * n_rows * (d + 1) + self.weights.nbytes)

    def zero(self) -> State:
        """That of ``inner``, which counts weights; whole rows are counted as rows."""
        zero = super().zero()
        if "count" not in zero or isinstance(self.inner, WholeRows):
            return zero
        return zero | {"count": zero["count"].astype(np.float64)}

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Update ``inner`` with the rows and the roots of their weights."""
        if isinstance(self.inner, WholeRows):  # weighs all rows at the end
            return self.inner.update(state, rows, first_row)
        roots = self.weights.of(first_row, rows.shape[0])
        kept = self._kept(roots)
        return self.inner.update(state, rows[kept], first_row, roots[kept])  # type: ignore[no-any-return]

    @property
    def sparse_up_to(self) -> float:
        """That of ``inner``, if it takes sparse rows."""
        return self.inner.sparse_up_to if isinstance(self.inner, SparseAccumulator) else -1.0

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """A weighted copy of the rows, and the work of ``inner``."""
        return super().sparse_work_nbytes(n_rows, n_stored) + 24 * n_stored + self.weights.nbytes

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Update ``inner`` with the sparse rows and the roots of their weights."""
        if not isinstance(self.inner, SparseAccumulator):
            return update_dense(self, state, rows, first_row)
        roots = self.weights.of(first_row, rows.shape[0])
        kept = self._kept(roots)
        of_weights: Any = self.inner
        return of_weights.update_sparse(state, rows[kept], first_row, roots[kept])  # type: ignore[no-any-return]

    def _kept(self, roots: Floats) -> Any:
        """Rows to hand on: those that count, but all of them where their numbers matter."""
        return slice(None) if isinstance(self.inner, RowSketch) or roots.all() else roots > 0.0

    def result(self, state: State) -> Any:
        """That of ``inner``."""
        if isinstance(self.inner, WholeRows):
            return self.inner.result(state, self.weights.of(0, self.inner.n_rows))
        return super().result(state)


def weighted(recipe: Accumulator[Any], weights: RowWeights | None) -> Accumulator[Any]:
    """The recipe on weighted rows; without weights, as it is. Entries that are not finite are counted in all rows.

    Raises
    ------
    AssertionError
        If the recipe takes no weights, or deals rows to states of which each would take the weights of other rows.
    """
    if weights is None or isinstance(recipe, NonFinite):
        return recipe
    if isinstance(recipe, Together):
        return replace(recipe, parts={name: weighted(part, weights) for name, part in recipe.parts.items()})
    if isinstance(recipe, IntegerGram):  # weighted sums are no integers
        recipe = Gram(recipe.n_features)
    if not getattr(recipe, "takes_weights", False):
        raise AssertionError(
            f"the recipe {type(recipe).__name__} takes no weights. This is a bug of spae_dask. Please report it."
        )
    if isinstance(recipe, Wrapped):
        return replace(recipe, inner=weighted(recipe.inner, weights))
    return Weighted(recipe, weights)


def weighing(run_pass: RunPass, weights: RowWeights | None) -> RunPass:
    """Reads of the data that weigh all rows."""
    if weights is None:
        return run_pass

    def run_weighted(accumulator: Accumulator[Result], name: str = "pass") -> Result:
        made: Result = run_pass(weighted(accumulator, weights), name)
        return made

    return run_weighted


def all_weighted(
    passes: Sequence[tuple[str, Accumulator[Any]]], weights: RowWeights | None
) -> list[tuple[str, Accumulator[Any]]]:
    """Names and recipes of passes on weighted rows."""
    return [(name, weighted(recipe, weights)) for name, recipe in passes]
