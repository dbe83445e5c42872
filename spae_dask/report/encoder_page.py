"""The page of ``spae report``: loss, features, cost and provenance of an encoder."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, LiteralString

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spae_dask.plain_files import in_shell
from spae_dask.quantities import format_nbytes, format_seconds
from spae_dask.report.encoder_axes import (
    MAX_BARS,
    MAX_COMPONENTS,
    bounds_of,
    draw_encoder_loadings,
    draw_explained,
    draw_features,
    draw_frequency,
    draw_held_out,
    draw_loss,
    figure_names,
    most_frequent,
    percent,
    points_of,
)
from spae_dask.report.encoder_results import EncoderResults
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
from spae_dask.report.map_section import GridMaps, map_section
from spae_dask.report.reproduce import data_words, fit_command, python_lines
from spae_dask.report.sections import components_table, loss_table
from spae_dask.report.themes import Theme
from spae_dask.strategies.feature_table import TEXTS, FeatureTable, in_words
from spae_dask.strategies.held_out import HeldOut
from spae_dask.strategies.path import SparsityPath


def cost_section(results: EncoderResults) -> Section:
    """Passes, bytes, memory and time. Encoders of earlier versions, and streams, know less of them."""
    c = results.certificate
    planned, measured = (_mapping(results.provenance, name) for name in ("planned", "measured"))
    passes, sweeps = _list(planned, "passes"), _list(measured, "passes")
    rows: list[list[Markup | str]] = [
        [
            "passes over the data",
            number(len(passes), f"{len(passes)}") if passes else "",
            number(c.passes, f"{c.passes:,}"),
        ],
        ["read, decoded", _bytes(planned.get("bytes_read")), _bytes(c.bytes_read)],
        ["time of the passes", _total(passes, "seconds"), _total(sweeps, "seconds")],
        ["time after them", _seconds(planned.get("finish_seconds")), _rest(measured, sweeps)],
        ["time in all", _seconds(planned.get("seconds")), _seconds(measured.get("seconds"))],
        ["memory of a process in a pass, above its idle size", _bytes(planned.get("worker_nbytes")), ""],
        ["memory of the final linear algebra", _bytes(planned.get("finish_nbytes")), ""],
        [
            "peak memory of the calling process, libraries included",
            "",
            _bytes(measured.get("peak_nbytes")),
        ],
    ]
    rows = [row for row in rows if any(row[1:])]
    intro = _intro(results, planned)
    costs = table("Planned and measured cost of the fit.", ["", "planned", "measured"], rows)
    return Section("Time and memory", joined(intro, costs) if intro else costs)


def _intro(results: EncoderResults, planned: Mapping[str, Any]) -> Markup:
    strategy, reason = results.provenance.get("strategy"), planned.get("reason")
    told = Markup("")
    if isinstance(strategy, str):
        why = filled(": {}", reason) if isinstance(reason, str) else ""
        told = paragraph("Strategy {}{}.", Markup("<code>{}</code>").format(strategy), why)
    place = planned.get("resources")
    if isinstance(place, Mapping) and isinstance(place.get("where"), str):
        limit = _bytes(place.get("memory_limit"))
        return joined(
            told, paragraph("It ran on {}. The limit of each process was {}.", place["where"], limit or "nothing")
        )
    return told


def _mapping(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = record.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = record.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list | tuple) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bytes(value: Any) -> Markup | str:
    return number(value, format_nbytes(value)) if _is_number(value) else ""


def _seconds(value: Any) -> Markup | str:
    return number(value, format_seconds(value)) if _is_number(value) else ""


def _total(passes: list[Mapping[str, Any]], name: str) -> Markup | str:
    found = [each[name] for each in passes if _is_number(each.get(name))]
    return _seconds(sum(found)) if found else ""


def _rest(measured: Mapping[str, Any], sweeps: list[Mapping[str, Any]]) -> Markup | str:
    whole = measured.get("seconds")
    if whole is None or not _is_number(whole) or not sweeps:
        return ""
    return _seconds(max(0.0, whole - sum(each["seconds"] for each in sweeps if _is_number(each.get("seconds")))))


FACTS = (
    ("spae_dask", "version of spae-dask"),
    ("date", "made"),
    ("source", "data"),
    ("data_fingerprint", "fingerprint of the data"),
    ("strategy", "strategy"),
    ("seed", "seed"),
)
"""Entries of the record that are shown unchanged, with their labels."""


def record_section(results: EncoderResults) -> Section:
    """Provenance, parameters, and the command and lines of Python that make the encoder again."""
    record, parameters = results.provenance, results.parameters
    facts: list[tuple[str, Markup | str]] = [
        (name, str(record[key])) for key, name in FACTS if record.get(key) is not None
    ]
    if results.certificate.rows is not None:
        facts.append(("rows", results.certificate.rows))
    if parameters.get("recipe") is not None:
        facts.append(("recipe for raw rows", str(parameters["recipe"])))
    if record.get("covariates"):
        facts.append(("covariates removed", ", ".join(map(str, record["covariates"]))))
    if record.get("row_weights"):
        facts.append(("row weights", str(record["row_weights"])))
    facts += _about_the_data(record)
    command, version = fit_command(parameters, record), record.get("spae_dask")
    install = [f'pip install "spae-dask=={version}"'] if isinstance(version, str) else []
    shell = (
        paragraph(
            "No command repeats this fit, because the data, covariates or row weights were not read from a file or a "
            "URL. These lines repeat it:"
        )
        if command is None
        else commands([*install, command])
    )
    python = joined(
        *([paragraph("The same in Python:")] if command else []), commands(python_lines(parameters, record))
    )
    again = Markup("<h3>Repeat this fit</h3>")
    same = paragraph(
        "The same data, parameters and versions, numerical libraries included, give the same bits. The "
        "number of threads, processes and machines does not matter. The strategy is named, because the "
        "automatic choice depends on the available memory."
    )
    source = str(record.get("source"))
    there = paragraph(
        "The path is the one on the machine of the fit. On another machine give your own path. The same "
        "fingerprint means the same data."
    )
    asked = definitions([(name, repr(value)) for name, value in parameters.items()])
    every = Markup("<details><summary>All parameters of the fit</summary>{}</details>").format(asked)
    html = joined(definitions(facts), every, again, shell, *([there] if source.startswith("/") else []), python, same)
    return Section("Origin, and a way to repeat the fit", html)


def _about_the_data(record: Mapping[str, Any]) -> list[tuple[str, Markup | str]]:
    facts: list[tuple[str, Markup | str]] = []
    shape = record.get("shape")
    if isinstance(shape, list | tuple) and len(shape) == 2:
        facts.append(
            ("shape of the data", filled("{} rows, {} features, {}", *_counts(shape), str(record.get("dtype", ""))))
        )
    constant = record.get("constant_features")
    if isinstance(constant, list | tuple) and constant:
        listed = ", ".join(map(str, constant[:20])) + (", ..." if len(constant) > 20 else "")
        facts.append(("features without variance", f"{len(constant):,}, never used: columns {listed}"))
    rows = record.get("selected_rows")
    if isinstance(rows, list | tuple) and rows:
        listed = ", ".join(map(str, rows[:20])) + (", ..." if len(rows) > 20 else "")
        facts.append(("rows in the decoder", f"{len(rows):,}: rows {listed}"))
    return facts


def _counts(shape: Any) -> tuple[str, str]:
    first, second = (f"{each:,}" if isinstance(each, int) else str(each) for each in shape)
    return first, second


MAX_COLUMNS = 12
"""Components that have a column of their own; of more, the loadings that are not zero are listed in one."""

MAX_ROWS = 5000
"""Features listed; a browser takes seconds over many more."""


ABOUT_COLUMNS: dict[str, LiteralString] = {
    "column": "its place in the data, from 0",
    "weight": "the share of all squared loadings, where each component weighs what it explains",
    "adds": "the share of the {} that the best {} codes on all these features lose without this one. "
    "It is small if others can stand for it",
    "cost": "0 for a feature that was included, which is paid already",
    "in_folds": "the share of encoders that use the feature, each fitted without one fold of the rows",
    "in_resamples": "the share of encoders that use the feature, each fitted on folds drawn with replacement",
}
"""Explanations of those columns of the table of features whose names do not say it all."""


def features_section(results: EncoderResults) -> Section:
    """The chosen features, to order or to measure from, those of the largest weight first."""
    found, k = results.table, len(results.components)
    if not found.rows:
        return Section("The chosen features", paragraph("None: the data contain nothing to encode."))
    intro = paragraph(
        "These {} features stand for all {}. Encoding a new row, and rebuilding the others from it, needs no other "
        "measurement. Sparse PCA looks for features from which all features can be rebuilt with little loss.{}",
        number(len(found.rows), f"{len(found.rows):,}"),
        f"{results.n_features:,}",
        ""
        if results.names is not None
        else " The data have no feature names, so features are named by their columns, from 0.",
    )
    said = {"feature"} if results.names is not None else {"feature", "column"}  # features without names are columns
    columns = [name for name in found.columns if name not in said]
    rows = [[row.feature, *(_cell(name, getattr(row, name)) for name in columns)] for row in found.rows[:MAX_ROWS]]
    head = [name.replace("_", " ") for name in ("feature", *columns)]
    caption = filled("The features, the largest weight first.{}", _cut(len(found.rows)))
    about = [
        (name.replace("_", " "), filled(text, results.what, k))
        for name, text in ABOUT_COLUMNS.items()
        if name in columns
    ]
    told = definitions(about)
    return Section("The chosen features", joined(intro, *_paid(found), told, table(caption, head, rows, sortable=True)))


def _cell(name: str, value: Any) -> Markup | str:
    return value if name in TEXTS else number(value, in_words(name, value))


def _paid(found: FeatureTable) -> list[Markup]:
    """The cost of all features in a sentence, if they have costs."""
    cost = found.rows[-1].cost_so_far
    if cost is None:
        return []
    of = "" if found.budget is None else filled(" of a budget of {}", number(found.budget, f"{found.budget:g}"))
    return [paragraph("Together they cost {}{}.", number(cost, f"{cost:g}"), of)]


def _cut(m: int) -> Markup:
    return filled("") if m <= MAX_ROWS else filled(" The table lists the {:,} of the largest weight.", MAX_ROWS)


def loadings_section(results: EncoderResults) -> Section:
    """Loadings of the components on all selected features, those of the largest weight first."""
    k, m = results.components.shape
    order = np.argsort(-results.shares, kind="stable")[:MAX_ROWS]
    wide = k <= MAX_COLUMNS
    head = ["feature", *([f"component {j + 1}" for j in range(k)] if wide else ["loadings"])]
    loadings = _in_columns if wide else _in_one
    rows = [[results.labels[place], *loadings(results.components[:, place])] for place in order]
    intro = paragraph(
        "A code of a row is the sum of its features times their loadings, after the mean is subtracted{}{}{}. An empty "
        "cell is exactly zero.",
        _divided(results.parameters.get("scale")),
        filled(" (raw rows follow {} first)", results.parameters["recipe"]) if results.parameters.get("recipe") else "",
        ", and what the covariates explain is taken from all rows" if results.provenance.get("covariates") else "",
    )
    caption = filled("Loadings of the features, the largest weight first.{}", _cut(m))
    return Section("The loadings", joined(intro, table(caption, head, rows, sortable=True)))


def _divided(scale: Any) -> str:
    """Words about the divisors of the features."""
    if isinstance(scale, str) and scale == "patterson":
        return " and the feature is divided by sqrt(p (1 - p)), p = mean / 2"
    if scale is True or scale == "std":
        return " and the feature is divided by its standard deviation"
    return " and the feature is divided by its given number" if scale else ""


def _in_columns(loadings: np.ndarray) -> list[Markup | str]:
    return [number(each, f"{each:.4f}") if each else "" for each in loadings]


def _in_one(loadings: np.ndarray) -> list[Markup | str]:
    used = np.flatnonzero(loadings)
    told = (filled("{}: {}", j + 1, number(loadings[j], f"{loadings[j]:.4f}")) for j in used)
    return [Markup(", ").join(told)]


Draw = Callable[[Axes, Theme], None]

BOUNDED = "The paper's bound holds for any data. It is shown where it is below a total loss."
BROKEN = " Its line breaks where another theorem, with a larger bound, applies to the next size."
UNBOUNDED = "For this encoder, the paper's theorems give no bound below a total loss."


def encoder_page(
    results: EncoderResults,
    *,
    name: str,
    curve: SparsityPath | None = None,
    origin: str = "",
    added: Sequence[Section] = (),
    maps: GridMaps | None = None,
) -> Page:
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
    added : sequence of Section
        Sections on the data of this encoder, shown first.
    maps : GridMaps, optional
        The components on their grid.
    """
    m = results.selected.size
    version = results.provenance.get("spae_dask", "an unknown version")
    return Page(
        title=f"{m:,} of {results.n_features:,} features, chosen by sparse PCA",
        summary=headline(results),
        sections=(
            *added,
            features_section(results),
            _curve_section(results, name, curve, origin),
            _loss_section(results),
            *_folds_sections(results),
            _components_section(results),
            *(() if maps is None else (map_section(maps),)),
            *((loadings_section(results),) if m else ()),
            record_section(results),
            cost_section(results),
        ),
        footer=filled("Made by spae report of {}, which spae-dask {} fitted.", name, version),
        sortable=True,
    )


def _loss_section(results: EncoderResults) -> Section:
    words = paragraph(
        "An encoder replaces a row of {} features by {} codes, and a decoder rebuilds the row from those "
        "codes. The loss is the share of the {} of all features that the decoder cannot rebuild. PCA "
        "uses every feature and has the least loss of all linear codes. A sparse encoder uses few "
        "features, and loses somewhat more. The ratio of the two losses measures the difference: a ratio "
        "of 1 is as good as PCA.",
        f"{results.n_features:,}",
        results.certificate.n_components,
        results.what,
    )
    losses = loss_table([("the data of the fit", results.certificate)])
    return Section("Loss, PCA, and what is left to gain", joined(words, losses, definitions(loss_facts(results))))


CURVE = "More or fewer features"


def _curve_section(results: EncoderResults, name: str, curve: SparsityPath | None, origin: str) -> Section:
    c = results.certificate
    if curve is None or not points_of(c, curve):
        told = paragraph(
            "This report has no encoders of other sizes. Either command computes them from one pass over the data:"
        )
        return Section(CURVE, joined(told, commands(_how_to_get(results, name)), *_held_out_figure(results)))
    best, mine = percent(c.pca_loss, c), percent(c.loss, c)
    alt = (
        f"Loss against the number of features of a component. This encoder uses {c.n_nonzero} and loses "
        f"{mine:.3g} %. PCA, a horizontal line, loses {best:.3g} %."
    )
    runs = bounds_of(c, curve)
    bounded = UNBOUNDED if not runs else BOUNDED + BROKEN if len(runs) > 1 else BOUNDED
    figure = themed_figure(
        lambda theme: _loss_figure(results, curve, theme),
        alt=alt,
        caption=f"With fewer features per component, the loss is larger. No encoder loses less than PCA. {bounded}",
    )
    parts = [figure, paragraph("{}", origin), _curve_table(results, curve), *_held_out_figure(results)]
    return Section(CURVE, joined(*parts))


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
    head = ["features per component", "features in all", "lost", "times PCA's loss", "bound on the ratio"]
    caption = f"Encoders of {results.certificate.n_components} components by method {curve.method}."
    return Markup("<details><summary>These numbers as a table</summary>{}</details>").format(table(caption, head, rows))


def _components_section(results: EncoderResults) -> Section:
    k, m = results.components.shape
    if not m:
        return Section("The components", paragraph("All are zero: the data contain nothing to encode."))
    shown_k, shown_m = min(k, MAX_COMPONENTS), min(m, MAX_UPRIGHT)
    nonzero = int((results.components != 0).sum())
    places = results.strongest(shown_m)
    names = figure_names([results.labels[place] for place in places], results.selected[places])
    upright = 0.0 if lies_flat(names) else 0.066 * max(map(len, names))
    limits = []
    if shown_m < m:
        limits.append(f"the {shown_m} features of the largest weights, of {m:,}")
    if shown_k < k:
        limits.append(f"the first {shown_k} of {k} components")
    only = f" Shown are {' and '.join(limits)}; the table below has all." if limits else ""
    loadings = _figure(
        lambda axes, theme: draw_encoder_loadings(axes, results, theme),
        (9.2, 1.5 + 0.34 * shown_k + upright),
        alt=f"Heat map of the loadings of {shown_k} components on {shown_m} features. " + _strongest(results, shown_k),
        caption="Loadings. A code is the sum of these multiples of the features, after their means are "
        f"subtracted. Encoding needs only these {nonzero:,} numbers and the means.{only}",
        title="\n".join(
            f"{short}: {results.labels[place]}"
            for short, place in zip(names, places, strict=True)
            if short != results.labels[place]
        ),
    )
    explained = _figure(
        lambda axes, theme: draw_explained(axes, results.explained, results.pca_explained, theme),
        (9.2, 3.4),
        alt=f"Share of the {results.what} that each of {k} components adds, from {results.explained[0]:.2%} "
        f"for the first to {results.explained[-1]:.2%} for the last.",
        caption=f"Share of the {results.what} that each component adds to those before it. A single sparse "
        "component may add more than the PCA component of the same number. All components together never "
        "explain more than PCA.",
    )
    parts = [loadings, explained, components_table(results.explained, results.pca_explained)]
    if m > MAX_LABELLED:
        parts.append(
            _figure(
                lambda axes, theme: draw_features(axes, results, theme),
                (9.2, 6.2),
                alt="Bars: the features of the largest weights, listed in the table of the chosen features.",
                caption="The features of the largest weights.",
            )
        )
    return Section("The components", joined(*parts))


def _held_out_figure(results: EncoderResults) -> list[Markup]:
    """Losses of more and fewer features on rows held out, if folds of the rows were kept."""
    c, held_out = results.certificate, results.certificate.held_out
    if held_out is None:
        return []
    figure = _figure(
        lambda axes, theme: draw_held_out(axes, held_out, c, theme),
        (9.2, 3.6),
        alt=f"Loss on rows held out over that of PCA, for {len(held_out.sizes)} numbers of features of a component. "
        f"With {c.n_nonzero} features it is {held_out.ratio:.3f}.",
        caption="Loss on rows held out over that of PCA of the other folds. The band is one standard error over the "
        "folds. Encoders of other sizes were made by a quicker search.",
    )
    return [figure]


def _folds_sections(results: EncoderResults) -> list[Section]:
    """The section on rows held out, if folds of the rows were kept."""
    c, held_out = results.certificate, results.certificate.held_out
    if held_out is None:
        return []
    intro = paragraph(
        "The rows were dealt to {}. For each fold, an encoder was fitted on all other folds, and its loss was measured "
        "on the fold that it has not seen. PCA of the other folds was measured on the same rows. The mean ratio of the "
        "two losses is {}, with a standard error of {} over the folds. On the rows of the fit the ratio is {}.{}",
        held_out.folds,
        number(held_out.ratio, f"{held_out.ratio:.4f}"),
        number(held_out.ratio_error, f"{held_out.ratio_error:.4f}"),
        number(c.ratio, f"{c.ratio:.4f}"),
        _chosen(held_out),
    )
    columns = most_frequent(held_out)
    stable = _figure(
        lambda axes, theme: draw_frequency(axes, results, held_out, theme),
        (9.2, 1.2 + 0.2 * min(len(columns), MAX_BARS)),
        alt=f"Bars: share of the encoders of folds that use each feature. {held_out.stability()}.",
        caption="Share of the encoders of folds that use each feature. Grey features are not in this encoder."
        + (" Circles are shares of the encoders of resampled folds." if held_out.bootstraps else "")
        + (f" Shown are {MAX_BARS} of {len(columns):,}." if len(columns) > MAX_BARS else ""),
    )
    rows = [
        [str(fold), number(n, f"{n:,}"), _lost(loss, total), _lost(pca_loss, total), number(ratio, f"{ratio:.4f}")]
        for fold, (n, loss, pca_loss, total, ratio) in enumerate(
            zip(held_out.n_rows, held_out.losses, held_out.pca_losses, held_out.totals, held_out.ratios, strict=True),
            start=1,
        )
    ]
    folds = table("Each fold.", ["fold", "rows", "lost", "lost by PCA", "ratio"], rows)
    parts = [intro, paragraph("{}.", held_out.stability()), *_resamples(held_out), stable, folds]
    if held_out.components:
        tried = [
            [str(each.n_components), *(number(share, f"{share:.3%}") for share in each.interval)]
            for each in held_out.components
        ]
        caption = "Share lost by PCA of the other folds, if each entry is predicted from the other columns."
        parts.append(table(caption, ["components", "lost", "standard error"], tried))
    return [Section("Rows held out: do the loss and the features hold?", joined(*parts))]


def _resamples(held_out: HeldOut) -> list[Markup]:
    """The band of the ratio over resamples of the folds, if there are some."""
    drawn = held_out.bootstraps
    if drawn is None:
        return []
    lower, upper = drawn.band
    return [
        paragraph(
            "{} resamples were drawn, each of {} folds with replacement, and a quick encoder was fitted to each. Its "
            "loss over that of PCA on the same rows is {} to {} with 95% confidence. On all rows it is {}. The band is "
            "wide for few folds, and still a rough one.",
            f"{len(drawn.ratios):,}",
            drawn.n_folds,
            number(lower, f"{lower:.4f}"),
            number(upper, f"{upper:.4f}"),
            number(drawn.ratio, f"{drawn.ratio:.4f}"),
        )
    ]


def _chosen(held_out: HeldOut) -> str:
    what = [*(["components"] if held_out.components else []), *(["features"] if held_out.chose_nonzeros else [])]
    rule = "least within one standard error of the best"
    return f" The number of {' and of '.join(what)} was chosen by the folds: the {rule}." if what else ""


def _lost(loss: float, total: float) -> Markup:
    share = loss / total if total > 0 else 0.0
    return number(share, f"{share:.3%}")


def _strongest(results: EncoderResults, count: int) -> str:
    told = []
    for j, row in enumerate(results.components[:count]):
        at = int(abs(row).argmax())
        told.append(f"Component {j + 1} gives most weight to {results.labels[at]}, {row[at]:.2f}." if row.any() else "")
    return " ".join(filter(None, told))


def _figure(draw: Draw, size: tuple[float, float], *, alt: str, caption: str, title: str = "") -> Markup:
    def drawn(theme: Theme) -> Figure:
        with styled(theme):
            figure = Figure(figsize=size, layout="constrained")
            draw(figure.add_subplot(), theme)
        return figure

    return themed_figure(drawn, alt=alt, caption=caption, title=title)
