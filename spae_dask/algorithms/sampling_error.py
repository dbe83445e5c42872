"""The error of losses measured on randomly drawn blocks, and whether blocks are alike. Design-based: no model of rows.

Blocks are drawn without replacement from those the encoder was not fitted on, so the error of a total is that of a
cluster sample (Cochran 1977, Sampling Techniques, sections 6.3 and 9A.2): the spread between units, with the finite
population correction.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtri, stdtrit

from spae_dask.accumulators import UnitSums
from spae_dask.algorithms.core_summary import Floats

CHANCE = 1e-4
"""Blocks count as unlike only if shuffled rows would differ so much with at most this probability."""


@dataclass(frozen=True)
class Draw:
    """How blocks were drawn.

    Attributes
    ----------
    n_blocks : int
        Blocks drawn.
    of_blocks, of_rows : int
        Blocks they were drawn from, and the rows in these.
    """

    n_blocks: int
    of_blocks: int
    of_rows: int

    def total(self, units: UnitSums, values: Floats) -> float:
        """Estimated total of ``values``, one a unit, over all blocks drawn from: by rows, whose number is known."""
        return float(values.sum()) * self.of_rows / int(units.rows.sum())

    def half_width(self, units: UnitSums, values: Floats, confidence: float) -> float:
        """Half the width of the confidence interval of that total, by Student's t over units; infinite for one unit.

        Zero if every block there is was drawn.
        """
        u, rows = units.rows.size, int(units.rows.sum())
        if self.n_blocks == self.of_blocks:
            return 0.0
        if u < 2:
            return math.inf
        size = float(np.max(np.abs(values)))
        if size == 0.0:
            return 0.0
        # about what each unit would have at the common value a row; scaled, so that squares do not overflow
        spread = values / size - units.rows * (float(np.sum(values / size)) / rows)
        variance = float(spread @ spread) / (u - 1) * u * (1 - self.n_blocks / self.of_blocks)
        return float(stdtrit(u - 1, (1 + confidence) / 2)) * self.of_rows / rows * math.sqrt(variance) * size


def between_blocks(units: UnitSums, rows_per_block: float) -> float:
    """Share of variance that lies between blocks, in whichever score or loss it is largest; 0 where chance explains it.

    Analysis of variance with units as groups: of shuffled rows, the mean squares between and within groups are equal
    on average. What the former has beyond the latter is ``rows_per_block`` times the variance between blocks, also if
    a unit is several blocks.

    Parameters
    ----------
    units : UnitSums
        Of randomly drawn blocks.
    rows_per_block : float
        Rows of a block, on average.

    Returns
    -------
    float
        0 for shuffled rows, 1 if all rows of a block are the same.
    """
    u, n = units.rows.size, int(units.rows.sum())
    if u < 2 or n <= u:
        return 0.0
    between = np.sum(units.sums**2 / units.rows[:, None], axis=0)
    within = np.clip(units.squares - between, 0.0, None) / (n - u)
    between = np.clip(between - units.sums.sum(axis=0) ** 2 / n, 0.0, None) / (u - 1)
    significant = between > float(fdtri(u - 1, n - u, 1 - CHANCE)) * within
    of_blocks = np.clip(between - within, 0.0, None) / rows_per_block
    share = np.divide(of_blocks, of_blocks + within, out=np.zeros_like(within), where=significant)
    return float(share.max())
