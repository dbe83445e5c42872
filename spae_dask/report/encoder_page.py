"""The page of ``spae report``: loss, features, cost and provenance of an encoder."""

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spae_dask.plain_files import in_shell
from spae_dask.report.cost_section import cost_section
from spae_dask.report.encoder_axes import (
    MAX_COMPONENTS,
    bounds_of,
    draw_encoder_loadings,
    draw_explained,
    draw_features,
    draw_loss,
    percent,
    points_of,
)
from spae_dask.report.encoder_results import EncoderResults
from spae_dask.report.feature_table import features_section
from spae_dask.report.figures import MAX_LABELLED, MAX_UPRIGHT, lies_flat, styled
from spae_dask.report.html import (
    Markup,
    Page,
    Section,
    commands,
    definitions,
    filled,
    joined,
    number,
    paragraph,
    table,
    themed_figure,
)
from spae_dask.report.loss_words import headline, loss_facts
from spae_dask.report.names import figure_names
from spae_dask.report.record_section import record_section
from spae_dask.report.reproduce import data_words
from spae_dask.report.sections import components_table, loss_table
from spae_dask.report.themes import Theme
from spae_dask.strategies.path import SparsityPath

Draw = Callable[[Axes, Theme], None]

BOUNDED = "The paper's bound is what its theorem promises of any data, where that is less than to lose everything."
UNBOUNDED = (
    "What the paper's theorems promise of any data, if they speak of this method, is no less than to lose everything."
)


def encoder_page(results: EncoderResults, *, name: str, curve: SparsityPath | None = None, origin: str = "") -> Page:
    """Make the page.

    Parameters
    ----------
    results : EncoderResults
        The encoder.
    name : str
        Name of the encoder: the path that it was read from.
    curve : SparsityPath, optional
        Losses of encoders of other sizes.
    origin : str
        Sentence about the source of those losses.
    """
    k, m = results.components.shape
    version = results.provenance.get("spae_dask", "an unknown version")
    return Page(
        title=f"Sparse encoder: {k} component{'s' if k != 1 else ''} from {m:,} of {results.n_features:,} features",
        summary=headline(results),
        sections=(
            _loss_section(results),
            _curve_section(results, name, curve, origin),
            _components_section(results),
            features_section(results),
            cost_section(results),
            record_section(results),
        ),
        footer=filled("Made by spae report of {}, which spae-dask {} fitted.", name, version),
        sortable=True,
    )


def _loss_section(results: EncoderResults) -> Section:
    words = paragraph(
        "An encoder replaces a row of {} features by {} codes, and a decoder makes the row again from those. What "
        "cannot be made again is lost: a share of the {} of all features together. No linear codes lose less than "
        "PCA's, which take every feature; a sparse encoder takes few, and pays by losing somewhat more. How much more "
        "is the ratio of both losses: 1 would be as good as PCA.",
        f"{results.n_features:,}",
        results.certificate.n_components,
        results.what,
    )
    losses = loss_table([("the data of the fit", results.certificate)])
    return Section("What is lost, and how that is known", joined(words, losses, definitions(loss_facts(results))))


def _curve_section(results: EncoderResults, name: str, curve: SparsityPath | None, origin: str) -> Section:
    c = results.certificate
    if curve is None or not points_of(c, curve):
        told = paragraph(
            "Encoders of other sizes are not known to this report. They take a read of the data, either way:"
        )
        return Section("Loss against sparsity", joined(told, commands(_how_to_get(results, name))))
    best, mine = percent(c.pca_loss, c), percent(c.loss, c)
    alt = (
        f"Loss against the features a component may use. This encoder uses {c.n_nonzero} and loses {mine:.3g} %; "
        f"PCA, a level line, loses {best:.3g} %."
    )
    figure = themed_figure(
        lambda theme: _loss_figure(results, curve, theme),
        alt=alt,
        caption="The fewer features a component may use, the more is lost; no encoder can get below PCA. "
        + (BOUNDED if bounds_of(c, curve) else UNBOUNDED),
    )
    return Section("Loss against sparsity", joined(figure, paragraph("{}", origin), _curve_table(results, curve)))


def _loss_figure(results: EncoderResults, curve: SparsityPath | None, theme: Theme) -> Figure:
    """The encoders at their best and, where theory promised something, the same losses below its bound."""
    c = results.certificate
    n_panels = 2 if bounds_of(c, curve) else 1
    with styled(theme):
        figure = Figure(figsize=(9.2, 3.8), layout="constrained")
        for axes, to_bound in zip(figure.subplots(1, n_panels, squeeze=False)[0], (False, True), strict=False):
            draw_loss(axes, c, curve, theme, to_bound=to_bound)
    return figure


def _how_to_get(results: EncoderResults, name: str) -> list[str]:
    c = results.certificate
    encoder, (data, choices) = in_shell(name), data_words(results.provenance)
    which = f" {choices}" if choices else ""
    sizes = sorted({max(1, c.n_nonzero // 4), max(1, c.n_nonzero // 2), c.n_nonzero, 2 * c.n_nonzero})
    r = ",".join(str(size) for size in sizes if size <= results.n_features)
    return [
        f"spae report {encoder} --data {data}{which} -o report.html",
        "",
        "# or, for sizes of your own:",
        f"spae path {data} -k {c.n_components} -r {r}{which} -o path.csv",
        f"spae report {encoder} --path path.csv -o report.html",
    ]


def _curve_table(results: EncoderResults, curve: SparsityPath) -> Markup:
    rows = [
        [
            str(p.n_nonzero),
            number(p.combined_nonzero, f"{p.combined_nonzero:,}"),
            number(1 - p.explained, f"{1 - p.explained:.3%}"),
            number(p.ratio, f"{p.ratio:.4f}"),
            "" if p.bound is None else number(p.bound, f"{p.bound:.2f}"),
        ]
        for p in points_of(results.certificate, curve)
    ]
    head = ["features a component", "features in all", "lost", "times PCA's loss", "bound on that"]
    caption = f"Encoders of {results.certificate.n_components} components by method {curve.method}."
    return Markup("<details><summary>These numbers as a table</summary>{}</details>").format(table(caption, head, rows))


def _components_section(results: EncoderResults) -> Section:
    k, m = results.components.shape
    if not m:
        return Section("The components", paragraph("All are zero: the data hold nothing to encode."))
    shown_k, shown_m = min(k, MAX_COMPONENTS), min(m, MAX_UPRIGHT)
    nonzero = int((results.components != 0).sum())
    places = results.strongest(shown_m)
    names = figure_names([results.labels[place] for place in places], results.selected[places])
    upright = 0.0 if lies_flat(names) else 0.066 * max(map(len, names))
    limits = []
    if shown_m < m:
        limits.append(f"the {shown_m} features of the largest shares, of {m:,}")
    if shown_k < k:
        limits.append(f"the first {shown_k} of {k} components")
    only = f" Shown are {' and '.join(limits)}; the table below has all." if limits else ""
    loadings = _figure(
        lambda axes, theme: draw_encoder_loadings(axes, results, theme),
        (9.2, 1.5 + 0.34 * shown_k + upright),
        alt=f"Heat map of the loadings of {shown_k} components on {shown_m} features. " + _strongest(results, shown_k),
        caption=f"Loadings. A code is the sum of these multiples of the features, about their means. These {nonzero:,} "
        f"numbers and the means are all that encoding takes.{only}",
        title="\n".join(
            f"{short}: {results.labels[place]}"
            for short, place in zip(names, places, strict=True)
            if short != results.labels[place]
        ),
    )
    explained = _figure(
        lambda axes, theme: draw_explained(axes, results.explained, results.pca_explained, theme),
        (9.2, 3.4),
        alt=f"What each of {k} components adds to the {results.what} explained, from {results.explained[0]:.2%} for "
        f"the first to {results.explained[-1]:.2%} for the last.",
        caption=f"Share of the {results.what} that each component adds to those before it. A sparse component may add "
        "more than PCA's of the same number; all of them together never do.",
    )
    parts = [loadings, explained, components_table(results.explained, results.pca_explained)]
    if m > MAX_LABELLED:
        parts.append(
            _figure(
                lambda axes, theme: draw_features(axes, results, theme),
                (9.2, 6.2),
                alt="Bars: the features that make the largest shares of the encoder, listed in the table below.",
                caption="The features that make the largest shares of the encoder.",
            )
        )
    return Section("The components", joined(*parts))


def _strongest(results: EncoderResults, count: int) -> str:
    told = []
    for j, row in enumerate(results.components[:count]):
        at = int(abs(row).argmax())
        told.append(f"Component {j + 1} weighs {results.labels[at]} most, by {row[at]:.2f}." if row.any() else "")
    return " ".join(filter(None, told))


def _figure(draw: Draw, size: tuple[float, float], *, alt: str, caption: str, title: str = "") -> Markup:
    def drawn(theme: Theme) -> Figure:
        with styled(theme):
            figure = Figure(figsize=size, layout="constrained")
            draw(figure.add_subplot(), theme)
        return figure

    return themed_figure(drawn, alt=alt, caption=caption, title=title)
