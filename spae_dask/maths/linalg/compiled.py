"""Products of sparse rows by kernels that numba compiles, where it is installed: the same bits as scipy's.

Each entry of a product is summed from zero, over the rows in their order, as scipy does; only the order in which
entries are visited differs, so that what is written stays in cache. So workers with numba and workers without it may
share a pass. The extra ``fast`` installs numba.

Kernels run without the interpreter's lock. They are compiled at their first call, within seconds, and kept on disk.
"""

import functools
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Floats = npt.NDArray[np.float64]

TILE = 384
"""Columns of a tile of a Gram matrix: a megabyte of sums."""

DENSE = 1 / 8
"""Density from which products with all entries of chosen columns, zeros too, are faster: they need no indices."""

DENSE_TILE = 128
"""Chosen columns that are multiplied at once: a megabyte of a thousand rows."""

WORTH = 1 << 22
"""Multiplications from which a product is worth loading numba."""


@functools.cache
def has_numba() -> bool:
    """Return True if numba is installed."""
    return find_spec("numba") is not None


def gram_of(rows: sp.csr_array, gram: Floats) -> bool:
    """Add ``rows' rows`` to the upper triangle of ``gram`` if a compiled kernel is available and faster.

    Parameters
    ----------
    rows : scipy.sparse.csr_array (m, d) of float64
        Rows in canonical form.
    gram : ndarray (d, d), column-major
        Changed in place.

    Returns
    -------
    bool
        False if nothing was done.
    """
    n_stored = np.diff(rows.indptr).astype(np.int64)
    if not gram.flags.f_contiguous or not _worth(int((n_stored * n_stored).sum())):
        return False
    # the transpose of a column-major matrix is row-major; its lower triangle is the upper one
    _kernel("gram")(*_arrays(rows), gram.T, TILE)
    return True


def cross_of(chosen: sp.csr_array, rows: sp.csr_array, cross: Floats) -> bool:
    """Add ``chosen' rows`` to ``cross`` if a compiled kernel is there and worth it.

    Parameters
    ----------
    chosen : scipy.sparse.csr_array (m, r) of float64
        Chosen columns.
    rows : scipy.sparse.csr_array (m, d) of float64
        The same rows, all columns.
    cross : ndarray (r, d)
        Changed in place.

    Returns
    -------
    bool
        False if nothing was done.
    """
    per_row = np.diff(chosen.indptr).astype(np.int64)
    if not _worth(int(per_row @ np.diff(rows.indptr))):
        return False
    if chosen.nnz > DENSE * chosen.shape[0] * chosen.shape[1]:
        _kernel("dense_cross")(chosen.toarray(), *_arrays(rows.tocsc()), cross, DENSE_TILE)
    else:
        _kernel("cross")(*_arrays(chosen), *_arrays(rows.tocsc()), cross)
    return True


def _arrays(sparse: sp.csr_array | sp.csc_array) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Floats]:
    """Pointers, indices and values; indices without a sign need no check for negative ones."""
    return sparse.indptr, sparse.indices.view(f"u{sparse.indices.itemsize}"), sparse.data


def _worth(n_multiplications: int) -> bool:
    return n_multiplications >= WORTH and has_numba()


@functools.cache
def _kernel(name: str) -> Callable[..., None]:
    numba: Any = import_module("numba")
    # no fastmath: additions keep their order, and no product is fused with a sum
    compiled: Callable[..., None] = numba.njit(_KERNELS[name], nogil=True, cache=True)
    return compiled


def _gram(indptr: Any, indices: Any, data: Any, lower: Any, tile: int) -> None:
    """Add the products of all pairs of entries of a row, tile by tile, to the lower triangle of a row-major matrix."""
    n_rows, d = indptr.size - 1, lower.shape[0]
    n_tiles = (d + tile - 1) // tile
    starts = np.empty((n_rows, n_tiles + 1), np.int64)  # of each tile's entries in each row
    for i in range(n_rows):
        at, stop = indptr[i], indptr[i + 1]
        for t in range(n_tiles):
            starts[i, t] = at
            while at < stop and indices[at] < (t + 1) * tile:
                at += 1
        starts[i, n_tiles] = at
    sums = np.empty((tile, tile))
    for a in range(n_tiles):
        for b in range(a + 1):
            sums[:, :] = 0.0
            first_row, first_column = np.uint64(a * tile), np.uint64(b * tile)
            for i in range(n_rows):
                p, end = starts[i, a], starts[i, a + 1]
                while p + 4 <= end:  # four rows of sums at once, for which an entry is loaded once
                    row0 = sums[np.uint64(indices[p]) - first_row]
                    row1 = sums[np.uint64(indices[p + 1]) - first_row]
                    row2 = sums[np.uint64(indices[p + 2]) - first_row]
                    row3 = sums[np.uint64(indices[p + 3]) - first_row]
                    value0, value1, value2, value3 = data[p], data[p + 1], data[p + 2], data[p + 3]
                    # on the diagonal this makes a few sums above it too, which are left out below
                    last = starts[i, b + 1] if b < a else p + 4
                    for q in range(starts[i, b], last):
                        place, value = np.uint64(indices[q]) - first_column, data[q]
                        row0[place] += value0 * value
                        row1[place] += value1 * value
                        row2[place] += value2 * value
                        row3[place] += value3 * value
                    p += 4
                while p < end:
                    row0, value0 = sums[np.uint64(indices[p]) - first_row], data[p]
                    last = starts[i, b + 1] if b < a else p + 1
                    for q in range(starts[i, b], last):
                        row0[np.uint64(indices[q]) - first_column] += value0 * data[q]
                    p += 1
            for row in range(min(tile, d - a * tile)):
                n_columns = row + 1 if a == b else tile
                for column in range(n_columns):
                    lower[a * tile + row, b * tile + column] += sums[row, column]


def _cross(
    chosen_indptr: Any, chosen_indices: Any, chosen_data: Any, indptr: Any, indices: Any, data: Any, cross: Any
) -> None:
    """Add the products of all columns with the chosen ones, a column after another: its sums stay in cache."""
    r, d = cross.shape
    sums = np.empty(r)
    for j in range(d):
        sums[:] = 0.0
        for p in range(indptr[j], indptr[j + 1]):
            i, value = indices[p], data[p]
            for q in range(chosen_indptr[i], chosen_indptr[i + 1]):
                sums[chosen_indices[q]] += value * chosen_data[q]
        for c in range(r):
            cross[c, j] += sums[c]


def _dense_cross(chosen: Any, indptr: Any, indices: Any, data: Any, cross: Any, tile: int) -> None:
    """The same with all entries of the chosen columns; a product with a zero adds nothing."""
    m, r = chosen.shape
    for first in range(0, r, tile):
        width = min(tile, r - first)
        part = np.empty((m, width))
        for i in range(m):
            for c in range(width):
                part[i, c] = chosen[i, first + c]
        sums = np.empty(width)
        for j in range(cross.shape[1]):
            sums[:] = 0.0
            for p in range(indptr[j], indptr[j + 1]):
                i, value = indices[p], data[p]
                for c in range(width):
                    sums[c] += value * part[i, c]
            for c in range(width):
                cross[first + c, j] += sums[c]


_KERNELS: dict[str, Callable[..., None]] = {"gram": _gram, "cross": _cross, "dense_cross": _dense_cross}
