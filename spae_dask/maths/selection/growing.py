"""Greedy growth of a set of columns: the bookkeeping under targeted greedy, full greedy and pivoted QR.

Columns are held at unit length, so thresholds are relative to each column and no unit of measurement matters. Squared
residuals are downdated, which cancels; a column whose residual has dropped a hundred-millionfold since it was last
known exactly is projected afresh.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.project import DEPENDENT, RankTol, residual
from spae_dask.maths.linalg.scaling import BoolArray, FloatArray, IntArray, squared_columns, unit_columns
from spae_dask.maths.selection.feasible import Feasible
from spae_dask.maths.selection.problem import lowest_best, ranked

# At this shrinkage of a squared residual, downdating has lost half the digits.
_REFRESH = 1e-8


class GrowingBasis:
    """Unit columns of a core, and an orthonormal basis of the chosen ones.

    Parameters
    ----------
    core : ndarray (m, d)
        The core; its zero columns can never be chosen.
    rank_tol : float or ndarray (d,)
        Length of a unit column's part outside the span of the chosen ones below which it is dependent on them.
    allowed : ndarray of int, optional
        The only columns that can be chosen. All if None.

    Attributes
    ----------
    unit : ndarray (m, d)
        Columns at unit length, not projected.
    norms : ndarray (d,)
        Their lengths in the core.
    left : ndarray (d,)
        Squared length of each unit column outside the span of the chosen; 0 for dependent, chosen and zero columns,
        and those that are not allowed.
    order : list of int
        The chosen columns.
    """

    def __init__(self, core: FloatArray, rank_tol: RankTol = DEPENDENT, allowed: IntArray | None = None) -> None:
        self.unit, self.norms = unit_columns(core)
        self.left = squared_columns(self.unit)
        self.order: list[int] = []
        self._used = self.norms == 0.0
        if allowed is not None:
            self._used |= ~np.isin(np.arange(self._used.size), allowed)
            self.left[self._used] = 0.0
        self._known = self.left.copy()
        self._dependent = np.broadcast_to(np.square(rank_tol), self.left.shape)
        self._directions: list[FloatArray] = []

    @property
    def Q(self) -> FloatArray:  # noqa: N802  (a basis is called Q throughout)
        """Orthonormal basis ``(m, q)`` of the span of the chosen columns."""
        if not self._directions:
            return np.zeros((self.unit.shape[0], 0))
        return np.column_stack(self._directions)

    @property
    def independent(self) -> BoolArray:
        """Columns that would widen the span."""
        return self.left > self._dependent

    def choose(self, j: int) -> FloatArray | None:
        """Take column j; return the new basis vector ``(m,)``, or None if the column adds nothing to the span."""
        self.order.append(j)
        self._used[j] = True
        self.left[j] = 0.0
        outside = self.outside(np.array([j]))[:, 0]
        length = float(np.linalg.norm(outside))
        if length**2 <= self._dependent[j]:
            return None
        direction: FloatArray = outside / length
        self._directions.append(direction)
        return direction

    def shrink(self, along: FloatArray) -> IntArray:
        """Account for a new basis vector q, given ``along = q' unit (d,)``; return the columns to refresh."""
        self.left -= along**2
        self.left[self._used] = 0.0
        stale = ~self._used & (self._known > self._dependent) & (self.left < _REFRESH * self._known)
        return np.flatnonzero(stale)

    def outside(self, columns: IntArray) -> FloatArray:
        """Given unit columns projected off the span of the chosen ones, ``(m, s)``."""
        return residual(self.unit[:, columns], self.Q)

    def refresh(self, columns: IntArray, outside: FloatArray) -> None:
        """Replace the downdated squared residuals of these columns by exact ones."""
        exact = squared_columns(outside)
        exact[exact <= self._dependent[columns]] = 0.0
        self.left[columns] = exact
        self._known[columns] = exact

    def take_rest(self, r: int) -> None:
        """Fill up to r with dependent columns, longest first: they add no span, but r columns were asked for."""
        rest = np.flatnonzero(~self._used)
        longest_first = rest[ranked(self.norms[rest])]
        self.order.extend(longest_first[: max(0, r - len(self.order))].tolist())


class Rule(Protocol):
    """Gain that a greedy selection maximises, with its update after the basis grows."""

    def scores(self, basis: GrowingBasis) -> FloatArray:
        """Gain ``(d,)`` of each column; only those of independent columns are read. All 0: nothing left to gain."""
        ...

    def update(self, basis: GrowingBasis, direction: FloatArray, along: FloatArray) -> None:
        """Account for a new basis vector q (already in the basis) with ``along = q' unit``."""
        ...

    def refresh(self, columns: IntArray, outside: FloatArray) -> None:
        """Recompute what is kept of some columns from their exact residuals ``(m, s)``."""
        ...


class LongestResidual:
    """QR with column pivoting: the column of longest residual; also what others do once they have nothing to gain."""

    def scores(self, basis: GrowingBasis) -> FloatArray:
        """Squared residuals in units of the core."""
        return basis.left * basis.norms**2

    def update(self, basis: GrowingBasis, direction: FloatArray, along: FloatArray) -> None:
        """Do nothing: this rule keeps no state."""

    def refresh(self, columns: IntArray, outside: FloatArray) -> None:
        """Do nothing: this rule keeps no state."""


def grow(
    basis: GrowingBasis,
    rule: Rule,
    r: int,
    start: Sequence[int] = (),
    *,
    rules: Feasible | None = None,
    per_cost: bool = False,
) -> IntArray:
    """Choose columns one by one, each the best by the rule given those before it.

    Parameters
    ----------
    basis : GrowingBasis
        Basis with no column chosen yet; it is changed in place.
    rule : Rule
        Gain to maximise; if no column has a gain, the longest residual is taken.
    r : int
        Columns to choose in all, including the start.
    start : sequence of int
        Distinct columns chosen already.
    rules : Feasible, optional
        Rules that the choice keeps to; r is then the most that they allow.
    per_cost : bool
        True to choose by the gain for the cost of a column.

    Returns
    -------
    ndarray
        Indices in order chosen, the start first; fewer than r only if there are fewer nonzero columns, or the rules
        allow no more.

    Raises
    ------
    InvalidInput
        If the start repeats a column or holds more than r.
    """
    if len(set(start)) < len(start) or len(start) > r:
        raise InvalidInput(f"start = {list(start)} must hold distinct columns, at most r = {r} of them")
    fallback = LongestResidual()
    pending = list(start)
    while len(basis.order) < r:
        if pending:
            j = pending.pop(0)
        else:
            independent = basis.independent
            if rules is not None:
                independent &= rules.addable(basis.order)
            if not np.any(independent):
                break
            scores = rule.scores(basis)
            if np.max(scores[independent]) <= 0.0:
                scores = fallback.scores(basis)
            j = lowest_best(scores / rules.costs if rules is not None and per_cost else scores, independent)
        direction = basis.choose(j)
        if direction is None:
            continue
        along = direction @ basis.unit
        stale = basis.shrink(along)
        rule.update(basis, direction, along)
        if stale.size:
            outside = basis.outside(stale)
            basis.refresh(stale, outside)
            rule.refresh(stale, outside)
    if rules is None:
        basis.take_rest(r)
    return np.array(basis.order, dtype=np.intp)
