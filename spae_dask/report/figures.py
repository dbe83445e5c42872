"""Figures of encoders and paths. Each function takes results and a theme, and gives a matplotlib Figure.

Nothing is global.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.report.themes import LIGHT, Theme, missing_library
from spae_dask.storage.writing.publish import publish
from spae_dask.strategies.path import SparsityPath

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap, to_rgb
    from matplotlib.figure import Figure
except ImportError as error:
    raise missing_library("matplotlib") from error

Floats = npt.NDArray[np.float64]

MAX_LABELLED = 24
"""Features named along an axis, or values written into cells, in one figure; more would not be readable."""

MAX_FLAT = 110
"""Letters that fit side by side below a heat map."""

MAX_UPRIGHT = 60
"""Features named by upright labels below a heat map."""


@contextmanager
def styled(theme: Theme) -> Iterator[None]:
    """Matplotlib settings of a theme, for making and for saving figures."""
    settings: dict[str, Any] = {
        "figure.facecolor": theme.paper,
        "savefig.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "axes.edgecolor": theme.quiet,
        "axes.labelcolor": theme.ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.color": theme.ink,
        "xtick.color": theme.quiet,
        "ytick.color": theme.quiet,
        "xtick.labelcolor": theme.ink,
        "ytick.labelcolor": theme.ink,
        "font.size": 9.5,
        "axes.labelsize": 9.5,
        "svg.fonttype": "path",
        "svg.hashsalt": "spae-dask",  # the same figure is the same bytes
    }
    with rc_context(settings):
        yield


def feature_profile(
    positions: Floats,
    mean: Floats,
    spread: Floats,
    selected: npt.NDArray[np.intp],
    *,
    x_label: str,
    y_label: str,
    labels: Sequence[str],
    regions: Sequence[tuple[float, float, str]] = (),
    theme: Theme = LIGHT,
) -> Figure:
    """Mean of each feature along an axis, with the selected features marked.

    Parameters
    ----------
    positions, mean, spread : ndarray (d,)
        Place on the axis, mean and standard deviation of each feature. Need not be sorted.
    selected : ndarray of int
        Features to mark.
    x_label, y_label : str
        Labels of the axes.
    labels : sequence of str
        Name of each selected feature; written if there are at most ``MAX_LABELLED``.
    regions : sequence of (float, float, str)
        Intervals of the axis that hold no features, and why; shaded, and the curve is broken there.
    theme : Theme
        Colours.
    """
    with styled(theme):
        figure = Figure(figsize=(9.2, 3.9), layout="constrained")
        axes = figure.add_subplot()
        order = np.argsort(positions, kind="stable")
        for piece in _pieces(positions[order], regions):
            shown = order[piece]
            x, y = positions[shown], mean[shown]
            axes.fill_between(
                x, y - spread[shown], y + spread[shown], color=theme.quiet, alpha=0.22, lw=0, label="_spread"
            )
            axes.plot(x, y, color=theme.ink, lw=1.3, label="_mean")
        for start, stop, text in regions:
            axes.axvspan(start, stop, color=theme.band, lw=0, zorder=0)
            axes.text(
                (start + stop) / 2, 0.5, text, rotation=90, ha="center", va="center", color=theme.quiet,
                fontsize=8.5, transform=axes.get_xaxis_transform(),
            )  # fmt: skip
        axes.vlines(positions[selected], 0, mean[selected], color=theme.encoder, lw=1.1, alpha=0.9)
        axes.plot(
            positions[selected], mean[selected], "o", color=theme.encoder, ms=5.5, mec=theme.paper, mew=0.8,
            label="selected",
        )  # fmt: skip
        margin = 0.012 * float(np.ptp(positions))
        axes.set_xlim(positions.min() - margin, positions.max() + margin)
        axes.set_ylim(0, 1.04 * float((mean + spread).max()))
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        if selected.size <= MAX_LABELLED:
            _label_above(axes, positions[selected], labels, theme)
    return figure


def _pieces(positions: Floats, regions: Sequence[tuple[float, float, str]]) -> list[slice]:
    """Runs of sorted positions between the regions."""
    cuts = sorted({int(np.searchsorted(positions, start)) for start, _, _ in regions} | {0, positions.size})
    return [slice(a, b) for a, b in pairwise(cuts) if b > a]


def _label_above(axes: Axes, positions: Floats, labels: Sequence[str], theme: Theme) -> None:
    """Upright labels above the frame, moved apart until they do not touch, each with a line down to its feature."""
    low, high = axes.get_xlim()
    order = np.argsort(positions, kind="stable")
    places = _spread_out(positions[order], gap=0.022 * (high - low), low=low, high=high)
    for place, index in zip(places, order, strict=True):
        axes.annotate(
            labels[index], xy=(positions[index], 1.0), xytext=(place, 1.07), xycoords=("data", "axes fraction"),
            textcoords=("data", "axes fraction"), rotation=90, ha="center", va="bottom", fontsize=8.5,
            color=theme.encoder, arrowprops={"arrowstyle": "-", "color": theme.encoder, "lw": 0.7, "shrinkA": 0,
            "shrinkB": 0}, annotation_clip=False,
        )  # fmt: skip


def _spread_out(positions: Floats, *, gap: float, low: float, high: float) -> Floats:
    """Ascending places near ``positions``, at least ``gap`` apart: groups that touch are spread about their middle."""
    groups: list[list[float]] = []  # each is [sum of wanted places, count]
    for position in positions:
        groups.append([float(position), 1])
        while len(groups) > 1:
            (s1, n1), (s2, n2) = groups[-2:]
            if s2 / n2 - s1 / n1 >= gap * (n1 + n2) / 2:
                break
            groups[-2:] = [[s1 + s2, n1 + n2]]
    places = [total / count + gap * (i - (count - 1) / 2) for total, count in groups for i in range(int(count))]
    apart: Floats = np.clip(np.array(places), low, high)
    return apart


def lies_flat(labels: Sequence[str]) -> bool:
    """Return True if a heat map's column labels fit side by side; otherwise they stand upright."""
    return len(labels) <= 14 and max(map(len, labels), default=0) * len(labels) <= MAX_FLAT


def draw_loadings(
    axes: Axes,
    loadings: Floats,
    feature_labels: Sequence[str],
    component_labels: Sequence[str],
    *,
    theme: Theme = LIGHT,
) -> None:
    """Draw a heat map of the components on the features that any of them uses, and its colour bar.

    Parameters
    ----------
    axes : Axes
        Axes to draw on.
    loadings : ndarray (k, m)
        Components by features; exact zeros are left blank.
    feature_labels, component_labels : sequence of str
        Names of the columns and of the rows.
    theme : Theme
        Colours.
    """
    k, m = loadings.shape
    largest = float(np.abs(loadings).max(initial=0.0)) or 1.0
    colours = LinearSegmentedColormap.from_list("signed", theme.diverging)
    shown = np.ma.masked_equal(loadings, 0.0)
    image = axes.pcolormesh(np.arange(m), np.arange(k), shown, cmap=colours, vmin=-largest, vmax=largest)
    axes.invert_yaxis()
    names = feature_labels if m <= MAX_UPRIGHT else [""] * m
    rotation = 0 if lies_flat(names) else 90
    axes.set_xticks(range(m), names, rotation=rotation, fontsize=9.5 if m <= MAX_LABELLED else 8)
    axes.set_yticks(range(k), component_labels)
    axes.set_xticks(np.arange(m + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(k + 1) - 0.5, minor=True)
    axes.grid(which="minor", color=theme.paper, lw=1.5)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    if m <= MAX_LABELLED:
        _write_values(axes, loadings, image)
    bar = axes.figure.colorbar(image, ax=axes, pad=0.015, fraction=0.03, ticks=[-largest, 0, largest])
    bar.set_ticklabels([signed(-largest), "0", signed(largest)])
    bar.outline.set_visible(False)


def _write_values(axes: Axes, loadings: Floats, image: Any) -> None:
    for (i, j), value in np.ndenumerate(loadings):
        if value:
            cell = image.cmap(image.norm(value))
            ink = max(("#000000", "#ffffff"), key=lambda colour: contrast(colour, cell))
            axes.text(j, i, signed(value), ha="center", va="center", color=ink, fontsize=8.5)


def signed(value: float) -> str:
    """Two decimals, with a proper minus sign."""
    return f"{value:.2f}".replace("-", "\N{MINUS SIGN}")


def contrast(colour: Any, other: Any) -> float:
    """Contrast ratio of two colours, 1 to 21, as the web's accessibility guidelines define it."""
    dark, light = sorted((_luminance(colour), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: Any) -> float:
    """Relative luminance: 0 black, 1 white."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def error_maps(
    maps: Sequence[tuple[str, Floats]],
    *,
    label: str,
    outline: npt.NDArray[np.bool_] | None = None,
    theme: Theme = LIGHT,
) -> Figure:
    """Maps of a non-negative error on one scale, side by side.

    Parameters
    ----------
    maps : sequence of (str, ndarray (h, w))
        Title and values of each. The scale ends at the 99th percentile of all; larger values share its last colour.
    label : str
        Name of the values.
    outline : ndarray (h, w) of bool, optional
        Part of the picture to outline, such as the held-out pixels.
    theme : Theme
        Colours.
    """
    highest = float(np.percentile(np.concatenate([values.ravel() for _, values in maps]), 99)) or 1.0
    colours = LinearSegmentedColormap.from_list("errors", theme.errors)
    with styled(theme):
        figure = Figure(figsize=(9.2, 8.4 / len(maps) + 0.25), layout="constrained")
        all_axes = np.atleast_1d(figure.subplots(1, len(maps)))
        for axes, (title, values) in zip(all_axes, maps, strict=True):
            image = axes.imshow(values, cmap=colours, vmin=0, vmax=highest, interpolation="none")
            axes.set_title(title, fontsize=9.5, loc="left")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(False)
            if outline is not None:
                _draw_edges(axes, outline, theme)
        bar = figure.colorbar(image, ax=list(all_axes), pad=0.015, fraction=0.03, extend="max", label=label)
        bar.outline.set_visible(False)
    return figure


def _draw_edges(axes: Axes, mask: npt.NDArray[np.bool_], theme: Theme) -> None:
    """A line between every two neighbours of which one is in the mask, all drawn as one path with gaps."""
    row, column = np.nonzero(mask[:, 1:] != mask[:, :-1])
    gap = np.full(row.size, np.nan)
    across = np.stack([column + 0.5, column + 0.5, gap]), np.stack([row - 0.5, row + 0.5, gap])
    row, column = np.nonzero(mask[1:] != mask[:-1])
    gap = np.full(row.size, np.nan)
    along = np.stack([column - 0.5, column + 0.5, gap]), np.stack([row + 0.5, row + 0.5, gap])
    x, y = (np.concatenate([a.ravel("F"), b.ravel("F")]) for a, b in zip(across, along, strict=True))
    axes.plot(x, y, color=theme.pca, lw=1.1, scalex=False, scaley=False, label="outline")


def save_figure(figure: Any, path: str | Path, *, overwrite: bool, theme: Theme = LIGHT) -> None:
    """Write a matplotlib figure in the format that the path ends in.

    Parameters
    ----------
    figure : Figure
        Figure made with the same theme.
    path : str or Path
        File to write; ends in ``.png`` or ``.svg``.
    overwrite : bool
        True to replace a file at that path.
    theme : Theme
        Colours.
    """
    kind = str(path).rpartition(".")[2]
    with publish(path, overwrite=overwrite) as work, styled(theme):
        figure.savefig(work, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)


def path_figure(path: SparsityPath, theme: Theme = LIGHT) -> Figure:
    """Excess over PCA's loss, and symmetric variance, against the nonzeros of a component.

    Parameters
    ----------
    path : SparsityPath
        The points.
    theme : Theme
        Colours.

    Returns
    -------
    Figure
        Two panels side by side.
    """
    with styled(theme):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        loss, symmetric = figure.subplots(1, 2)
        for k in sorted({point.n_components for point in path.points}):
            points = sorted((p for p in path.points if p.n_components == k), key=lambda p: p.n_nonzero)
            r = [p.n_nonzero for p in points]
            loss.plot(r, [100 * max(p.ratio - 1, 1e-12) for p in points], "o-", ms=4, lw=1.4, label=f"k = {k}")
            if path.chosen is not None:
                beyond = [100 * max((p.held_out or 1.0) - 1, 1e-12) for p in points]
                errors = [100 * (p.held_out_error or 0.0) for p in points]
                loss.errorbar(r, beyond, yerr=errors, fmt="s:", ms=3, lw=1, capsize=2, label=f"k = {k}, held out")
            symmetric.plot(r, [p.symmetric_ratio for p in points], "o-", ms=4, lw=1.4, label=f"k = {k}")
        loss.set(xlabel="nonzeros of a component", ylabel="loss beyond PCA's (%)", yscale="log")
        symmetric.set(xlabel="nonzeros of a component", ylabel="symmetric variance / PCA's", ylim=(0, 1.02))
        symmetric.axhline(1, color=theme.quiet, lw=0.8, ls=":")
        for axes in (loss, symmetric):
            axes.legend(frameon=False)
        figure.suptitle(f"{path.method} encoders", fontsize=10)
    return figure
