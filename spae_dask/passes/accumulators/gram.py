"""Centered Gram matrix (scatter) about a shift, accumulated in float64.

Every state counts from its own shift (:mod:`spae_dask.passes.accumulators.shift`), the mean of the first rows it sees.
So neither a large mean nor float32 input cancels. States are merged about the mean of both, as in the pairwise formula
of Chan, Golub & LeVeque (1983). The result knows a bound on its own rounding
(:mod:`spae_dask.passes.accumulators.roundings`).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import dsyr2, dsyrk, ssyrk

from spae_dask.maths.linalg.compiled import gram_of
from spae_dask.maths.linalg.sparse_rows import STRIP, mean_of_stored_columns, shifted_nbytes, shifted_rows
from spae_dask.passes.accumulators.base import Floats, Rows, State, ones_of, panel_rows_for, total_of, weighed
from spae_dask.passes.accumulators.roundings import largest_error, lengthened, merged, no_chain, usual_error
from spae_dask.passes.accumulators.shift import (
    deviations,
    in_two_floats,
    moved,
    refuse_vanishing,
    shift_for,
    step_between,
)
from spae_dask.passes.accumulators.single import single_deviations, single_panel_rows


@dataclass(frozen=True, eq=False)
class Scatter:
    """Second-order summary of the rows of X.

    Attributes
    ----------
    count : float
        Number of rows, or the sum of their weights.
    center : ndarray (2, d)
        Column means, in two floats.
    scatter : ndarray (d, d)
        ``(X - mean)'(X - mean)``.
    lengths : ndarray (d,)
        Root of the sum of squares of each column about the shifts that were used: at least its length about the mean.
    error : float
        No entry (i, j) of the scatter errs by more than ``error * lengths[i] * lengths[j]``.
    noise : float
        The size of error to expect, in the same units: roundings are as often up as down.
    exact_sums : bool
        True if all sums are exact integers, so that only the last step rounded.
    """

    count: float
    center: Floats
    scatter: Floats
    lengths: Floats
    error: float
    noise: float
    exact_sums: bool = False

    @property
    def mean_error(self) -> float:
        """Largest error of the mean of a column, over its length and times the root of the count."""
        return self.error

    @property
    def mean(self) -> Floats:
        """Column means ``(d,)``, each the nearest float64 number."""
        mean: Floats = self.center[0]
        return mean

    def about(self, origin: Floats) -> Floats:
        """``(X - origin)'(X - origin)`` (d, d) for an origin (2, d): the scatter plus a rank-one term."""
        offset = np.sqrt(self.count) * step_between(origin, self.center)
        gram: Floats = self.scatter + np.outer(offset, offset)
        return gram


@dataclass(frozen=True)
class Gram:
    """Recipe for the scatter of X.

    One pass; d^2 multiply-adds per row (only a triangle is computed).

    Parameters
    ----------
    n_features : int
        d.
    single : bool
        Multiply in float32, see :mod:`spae_dask.passes.accumulators.single`; sums are in float64 all the same.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.gram.Gram"
    takes_weights: ClassVar[bool] = True

    n_features: int
    single: bool = False

    @property
    def state_nbytes(self) -> int:
        """A d x d matrix, four d-vectors and two numbers."""
        return 8 * self.n_features * (self.n_features + 4) + 24

    @property
    def panel_rows(self) -> int:
        """Enough rows that touching the d x d matrix is paid for."""
        rows = panel_rows_for(self.n_features)
        return single_panel_rows(rows) if self.single else rows

    def work_nbytes(self, n_rows: int) -> int:
        """The shifted copy of the rows, and a one for each of them; in float32 two, and a product as well."""
        exact = 8 * (self.n_features + 1) * n_rows
        return exact + 8 * self.n_features**2 if self.single else exact

    @property
    def flops_per_row(self) -> float:
        """See `products_per_row`."""
        return products_per_row(self.n_features, single=self.single)

    def zero(self) -> State:
        """No rows."""
        d = self.n_features
        return {
            "count": np.zeros((), dtype=np.int64),
            "shift": np.zeros((2, d)),
            "sum": np.zeros(d),
            # sums of squares that moving to a mean subtracted from the diagonal
            "moved": np.zeros(d),
            "chain": no_chain(),
            # column-major, so that BLAS adds to it in place; the upper triangle alone is kept up
            "gram": np.zeros((d, d), order="F"),
        }

    def update(
        self,
        state: State,
        rows: Rows,
        first_row: int,  # noqa: ARG002 - rows are exchangeable
        roots: Floats | None = None,
    ) -> State:
        """Add rows to the sums, all counted from the state's shift."""
        if rows.shape[0] == 0:
            return state
        if state["count"] == 0:
            state["shift"][...] = shift_for(rows, roots)
        if self.single and self._add_singles(state, rows):
            return state
        # row-major whatever the rows are, so that its transpose is what BLAS takes without a copy
        shifted = weighed(deviations(rows, state["shift"]), roots)
        state["sum"] += ones_of(rows.shape[0], roots) @ shifted
        # in place, unless the state was stored and came back row-major: then BLAS returns a column-major copy
        state["gram"] = dsyrk(1.0, shifted.T, beta=1.0, c=state["gram"], overwrite_c=1)
        if rows.dtype.itemsize >= 8:  # squares of narrower types do not underflow
            refuse_vanishing(shifted, np.diagonal(state["gram"]))
        state["chain"] = lengthened(state["chain"], rows.shape[0])
        state["count"] += total_of(rows.shape[0], roots)
        return state

    def _add_singles(self, state: State, rows: Rows) -> bool:
        """Add rows by float32 products; False, and nothing done, where float32 is too narrow."""
        narrow = single_deviations(rows, state["shift"])
        if narrow is None:
            return False
        state["sum"] += np.ones(rows.shape[0], dtype=np.float32) @ narrow
        state["gram"] += ssyrk(1.0, narrow.T)
        state["chain"] = lengthened(state["chain"], rows.shape[0], single=True)
        state["count"] += rows.shape[0]
        return True

    @property
    def sparse_up_to(self) -> float:
        """A sparse product is twice as fast as BLAS at this density, and as fast at one and a half times it."""
        return 0.06

    def sparse_flops_per_row(self, density: float) -> float:
        """Every pair of stored entries, both ways round."""
        stored = density * self.n_features
        return 2.0 * stored * stored + 3.0 * stored

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """The counted rows and their transpose, and a strip of the product, sparse and dense."""
        d = self.n_features
        return shifted_nbytes(n_rows, n_stored, d) + 16 * n_stored + 24 * min(d * d, max(STRIP, d))

    def update_sparse(
        self,
        state: State,
        rows: sp.csr_array,
        first_row: int,  # noqa: ARG002
        roots: Floats | None = None,
    ) -> State:
        """Add sparse rows; a first one counts from the mean of its mostly stored columns, and from 0 in all others."""
        m, d = rows.shape
        if m == 0:
            return state
        if state["count"] == 0:
            state["shift"][...] = in_two_floats(mean_of_stored_columns(rows))
        about = shifted_rows(rows, state["shift"]).weighed(roots)
        if not gram_of(about.rows, state["gram"]):
            transposed, width = about.rows.T.tocsr(), max(1, STRIP // d)
            for start in range(0, d, width):
                _add_columns(state["gram"], transposed[start : start + width] @ about.rows, start)
        sums = about.sums
        if about.rest.any():  # the state was begun by dense rows, or by others of this column
            # (Y - 1 c')'(Y - 1 c') = Y'Y - c w' - w c' with w = Y'1 - m c / 2, and Y'1 = sums + m c
            w = sums + (about.total / 2) * about.rest
            state["gram"] = dsyr2(-1.0, about.rest, w, a=state["gram"], overwrite_a=1)
        state["sum"] += sums
        # twice, because the subtracted terms are a few times the result
        state["chain"] = lengthened(state["chain"], 2 * m)
        state["count"] += about.total
        return state

    def merge(self, a: State, b: State) -> State:
        """Move both sums to the mean of all rows, then add them."""
        if a["count"] == 0 or b["count"] == 0:
            only = b if a["count"] == 0 else a
            return {name: array.copy(order="F") for name, array in only.items()}
        n_a, n_b = a["count"].item(), b["count"].item()
        between = step_between(a["shift"], b["shift"])
        step = (a["sum"] + b["sum"] + n_b * between) / (n_a + n_b)
        shift = moved(a["shift"], step)
        gram = np.add(a["gram"], b["gram"], order="F")
        total, left = np.zeros(self.n_features), a["moved"] + b["moved"]
        for state, n in ((a, n_a), (b, n_b)):
            offset = step_between(shift, state["shift"])
            # (Y + 1 o')'(Y + 1 o') = Y'Y + o w' + w o' with w = Y'1 + n o / 2
            w = state["sum"] + (n / 2) * offset
            gram = dsyr2(1.0, offset, w, a=gram, overwrite_a=1)
            left += np.clip(-2.0 * offset * w, 0.0, None)
            total += state["sum"] + n * offset
        return {
            "count": np.array(n_a + n_b, dtype=a["count"].dtype),
            "shift": shift,
            "sum": total,
            "moved": left,
            "chain": merged(a["chain"], b["chain"], roundings=3),
            "gram": gram,
        }

    def weighted(self, state: State, count: int) -> State:
        """State of the same rows, counted as so many: each has the weight of this count over theirs."""
        share = count / int(state["count"])
        sums = {name: share * state[name] for name in ("sum", "moved", "gram")}
        count_of = {"count": np.array(count, dtype=np.int64), "shift": state["shift"].copy()}
        return count_of | sums | {"chain": state["chain"] + np.array([2.0, 0.0])}

    def result(self, state: State) -> Scatter:
        """Mean, full symmetric scatter and its error; of no rows, zeros."""
        n = state["count"].item()
        offset = state["sum"] / (n or 1)
        upper = np.triu(state["gram"] - n * np.outer(offset, offset))
        scatter = upper + np.triu(upper, 1).T
        squares = np.clip(np.diagonal(state["gram"]), 0.0, None) + state["moved"]
        # the sums err as the products do, and count by the share of the squares that moving to the mean took away
        off = state["moved"] + n * offset**2
        share = float(np.sqrt(np.max(np.divide(off, squares, out=np.zeros_like(off), where=squares > 0), initial=0.0)))
        chain = (1 + 2 * share) * state["chain"]
        return Scatter(
            count=n,
            center=moved(state["shift"], offset),
            scatter=scatter,
            lengths=np.sqrt(squares),
            error=largest_error(chain),
            noise=usual_error(chain),
        )


def products_per_row(n_features: int, *, single: bool) -> float:
    """Half of a full product of a row, counted as multiply and add; in float32 for half the price."""
    product = float(n_features) * (n_features + 1)
    return (product / 2 if single else product) + 3.0 * n_features


def _add_columns(gram: Floats, product: sp.csr_array, start: int) -> None:
    """Add rows ``start``, ... of a sparse symmetric matrix, as columns, to the upper triangle of ``gram``."""
    columns = slice(start, start + product.shape[0])
    if 8 * product.nnz > product.shape[0] * product.shape[1]:
        gram[: columns.stop, columns] += product.toarray()[:, : columns.stop].T
    else:
        entries = product.tocoo()
        gram[entries.col, start + entries.row] += entries.data
