"""Interval for an encoder's loss over PCA's on all rows, from blocks that the encoder was not fitted on.

The encoder was fitted on blocks S; the new ones, U, are a random sample of all the others. So
``S'S + w U'U`` estimates X'X without bias, w being the rows outside S over those of U, and on a core of it the loss of
the encoder and PCA's are found as on any core. Both are minima over what they fit to the sample, so both are a little
too small. With the decoder and the directions that were fitted on S, both are a little too large. The interval is
centered between the two ratios and reaches, on either side, by their distance and by the sampling error of ``loss -
ratio x PCA's loss`` over blocks: at the optimum, first-order changes of the decoder and of the directions do not matter
(envelope theorem), so this is linear in the blocks (Taylor linearisation). The confidence is shared among all rounds
that may stop (Bonferroni), so that it holds for the one that does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import fdtri, stdtrit

from spae_dask.maths.linalg.project import optimal_decoder
from spae_dask.maths.linalg.spectral import right_singular
from spae_dask.passes.accumulators import CenteredTriangle, Scatter, UnitLosses, UnitSums
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.core_summary import CoreSummary, Floats, summary_about
from spae_dask.strategies.methods import Encoded
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sparse_encoder import FittedEncoder, certified_encoder

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


Ints = npt.NDArray[np.int64]

CONFIDENCE = 0.95
"""Probability that the interval of the ratio holds, in whichever round the fit stops."""

MOST_UNITS = 1024
"""Most units whose losses are kept apart; of more blocks, several make one."""

SEEN_ONLY = "stopped before all rows were read: theory holds only for the rows an encoder is fitted on"


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimate that a round makes of the encoder of the round before.

    Attributes
    ----------
    fraction_read : float
        Share of the rows read.
    ratio, lower, upper : float
        The encoder's loss over PCA's on all rows, and the ends of its interval.
    left_to_gain : float
        Largest decrease of the ratio that further reads may bring: ``upper`` less an optimistic ratio for any encoder.
        The optimistic ratio is 1 or, if it was found, that of the encoder fitted on all rows seen.
    certificate : Certificate
        Certificate with all intervals.
    deviations : ndarray (u, 3)
        Deviations of the units of this round: in the encoder's loss, in PCA's, and in the first less the ratio times
        the second.
    """

    fraction_read: float
    ratio: float
    lower: float
    upper: float
    left_to_gain: float
    certificate: Certificate
    deviations: Floats

    def against(self, attainable: float) -> "Estimate":
        """With ``left_to_gain`` against what is attainable at best."""
        if not math.isfinite(self.upper):
            return self
        left = self.upper - min(attainable, self.ratio)
        return replace(self, left_to_gain=left, certificate=replace(self.certificate, left_to_gain=left))


def losses_of(fitted: FittedEncoder, summary: CoreSummary, lengths: Ints) -> UnitLosses:
    """Recipe that measures an encoder on blocks of such lengths, in the order read."""
    n_units = min(lengths.size, MOST_UNITS)
    cuts = np.arange(n_units + 1) * lengths.size // n_units
    n = summary.n_samples
    sigma, V = right_singular(summary.core, fitted.H.shape[1])
    losses = np.array([fitted.certificate.loss, fitted.certificate.pca_loss]) / n
    levels = np.concatenate([np.maximum(sigma[: V.shape[1]], 1e-12 * sigma[0]) / math.sqrt(n), losses])
    return UnitLosses(
        bounds=np.concatenate([[0], np.cumsum(lengths)])[cuts],
        columns=fitted.selected,
        H_selected=fitted.H[fitted.selected],
        G=fitted.G,
        V=V,
        levels=np.where(levels > 0, levels, 1.0),
        mean=fitted.center,
        scale=fitted.scale,
    )


def weighted_core(
    seen: Scatter | CenteredTriangle,
    new: Scatter | CenteredTriangle,
    draw: Draw,
    summary: CoreSummary,
    fitted: FittedEncoder,
    *,
    center: bool,
) -> CoreSummary:
    """Core that stands for all rows: those seen before, and the new ones as often as they stand for others.

    About the mean of all of them, whose core is ``summary``, in the scale of the encoder that is measured.
    """
    weight = draw.of_rows / new.count
    parts = [summary_about(part, summary.center, fitted.scale) for part in (seen, new)]
    core = np.vstack([parts[0].core, math.sqrt(weight) * parts[1].core])
    if center:  # what is left of a constant column is the rounding of its entries
        core[:, summary.constant] = 0.0
    lengths = np.sqrt(parts[0].rounding.lengths ** 2 + weight * parts[1].rounding.lengths ** 2)
    worse = max((part.rounding for part in parts), key=lambda rounding: rounding.products + rounding.rows)
    rounding = replace(summary.rounding, lengths=lengths, products=worse.products, rows=worse.rows)
    return replace(summary, core=core, scale=fitted.scale, rounding=rounding)


def certified_again(params: FitParameters, fitted: FittedEncoder, summary: CoreSummary) -> FittedEncoder:
    """The same encoder with the decoder that is best on another core, and certified on that."""
    G = optimal_decoder(summary.core, fitted.H)
    encoded = Encoded(fitted.H, G, fitted.chosen, None, SEEN_ONLY)
    return certified_encoder(params, summary, encoded, passes=1, bytes_read=0)


def estimate(
    before: FittedEncoder,
    fitted: FittedEncoder,
    units: UnitSums,
    draw: Draw,
    confidence: float,
    n_samples: int,
    earlier: Sequence[Floats] = (),
) -> Estimate:
    """Interval of the encoder's loss, of PCA's and of their ratio, see the head of this file.

    ``before`` and ``fitted`` are the same encoder, certified on the blocks it was fitted on and on the weighted core;
    ``earlier`` are the deviations of earlier rounds.
    """
    found = fitted.certificate
    inner = np.array([found.loss, found.pca_loss])
    outer = np.array([before.certificate.loss, before.certificate.pca_loss])
    outer += [draw.total(units, units.losses), draw.total(units, units.pca_losses)]
    middle, apart = (inner + outer) / 2, np.abs(inner - outer)
    bounded = min(inner[1], outer[1]) > found.loss_error
    ratio = middle[0] / middle[1] if bounded else 1.0
    values = (units.losses, units.pca_losses, units.losses - ratio * units.pca_losses)
    deviations = np.column_stack([draw.deviations(units, each) for each in values])
    rounds, n_rows = (*earlier, deviations), int(units.rows.sum())
    widths = [draw.half_width(n_rows, [each[:, i] for each in rounds], confidence) for i in range(3)]
    error = apart + widths[:2]
    least, most = np.clip(middle - error, 0.0, None), middle + error
    lower, upper = 1.0, 1.0 if found.ratio == 1.0 and found.loss <= found.loss_error else math.inf
    if bounded:
        reach = widths[2] / middle[1] + abs(inner[0] / inner[1] - outer[0] / outer[1])
        lower, upper = max(1.0, float(ratio - reach)), float(ratio + reach)
    left = upper - 1  # no ratio is less than 1
    fraction = fitted.n_samples / n_samples
    certificate = replace(
        found,
        loss_kind="estimate",
        loss_lower=float(least[0]),
        loss_upper=float(most[0]),
        pca_loss_kind="estimate",
        pca_loss_lower=float(least[1]),
        pca_loss_upper=float(most[1]),
        confidence=CONFIDENCE,
        ratio_lower=lower,
        ratio_upper=upper,
        fraction_read=fraction,
        left_to_gain=left,
    )
    return Estimate(fraction, found.ratio, lower, upper, left, certificate, deviations)
