"""Drawings of an encoder on one pair of axes each, for its report and for axes that the caller made."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from spae_dask.report.encoder_results import EncoderResults, Floats, column_label
from spae_dask.report.figures import MAX_UPRIGHT, contrast, draw_loadings
from spae_dask.report.themes import DARK, LIGHT, Theme, missing_library
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.held_out import HeldOut
from spae_dask.strategies.path import PathPoint, SparsityPath

try:
    from matplotlib.font_manager import FontProperties, findfont, get_font
except ImportError as error:
    raise missing_library("matplotlib") from error

LONGEST = 32
"""Letters of a name in a figure; longer ones are cut at their end."""


def figure_names(names: Sequence[str], columns: Iterable[int]) -> list[str]:
    """Names that tell features apart, at most ``LONGEST`` letters each.

    A name that the font of figures cannot write, and names that are alike when they are cut, give way to the feature's
    column, or end in it.

    Parameters
    ----------
    names : sequence of str
        Any.
    columns : iterable of int
        Column of each.
    """
    font = get_font(findfont(FontProperties()))

    def drawable(name: str) -> bool:
        return bool(name.strip()) and all(each.isprintable() and font.get_char_index(ord(each)) for each in name)

    labels = [column_label(column) for column in columns]
    cut = [shortened(name) if drawable(shortened(name)) else label for name, label in zip(names, labels, strict=True)]
    count = Counter(cut)
    apart = [
        short if count[short] == 1 or short == label else f"{shortened(name, LONGEST - len(label) - 3)} ({label})"
        for short, name, label in zip(cut, names, labels, strict=True)
    ]
    return [name.replace("$", r"\$") for name in apart]  # a dollar sign would start a formula


def shortened(name: str, longest: int = LONGEST) -> str:
    """A name of no more than ``longest`` letters, cut at its end."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


try:
    from matplotlib import pyplot as plt
    from matplotlib.axes import Axes
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
except ImportError as error:
    raise missing_library("matplotlib") from error

Draw = Callable[[Axes, Theme], None]

MAX_COMPONENTS = 40
"""Components shown in one heat map."""

MAX_BARS = 30
"""Components, or features, shown as bars; more components are a line."""

SPREAD = 5.0
"""Ratio of the largest loss to the smallest from which a log scale shows more."""


def on_axes(ax: Axes | None, draw: Draw) -> Axes:
    """Draw on ``ax``, or on axes of a new figure of pyplot's, in the colours that suit their background."""
    axes = plt.subplots(layout="constrained")[1] if ax is None else ax
    background = axes.get_facecolor()
    draw(axes, LIGHT if contrast(background, LIGHT.ink) >= contrast(background, DARK.ink) else DARK)
    return axes


def draw_loss(
    axes: Axes, certificate: Certificate, curve: SparsityPath | None, theme: Theme = LIGHT, *, to_bound: bool = False
) -> None:
    """Share lost against the nonzeros of a component: encoders of other sizes, this one, PCA and the paper's bound.

    Parameters
    ----------
    axes : Axes
        Axes to draw on.
    certificate : Certificate
        Certificate of the encoder.
    curve : SparsityPath or None
        Points of as many components are drawn.
    theme : Theme
        Colours.
    to_bound : bool
        True to extend the axis up to the bound, which is often far above all encoders; False to fit the encoders.
    """
    mine, best = percent(certificate.loss, certificate), percent(certificate.pca_loss, certificate)
    shown = [mine, best]
    if curve is not None:
        points = points_of(certificate, curve)
        losses = [100 * max(1 - p.explained, 0.0) for p in points]
        shown += losses
        r = [p.n_nonzero for p in points]
        axes.plot(r, losses, "o-", color=theme.encoder, ms=4, lw=1.6, label=f"{curve.method} encoders".strip())
    axes.axhline(best, color=theme.pca, lw=1.4, label="PCA, with all features")
    if certificate.pca_loss_lower is not None and certificate.pca_loss_upper is not None:
        ends = [percent(each, certificate) for each in (certificate.pca_loss_lower, certificate.pca_loss_upper)]
        axes.axhspan(*ends, color=theme.pca, alpha=0.18, lw=0)
        shown += ends
    shown += _draw_own(axes, certificate, mine, theme)
    runs = bounds_of(certificate, curve)
    bounds = [loss for run in runs for _, loss in run]
    if bounds and (to_bound or min(bounds) <= max(shown)):
        for number, run in enumerate(runs):
            label = "_" if number else "the paper's bound"  # of several lines, the legend has one
            axes.plot(*zip(*run, strict=True), "s--", color=theme.quiet, ms=4, lw=1.2, label=label)
    if to_bound:
        shown += bounds
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(0, max(1, 2 * certificate.n_nonzero) if curve is None else None)
    axes.set(xlabel="features a component may use", ylabel="lost, % of the total")
    _set_losses(axes, min(shown), max(shown))
    axes.grid(axis="y", color=theme.line, lw=0.6)
    axes.set_axisbelow(True)
    axes.legend(facecolor=theme.paper, edgecolor="none", framealpha=0.85)


def _set_losses(axes: Axes, lowest: float, highest: float) -> None:
    """An axis of losses, from the lowest to the highest, where they spread widely on a log scale."""
    if lowest > 0 and highest > SPREAD * lowest:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(lowest / 1.15, highest * 1.15)
    else:
        margin = 0.08 * (highest - lowest) or 0.1 * highest or 1.0
        axes.set_ylim(max(lowest - margin, -0.2 * margin), highest + margin)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g} %")


def points_of(certificate: Certificate, curve: SparsityPath) -> list[PathPoint]:
    """The points of a curve with as many components as an encoder, by nonzeros."""
    mine = (point for point in curve.points if point.n_components == certificate.n_components)
    return sorted(mine, key=lambda point: point.n_nonzero)


def bounds_of(certificate: Certificate, curve: SparsityPath | None) -> list[list[tuple[int, float]]]:
    """Sizes, and the losses in percent that theory promised for them; without what exceeds all there is.

    A run of sizes ends where the next one has none, or a larger bound, which is that of another theorem: as many
    columns as components, chosen by pivoting, lose less than theory promises for a few more by dual-set.
    """
    best, known = percent(certificate.pca_loss, certificate), {certificate.n_nonzero: certificate.bound}
    if curve is not None:
        known |= {point.n_nonzero: point.bound for point in points_of(certificate, curve)}
    runs, before = list[list[tuple[int, float]]](), math.inf
    for r, bound in sorted(known.items()):
        loss = math.inf if bound is None else bound * best
        if loss < 100:
            if before < loss or before >= 100:
                runs.append([])
            runs[-1].append((r, loss))
        before = loss
    return runs


def _draw_own(axes: Axes, certificate: Certificate, mine: float, theme: Theme) -> list[float]:
    """Mark the encoder itself, and how surely its loss is known; the losses drawn."""
    spread, ends = None, []
    if certificate.loss_lower is not None and certificate.loss_upper is not None:
        ends = [percent(each, certificate) for each in (certificate.loss_lower, certificate.loss_upper)]
        spread = [[max(mine - ends[0], 0.0)], [max(ends[1] - mine, 0.0)]]
    axes.errorbar(
        [certificate.n_nonzero], [mine], yerr=spread, fmt="D", ms=9, color=theme.encoder, mec=theme.paper, mew=1.2,
        capsize=4, label="this encoder", zorder=4,
    )  # fmt: skip
    return ends


def percent(loss: float, certificate: Certificate) -> float:
    """A loss in percent of the total; zero of nothing."""
    return 100 * loss / certificate.total if certificate.total > 0 else 0.0


def draw_encoder_loadings(axes: Axes, results: EncoderResults, theme: Theme = LIGHT) -> None:
    """Heat map of the first components on the features of the largest weights."""
    places = results.strongest(MAX_UPRIGHT)
    names = figure_names([results.labels[place] for place in places], results.selected[places])
    shown = results.components[:MAX_COMPONENTS, places]
    draw_loadings(axes, shown, names, [f"component {j + 1}" for j in range(len(shown))], theme=theme)


def draw_explained(axes: Axes, explained: Floats, by_pca: Floats | None, theme: Theme = LIGHT) -> None:
    """Share of the total that each component adds to those before it.

    Parameters
    ----------
    axes : Axes
        Axes to draw on.
    explained : ndarray (k,)
        Shares of the encoder's components.
    by_pca : ndarray (k,) or None
        Shares of PCA's components, if they are known.
    theme : Theme
        Colours.
    """
    series = [("sparse encoder", explained, theme.encoder, "o-")]
    if by_pca is not None:
        series.append(("PCA", by_pca, theme.pca, "s--"))
    places = np.arange(1, explained.size + 1)
    width = 0.8 / len(series)
    for number, (name, shares, colour, line) in enumerate(series):
        if explained.size <= MAX_BARS:
            shifted = places + (number - (len(series) - 1) / 2) * width
            axes.bar(shifted, 100 * shares, 0.92 * width, color=colour, label=name)
        else:
            axes.plot(places, 100 * shares, line, color=colour, ms=3, lw=1.2, label=name)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="component", ylabel="explained, % of the total")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.3g} %")
    axes.grid(axis="y", color=theme.line, lw=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False)


def draw_held_out(axes: Axes, held_out: HeldOut, certificate: Certificate, theme: Theme = LIGHT) -> None:
    """Loss over PCA's on rows held out, against the nonzeros of a component, with standard errors over the folds."""
    r = [size.n_nonzero for size in held_out.sizes]
    ratios, errors = (np.array(each) for each in zip(*(size.interval for size in held_out.sizes), strict=True))
    axes.fill_between(r, ratios - errors, ratios + errors, color=theme.encoder, alpha=0.18, lw=0)
    axes.plot(r, ratios, "o-", color=theme.encoder, ms=4, lw=1.6, label="encoders of the other folds")
    axes.errorbar(
        [certificate.n_nonzero], [held_out.ratio], yerr=[held_out.ratio_error], fmt="D", ms=9, color=theme.encoder,
        mec=theme.paper, mew=1.2, capsize=4, label="of the size and search of this encoder", zorder=4,
    )  # fmt: skip
    axes.axhline(1, color=theme.pca, lw=1.4, label="PCA of the other folds")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="features a component may use", ylabel="loss on rows held out, times PCA's")
    axes.grid(axis="y", color=theme.line, lw=0.6)
    axes.set_axisbelow(True)
    axes.legend(facecolor=theme.paper, edgecolor="none", framealpha=0.85)


def draw_frequency(axes: Axes, results: EncoderResults, held_out: HeldOut, theme: Theme = LIGHT) -> None:
    """Share of the encoders of folds that use each feature, the largest on top; those of this encoder in its colour."""
    columns = most_frequent(held_out)[:MAX_BARS]
    counts, own = held_out.counts(), set(held_out.selected)
    labels = [results.folds_names.get(column, column_label(column)) for column in columns]
    rows = np.arange(len(columns))
    shares = [100 * counts.get(column, 0) / held_out.n_folds for column in columns]
    colors = [theme.encoder if column in own else theme.quiet for column in columns]
    axes.barh(rows, shares, color=colors)
    if held_out.bootstraps is not None:
        drawn = held_out.bootstraps.frequencies()
        resampled = [100 * drawn.get(column, 0.0) for column in columns]
        axes.plot(resampled, rows, "o", color=theme.pca, mec=theme.paper, ms=7, clip_on=False, zorder=4)
    axes.set_yticks(rows, figure_names(labels, columns))
    axes.invert_yaxis()
    axes.set(xlabel="encoders that use the feature", xlim=(0, 100))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.3g} %")
    axes.tick_params(axis="y", length=0)


def most_frequent(held_out: HeldOut) -> list[int]:
    """Features of any encoder of the folds, or of all rows: the most frequent first, then those of all rows."""
    counts, own = held_out.counts(), set(held_out.selected)
    return sorted(own | set(counts), key=lambda column: (-counts.get(column, 0), column not in own, column))


def draw_features(axes: Axes, results: EncoderResults, theme: Theme = LIGHT) -> None:
    """The features of the largest weights, the largest on top."""
    shares = results.shares
    places = np.argsort(-shares, kind="stable")[:MAX_BARS]
    names = figure_names([results.labels[place] for place in places], results.selected[places])
    rows = np.arange(places.size)
    axes.barh(rows, 100 * shares[places], color=theme.encoder)
    axes.set_yticks(rows, names)
    axes.invert_yaxis()
    axes.set(xlabel="weight")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.3g} %")
    axes.tick_params(axis="y", length=0)
