"""Losses of an encoder on parts of the rows: a figure, and a page with the figure and its numbers."""

import math
from pathlib import Path

from spae_dask.report.figures import save_figure, styled
from spae_dask.report.html import Page, Section, joined, number, paragraph, render, table, themed_figure
from spae_dask.report.themes import LIGHT, Theme, missing_library
from spae_dask.storage.writing.publish import publish
from spae_dask.strategies.drift import Drift

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter
except ImportError as error:
    raise missing_library("matplotlib") from error

MOST_NAMED = 24
"""Parts that are named along the axis; of more, their numbers are."""


def drift_figure(drift: Drift, theme: Theme = LIGHT) -> Figure:
    """Ratio and share explained of each part, with those of all rows.

    Parameters
    ----------
    drift : Drift
        The losses.
    theme : Theme
        Colours.

    Returns
    -------
    Figure
        Two panels, one above the other.
    """
    parts = drift.parts
    places = list(range(1, len(parts) + 1))
    style = "o-" if drift.by.isdecimal() else "o"  # labels have no order
    with styled(theme):
        figure = Figure(figsize=(9, 5.2), layout="constrained")
        ratio, explained = figure.subplots(2, 1, sharex=True)
        ratio.plot(
            places, [each.ratio if math.isfinite(each.ratio) else math.nan for each in parts],
            style, ms=4, lw=1.4, color=theme.encoder,
        )  # fmt: skip
        if math.isfinite(drift.certificate.ratio):
            ratio.axhline(drift.certificate.ratio, color=theme.quiet, lw=0.9, ls=":")
        explained.plot(places, [each.explained for each in parts], style, ms=4, lw=1.4, color=theme.encoder)
        own = drift.certificate.decoder_loss
        if own is not None and drift.certificate.total > 0:
            explained.axhline(1 - own / drift.certificate.total, color=theme.quiet, lw=0.9, ls=":")
        ratio.set_ylabel(f"loss / loss of\n{drift.reference}")
        explained.set_ylabel("explained\nwith its own decoder")
        explained.yaxis.set_major_formatter(PercentFormatter(1.0))
        if len(parts) <= MOST_NAMED:
            explained.set_xticks(places, [each.name for each in parts], rotation=45, ha="right")
        else:
            explained.set_xlabel("part")
        figure.suptitle("Loss of the encoder on parts of the rows; dotted: all rows", fontsize=10)
    return figure


def drift_page(drift: Drift, encoder: str, data: str) -> str:
    """The figure and the numbers as an HTML page that needs no other file."""
    worst = max(drift.parts, key=lambda each: each.ratio)
    head = ["part", "rows", "ratio", "explained", "larger share of the loss than in all rows"]
    rows = [
        [
            each.name,
            number(each.n_rows, f"{each.n_rows:,}"),
            number(each.ratio, f"{each.ratio:.4f}"),
            number(each.explained, f"{each.explained:.2%}"),
            ", ".join(feature.told() for feature in each.features),
        ]
        for each in drift.parts
    ]
    caption = "Share of each feature in the loss of the part, and in the loss of all rows, in brackets."
    figure = themed_figure(
        lambda theme: drift_figure(drift, theme),
        alt="Ratio of the losses, and share explained, of each part of the rows.",
        caption="Dotted lines are for all rows.",
    )
    summary = paragraph(
        "The encoder {} on {}: {} parts. The largest ratio is {}, of the part {}. Ratios compare with {}.",
        encoder,
        data,
        len(drift.parts),
        number(worst.ratio, f"{worst.ratio:.4f}"),
        worst.name,
        drift.reference,
    )
    section = Section("Loss of each part", joined(figure, table(caption, head, rows)))
    return render(Page("Loss by parts of the rows", summary, (section,), paragraph("Written by spae evaluate.")))


def write_drift(drift: Drift, path: str | Path, *, encoder: str, data: str, overwrite: bool) -> None:
    """Write the page (``.html``) or the figure (``.png``, ``.svg``), which appears only when it is complete."""
    if not str(path).endswith((".html", ".htm")):
        save_figure(drift_figure(drift), path, overwrite=overwrite)
        return
    page = drift_page(drift, encoder, data)
    with publish(path, overwrite=overwrite) as work:
        work.write_text(page, encoding="utf-8")
