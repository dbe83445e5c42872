"""The pictures of the demo's page: the original image, and the image decoded from its codes."""

import numpy as np
import numpy.typing as npt

from spae_dask.datasets.indian_pines import damaged_entries, has_carriage_returns
from spae_dask.report.demo_results import DemoResults
from spae_dask.report.figures import error_maps
from spae_dask.report.html import Markup, Section, filled, joined, number, paragraph, pixel_pictures, themed_figure
from spae_dask.report.spectral_image import composite, composite_bands, pixel_errors

Floats = npt.NDArray[np.float64]


def picture_section(results: DemoResults) -> Section:
    """The original, what the encoder and PCA make of it, and the errors of both."""
    image, wavelengths = results.data.image, results.data.wavelengths
    height, width, d = image.shape
    bands = composite_bands(wavelengths, results.selected)
    shown = ", ".join(f"{wavelengths[band]:.0f}" for band in bands)
    by_pca = results.pca.reconstruct(image.reshape(-1, d)).reshape(image.shape)
    k, m = results.components.shape[0], results.selected.size
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
            "Root mean square error of each pixel over the {} bands; the median is {} for the encoder and {} for PCA, "
            "of a median signal of {}. Lines separate squares used for training (top left and every second one) "
            "from squares held out.",
            d,
            number(medians[0], f"{medians[0]:.0f}"),
            number(medians[1], f"{medians[1]:.0f}"),
            number(float(np.median(image)), f"{np.median(image):,.0f}"),
        ),
    )
    intro = paragraph(
        "The image as seen at {} nm, shown as red, green and blue, so that plants are red. "
        "The encoder reads none of these three bands: what is shown of them is predicted from the bands it does read.",
        shown,
    )
    return Section("The image, decoded", joined(intro, pictures, _damage(results, by_pca), maps))


def _damage(results: DemoResults, by_pca: Floats) -> Markup:
    """Paragraph about the damaged entries of the original; empty if the file is not the usual, damaged one."""
    pixels = results.data.pixels
    if has_carriage_returns(pixels):
        return Markup("")
    decoded = by_pca.reshape(pixels.shape)
    damaged = damaged_entries(pixels, decoded)
    squares = (pixels - decoded) ** 2
    held = float(squares[damaged].sum() / squares.sum())
    return paragraph(
        "The speckles in the original are damage to the file: it was once taken for text, every byte 13 became a byte "
        "10, and values from 3328 to 3583 have been stored 768 too low ever since. No byte of the file is 13. "
        "A few codes for a whole spectrum cannot follow such jumps, so the decoded pictures lack them. The damage "
        "touches about {} of all entries, and these hold {} of PCA's squared error.",
        number(float(damaged.mean()), f"{damaged.mean():.1%}"),
        number(held, f"{held:.0%}"),
    )
