"""Sparse rows as input of an accumulator: unchanged if it takes sparse rows, else made dense one panel at a time."""

from collections.abc import Iterator
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.passes.accumulators.base import Accumulator, Floats, Result_co, State, scratch_nbytes, total_of
from spae_dask.passes.accumulators.shift import has_wide_integers

PANEL_ROWS = 4096
"""Most rows of a sparse panel: many, because an update may touch all of a large state however few entries it adds."""

PANEL_STORED = 1 << 20
"""Stored entries of a sparse panel, unless a single row has more."""

PRODUCTS_UP_TO = 0.1
"""Density up to which products of sparse rows with dense matrices are faster than BLAS on dense ones (measured)."""


@runtime_checkable
class SparseAccumulator(Accumulator[Result_co], Protocol[Result_co]):
    """An accumulator that takes CSR rows at a cost in proportion to their stored entries.

    The state is the same, and to rounding the same numbers are in it, whether rows came sparse or dense; one state may
    be made of both.
    """

    @property
    def sparse_up_to(self) -> float:
        """Share of entries stored above which dense rows are faster."""
        ...

    def sparse_flops_per_row(self, density: float) -> float:
        """Floating point operations per row of which this share of entries is stored."""
        ...

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """Bytes of scratch one sparse update takes at most."""
        ...

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Add CSR rows in canonical form (columns sorted, none twice), in place; the rows are not changed."""
        ...


def takes_sparse(accumulator: Accumulator[Any], density: float) -> TypeGuard[SparseAccumulator[Any]]:
    """Return True if the accumulator takes rows of this density faster as sparse rows."""
    return isinstance(accumulator, SparseAccumulator) and density <= accumulator.sparse_up_to


def density_of(rows: sp.csr_array) -> float:
    """Share of the entries that are stored."""
    m, d = rows.shape
    return float(rows.nnz / max(1, m * d))


def update_csr(accumulator: Accumulator[Any], state: State, rows: sp.csr_array, first_row: int) -> State:
    """Add a CSR panel in canonical form by whichever way is faster.

    Panels that hold 64-bit integers beyond 2^53 are made dense: products of sparse rows are products of floats.
    """
    if takes_sparse(accumulator, density_of(rows)) and not has_wide_integers(rows.data):
        return accumulator.update_sparse(state, rows, first_row)
    return update_dense(accumulator, state, rows, first_row)


def update_dense(accumulator: Accumulator[Any], state: State, rows: sp.csr_array, first_row: int) -> State:
    """Add CSR rows, made dense a panel at a time."""
    step = accumulator.panel_rows
    for start in range(0, rows.shape[0], step):
        state = accumulator.update(state, rows[start : start + step].toarray(), first_row + start)
    return state


def weights_of(
    rows: sp.csr_array, roots: Floats | None
) -> tuple[Floats | None, npt.NDArray[np.intp], npt.NDArray[Any]]:
    """Weight of each stored entry, None for 1; number ``(d,)`` of entries of each column not stored, and their weight.

    Columns that are all stored have exactly 0, whatever rounding makes of their weights.
    """
    m, d = rows.shape
    zeros = m - np.bincount(rows.indices, minlength=d)
    if roots is None:
        return None, zeros, zeros
    weights = np.repeat(roots**2, np.diff(rows.indptr))
    stored = np.bincount(rows.indices, weights=weights, minlength=d)
    return weights, zeros, np.where(zeros > 0, np.maximum(total_of(m, roots) - stored, 0.0), 0.0)


def sparse_panels(indptr: npt.NDArray[np.integer[Any]]) -> Iterator[tuple[int, int]]:
    """Row ranges ``(start, stop)`` of panels, by the row pointers of a CSR block."""
    start, n_rows = 0, len(indptr) - 1
    while start < n_rows:
        fits = int(np.searchsorted(indptr, indptr[start] + PANEL_STORED, side="right")) - 1
        stop = min(n_rows, start + PANEL_ROWS, max(start + 1, fits))
        yield start, stop
        start = stop


def flops_per_sparse_row(accumulator: Accumulator[Any], density: float) -> float:
    """Floating point operations per row, sparse or made dense."""
    if takes_sparse(accumulator, density):
        return accumulator.sparse_flops_per_row(density)
    return accumulator.flops_per_row


def sparse_scratch(accumulator: Accumulator[Any], n_rows: int, n_stored: int, n_features: int) -> int:
    """Most bytes a sparse panel and its update take; made dense if need be, as any may be fuller than the average."""
    nbytes = scratch_nbytes(accumulator, n_rows) + 8 * min(n_rows, accumulator.panel_rows) * n_features
    if isinstance(accumulator, SparseAccumulator):
        nbytes = max(nbytes, accumulator.sparse_work_nbytes(n_rows, n_stored))
    return nbytes + 16 * n_stored + 8 * n_rows
