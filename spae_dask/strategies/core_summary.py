"""Summary that one read leaves of the data: a core, centered and scaled by algebra, and the rounding behind it."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.scaling import unit_columns, unit_scaled
from spae_dask.maths.linalg.spectral import (
    Choose,
    factor_gram,
    leading_subspace,
    pca_loss,
    right_singular,
    spectrum_of_products,
)
from spae_dask.passes.accumulators import CenteredTriangle, Scatter
from spae_dask.passes.accumulators.moments import degrees_of_freedom
from spae_dask.passes.accumulators.shift import SMALLEST_SQUARE, step_between, vanishing
from spae_dask.strategies.parameters import ScaleLike
from spae_dask.strategies.rounding import ROUNDOFF, Rounding

if TYPE_CHECKING:
    from spae_dask.strategies.folds import FoldedCore

Floats = npt.NDArray[np.float64]

NOISE = 16 * ROUNDOFF
"""Part of a column's length that may be dropped from a triangle as rounding."""

PLOIDY = 2
"""Copies of a chromosome: genotypes are 0, 1 and 2."""

CONSTANT = 4 * float(np.finfo(np.float64).eps)
"""A column whose standard deviation is below this share of its mean is constant up to the rounding of its entries."""


@dataclass(frozen=True, eq=False)
class Explained:
    """Part of the data that covariates explain.

    Attributes
    ----------
    effects : ndarray (q, d)
        B: of X about its mean, ``Z B`` is explained.
    wholly : ndarray (d,) of bool
        Columns of which they leave no more than rounding, which is left out.
    """

    effects: Floats
    wholly: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CoreSummary:
    """Summary of the data that is enough for a fit.

    Attributes
    ----------
    n_samples : float
        Rows seen, or the sum of their weights.
    core : ndarray (m, d)
        L with ``L'L = X'X``, X centered and scaled.
    center : ndarray (2, d)
        Subtracted from X, in two floats; zeros if not centered.
    scale : ndarray (d,)
        X is divided by it; ones if not scaled.
    constant : ndarray of int
        Columns without variance.
    n_left_out : int
        Columns that vary, but by no more than the rounding of their entries; they are left out as constant.
    fill : ndarray (d,) or None
        Values that stood for NaN; None if NaN was refused.
    rounding : Rounding
        Errors of the core.
    exact_sums : bool
        True if the core is made of sums that are exact integers.
    explained : Explained or None
        Part that covariates explain, in units of the data; X is the rest.
    folded : FoldedCore or None
        Summaries of folds of the rows.
    """

    n_samples: float
    core: Floats
    center: Floats
    scale: Floats
    constant: npt.NDArray[np.intp]
    fill: Floats | None
    rounding: Rounding
    n_left_out: int = 0
    exact_sums: bool = False
    explained: Explained | None = None
    folded: "FoldedCore | None" = None

    @property
    def mean(self) -> Floats:
        """Subtracted from X ``(d,)``: the nearest float64 numbers."""
        mean: Floats = self.center[0]
        return mean

    @cached_property
    def _sigma(self) -> Floats:
        return right_singular(self.core, 0)[0]

    @cached_property
    def _by_products(self) -> dict[int, tuple[Floats, Floats] | None]:
        return {}

    def _of_products(self, k: int) -> tuple[Floats, Floats] | None:
        if k not in self._by_products:
            found = spectrum_of_products(self.core, k) if self.rounding.products > 0.0 else None
            self._by_products[k] = found
        return self._by_products[k]

    def components_by(self, choose: Choose) -> int:
        """The number of components that a function chooses by the singular values; their spectrum is then known."""
        chosen = list[int]()

        def noted(sigma: Floats) -> int:
            chosen.append(choose(sigma))
            return chosen[0]

        found = spectrum_of_products(self.core, noted) if self.rounding.products > 0.0 else None
        k = chosen[0] if chosen else choose(self._sigma)
        self._by_products[k] = found  # of a core that lacks digits for one component there is none for any k
        return k

    def spectrum(self, k: int) -> Floats:
        """All singular values, descending, with the digits that the loss of k components needs."""
        found = self._of_products(k)
        return self._sigma if found is None else found[0]

    def leading(self, k: int) -> Floats:
        """Top k right singular vectors ``(d, k')``, at most as many as the rank."""
        found = self._of_products(k)
        return leading_subspace(self.core, k) if found is None else found[1]

    def rank_tol(self, k: int) -> float:
        """Relative length below which a column's part outside the span of others is noise, see ``Rounding``."""
        return self.rounding.rank_tol(pca_loss(self.spectrum(k), k))


def summarize(
    found: Scatter | CenteredTriangle, *, center: bool, scale: ScaleLike, integers: bool = False
) -> CoreSummary:
    """Center and scale by algebra on the summary; X itself is never rewritten.

    Parameters
    ----------
    found : Scatter or CenteredTriangle
        Summary of the rows.
    center : bool
        True to center columns.
    scale : bool, str or sequence of float
        Divisors of the columns, see `divisors`.
    integers : bool
        True if all entries are integers. Integers have no rounding, so a column that varies at all is not constant.
    """
    lengths = _variation(found)
    deviation = lengths / np.sqrt(degrees_of_freedom(found.count))
    is_constant = deviation == 0.0 if integers else constant_columns(deviation, found.mean)
    divisor, is_constant = divisors(scale, found.mean, deviation, is_constant)
    origin = found.center if center else np.zeros_like(found.center)
    summary = summary_about(found, origin, divisor, one_float=center)
    if not center:
        return replace(summary, constant=np.flatnonzero(is_constant))
    # centered, a constant column is zero; what is left of it is the rounding of its entries
    core = np.where(is_constant, 0.0, summary.core)
    left_out = float(np.sum((lengths[is_constant] / divisor[is_constant]) ** 2))
    return replace(
        summary,
        core=core,
        constant=np.flatnonzero(is_constant),
        n_left_out=int(np.count_nonzero(is_constant & (lengths > 0.0))),
        rounding=replace(summary.rounding, left_out=left_out),
    )


def summary_about(
    found: Scatter | CenteredTriangle, origin: Floats, scale: Floats, *, one_float: bool = False
) -> CoreSummary:
    """Core of the data about ``origin (2, d)`` and divided by ``scale (d,)``.

    With ``one_float`` only the first float of the origin is reported, and ``rounding.missed`` says what that misses.
    """
    refuse_overflow(found.scatter if isinstance(found, Scatter) else found.triangle)
    centered = np.array_equal(origin, found.center)
    offset = np.sqrt(found.count) * step_between(origin, found.center)
    if isinstance(found, Scatter):
        gram = found.scatter if centered else found.about(origin)
        refuse_overflow(gram)
        core, dropped = factor_gram(gram, found.error)
        # the eigenvectors and the core made of them round as well
        products = found.error + dropped + scale.size * ROUNDOFF
        rounding = Rounding(
            np.hypot(found.lengths, offset) / scale, products=products, noise=found.noise + dropped + 8 * ROUNDOFF
        )
    else:
        lengths = unit_columns(found.triangle)[1] if found.lengths is None else found.lengths
        core = _without_noise(found.triangle, lengths)
        if not centered:
            core = np.vstack([core, offset])
        rounding = Rounding(np.hypot(lengths, offset) / scale, rows=found.error + NOISE)
    core = core / scale
    # every loss is a sum of squares of such entries
    refuse_overflow(core, limit=math.sqrt(np.finfo(np.float64).max / core.size))
    refuse_vanishing_core(core)
    missed = np.sqrt(found.count) * origin[1] / scale if one_float else np.zeros(scale.size)
    return CoreSummary(
        n_samples=found.count,
        core=core,
        center=origin,
        scale=scale,
        constant=np.zeros(0, dtype=np.intp),
        fill=None,
        rounding=replace(rounding, mean=found.mean_error, missed=missed),
        exact_sums=isinstance(found, Scatter) and found.exact_sums,
    )


def _without_noise(triangle: Floats, lengths: Floats) -> Floats:
    """Leading rows of a triangle, without those that hold nothing but rounding: as many as X has independent rows.

    The others are dropped if no column loses more than ``NOISE`` of its length.
    """
    scaled, unit = unit_scaled(triangle)
    below = np.sqrt(np.cumsum((scaled**2)[::-1], axis=0))[::-1] * unit
    kept = int(np.count_nonzero(np.any(below > NOISE * lengths, axis=1)))
    return triangle[: max(kept, 1)]


def constant_columns(deviation: Floats, mean: Floats) -> npt.NDArray[np.bool_]:
    """Columns (d,) whose standard deviation is no more than the rounding of their mean."""
    still: npt.NDArray[np.bool_] = deviation <= CONSTANT * np.abs(mean)
    return still


def divisors(
    scale: ScaleLike, mean: Floats, deviation: Floats, constant: npt.NDArray[np.bool_]
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Divisors (d,) of the columns, 1 for constant ones, and the columns that are constant.

    Parameters
    ----------
    scale : bool, str or sequence of float
        False for ones, True or ``"std"`` for standard deviations, ``"patterson"`` for ``sqrt(p (1 - p))`` with ``p =
        mean / 2``, or the divisors themselves. Columns with p of 0 or 1 are constant.
    mean, deviation : ndarray (d,)
        Means and standard deviations.
    constant : ndarray (d,) of bool
        Columns without variance.

    Raises
    ------
    InvalidInput
        If ``scale="patterson"`` and a column cannot hold genotypes: its mean is outside 0 to 2, or at an end although
        the column varies.
    """
    wanted = deviation
    if isinstance(scale, str) and scale == "patterson":
        share = np.clip(mean / PLOIDY, 0.0, 1.0)
        wanted = np.sqrt(share * (1.0 - share))
        varied = (wanted == 0.0) & (deviation > math.sqrt(CONSTANT))
        wrong = np.flatnonzero(varied | (mean < -CONSTANT) | (mean > PLOIDY * (1 + CONSTANT)))
        if wrong.size:
            column = int(wrong[0])
            raise InvalidInput(
                f"scale='patterson' takes genotypes from 0 to {PLOIDY}, but column {column} holds other numbers: its "
                f"mean is {mean[column]:g}. Name numbers that stand for missing genotypes with missing_value, or use "
                "scale='std'."
            )
        constant = constant | (wanted == 0.0)
    elif not isinstance(scale, str | bool | np.bool_):
        wanted = np.asarray(scale, dtype=np.float64)
    elif not scale:
        wanted = np.ones(mean.size)
    return np.where(constant, 1.0, wanted), constant


def _variation(found: Scatter | CenteredTriangle) -> Floats:
    """Lengths (d,) of the centered columns."""
    if isinstance(found, Scatter):
        return np.sqrt(np.clip(np.diag(found.scatter), 0.0, None))
    return unit_columns(found.triangle)[1]


def refuse_vanishing_core(core: Floats) -> None:
    """Raise ``InvalidInput`` if a core is not zero but the sum of its squares underflows."""
    largest = np.max(np.abs(core), axis=0)
    if 0.0 < np.max(largest) < math.sqrt(SMALLEST_SQUARE):
        raise vanishing(int(np.argmax(largest)))


def refuse_overflow(values: Floats, limit: float = math.inf) -> None:
    """Raise ``InvalidInput`` if any of the sums of squares, columns last, is above ``limit`` or not a number."""
    # false for NaN too, which is what infinities less infinities leave
    fine = (np.abs(values) <= limit) & np.isfinite(values)
    if not fine.all():
        column = int(np.argwhere(~fine)[0][-1])
        raise InvalidInput(
            f"squares of the entries of column {column} overflow float64, because its values are too large "
            "(about 1e150 or more). Divide the data by a constant and run again; the encoder does not change."
        )
