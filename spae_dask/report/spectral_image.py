"""Pictures of a spectral image, decoded from an encoder's codes and, beside them, from dense PCA's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

COLOUR_INFRARED = (860.0, 650.0, 550.0)
"""Wavelengths in nm shown as red, green and blue: near infrared, red and green, so that plants are red."""


@dataclass(frozen=True, eq=False)
class DensePCA:
    """PCA of a matrix that fits into memory, by a dense singular value decomposition.

    Attributes
    ----------
    mean : ndarray (d,)
        Column means.
    V_k : ndarray (d, k)
        Top right singular vectors.
    loss : float
        ``||X - X_k||^2`` of the centered matrix: the sum of the other squared singular values.
    """

    mean: Floats
    V_k: Floats
    loss: float

    @classmethod
    def of(cls, X: npt.NDArray[Any], k: int) -> "DensePCA":
        """PCA of X (n, d) with k components."""
        mean = X.mean(axis=0, dtype=np.float64)
        _, sigma, V_t = np.linalg.svd(X - mean, full_matrices=False)
        return cls(mean, V_t[:k].T.copy(), float((sigma[k:] ** 2).sum()))

    def reconstruct(self, X: npt.NDArray[Any]) -> Floats:
        """Rows (n, d) as their k codes keep them."""
        reconstruction: Floats = (X - self.mean) @ self.V_k @ self.V_k.T + self.mean
        return reconstruction

    def loss_on(self, X: npt.NDArray[Any]) -> float:
        """Squared norm of what it loses of other data, with its own mean and components."""
        return float(((X - self.reconstruct(X)) ** 2).sum())


def composite_bands(wavelengths: Floats, avoid: npt.NDArray[np.intp]) -> tuple[int, int, int]:
    """Bands nearest to near infrared, red and green that are not among those to avoid; the lowest on ties."""
    free = np.setdiff1d(np.arange(wavelengths.size), avoid)
    red, green, blue = (int(free[np.abs(wavelengths[free] - wanted).argmin()]) for wanted in COLOUR_INFRARED)
    return red, green, blue


def composite(
    image: npt.NDArray[Any], bands: tuple[int, int, int], reference: npt.NDArray[Any]
) -> npt.NDArray[np.uint8]:
    """False-colour picture (h, w, 3) of three bands.

    Each is stretched between its 1st and 99th percentile in ``reference``, so that pictures with the same reference can
    be compared by eye.
    """
    shown, scale = image[..., list(bands)].astype(np.float64), reference[..., list(bands)]
    low, high = np.percentile(scale.reshape(-1, 3), (1, 99), axis=0)
    unit = np.clip((shown - low) / np.maximum(high - low, np.finfo(float).tiny), 0, 1)
    pixels: npt.NDArray[np.uint8] = np.round(255 * unit**0.8).astype(np.uint8)
    return pixels


def pixel_errors(image: npt.NDArray[Any], reconstruction: Floats) -> Floats:
    """Root mean square, over the bands, of the error of each pixel (h, w)."""
    errors: Floats = np.sqrt(((image - reconstruction) ** 2).mean(axis=-1))
    return errors
