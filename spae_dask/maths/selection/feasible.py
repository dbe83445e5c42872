"""Sets of columns that rules allow: a number, a budget of costs, and the fewest and the most of each group.

A set is feasible if it can be completed to one that keeps all rules: those that a group lacks are counted, and paid for
at the lowest costs. Groups do not overlap, so this is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from spae_dask.maths.linalg.scaling import BoolArray, FloatArray, IntArray

# Part of a budget that a sum of costs may exceed it by rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Feasible:
    """Rules for sets of columns that hold some columns in any case.

    Attributes
    ----------
    size : int
        The most columns beside those that are kept.
    kept : ndarray of int
        Columns that are in every set; they cost nothing, and count in their groups.
    allowed : ndarray (d,) of bool
        Columns that may be chosen.
    costs : ndarray (d,)
        Positive costs.
    budget : float
        The most that chosen columns may cost; infinite without a budget.
    groups : ndarray (d,) of int
        Group of each column, -1 for none.
    least, most : ndarray (g,) of int
        The fewest and the most columns of each group.
    points : ndarray (d, c), optional
        Positions of the columns; without coordinates if all are far enough apart.
    distance : float
        Least distance of a chosen column from the others. Groups then need no columns: a set could not be completed.
    """

    size: int
    kept: IntArray
    allowed: BoolArray
    costs: FloatArray
    budget: float
    groups: IntArray
    least: IntArray
    most: IntArray
    points: FloatArray | None = None
    distance: float = 0.0

    def of(self, size: int, kept: Sequence[int], allowed: BoolArray) -> "Feasible":
        """The same rules for another number of columns, of those that can be chosen at all.

        Groups of too few such columns need no more of them.
        """
        allowed = self.allowed & allowed
        allowed[self.kept] = False
        there = self._count(self.kept) + self._count(np.flatnonzero(allowed))
        assert np.isin(kept, self.kept).all(), "others are not paid for"
        return replace(self, size=size, allowed=allowed, least=np.minimum(self.least, there))

    def addable(self, columns: Sequence[int]) -> BoolArray:
        """Columns ``(d,)`` that a feasible set may take beside its own, and stay feasible."""
        chosen, counts = self._split(columns)
        lacking = np.maximum(self.least - counts, 0)
        free = self.allowed & self._in_groups(counts < self.most, others=True)
        free[chosen] = False
        if self.distance > 0.0:
            for j in (*chosen, *self.kept):
                free &= self._far(j)
        if chosen.size + int(lacking.sum()) >= self.size:
            free &= self.lacking(columns)
        # a column that its group lacks takes the place of the dearest of the cheapest that would be paid for anyway
        spared = np.zeros_like(self.costs)
        reserved = 0.0
        for group in np.flatnonzero(lacking):
            members = np.flatnonzero(free & (self.groups == group))
            cheapest = np.sort(self.costs[members])[: lacking[group]]
            reserved += float(cheapest.sum())
            spared[members] = cheapest[-1] if cheapest.size else 0.0
        left = self.budget * (1.0 + _ROUNDING) - float(self.costs[chosen].sum()) - reserved
        free &= self.costs - spared <= left
        return free

    def lacking(self, columns: Sequence[int]) -> BoolArray:
        """Columns ``(d,)`` of groups of which a set has too few."""
        return self._in_groups(self._split(columns)[1] < self.least, others=False)

    def keeps(self, columns: Sequence[int]) -> bool:
        """Return True if a set keeps all rules as it is."""
        chosen, counts = self._split(columns)
        return bool(
            chosen.size <= self.size
            and self.allowed[chosen].all()
            and (counts >= self.least).all()
            and (counts <= self.most).all()
            and self.costs[chosen].sum() <= self.budget * (1.0 + _ROUNDING)
            and (self.distance == 0.0 or self._all_far(chosen))
        )

    @cached_property
    def has_costs(self) -> bool:
        """True if there is a budget."""
        return bool(np.isfinite(self.budget))

    def _split(self, columns: Sequence[int]) -> tuple[IntArray, IntArray]:
        """The columns beside those that are kept, and how many of each group there are with these."""
        chosen = np.setdiff1d(np.array(columns, dtype=np.intp), self.kept)
        return chosen, self._count(self.kept) + self._count(chosen)

    def _in_groups(self, chosen: BoolArray, *, others: bool) -> BoolArray:
        """Columns ``(d,)`` of chosen groups, and ``others`` for those of none."""
        found: BoolArray = np.append(chosen, others)[self.groups]
        return found

    def _far(self, j: int) -> BoolArray:
        """Columns ``(d,)`` that are far enough from one."""
        assert self.points is not None, "a distance is one of points"
        if j not in self._known:
            lengths = np.linalg.norm(self.points - self.points[j], axis=1)
            self._known[j] = lengths >= self.distance * (1.0 - _ROUNDING)
        return self._known[j]

    @cached_property
    def _known(self) -> dict[int, BoolArray]:
        return {}

    def _all_far(self, chosen: IntArray) -> bool:
        """True if chosen columns are far enough from each other and from those that are kept."""
        return all(
            self._far(j)[np.setdiff1d(chosen, [j])].all() and self._far(j)[self.kept].all() for j in chosen.tolist()
        )

    def _count(self, columns: IntArray) -> IntArray:
        groups = self.groups[columns]
        counts: IntArray = np.bincount(groups[groups >= 0], minlength=self.least.size)
        return counts
