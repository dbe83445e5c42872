"""The section with maps of the components of a grid: the decoder of each, and the cells that its code is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from spae_dask.report.coastlines import Coast
from spae_dask.report.figures import styled
from spae_dask.report.html import Section, themed_figure
from spae_dask.report.themes import Theme

Floats = npt.NDArray[np.float64]

MOST_MAPS = 12
"""Components that get a map."""

_COLUMNS = 2
_WIDTH = 9.2


@dataclass(frozen=True, eq=False)
class GridMaps:
    """Components on a grid of two dimensions.

    Attributes
    ----------
    decoder : ndarray (k, h, w)
        Rows of the decoder, NaN where there are no data.
    used : ndarray (k, h, w) of bool
        Cells that each component uses.
    dims : tuple of str
        Names of the vertical and of the horizontal dimension.
    places : tuple of ndarray
        Ascending or descending coordinates of both, ``(h,)`` and ``(w,)``.
    coast : Coast, optional
        Coastlines, for places that are latitudes and longitudes in degrees.
    longitude : int
        The dimension of longitude, 0 or 1, where there is a coast.
    """

    decoder: Floats
    used: npt.NDArray[np.bool_]
    dims: tuple[str, str]
    places: tuple[Floats, Floats]
    coast: Coast | None = None
    longitude: int = 1

    @cached_property
    def coastlines(self) -> list[Floats]:
        """Pieces of the coast on the map, as ``(n, 2)`` horizontal and vertical coordinates."""
        if self.coast is None:
            return []
        longitudes, latitudes = (_extent(self.places[dim]) for dim in (self.longitude, 1 - self.longitude))
        pieces = self.coast.within(*longitudes, *latitudes)
        return pieces if self.longitude == 1 else [piece[:, ::-1] for piece in pieces]

    @property
    def coast_words(self) -> str:
        """Sentence about the coastlines, with a space before it; empty where there is nothing to say."""
        if self.coastlines:
            return " Thin lines are coastlines, from Natural Earth."
        return f" {self.coast.note}" if self.coast is not None and self.coast.note else ""


def _extent(places: Floats) -> tuple[float, float]:
    """The outer edges of the cells, half a step beyond the first and the last place."""
    first, last = places[0] - (places[1] - places[0]) / 2, places[-1] + (places[-1] - places[-2]) / 2
    return (float(min(first, last)), float(max(first, last)))


def map_section(maps: GridMaps) -> Section:
    """Make the section."""
    k, shown = len(maps.decoder), min(len(maps.decoder), MOST_MAPS)
    y, x = maps.dims
    only = f" Shown are the first {shown} of {k} components." if shown < k else ""
    cells = [int(used.sum()) for used in maps.used[:shown]]
    return Section(
        "Maps",
        themed_figure(
            lambda theme: component_maps(maps, range(shown), theme),
            alt=f"Maps of {shown} components over {y} and {x}. Circles mark the cells that each is made of: "
            f"{', '.join(map(str, cells))}.",
            caption="Each map is what one unit of a code adds to the decoded grid. Circles mark the cells from which "
            f"the code is computed; all other cells are only decoded. Grey cells have no data.{only}{maps.coast_words}",
        ),
    )


def component_maps(maps: GridMaps, which: Sequence[int], theme: Theme) -> Figure:
    """Draw the maps of some components, each on a colour scale of its own, symmetric about zero."""
    height, width = maps.decoder.shape[1:]
    columns = min(_COLUMNS, len(which))
    rows = -(-len(which) // columns)
    each = _WIDTH / columns
    tall = float(np.clip(0.85 * each * height / width, 1.2, 1.4 * each))
    colours = LinearSegmentedColormap.from_list("signed", theme.diverging)
    y, x = maps.places
    with styled(theme):
        figure = Figure(figsize=(_WIDTH, rows * (tall + 0.55)), layout="constrained")
        every: Any = figure.subplots(rows, columns, squeeze=False)
        for axes in every.flat[len(which) :]:
            axes.set_axis_off()
        for axes, j in zip(every.flat, which, strict=False):
            values = np.ma.masked_invalid(maps.decoder[j])
            largest = float(np.abs(values).max()) or 1.0 if values.count() else 1.0
            image = axes.pcolormesh(x, y, values, cmap=colours, vmin=-largest, vmax=largest, rasterized=True)
            axes.set_facecolor(theme.line)  # where there are no data
            if maps.coastlines:
                # one path, which is far smaller in a page than one a line; as an artist it leaves the limits alone
                path = Path.make_compound_path(*map(Path, maps.coastlines))
                axes.add_artist(PathPatch(path, fill=False, edgecolor=theme.ink, linewidth=0.5, alpha=0.7))
            row, column = np.nonzero(maps.used[j])
            axes.scatter(x[column], y[row], s=26, facecolors="none", edgecolors=theme.ink, linewidths=1.2)
            axes.set_title(f"component {j + 1}, {row.size} cells", fontsize=9.5, loc="left")
            axes.set_xlabel(maps.dims[1])
            axes.set_ylabel(maps.dims[0])
            bar = figure.colorbar(image, ax=axes, pad=0.02, fraction=0.05)
            bar.outline.set_visible(False)
    return figure
