"""The page of ``spae demo``: the variance of the Indian Pines image that a sparse encoder keeps."""

from collections.abc import Sequence

from spae_dask.report.demo_pictures import picture_section
from spae_dask.report.demo_results import DemoResults
from spae_dask.report.figures import feature_profile
from spae_dask.report.html import Markup, Page, Section, filled, joined, number, paragraph, themed_figure
from spae_dask.report.sections import components_section, cost_table, loss_table, memory_list, provenance_section
from spae_dask.strategies.certificate import Certificate

WATER = ((1355.0, 1410.0, "water vapour"), (1812.0, 1940.0, "water vapour"))
"""Intervals in nm whose channels the image lacks."""


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
            picture_section(results),
            _loss_section(results),
            _bands_section(results, labels),
            components,
            _cost_section(results),
            provenance_section(
                results.facts,
                results.commands,
            ),
        ),
        footer=filled("Made by {} with spae demo.", dict(results.facts)["package"]),
    )


def _summary(results: DemoResults) -> Markup:
    training, held_out = results.training, results.held_out
    k, d = results.components.shape
    return filled(
        "{} numbers a pixel, computed from {} of the {} bands of a hyperspectral image, lose {} times what PCA loses "
        "using all {}. On the pixels that the fit never saw they lose {} times the least that any {} linear codes "
        "could, and keep {} of the variance.",
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
                "PCA's loss on the training pixels ({}) comes out of the same read as the encoder. A dense singular "
                "value decomposition by numpy of the same pixels differs from it by a relative {}. {}",
                results.training.pca_loss_kind,
                number(apart, f"{apart:.0e}"),
                _theorem(results.training),
            ),
        ),
    )


def _theorem(certificate: Certificate) -> str:
    if certificate.bound is None:
        return certificate.theorem
    return f"The promise beforehand is that of {certificate.theorem}."


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
    return Section(
        "The bands it reads",
        joined(
            figure,
            paragraph("{}. Columns of the data are counted from 0, channels of the instrument from 1.", rows),
        ),
    )


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
