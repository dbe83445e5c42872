"""Exchange and kicks of many supports at once, among the columns that promise most.

Of thousands of columns a few hundred decide what becomes of a support. All products among these, plain and through DD',
are two small matrices. So a step of the search costs the same for any number of columns, and all supports of a batch
take their steps together. What a pool finds is checked on all columns, by the careful arithmetic of
:mod:`spae_dask.maths.encoders.single_column`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from spae_dask.maths.encoders.single_column import ColumnProblem
from spae_dask.maths.linalg.scaling import BoolArray, FloatArray, IntArray
from spae_dask.maths.selection.problem import TIE, rounding_of_rest

# Squared length of a column's part outside a support from which products with the support keep eight digits.
_APART = 1e-6
_POWER_STEPS = 3
# Columns of a support that may leave it in a step: those whose loss hurts least.
_LEAVING = 6


class Supports(NamedTuple):
    """Supports of a batch, as places in the pool ``(b, s)``; those with places not filled have fewer columns."""

    places: IntArray
    filled: BoolArray

    def only(self, which: IntArray) -> "Supports":
        """Some of the batch."""
        return Supports(self.places[which], self.filled[which])

    def rows(self) -> list[list[int]]:
        """The places that are filled."""
        return [np.sort(places[filled]).tolist() for places, filled in zip(*self, strict=True)]


@dataclass(frozen=True, eq=False)
class Solved:
    """Best codes on the supports of a batch, in orthonormal bases Q of their residual columns.

    Attributes
    ----------
    places, filled : ndarray (b, s)
        The supports.
    gains : ndarray (b,)
        Decrease of the loss.
    codes : ndarray (b, s)
        The codes in the bases.
    inverted : ndarray (b, s, s)
        Lower triangles that make the bases of the residual columns.
    inner : ndarray (b, s, s)
        ``Q'DD'Q``.
    inside, products : ndarray (b, s, p)
        Products of the bases with all columns of the pool, plain and through ``DD'``.
    """

    places: IntArray
    filled: BoolArray
    gains: FloatArray
    codes: FloatArray
    inverted: FloatArray
    inner: FloatArray
    inside: FloatArray
    products: FloatArray

    @property
    def supports(self) -> Supports:
        """Places and which of them are filled."""
        return Supports(self.places, self.filled)

    @property
    def powered(self) -> FloatArray:
        """Products ``(b, p)`` of the columns of the pool with a power step of the codes."""
        powered: FloatArray = (self.codes[:, None, :] @ self.products)[:, 0]
        return powered

    def only(self, which: IntArray) -> "Solved":
        """Some of the batch."""
        return Solved(*(getattr(self, each.name)[which] for each in fields(self)))


@dataclass(frozen=True, eq=False)
class Pool:
    """Columns of a one-column problem, and all their products.

    Attributes
    ----------
    columns : ndarray (p,)
        Live candidates, ascending.
    plain, weighted : ndarray (p, p)
        Products of their unit residuals, and those through ``DD'``.
    dependent : ndarray (p,)
        Squared length outside a support at which a column depends on it.
    total : float
        Loss without this column of H.
    free : ndarray (p,) of bool
        Columns that stay in every support.
    """

    columns: IntArray
    plain: FloatArray
    weighted: FloatArray
    dependent: FloatArray
    total: float
    free: BoolArray

    def supports(self, rows: Sequence[Sequence[int]], s: int) -> Supports:
        """Supports of at most s candidates, all of them in the pool."""
        places, filled = np.zeros((len(rows), s), dtype=np.intp), np.zeros((len(rows), s), dtype=bool)
        for i, row in enumerate(rows):
            chosen = np.sort(np.searchsorted(self.columns, row[:s]))
            places[i, : chosen.size], filled[i, : chosen.size] = chosen, True
        return Supports(places, filled)

    def solved(self, supports: Supports) -> Solved:
        """Best codes on the supports."""
        rows, weighted = self._rows(self.plain, supports), self._rows(self.weighted, supports)
        inverted = self._inverted(supports)
        inner = inverted @ self._square(self.weighted, supports) @ inverted.transpose(0, 2, 1)
        eigenvalues, vectors = np.linalg.eigh(inner)
        return Solved(
            *supports, eigenvalues[:, -1], vectors[:, :, -1], inverted, inner, inverted @ rows, inverted @ weighted
        )

    def gains(self, supports: Supports) -> FloatArray:
        """Gains ``(b,)`` of the best codes on the supports."""
        inverted, square = self._inverted(supports), self._square(self.weighted, supports)
        inner = inverted @ square @ inverted.transpose(0, 2, 1)
        return np.asarray(np.linalg.eigvalsh(inner)[:, -1], dtype=np.float64)

    def exchanged(self, supports: Supports) -> tuple[Supports, FloatArray]:
        """Swap single columns of every support while its gain grows; the supports, and what they gain."""
        solved = self.solved(supports)
        places, filled, gains = supports.places.copy(), supports.filled.copy(), solved.gains.copy()
        active = np.flatnonzero(gains > 0.0)
        if active.size < gains.size:
            solved = solved.only(active)
        while active.size:
            trial = self._swapped(solved)
            after = self.solved(trial)
            grown = after.gains > self.worthwhile(gains[active])
            active, solved = active[grown], after if grown.all() else after.only(np.flatnonzero(grown))
            places[active], filled[active], gains[active] = solved.places, solved.filled, solved.gains
        return Supports(places, filled), gains

    def worthwhile(self, gains: FloatArray) -> FloatArray:
        """Gains at which a search goes on, see :func:`spae_dask.maths.encoders.single_column.worthwhile`."""
        return gains + np.maximum(1e-6 * (self.total - gains), 1e-13 * gains)

    def refilled(self, supports: Supports, targets: FloatArray, barred: BoolArray | None = None) -> Supports:
        """Fill the open places with the columns that come closest to targets, one by one.

        Parameters
        ----------
        supports : Supports
            Columns to keep.
        targets : ndarray (b, p)
            Products of the columns with the code to come close to.
        barred : ndarray (b, p) of bool, optional
            Columns that may not enter.
        """
        places, filled = supports.places.copy(), supports.filled.copy()
        b, s = places.shape
        every = np.arange(b)
        rows = self._rows(self.plain, supports)
        inverted = self._inverted(supports)
        inside = inverted @ rows
        kept = np.where(filled, np.take_along_axis(targets, places, axis=1), 0.0)
        begun = np.max(targets**2, axis=1, keepdims=True)
        targets = targets - ((inverted @ kept[:, :, None]).transpose(0, 2, 1) @ inside)[:, 0]
        left = 1.0 - np.einsum("bsp,bsp->bp", inside, inside)
        free = ~self._chosen(supports) if barred is None else ~(barred | self._chosen(supports))
        for _ in range(int(np.max(s - np.count_nonzero(filled, axis=1), initial=0))):
            free &= left > self.dependent
            explained = np.where(free, targets**2 / np.maximum(left, self.dependent), -np.inf)
            most = explained.max(axis=1, keepdims=True)
            j = _lowest_best(explained, rounding_of_rest(most, begun))
            i = np.argmin(filled, axis=1)
            entering = ~filled[every, i] & (most[:, 0] > 0.0)
            if not entering.any():
                break
            which, i, j = every[entering], i[entering], j[entering]
            length = np.sqrt(left[which, j])[:, None]
            taken = (inside[which, :, j][:, None, :] @ inside[which])[:, 0]
            along = (self.plain[j] - taken) / length
            targets[which] -= targets[which, j][:, None] / length * along
            left[which] -= along**2
            inside[which, i] = along
            places[which, i], filled[which, i] = j, True
            free[which, j] = False
        return Supports(places, filled)

    def _swapped(self, found: Solved) -> Supports:
        """The supports after the swap, or the addition, whose Ritz value is the largest.

        See :mod:`spae_dask.maths.encoders.swap_table`, which has the formulas.
        """
        inner, s = found.inner, found.places.shape[1]
        lengths2 = 1.0 - np.einsum("bsp,bsp->bp", found.inside, found.inside)
        outside = found.products - inner @ found.inside
        energies = np.diagonal(self.weighted) - np.einsum("bsp,bsp->bp", found.products + outside, found.inside)
        g = found.inverted.transpose(0, 2, 1)
        g = g / np.sqrt(np.sum(g * g, axis=2))[:, :, None]
        g_inner = g @ inner
        u = np.repeat(found.codes[:, None, :], s, axis=1)
        for step in range(_POWER_STEPS + 1):
            u -= np.sum(u * g, axis=2)[:, :, None] * g
            if step < _POWER_STEPS:
                u = u @ inner
        lengths = np.sqrt(np.sum(u * u, axis=2))[:, :, None]
        u /= np.where(lengths > 0.0, lengths, 1.0)
        top = np.sum((u @ inner) * u, axis=2)
        # columns whose loss hurts least
        staying = self.staying(found.supports)
        out = np.argsort(np.where(staying, np.inf, -top), axis=1, kind="stable")[:, :_LEAVING]
        which = np.arange(out.shape[0])[:, None]
        g, g_inner, u, top = g[which, out], g_inner[which, out], u[which, out], top[which, out][:, :, None]
        along = g @ found.inside
        cross = u @ outside
        cross += np.sum(u * g_inner, axis=2)[:, :, None] * along
        c = g @ outside
        c *= 2.0
        c += along * np.sum(g_inner * g, axis=2)[:, :, None]
        c *= along
        c += energies[:, None, :]
        np.square(along, out=along)
        along += np.maximum(lengths2, 0.0)[:, None, :]
        barred = along <= self.dependent
        barred |= self._chosen(found.supports)[:, None, :] | staying[which, out][:, :, None]
        along[barred] = 1.0
        c /= along
        cross *= cross
        cross /= along
        ritz = top + c
        c -= top
        c *= 0.5
        c *= c
        c += cross
        ritz *= 0.5
        ritz += np.sqrt(c, out=c)
        ritz[barred] = 0.0
        flat = ritz.reshape(ritz.shape[0], -1)
        best = _lowest_best(flat, TIE * self.total)
        every, (i, j) = np.arange(best.size), np.divmod(best, ritz.shape[2])
        i = out[every, i]
        allowed = np.flatnonzero(flat[every, best] > 0.0)
        places, filled = found.places.copy(), found.filled.copy()
        places[allowed, i[allowed]] = j[allowed]
        filled[allowed, i[allowed]] = True
        return Supports(places, filled)

    def staying(self, supports: Supports) -> BoolArray:
        """Places ``(b, s)`` that hold columns which stay in every support."""
        staying: BoolArray = self.free[supports.places] & supports.filled
        return staying

    def _chosen(self, supports: Supports) -> BoolArray:
        """Columns of each support, ``(b, p)``."""
        p = self.columns.size
        chosen = np.zeros((supports.places.shape[0], p + 1), dtype=bool)  # the last stands for places not filled
        np.put_along_axis(chosen, np.where(supports.filled, supports.places, p), True, axis=1)
        return chosen[:, :p]

    @staticmethod
    def _rows(products: FloatArray, supports: Supports) -> FloatArray:
        """Products of the columns of the supports with all, ``(b, s, p)``; zero where no place is filled."""
        rows: FloatArray = products[supports.places]
        if not supports.filled.all():
            rows[~supports.filled] = 0.0
        return rows

    @staticmethod
    def _square(products: FloatArray, supports: Supports) -> FloatArray:
        """Products of the columns of the supports among themselves, ``(b, s, s)``."""
        places, filled = supports
        square: FloatArray = products[places[:, :, None], places[:, None, :]]
        if not filled.all():
            square[~(filled[:, :, None] & filled[:, None, :])] = 0.0
        return square

    def _inverted(self, supports: Supports) -> FloatArray:
        """Inverses ``(b, s, s)`` of Cholesky's factors of the products of the supports among themselves.

        Zero for a support whose columns depend on each other in the products' rounding: it gains nothing here.
        """
        square, i = self._square(self.plain, supports), np.arange(supports.places.shape[1])
        square[:, i, i] = 1.0
        try:
            inverted: FloatArray = np.linalg.inv(np.linalg.cholesky(square))
        except np.linalg.LinAlgError:
            inverted = np.array([_inverse_factor(each) for each in square])
        return inverted


def _inverse_factor(square: FloatArray) -> FloatArray:
    """Inverse of Cholesky's factor of one matrix; zero if it is not positive definite."""
    try:
        inverted: FloatArray = np.linalg.inv(np.linalg.cholesky(square))
    except np.linalg.LinAlgError:
        return np.zeros_like(square)
    return inverted


def _lowest_best(scores: FloatArray, slack: FloatArray | float) -> IntArray:
    """For every row the lowest index whose score equals the largest, to ``TIE`` of it or a given slack."""
    best = scores.max(axis=1, keepdims=True)
    lowest: IntArray = np.argmax(scores >= best - np.maximum(TIE * best, slack), axis=1)
    return lowest


def kicked(random: FloatArray, supports: Supports, staying: BoolArray | bool = False) -> Supports:
    """One support as many times as there are rows of random numbers ``(b, s + 1)``, each without a random part.

    The places ``staying (1, s)`` are not dropped.
    """
    b, s = random.shape[0], supports.places.shape[1]
    count = 1 + np.floor(random[:, -1] * (s // 2 + 1)).astype(np.intp)
    dropped = np.argsort(np.argsort(random[:, :s], axis=1), axis=1) < np.minimum(count, s)[:, None]
    return Supports(np.repeat(supports.places, b, axis=0), np.repeat(supports.filled, b, axis=0) & (~dropped | staying))


def pool_of(problem: ColumnProblem, columns: IntArray) -> Pool:
    """Pool of some columns of a problem.

    Parameters
    ----------
    problem : ColumnProblem
        The one-column problem.
    columns : ndarray (p,)
        Live columns, ascending.
    """
    plain, weighted = problem.products_among(columns)
    dependent = np.maximum(problem.dependent[columns], _APART)
    return Pool(columns, plain, weighted, dependent, problem.total, np.isin(columns, problem.reduced.free))
