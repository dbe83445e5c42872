"""What one read leaves of the data: a core, centered and scaled by algebra, and how far rounding can have moved it."""

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from spae_dask.accumulators import CenteredTriangle, Scatter
from spae_dask.accumulators.single import RELATIVE_ERROR
from spae_dask.errors import InvalidInput
from spae_dask.linalg.loss import total_variance
from spae_dask.linalg.scaling import unit_columns
from spae_dask.linalg.spectral import core_from_gram

Floats = npt.NDArray[np.float64]

CONSTANT = 4 * float(np.finfo(np.float64).eps)
"""A column whose standard deviation is below this share of its mean is constant up to the rounding of its entries."""


@dataclass(frozen=True, eq=False)
class CoreSummary:
    """All that a fit needs of the data.

    Attributes
    ----------
    n_samples : int
        Rows seen.
    core : ndarray (m, d)
        L with ``L'L = X'X``, X centered and scaled.
    mean : ndarray (d,)
        Subtracted from X; zeros if not centered.
    scale : ndarray (d,)
        X is divided by it; ones if not scaled.
    constant : ndarray of int
        Columns without variance.
    fill : ndarray (d,) or None
        What stood for NaN; None if NaN was refused.
    strategy, precision : str
        How the core was made, which decides what rounding did to it.
    """

    n_samples: int
    core: Floats
    mean: Floats
    scale: Floats
    constant: npt.NDArray[np.intp]
    fill: Floats | None
    strategy: str
    precision: str = "exact"

    def loss_error(self, loss: float) -> float:
        """Estimated absolute rounding error of a loss computed on the core.

        A Gram matrix errs by d u ||X||^2. A triangular factor errs by d u ||X|| in every singular value, which moves
        a small sum of squares far less. Float32 products err by their own share of the total.
        """
        total = total_variance(self.core)
        unit: float = self.core.shape[1] * float(np.finfo(np.float64).eps)
        if self.precision == "fast":
            return RELATIVE_ERROR * total
        if self.strategy == "gram":
            return unit * total
        return 2 * unit * math.sqrt(total) * math.sqrt(loss) + unit**2 * total


def summarize(found: Scatter | CenteredTriangle, *, center: bool, scale: bool) -> CoreSummary:
    """Center and scale by algebra on the summary; X itself is never rewritten."""
    d = found.mean.size
    deviation = _variation(found) / np.sqrt(max(found.count - 1, 1))
    is_constant = constant_columns(deviation, found.mean)
    divisor = np.where(is_constant, 1.0, deviation) if scale else np.ones(d)
    summary = summary_about(found, found.mean.copy() if center else np.zeros(d), divisor)
    # centered, a constant column is zero; what is left of it is the rounding of its entries
    core = np.where(is_constant, 0.0, summary.core) if center else summary.core
    return replace(summary, core=core, constant=np.flatnonzero(is_constant))


def summary_about(found: Scatter | CenteredTriangle, origin: Floats, scale: Floats) -> CoreSummary:
    """Core of the data about ``origin`` and divided by ``scale``, both (d,)."""
    centered = np.array_equal(origin, found.mean)
    if isinstance(found, Scatter):
        gram = found.scatter if centered else found.about(origin)
        refuse_overflow(gram)
        core, strategy = core_from_gram(gram), "gram"
    else:
        refuse_overflow(found.triangle)
        core, strategy = found.triangle if centered else found.about(origin), "tsqr"
    core = core / scale
    # every loss is a sum of squares of such entries
    refuse_overflow(core, limit=math.sqrt(np.finfo(np.float64).max / core.size))
    return CoreSummary(
        n_samples=found.count,
        core=core,
        mean=origin,
        scale=scale,
        constant=np.zeros(0, dtype=np.intp),
        fill=None,
        strategy=strategy,
    )


def constant_columns(deviation: Floats, mean: Floats) -> npt.NDArray[np.bool_]:
    """Columns (d,) whose standard deviation is no more than the rounding of their mean."""
    still: npt.NDArray[np.bool_] = deviation <= CONSTANT * np.abs(mean)
    return still


def _variation(found: Scatter | CenteredTriangle) -> Floats:
    """Lengths (d,) of the centered columns."""
    if isinstance(found, Scatter):
        return np.sqrt(np.clip(np.diag(found.scatter), 0.0, None))
    return unit_columns(found.triangle)[1]


def refuse_overflow(values: Floats, limit: float = math.inf) -> None:
    """Raise ``InvalidInput`` if any of the sums of squares, columns last, is above ``limit`` or not a number."""
    # false for NaN too, which is what infinities less infinities leave
    fine = (np.abs(values) <= limit) & np.isfinite(values)
    if not fine.all():
        column = int(np.argwhere(~fine)[0][-1])
        raise InvalidInput(
            f"squares of the entries of column {column} overflow float64: its values are too large (about 1e150 or "
            "more). Divide the data by a constant and run again; the encoder does not change."
        )
