"""Losses of a known encoder and of known principal directions, summed for each sampling unit.

Rows of one block are alike. So the differences between blocks, not between rows, determine the error of a loss that
was measured on some blocks. A unit is a set of contiguous rows, one or several blocks; a few numbers are kept for each.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from spae_dask.passes.accumulators.base import Floats, Rows, State, panel_rows_for
from spae_dask.passes.accumulators.shift import Point, deviations


@dataclass(frozen=True, eq=False)
class UnitSums:
    """Sums over the rows of each unit of ``k + 2`` numbers a row.

    The numbers are the row's scores on the principal directions, its squared residual under the encoder, and under the
    directions. Each number is divided by its usual size.

    Attributes
    ----------
    rows : ndarray (u,) of int
        Rows of each unit.
    sums : ndarray (u, k + 2)
        Sums over the rows of each unit.
    squares : ndarray (k + 2,)
        Sums of squares over all rows.
    levels : ndarray (k + 2,)
        Divisors of the numbers: their usual sizes.
    """

    rows: npt.NDArray[np.int64]
    sums: Floats
    squares: Floats
    levels: Floats

    @property
    def losses(self) -> Floats:
        """Squared residual under the encoder, ``(u,)``."""
        summed: Floats = self.sums[:, -2] * self.levels[-2]
        return summed

    @property
    def pca_losses(self) -> Floats:
        """Squared residual under the principal directions, ``(u,)``."""
        summed: Floats = self.sums[:, -1] * self.levels[-1]
        return summed


@dataclass(frozen=True, eq=False)
class UnitLosses:
    """Recipe for the losses of each unit.

    One pass; 8 d k operations a row.

    Parameters
    ----------
    bounds : ndarray (u + 1,) of int
        Row bounds of the units, from 0.
    columns : ndarray (r,) of int
        Nonzero rows of H.
    H_selected : ndarray (r, k)
        Coefficients of H in those rows.
    G : ndarray (k, d)
        Decoder.
    V : ndarray (d, k)
        Orthonormal principal directions.
    levels : ndarray (k + 2,)
        Positive numbers of the size of the scores and of the two losses of a row: divided by them, data of any
        magnitude have squares that neither overflow nor vanish.
    mean : ndarray (d,) or (2, d)
        Subtracted from every row; ``(2, d)`` in two floats.
    scale : ndarray (d,)
        Divides every centered row.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.unit_losses.UnitLosses"

    bounds: npt.NDArray[np.int64]
    columns: npt.NDArray[np.intp]
    H_selected: Floats
    G: Floats
    V: Floats
    levels: Floats
    mean: Point
    scale: Floats

    @property
    def n_units(self) -> int:
        """u."""
        return self.bounds.size - 1

    @property
    def state_nbytes(self) -> int:
        """The numbers of every unit, and the squares."""
        return 8 * (self.n_units + 1) * self.levels.size

    @property
    def panel_rows(self) -> int:
        """Number of rows that stay in cache."""
        return panel_rows_for(self.mean.shape[-1], at_least=64)

    def work_nbytes(self, n_rows: int) -> int:
        """The centered rows, a reconstruction and a residual, the chosen columns, and the numbers of each row."""
        return int(8 * n_rows * (3 * self.mean.shape[-1] + self.columns.size + 3 * self.levels.size))

    @property
    def flops_per_row(self) -> float:
        """Encode and decode twice, subtract and square."""
        r, k = self.H_selected.shape
        return float(
            2 * k * (r + self.mean.shape[-1]) + 4 * self.V.shape[1] * self.mean.shape[-1] + 8 * self.mean.shape[-1]
        )

    def zero(self) -> State:
        """No rows."""
        return {"sums": np.zeros((self.n_units, self.levels.size)), "squares": np.zeros(self.levels.size)}

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Add the numbers of these rows to their units."""
        if rows.shape[0] == 0:
            return state
        numbers = self._numbers(rows)
        state["squares"] += np.einsum("ij,ij->j", numbers, numbers)
        unit = np.searchsorted(self.bounds, first_row + np.arange(rows.shape[0]), side="right") - 1
        # rows of a unit are consecutive, and most often all rows here are of one
        starts = np.flatnonzero(np.diff(unit, prepend=-1))
        state["sums"][unit[starts]] += np.add.reduceat(numbers, starts, axis=0)
        return state

    def _numbers(self, rows: Rows) -> Floats:
        centered = deviations(rows, self.mean, self.scale)
        scores = centered @ self.V
        losses = _squared(centered - (centered[:, self.columns] @ self.H_selected) @ self.G)
        pca_losses = _squared(centered - scores @ self.V.T)
        numbers: Floats = np.column_stack([scores, losses, pca_losses]) / self.levels
        return numbers

    def merge(self, a: State, b: State) -> State:
        """Sums add."""
        return {name: a[name] + b[name] for name in a}

    def result(self, state: State) -> UnitSums:
        """The sums."""
        return UnitSums(np.diff(self.bounds), state["sums"].copy(), state["squares"].copy(), self.levels)


def _squared(residual: Floats) -> Floats:
    squared: Floats = np.einsum("ij,ij->i", residual, residual)
    return squared
