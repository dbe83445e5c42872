"""The error of losses measured on randomly drawn blocks, and whether blocks are alike. Design-based: no model of rows.

Blocks are drawn without replacement from those the encoder was not fitted on, so the error of a total is that of a
cluster sample (Cochran 1977, Sampling Techniques, sections 6.3 and 9A.2): the spread between units, with the finite
population correction. The spread is that of all units measured so far, in any round, so an odd block is not forgotten
once an encoder has been fitted on it. All of this assumes that blocks not read are like blocks that were.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtri, stdtrit

from spae_dask.passes.accumulators import UnitSums
from spae_dask.strategies.core_summary import Floats

CHANCE = 1e-4
"""Blocks count as unlike only if shuffled rows would differ so much with at most this probability."""


@dataclass(frozen=True)
class Draw:
    """Random draw of blocks: numbers of blocks and rows.

    Attributes
    ----------
    n_blocks : int
        Number of blocks drawn.
    of_blocks, of_rows : int
        Number of blocks to draw from, and of the rows in those.
    """

    n_blocks: int
    of_blocks: int
    of_rows: int

    def total(self, units: UnitSums, values: Floats) -> float:
        """Estimated total of ``values``, one a unit, over all blocks drawn from: by rows, whose number is known."""
        return float(values.sum()) * self.of_rows / int(units.rows.sum())

    def deviations(self, units: UnitSums, values: Floats) -> Floats:
        """Deviation of each unit from what its rows have on average, scaled to that of a single block, ``(u,)``."""
        blocks_of_unit = self.n_blocks / units.rows.size
        size = float(np.max(np.abs(values)))
        if size == 0.0:
            return np.zeros(units.rows.size)
        average = float(np.sum(values / size)) / int(units.rows.sum())
        spread: Floats = (values / size - units.rows * average) * (size / math.sqrt(blocks_of_unit))
        return spread

    def standard_error(self, n_rows: int, spread: Sequence[Floats]) -> float:
        """Standard error of a total; zero if every block there is was drawn, infinite if no two units were measured.

        Parameters
        ----------
        n_rows : int
            Rows of the blocks drawn.
        spread : sequence of ndarray (u,)
            Deviations of the units of each round, the last of which is this draw.
        """
        if self.n_blocks == self.of_blocks:
            return 0.0
        blocks = math.sqrt(self.n_blocks * (1 - self.n_blocks / self.of_blocks))
        return blocks * self.of_rows / n_rows * Moments.of(spread).deviation

    def half_width(self, n_rows: int, spread: Sequence[Floats], confidence: float) -> float:
        """Half the width of the confidence interval of a total, by Student's t with two corrections for few odd blocks.

        Deviations with long tails tell less about their variance: it has ``2 u / (kurtosis - 1)`` degrees of freedom
        (Satterthwaite 1946), which are two if one of the u units has all of the deviation, and u for Gaussian ones.
        A skewed mean is farther off on one side, by Johnson's (1978) first-order term; the interval takes the farther
        side on both. Parameters are those of ``standard_error``, and the confidence.
        """
        error, moments = self.standard_error(n_rows, spread), Moments.of(spread)
        if error == 0.0 or not math.isfinite(error):
            return error
        t = float(stdtrit(moments.freedom, (1 + confidence) / 2))
        return error * (t + abs(moments.skewness) * (1 + 2 * t * t) / (6 * math.sqrt(spread[-1].size)))


@dataclass(frozen=True)
class Moments:
    """Moments of the deviations of all units that were measured.

    Attributes
    ----------
    deviation : float
        Standard deviation; infinite if no two units were measured in one round.
    skewness, kurtosis : float
        0 and 3 for Gaussian deviations; 0 and 0 if there are none.
    freedom : float
        Degrees of freedom of ``deviation``.
    """

    deviation: float
    skewness: float
    kurtosis: float
    freedom: float

    @classmethod
    def of(cls, spread: Sequence[Floats]) -> "Moments":
        """Moments about zero of the deviations of each round; a round has one mean, which costs a degree of freedom."""
        every = np.concatenate(spread)
        most = every.size - len(spread)
        if most <= 0:
            return cls(math.inf, 0.0, 0.0, 0.0)
        size = float(np.max(np.abs(every)))
        if size == 0.0:
            return cls(0.0, 0.0, 0.0, float(most))
        scaled = every / size  # so that powers neither overflow nor vanish
        squared = float(np.mean(scaled**2))
        kurtosis = float(np.mean(scaled**4)) / squared**2
        freedom = min(float(most), 2 * every.size / max(kurtosis - 1, 1e-9))
        deviation = size * math.sqrt(squared * every.size / most)
        return cls(deviation, float(np.mean(scaled**3)) / squared**1.5, kurtosis, freedom)


def row_kurtosis(units: UnitSums) -> float:
    """Mean square of a row's loss over its squared mean: the kurtosis of residuals of random size; 0 without any loss.

    Its inverse is the share of the rows that decide the loss: 1 if all rows lose the same.
    """
    summed = float(units.sums[:, -2].sum())
    return int(units.rows.sum()) * float(units.squares[-2]) / summed**2 if summed > 0 else 0.0


def between_blocks(units: UnitSums, rows_per_block: float) -> float:
    """Share of variance that lies between blocks, in whichever score or loss it is largest; 0 where chance explains it.

    Analysis of variance with units as groups: of shuffled rows, the mean squares between and within groups are equal
    on average. What the former has beyond the latter is ``rows_per_block`` times the variance between blocks, also if
    a unit is several blocks.

    Parameters
    ----------
    units : UnitSums
        Sums of the units of randomly drawn blocks.
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


@dataclass(frozen=True)
class Unlikeness:
    """The strongest signs, of all rounds, that blocks not read may be unlike those that were.

    Attributes
    ----------
    between : float
        Share of variance that lies between blocks, see ``between_blocks``.
    of_blocks : float
        Kurtosis of the blocks' deviations in the encoder's loss.
    of_rows : float
        Kurtosis of the rows' residuals, see ``row_kurtosis``.
    """

    between: float = 0.0
    of_blocks: float = 0.0
    of_rows: float = 0.0

    def updated(self, units: UnitSums, rows_per_block: float, spread: Sequence[Floats]) -> "Unlikeness":
        """With the units of another round, and the deviations of all rounds."""
        return Unlikeness(
            max(self.between, between_blocks(units, rows_per_block)),
            Moments.of(spread).kurtosis,
            max(self.of_rows, row_kurtosis(units)),
        )
