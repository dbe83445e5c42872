"""The page of ``spae demo``: what a sparse encoder keeps of the Indian Pines image."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spae_dask.algorithms.certificate import Certificate
from spae_dask.datasets.indian_pines import IndianPines
from spae_dask.engine.plan import Plan
from spae_dask.report.figures import error_maps, feature_profile
from spae_dask.report.html import (
    Markup,
    Page,
    Section,
    filled,
    joined,
    number,
    paragraph,
    pixel_pictures,
    themed_figure,
)
from spae_dask.report.sections import (
    Step,
    components_section,
    cost_table,
    loss_table,
    memory_list,
    provenance_section,
)
from spae_dask.report.spectral_image import DensePCA, composite, composite_bands, pixel_errors

Floats = npt.NDArray[np.float64]

WATER = ((1355.0, 1410.0, "water vapour"), (1812.0, 1940.0, "water vapour"))
"""Intervals in nm whose channels the image lacks."""


@dataclass(frozen=True, eq=False)
class DemoResults:
    """All the page tells.

    Attributes
    ----------
    data : IndianPines
        The image.
    in_training : ndarray (h, w) of bool
        Pixels the encoder was fitted on; the others were held out.
    side : int
        Side of the squares of the split, in pixels.
    training, held_out : Certificate
        Losses on either part.
    plan : Plan
        Of the fit.
    components, explained, spectrum : ndarray (k, d), (k,), (min(n, d),)
        As fitted.
    decoded : ndarray (h, w, d)
        The whole image, from its codes.
    pca : DensePCA
        Fitted on the training pixels.
    steps : sequence of Step
        What was done.
    peak_nbytes : int
        Peak memory of the process.
    facts : sequence of (str, str)
        Provenance.
    commands : sequence of str
        How to do it again.
    """

    data: IndianPines
    in_training: npt.NDArray[np.bool_]
    side: int
    training: Certificate
    held_out: Certificate
    plan: Plan
    components: Floats
    explained: Floats
    spectrum: Floats
    decoded: Floats
    pca: DensePCA
    steps: Sequence[Step]
    peak_nbytes: int
    facts: Sequence[tuple[str, str]]
    commands: Sequence[str]

    @property
    def selected(self) -> npt.NDArray[np.intp]:
        """Bands any component uses, ascending."""
        return np.flatnonzero(self.components.any(axis=0))


def demo_page(results: DemoResults) -> Page:
    """Make the page."""
    k, d = results.components.shape
    m = results.selected.size
    labels = [f"{results.data.wavelengths[band]:.0f} nm" for band in results.selected]
    components = components_section(
        results.components[:, results.selected], results.explained, results.spectrum, labels
    )
    return Page(
        title=f"Indian Pines: {k} codes a pixel, from {m} of {d} bands",
        summary=_summary(results),
        sections=(
            _picture_section(results),
            _loss_section(results),
            _bands_section(results, labels),
            components,
            _cost_section(results),
            provenance_section(
                results.facts,
                results.commands,
                "The demo splits the image, runs these commands in one process and writes this page:",
            ),
        ),
        footer=filled("Made by {} with spae demo.", dict(results.facts)["package"]),
    )


def _summary(results: DemoResults) -> Markup:
    training, held_out = results.training, results.held_out
    k, d = results.components.shape
    return filled(
        "{} numbers a pixel, computed from {} of the {} bands of a hyperspectral image, lose {} times what PCA loses "
        "using all {}. On the pixels that the fit never saw they lose {} times the least that any {} numbers could, "
        "and keep {} of the variance.",
        _word(k).capitalize(),
        number(results.selected.size, str(results.selected.size)),
        d,
        number(training.ratio, f"{training.ratio:.3f}"),
        d,
        number(held_out.ratio, f"{held_out.ratio:.3f}"),
        _word(k),
        number(held_out.explained, f"{held_out.explained:.1%}"),
    )


def _word(count: int) -> str:
    words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[count] if count < len(words) else str(count)


def _picture_section(results: DemoResults) -> Section:
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
                Markup("<strong>Original</strong>, 200 bands a pixel"),
            ),
            (
                composite(results.decoded, bands, image),
                "The same picture decoded from the sparse encoder's codes; hardly distinguishable from the original.",
                filled("<strong>Sparse encoder</strong>, {} codes made of {} bands", k, m),
            ),
            (
                composite(by_pca, bands, image),
                "The same picture decoded from PCA's codes; hardly distinguishable from the original.",
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
        f"and {medians[1]:.0f} for PCA; field borders and buildings are worst in both.",
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
    return Section("The image, decoded", joined(intro, pictures, maps))


def _loss_section(results: DemoResults) -> Section:
    data, n_training = results.data, int(results.in_training.sum())
    pixels, inside = data.pixels, results.in_training.ravel()
    losses = loss_table(
        [
            (f"training, {n_training:,} pixels", results.training),
            (f"held out, {inside.size - n_training:,} pixels", results.held_out),
        ],
        [results.pca.loss_on(pixels[inside]), results.pca.loss_on(pixels[~inside])],
    )
    apart = abs(results.pca.loss - results.training.pca_loss) / results.pca.loss
    return Section(
        "What is lost",
        joined(
            paragraph(
                "The image is cut into squares of {0} x {0} pixels like a chessboard; the encoder is fitted on one "
                "colour and tested on the other. Neighbouring pixels are nearly equal, so a split into alternate rows "
                "would test it on what it has seen.",
                results.side,
            ),
            losses,
            paragraph(
                "PCA's loss on the training pixels is {} and comes out of the same single read as the encoder. A dense "
                "singular value decomposition by numpy of the same pixels gives the same to a relative {}. "
                "The promise is that of {}.",
                f"{results.training.pca_loss_kind}, ",
                number(apart, f"{apart:.0e}"),
                results.training.theorem,
            ),
        ),
    )


def _bands_section(results: DemoResults, labels: Sequence[str]) -> Section:
    data, selected = results.data, results.selected
    pixels = data.pixels
    mean, spread = pixels.mean(axis=0), pixels.std(axis=0)
    figure = themed_figure(
        lambda theme: feature_profile(
            data.wavelengths, mean, spread, selected, x_label="wavelength (nm)", y_label="radiance (stored units)",
            labels=[label.removesuffix(" nm") for label in labels], regions=WATER, theme=theme,
        ),
        alt=f"Mean spectrum of the image from 400 to 2500 nm with the {selected.size} selected bands marked, at "
        + ", ".join(labels) + ".",
        caption=filled(
            "Mean spectrum of all pixels with one standard deviation to either side, and the {} bands the encoder "
            "reads. Stored units are 1000 + 500 x radiance. Wavelengths are those of the instrument's calibration of "
            "1992, which is good to 1 to 3 nm.",
            selected.size,
        ),
    )  # fmt: skip
    rows = ", ".join(
        f"{label} (column {band}, channel {data.channels[band]})" for label, band in zip(labels, selected, strict=True)
    )
    return Section("The bands it reads", joined(figure, paragraph("{}.", rows)))


def _cost_section(results: DemoResults) -> Section:
    plan, certificate = results.plan, results.training
    intro = paragraph(
        "The fit read its data {}, {} bytes, under strategy {}: {}.",
        "once" if certificate.passes == 1 else f"{certificate.passes} times",
        number(certificate.bytes_read, f"{certificate.bytes_read:,}"),
        Markup("<code>{}</code>").format(plan.strategy),
        plan.reason,
    )
    memory = memory_list(
        worker_nbytes=plan.worker_nbytes,
        finish_nbytes=plan.finish_nbytes,
        limit_nbytes=plan.resources.memory_limit,
        peak_nbytes=results.peak_nbytes,
    )
    return Section("What it took", joined(intro, cost_table(results.steps), memory))
