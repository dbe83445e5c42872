"""Row sketch W = S X, S drawn by global row index, so that W does not depend on how the rows are cut.

A dense S costs 2 s operations an entry of X, several times what decoding it costs. With ``group = g`` the rows of X are
first summed with random signs, g consecutive ones at a time, and S is applied to the sums: a CountSketch into n / g
buckets before the dense sketch (Clarkson & Woodruff 2013), for 2 s / g operations an entry.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg.blas import dgemm, dger

from spae_dask.maths.linalg.sketch import gaussian_rows, group_bounds, grouped_rows, row_signs, sign_rows
from spae_dask.maths.linalg.sparse_rows import ShiftedRows, mean_of_stored_columns, shifted_nbytes, shifted_rows
from spae_dask.passes.accumulators.base import Floats, Rows, State, ones_of, panel_rows_for, weighed
from spae_dask.passes.accumulators.by_columns import Columns, Parts, join_arrays
from spae_dask.passes.accumulators.shift import (
    Point,
    about_their_mean,
    deviations,
    has_wide_integers,
    in_two_floats,
    shift_near,
    step_between,
)
from spae_dask.passes.accumulators.sparse import PRODUCTS_UP_TO, density_of

DRAW: dict[str, Callable[[int, int, int, int, int], Floats]] = {"gaussian": gaussian_rows, "sign": sign_rows}

FAR = 1e6
"""Means so many times the spread of a column cost digits of sums that are moved to them afterwards."""

SUMMED_FROM = 0.07
"""Density times the rows of a group from which sparse rows are summed into dense ones: BLAS then takes all entries in
the time in which a sparse product takes the stored ones (measured)."""

FEWEST_GROUPS = 64
"""Sums a panel should make: a product with fewer is limited by the memory traffic of the sketch."""


@dataclass(frozen=True, eq=False)
class SketchedRows:
    """A row sketch, with the arrays that are needed to center it.

    Attributes
    ----------
    count : int
        Rows seen.
    sketch : ndarray (s, d)
        ``S (X - shift)``.
    ones : ndarray (s,)
        ``S 1``, the sketch of a column of ones; of weighted rows, of the roots of their weights.
    shift : ndarray (2, d)
        Point that is subtracted from the rows, in two floats.
    """

    count: int
    sketch: Floats
    ones: Floats
    shift: Floats

    def about(self, origin: Point, out: Floats | None = None) -> Floats:
        """Sketch ``S (X - origin)`` (s, d) for an origin (d,) or (2, d), in ``out`` if given; exact: it is linear."""
        centered = np.empty_like(self.sketch) if out is None else out
        step = step_between(self.shift, in_two_floats(origin))
        height = panel_rows_for(step.size, at_least=1)
        for start in range(0, self.ones.size, height):  # in slices: the whole product would be one more sketch
            part = slice(start, start + height)
            np.subtract(self.sketch[part], np.outer(self.ones[part], step), out=centered[part])
        return centered


@dataclass(frozen=True)
class RowSketch:
    """Recipe for a row sketch. One pass; 2 s / g operations an entry.

    As in ``Gram``, every state counts from the mean of the first rows it sees, so that a large mean does not swamp the
    sketch; a linear sketch is moved to another shift exactly.

    Parameters
    ----------
    n_features : int
        d.
    size : int
        s, rows of the sketch.
    seed, stream : int
        Seed and stream of the random sketch matrix S.
    kind : {"gaussian", "sign"}
        Its entries.
    group : int
        g, consecutive rows of X that share a column of S up to their signs; 1 for a dense S.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.row_sketch.RowSketch"
    takes_weights: ClassVar[bool] = True

    n_features: int
    size: int
    seed: int = 0
    stream: int = 0
    kind: str = "gaussian"
    group: int = 1

    @property
    def state_nbytes(self) -> int:
        """S by d, S 1, the shift and the count."""
        return 8 * (self.size * self.n_features + self.size + 2 * self.n_features) + 16

    @property
    def panel_rows(self) -> int:
        """Number of rows that stay in cache, but enough groups to outweigh the cost of updating the sketch."""
        return max(FEWEST_GROUPS * self.group, panel_rows_for(self.n_features, at_least=FEWEST_GROUPS))

    def work_nbytes(self, n_rows: int) -> int:
        """The sums of the groups with their part of S and its draws, and the rows of a group as they are summed."""
        n_groups = n_rows // self.group + 2
        return 8 * (n_groups * (self.n_features + 5 * self.size) + 2 * self.group * self.n_features)

    @property
    def flops_per_row(self) -> float:
        """The sums, the product, and about thirty operations a random entry."""
        return (2.0 * self.size * self.n_features + 30.0 * self.size) / self.group + 3.0 * self.n_features

    def zero(self) -> State:
        """No rows."""
        return {
            "count": np.zeros((), dtype=np.int64),
            "shift": np.zeros((2, self.n_features)),
            # 1 if the mean is so far from zero that rows must be shifted before they are summed
            "far": np.zeros(()),
            "sketch": np.zeros((self.size, self.n_features)),
            "ones": np.zeros(self.size),
        }

    def update(self, state: State, rows: Rows, first_row: int, roots: Floats | None = None) -> State:
        """Add the sketch of these rows."""
        counted = rows if roots is None else rows[roots > 0.0]
        if counted.shape[0] == 0:
            return state
        if state["count"] == 0:
            state["shift"][...], state["far"][...] = _begun(counted)
        sums, weights = self._summed(rows, first_row, roots, state["shift"] if state["far"] else None)
        if not state["far"]:
            sums = dger(-1.0, state["shift"][0], weights, a=sums.T, overwrite_a=1).T  # less weights shift', in place
        state["ones"] += self._add_groups(state, sums, weights, first_row // self.group)
        state["count"] += rows.shape[0]
        return state

    def _add_groups(self, state: State, sums: Floats, weights: Floats, first_group: int) -> Floats:
        """Add the sketch of the sums of some groups; give that of their weights."""
        S = self._drawn(first_group, sums.shape[0])
        # in place where the state was not stored and read back since: then BLAS returns a copy
        state["sketch"] = dgemm(1.0, sums.T, S.T, beta=1.0, c=state["sketch"].T, trans_b=1, overwrite_c=1).T
        sketched: Floats = weights @ S
        return sketched

    def _summed(self, rows: Rows, first_row: int, roots: Floats | None, shift: Floats | None) -> tuple[Floats, Floats]:
        """Signed sums of each group's rows less ``shift``, those of them that are here, and the sums of the signs."""

        def counted(part: Rows) -> Floats:
            return part.astype(np.float64, order="C") if shift is None else deviations(part, shift)

        n_rows, g = rows.shape[0], self.group
        if g == 1:
            return weighed(counted(rows), roots), ones_of(n_rows, roots)
        signs = row_signs(self.seed, self.stream, first_row, n_rows) * ones_of(n_rows, roots)
        bounds = group_bounds(first_row, n_rows, g)
        sums = np.empty((bounds.size - 1, self.n_features))
        for i, (start, stop) in enumerate(pairwise(bounds)):
            sums[i] = signs[start:stop] @ counted(rows[start:stop])
        return sums, np.add.reduceat(signs, bounds[:-1])

    def _drawn(self, first_group: int, n_groups: int) -> Floats:
        """Columns of S that multiply the sums of these groups, as rows ``(n_groups, s)``."""
        return DRAW[self.kind](self.seed, self.stream, first_group, n_groups, self.size)

    def _rows_of_sketch(self, first_row: int, n_rows: int) -> Floats:
        """Columns of S that multiply these rows of X, as rows ``(n_rows, s)``."""
        if self.group == 1:
            return self._drawn(first_row, n_rows)
        draw = DRAW[self.kind]
        return grouped_rows(draw, self.seed, self.stream, first_row, n_rows, self.size, self.group)

    @property
    def sparse_up_to(self) -> float:
        """Largest density at which products of sparse rows are faster than of dense rows."""
        return PRODUCTS_UP_TO

    def sparse_flops_per_row(self, density: float) -> float:
        """Operations of a dense row if groups are summed; else operations for each stored entry."""
        if density * self.group > SUMMED_FROM:
            return self.flops_per_row
        return 2.0 * self.size * self.n_features * density + 30.0 * self.size

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """The counted rows, their part of S with its draws, and two products."""
        part = n_rows * self.size + 5 * min(n_rows, self.panel_rows) * self.size + 2 * self.size * self.n_features
        groups = min(n_rows, self.panel_rows) // self.group + 2
        summed = groups * (self.n_features + 5 * self.size) + 2 * n_stored + 3 * n_rows
        return shifted_nbytes(n_rows, n_stored, self.n_features) + 8 * max(part, summed)

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int, roots: Floats | None = None) -> State:
        """Add the sketch of sparse rows; a first one counts from the mean of its mostly stored columns, else from 0."""
        m = rows.shape[0]
        if m == 0:
            return state
        if state["count"] == 0:
            state["shift"][...] = in_two_floats(mean_of_stored_columns(rows))
        about = shifted_rows(rows, state["shift"])
        if density_of(rows) * self.group > SUMMED_FROM:
            return self._update_by_groups(state, about, first_row, roots)
        S, step = np.empty((m, self.size)), self.panel_rows
        for start in range(0, m, step):  # in parts, because drawing takes several times the memory of the result
            part = S[start : start + step]
            part[...] = self._rows_of_sketch(first_row + start, len(part))
        S = weighed(S, roots)
        state["sketch"] += about.transposed_times(S).T
        state["ones"] += S.sum(axis=0)
        state["count"] += m
        return state

    def _update_by_groups(self, state: State, about: ShiftedRows, first_row: int, roots: Floats | None) -> State:
        """Add the sketch of sparse rows whose signed sums of groups are dense."""
        m, g = about.rows.shape[0], self.group
        signs = ones_of(m, roots)
        if g > 1:
            signs = row_signs(self.seed, self.stream, first_row, m) * signs
        bounds = group_bounds(first_row, m, g)
        grouping = sp.csr_array((signs, np.arange(m), bounds), shape=(bounds.size - 1, m))
        weights, ones = np.add.reduceat(signs, bounds[:-1]), np.zeros(self.size)
        first_group, step = first_row // g, self.panel_rows // g
        for start in range(0, bounds.size - 1, step):
            sums = (grouping[start : start + step] @ about.rows).toarray()
            ones += self._add_groups(state, sums, weights[start : start + step], first_group + start)
        if about.rest.any():
            state["sketch"] = dger(-1.0, about.rest, ones, a=state["sketch"].T, overwrite_a=1).T
        state["ones"] += ones
        state["count"] += m
        return state

    def merge(self, a: State, b: State) -> State:
        """Move ``b`` to the shift of ``a``; then sums add."""
        if a["count"] == 0 or b["count"] == 0:
            return {name: array.copy() for name, array in (b if a["count"] == 0 else a).items()}
        sketch, step = a["sketch"] + b["sketch"], step_between(a["shift"], b["shift"])
        height = panel_rows_for(self.n_features, at_least=1)
        for start in range(0, self.size, height):  # in slices: the whole product would be one more state
            sketch[start : start + height] += np.outer(b["ones"][start : start + height], step)
        return {
            "count": np.asarray(a["count"] + b["count"]),
            "shift": a["shift"].copy(),
            "far": np.asarray(np.maximum(a["far"], b["far"])),
            "sketch": sketch,
            "ones": a["ones"] + b["ones"],
        }

    def of_columns(self, columns: Columns) -> "RowSketch":
        """Recipe of some columns: the same S."""
        return replace(self, n_features=columns.size)

    def joined(self, parts: Parts) -> State:
        """Sketch of all columns."""
        return join_arrays(self.zero(), parts)

    def result(self, state: State) -> SketchedRows:
        """The sketch."""
        return SketchedRows(
            count=int(state["count"]),
            sketch=state["sketch"].copy(),
            ones=state["ones"].copy(),
            shift=state["shift"].copy(),
        )


def _begun(rows: Rows) -> tuple[Floats, bool]:
    """Shift for rows that begin a state; True if the mean of a column that varies is ``FAR`` times its spread away."""
    counted, mean = about_their_mean(rows)
    spread = np.sqrt(np.einsum("ij,ij->j", counted, counted) / len(counted))
    far = has_wide_integers(rows) or bool(np.any((spread > 0.0) & (np.abs(mean[0]) > FAR * spread)))
    return shift_near(mean, rows), far
