"""Sparse rows counted from a point, without filling in their zeros.

``X - 1 origin'`` has no zeros left. It is kept as ``rows - 1 rest'`` with sparse ``rows``: the origin is subtracted
entry by entry from the columns of which more than three quarters are stored, which adds at most a third to the entries;
for all others it stays in ``rest`` and is dealt with by algebra.

Neither part cancels. Let a quarter of a column x of m entries, or more, be zeros, and R = sum (x_i - c)^2 for any c.
The zeros alone give R >= (m/4) c^2; and since ``x^2 <= 2 (x - c)^2 + 2 c^2`` on the others, which are at most three
times as many, sum x_i^2 <= 6 R. So what algebra subtracts, sums of x_i^2 and m c^2, is no larger than a few times what
is left, and three bits are lost at most. Where it would cancel is a column that is mostly stored, such as a constant of
10^8 with noise: there it is not used.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Floats = npt.NDArray[np.float64]

STRIP = 1 << 20
"""Entries of a product of sparse rows that are made at once."""

ENTRY_NBYTES = 16
"""Bytes of a stored entry: its value in float64 and its column, in 64 bits at most."""


@dataclass(frozen=True, eq=False)
class ShiftedRows:
    """Rows ``X - 1 origin'`` (m, d), perhaps scaled, kept as ``rows - 1 rest'``. The 1 of weighted rows is their roots.

    Attributes
    ----------
    rows : scipy.sparse.csr_array (m, d) of float64
        The rows, about the origin in the columns that are mostly stored.
    rest : ndarray (d,)
        Vector that is still to be subtracted from each row; zero in those columns.
    ones : ndarray (m,) or None
        Column of ones, multiplied as the rows are; None for ones.
    """

    rows: sp.csr_array
    rest: Floats
    ones: Floats | None = None

    def weighed(self, roots: Floats | None) -> "ShiftedRows":
        """Each row multiplied by the root of its weight."""
        if roots is None:
            return self
        weighted = self.rows.data * np.repeat(roots, np.diff(self.rows.indptr))
        rows = sp.csr_array((weighted, self.rows.indices, self.rows.indptr), shape=self.rows.shape)
        return replace(self, rows=rows, ones=roots)

    @property
    def total(self) -> float:
        """``1'1``: number of rows, or sum of their weights."""
        return int(self.rows.shape[0]) if self.ones is None else float(self.ones @ self.ones)

    @property
    def sums(self) -> Floats:
        """``Y'1`` (d,) of the rows Y: column sums, weighted if the rows are."""
        sums: Floats = column_sums(self.rows, self.ones) - self.total * self.rest
        return sums

    @property
    def squared_norms(self) -> Floats:
        """Squared column norms (d,)."""
        squares = np.bincount(self.rows.indices, weights=self.rows.data**2, minlength=self.rows.shape[1])
        norms: Floats = squares - self.rest * (2.0 * column_sums(self.rows, self.ones) - self.total * self.rest)
        return norms

    def columns(self, numbers: npt.NDArray[np.intp]) -> Floats:
        """Chosen columns (m, r), dense."""
        chosen: Floats = self.rows[:, numbers].toarray()
        chosen -= self._of_each(self.rest[numbers])
        return chosen

    def times(self, Q: Floats) -> Floats:
        """Product (m, k) with a dense matrix (d, k)."""
        product: Floats = self.rows @ Q
        product -= self._of_each(self.rest @ Q)
        return product

    def _of_each(self, row: Floats) -> Floats:
        """``1 row'``, to be subtracted from all rows."""
        return row if self.ones is None else np.outer(self.ones, row)

    def transposed_times(self, Y: Floats) -> Floats:
        """Product (d, k) of the transpose with a dense matrix (m, k)."""
        product: Floats = self.rows.T @ Y
        if self.rest.any():
            product -= np.outer(self.rest, Y.sum(axis=0) if self.ones is None else self.ones @ Y)
        return product


def shifted_rows(rows: sp.csr_array, origin: Floats, scale: Floats | None = None) -> ShiftedRows:
    """Count CSR rows (m, d) in canonical form from ``origin`` and, if given, divide them by ``scale`` (d,).

    ``origin`` is ``(d,)``, or ``(2, d)`` in two floats.
    """
    parts = np.atleast_2d(origin)
    mostly_stored = _mostly_stored(rows)
    values, rest = rows.astype(np.float64), np.where(mostly_stored, 0.0, parts.sum(axis=0))
    for part in parts:
        at = np.flatnonzero(mostly_stored & (part != 0))
        if at.size:
            m, d = rows.shape
            numbers = np.tile(at.astype(rows.indices.dtype), m)
            repeated = (np.tile(part[at], m), numbers, np.arange(0, m * at.size + 1, at.size))
            values = values - sp.csr_array(repeated, shape=(m, d))
    if scale is not None:
        values.data /= scale[values.indices]
        rest = rest / scale
    return ShiftedRows(values, rest)


def mean_of_stored_columns(rows: sp.csr_array) -> Floats:
    """Means (d,) of columns that are mostly stored, zero for all others: the best that rows can be counted from.

    Values are summed about the first one of their column, so that the mean of a constant column is the constant.
    """
    m, d = rows.shape
    first = np.zeros(d)
    first[rows.indices[::-1]] = rows.data[::-1]
    stored = np.bincount(rows.indices, minlength=d)
    apart = np.bincount(rows.indices, weights=rows.data - first[rows.indices], minlength=d)
    return np.where(4 * stored > 3 * m, first + (apart - (m - stored) * first) / m, 0.0)


def column_sums(rows: sp.csr_array, ones: Floats | None = None) -> Floats:
    """``Y'1`` (d,) of rows Y in float64: column sums, or products with another column than one of ones."""
    values = rows.data if ones is None else rows.data * np.repeat(ones, np.diff(rows.indptr))
    # bincount returns integers if there are no entries
    return np.bincount(rows.indices, weights=values, minlength=rows.shape[1]).astype(np.float64, copy=False)


def shifted_nbytes(n_rows: int, n_stored: int, n_features: int) -> int:
    """Most bytes :func:`shifted_rows` and the sums take: the entries, the origin, their difference; a few vectors."""
    return 4 * ENTRY_NBYTES * n_stored + 24 * n_rows + 64 * n_features


def _mostly_stored(rows: sp.csr_array) -> npt.NDArray[np.bool_]:
    stored = np.bincount(rows.indices, minlength=rows.shape[1])
    mostly: npt.NDArray[np.bool_] = 4 * stored > 3 * rows.shape[0]
    return mostly
