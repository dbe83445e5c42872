"""Covariates of the rows, such as batches, depth or age: their values, and rows of numbers made of them.

Numbers stay as they are; labels become a column of zeros and ones for each level. Only the values themselves are kept,
one number or code a row, so that tasks carry little. Rows are made where they are used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from spae_dask.maths.linalg.spectral import thin_svd

Floats: TypeAlias = npt.NDArray[np.float64]

COLLINEAR = 1e-8
"""Spread, in units of those of the columns of Z, below which a direction of Z is rounding of the others. Covariates of
32 bits are no more exact than this."""

CHUNK_ROWS = 1 << 14
"""Rows that are made at once where all of them are looked at."""


@dataclass(frozen=True, eq=False)
class Design:
    """Covariates Z of all rows of a matrix.

    Parameters
    ----------
    values : tuple of ndarray (n,)
        Of each covariate the numbers, or codes of its levels.
    widths : tuple of int
        Levels of each covariate; 0 for one of numbers.
    center : ndarray (p,)
        Subtracted from the columns of Z.
    basis : ndarray (p, q)
        Multiplies them then.
    """

    recipe_kind: ClassVar[str] = "design"

    values: tuple[npt.NDArray[Any], ...]
    widths: tuple[int, ...]
    center: Floats
    basis: Floats

    @classmethod
    def orthogonal(
        cls, values: Sequence[npt.NDArray[Any]], widths: Sequence[int], weights: Floats | None = None
    ) -> "Design":
        """Covariates whose rows are about the mean, orthogonal, and of unit variance, all by the weights (n,) of rows.

        Directions of Z that the others, and a column of ones, explain are left out.
        """
        p = sum(max(1, width) for width in widths)
        raw = cls(tuple(values), tuple(widths), np.zeros(p), np.eye(p))
        total = float(raw.n_rows if weights is None else np.sum(weights))
        raw = replace(raw, center=raw._mean(weights))
        counted = 1.0 / np.maximum(raw._spread(weights), np.finfo(np.float64).tiny)
        R: Floats = np.zeros((0, p))
        for start in range(0, raw.n_rows, CHUNK_ROWS):
            rows = raw.rows(start, start + CHUNK_ROWS) * counted
            if weights is not None:
                rows *= np.sqrt(weights[start : start + CHUNK_ROWS])[:, None]
            R = np.linalg.qr(np.vstack([R, rows])).R
        _, s, Vt = thin_svd(R)
        kept = int(np.count_nonzero(s > COLLINEAR * np.sqrt(total))) if s.size else 0
        basis = counted[:, None] * Vt[:kept].T * (np.sqrt(total) / s[:kept])
        return replace(raw, basis=basis)

    @property
    def n_rows(self) -> int:
        """n."""
        return int(self.values[0].shape[0])

    @property
    def width(self) -> int:
        """q: columns of the rows that are made."""
        return int(self.basis.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return sum(each.nbytes for each in self.values)

    def rows(self, start: int, stop: int) -> Floats:
        """Rows ``(Z - center) basis`` (m, q)."""
        stop = min(stop, self.n_rows)
        made: Floats = (self._encoded(start, stop) - self.center) @ self.basis
        return made

    def _encoded(self, start: int, stop: int) -> Floats:
        Z, left = np.zeros((stop - start, self.center.size)), 0
        for values, width in zip(self.values, self.widths, strict=True):
            if width:
                Z[np.arange(stop - start), left + values[start:stop].astype(np.intp)] = 1.0
            else:
                Z[:, left] = values[start:stop]
            left += max(1, width)
        return Z

    def _mean(self, weights: Floats | None) -> Floats:
        total = self.n_rows if weights is None else np.sum(weights)
        means = [
            np.bincount(values, weights, minlength=width) / total if width else [_mean_of(values, weights)]
            for values, width in zip(self.values, self.widths, strict=True)
        ]
        return np.concatenate([np.asarray(each, dtype=np.float64) for each in means])

    def _spread(self, weights: Floats | None) -> Floats:
        """Standard deviations of the columns; of columns that are constant to rounding, infinity."""
        found, left = [], 0
        for values, width in zip(self.values, self.widths, strict=True):
            mean = self.center[left : left + max(1, width)]
            spread = np.sqrt(np.maximum(mean * (1.0 - mean), 0.0)) if width else _spread_of(values - mean[0], weights)
            still = spread <= 4 * np.finfo(np.float64).eps * np.abs(mean)
            found.append(np.where(still, np.inf, spread))
            left += max(1, width)
        return np.concatenate(found)


def _mean_of(values: Floats, weights: Floats | None) -> float:
    first = float(values[0])
    return first + float(np.average(values - first, weights=weights))


def _spread_of(deviations: Floats, weights: Floats | None) -> Floats:
    if weights is None:
        return np.array([np.std(deviations)])
    return np.sqrt([np.average(deviations**2, weights=weights)])
