"""The section that `spae demo` adds to the report of its encoder: the image, decoded from its codes, and its bands.

Its pictures are arrays, decoded from the codes of the encoder and, beside them, from those of dense PCA.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.datasets.indian_pines import IndianPines, damaged_entries, has_carriage_returns
from spae_dask.report.figures import error_maps, feature_profile
from spae_dask.report.html import Markup, Section, filled, joined, number, paragraph, pixel_pictures, themed_figure
from spae_dask.report.sections import loss_table
from spae_dask.strategies.certificate import Certificate

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


WATER = ((1355.0, 1410.0, "water vapour"), (1812.0, 1940.0, "water vapour"))
"""Intervals in nm whose channels the image lacks."""


@dataclass(frozen=True, eq=False)
class ImageResults:
    """An encoder's results on an image of which one half was held out.

    Attributes
    ----------
    data : IndianPines
        The image.
    in_training : ndarray (h, w) of bool
        Pixels of the fit; the others were held out.
    side : int
        Side of the squares of the split, in pixels.
    training, held_out : Certificate
        Losses on either half.
    selected : ndarray of int (m,)
        Bands that any component uses, ascending.
    decoded : ndarray (h, w, d)
        The whole image, from its codes.
    pca : DensePCA
        PCA of the pixels of the fit.
    """

    data: IndianPines
    in_training: npt.NDArray[np.bool_]
    side: int
    training: Certificate
    held_out: Certificate
    selected: npt.NDArray[np.intp]
    decoded: Floats
    pca: DensePCA


def image_section(results: ImageResults) -> Section:
    """Make the section."""
    return Section("The decoded image", joined(_losses(results), _pictures(results), _bands(results)))


def _losses(results: ImageResults) -> Markup:
    n_training = int(results.in_training.sum())
    pixels, inside = results.data.pixels, results.in_training.ravel()
    split = paragraph(
        "A chessboard of {0} x {0} pixels a square divides the image. The fit reads one colour; the other is held "
        "out. Neighbouring pixels are nearly equal, so a split into alternate rows would test the encoder on pixels "
        "that it has seen.",
        results.side,
    )
    losses = loss_table(
        [
            (f"training, {n_training:,} pixels", results.training),
            (f"held out, {inside.size - n_training:,} pixels", results.held_out),
        ],
        [results.pca.loss_on(pixels[inside]), results.pca.loss_on(pixels[~inside])],
    )
    apart = abs(results.pca.loss - results.training.pca_loss) / results.pca.loss
    check = paragraph(
        "PCA's loss on the training pixels comes from the same read as the encoder. It differs by a relative {} from "
        "that of a dense singular value decomposition of the same pixels by numpy.",
        number(apart, f"{apart:.0e}"),
    )
    return joined(split, losses, check)


def _pictures(results: ImageResults) -> Markup:
    """The original, the image decoded by the encoder and by PCA, and the errors of both."""
    image, wavelengths = results.data.image, results.data.wavelengths
    height, width, d = image.shape
    bands = composite_bands(wavelengths, results.selected)
    shown = ", ".join(f"{wavelengths[band]:.0f}" for band in bands)
    by_pca = results.pca.reconstruct(image.reshape(-1, d)).reshape(image.shape)
    k, m = results.training.n_components, results.selected.size
    pictures = pixel_pictures(
        [
            (
                composite(image, bands, image),
                f"False-colour picture of the original image: fields in red and turquoise, {height} by {width} pixels.",
                filled("<strong>Original</strong>, {} bands a pixel", d),
            ),
            (
                composite(results.decoded, bands, image),
                "The same picture decoded from the encoder's codes: the same fields, without the original's speckles.",
                filled("<strong>Sparse encoder</strong>, {} codes made of {} bands", k, m),
            ),
            (
                composite(by_pca, bands, image),
                "The same picture decoded from PCA's codes: the same fields, without the original's speckles.",
                filled("<strong>PCA</strong>, {} codes made of all {} bands", k, d),
            ),
        ]
    )
    errors = (pixel_errors(image, results.decoded), pixel_errors(image, by_pca))
    medians = [float(np.median(each)) for each in errors]
    maps = themed_figure(
        lambda theme: error_maps(
            [("Sparse encoder", errors[0]), ("PCA", errors[1])],
            label="error of a pixel (stored units)",
            outline=results.in_training,
            theme=theme,
        ),
        alt=f"Two maps of the error of each pixel on one scale. The median is {medians[0]:.0f} for the sparse encoder "
        f"and {medians[1]:.0f} for PCA; the same fields are light or dark in both.",
        caption=filled(
            "Root mean square error of each pixel over the {} bands. The median is {} for the encoder and {} for PCA, "
            "where the median signal is {}. Lines separate squares used for training (top left and every second one) "
            "from squares held out.",
            d,
            number(medians[0], f"{medians[0]:.0f}"),
            number(medians[1], f"{medians[1]:.0f}"),
            number(float(np.median(image)), f"{np.median(image):,.0f}"),
        ),
    )
    intro = paragraph(
        "The image at {} nm, shown as red, green and blue, so that plants are red. "
        "The encoder reads none of these three bands. The picture shows what it predicts from the bands it reads.",
        shown,
    )
    return joined(intro, pictures, _damage(results, by_pca), maps)


def _bands(results: ImageResults) -> Markup:
    """The mean spectrum with the bands that the encoder reads."""
    data, selected = results.data, results.selected
    mean, spread = data.pixels.mean(axis=0), data.pixels.std(axis=0)
    labels = [f"{data.wavelengths[band]:.0f}" for band in selected]
    figure = themed_figure(
        lambda theme: feature_profile(
            data.wavelengths, mean, spread, selected, x_label="wavelength (nm)", y_label="radiance (stored units)",
            labels=labels, regions=WATER, theme=theme,
        ),
        alt=f"Mean spectrum of the image from 400 to 2500 nm with the {selected.size} selected bands marked, at "
        + " nm, ".join(labels) + " nm.",
        caption=filled(
            "Mean spectrum of all pixels with one standard deviation to either side, and the {} bands the encoder "
            "reads. Stored units are 1000 + 500 x radiance. Wavelengths are those of the instrument's calibration of "
            "1992, which is good to 1 to 3 nm.",
            selected.size,
        ),
    )  # fmt: skip
    named = ", ".join(
        f"{label} nm (column {band}, channel {data.channels[band]})"
        for label, band in zip(labels, selected, strict=True)
    )
    told = paragraph("{}. Columns of the data are numbered from 0, channels of the instrument from 1.", named)
    return joined(figure, filled("<details><summary>The bands by wavelength</summary>{}</details>", told))


def _damage(results: ImageResults, by_pca: Floats) -> Markup:
    """Paragraph about the damaged entries of the original; empty if the file is not the usual, damaged one."""
    pixels = results.data.pixels
    if has_carriage_returns(pixels):
        return Markup("")
    decoded = by_pca.reshape(pixels.shape)
    damaged = damaged_entries(pixels, decoded)
    squares = (pixels - decoded) ** 2
    held = float(squares[damaged].sum() / squares.sum())
    return paragraph(
        "The speckles in the original are damage to the file. The file was once treated as text, and every byte 13 "
        "became a byte 10. Values from 3328 to 3583 have been stored 768 too low ever since, and no byte of the file "
        "is 13. A few codes for a whole spectrum cannot follow such jumps, so the decoded pictures lack them. "
        "The damage affects about {} of all entries, and these hold {} of PCA's squared error.",
        number(float(damaged.mean()), f"{damaged.mean():.1%}"),
        number(held, f"{held:.0%}"),
    )
