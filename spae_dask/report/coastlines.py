"""Coastlines for maps, from the data of cartopy that are on this machine. Nothing is downloaded."""

import math
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SCALES = ("110m", "50m")
"""Scales of Natural Earth, in the order of preference. Small maps show no more than these."""

NO_DATA = "No coastlines: cartopy's Natural Earth data are not on this machine."

FINEST = 500
"""Lines are drawn to one in so many parts of the longer side of a map, which keeps pages small."""

FARTHEST = (360.0, 90.001)
"""Longitude and latitude in degrees, rounded, that no coast is beyond; data with other numbers are damaged."""

_EDGE = 1e-3


@dataclass(frozen=True, eq=False)
class Coast:
    """Coastlines of the Earth, or why there are none.

    Attributes
    ----------
    lines : tuple of ndarray (n, 2)
        Longitudes and latitudes in degrees.
    note : str
        Sentence about their absence.
    """

    lines: tuple[Floats, ...] = ()
    note: str = ""

    def within(self, west: float, east: float, south: float, north: float) -> list[Floats]:
        """Pieces inside a frame, whose longitudes may be those of any turn: 190 is -170.

        >>> Coast((np.array([[-170.0, 10.0], [-150.0, 10.0]]),)).within(180.0, 200.0, 0.0, 20.0)
        [array([[190.,  10.],
               [200.,  10.]])]
        """
        low, high = np.array([west, south]), np.array([east, north])
        pieces = []
        for line in self.lines:
            first = math.ceil((west - line[:, 0].max()) / 360.0)
            last = math.floor((east - line[:, 0].min()) / 360.0)
            for turn in range(first, last + 1):
                pieces += _inside(line + np.array([360.0 * turn, 0.0]), low, high)
        finest = float((high - low).max()) / FINEST
        return [_simplified(piece, finest) for piece in pieces if np.ptp(piece, axis=0).max() > finest]


def read_coast() -> Coast | None:
    """The coastlines that cartopy has on this machine; None if cartopy is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from cartopy.io.shapereader import Reader
        except ImportError:
            return None
        try:
            path = _stored()
            if path is None:
                return Coast(note=NO_DATA)
            reader = Reader(path)
            try:
                lines = [line for shape in reader.geometries() for line in getattr(shape, "geoms", [shape])]
                found = [np.asarray(line.coords, dtype=np.float64)[:, :2] for line in lines]
            finally:
                reader.close()
            if not all(np.all(np.abs(line) <= FARTHEST) for line in found):
                raise ValueError("places that are not on the Earth")
        except Exception as error:  # a damaged file costs the page its coastlines and no more
            return Coast(note=f"No coastlines: cartopy's Natural Earth data cannot be read ({type(error).__name__}).")
    return Coast(tuple(piece for line in found for piece in _cut(line)))


def _stored() -> Path | None:
    """The file where cartopy looks for it. Cartopy's own search would download what it does not find."""
    from cartopy import config
    from cartopy.io import Downloader

    for scale in SCALES:
        told = {"config": config, "category": "physical", "name": "coastline", "resolution": scale}
        at = Downloader.from_config(("shapefiles", "natural_earth", scale, "physical", "coastline"))
        for path in (at.pre_downloaded_path(told), at.target_path(told)):
            # without CARTOPY_DATA_DIR the first is relative: a page must not depend on the current folder
            if path is not None and path.is_absolute() and path.is_file():
                return Path(path)
    return None


def _cut(line: Floats) -> list[Floats]:
    """Parts of a line between its jumps around the Earth and its ways along the edge of a world map."""
    on_edge = np.stack([180.0 - np.abs(line[:, 0]), 90.0 - np.abs(line[:, 1])], axis=1) < _EDGE
    along = (on_edge[1:] & on_edge[:-1]).any(axis=1)
    around = np.abs(np.diff(line[:, 0])) > 180.0
    return [part for part in np.split(line, np.flatnonzero(along | around) + 1) if len(part) > 1]


def _inside(line: Floats, low: Floats, high: Floats) -> list[Floats]:
    """Parts of a line inside a box: each segment is cut by the four sides (Liang and Barsky 1984)."""
    start, step = line[:-1], np.diff(line, axis=0)
    slope = np.where(step == 0.0, 1e-300, step)
    crossings = np.sort([(low - start) / slope, (high - start) / slope], axis=0)
    enter, leave = crossings[0].max(axis=1).clip(min=0.0), crossings[1].min(axis=1).clip(max=1.0)
    kept = np.flatnonzero(enter < leave)
    if not kept.size:
        return []
    begin = (start + enter[:, None] * step)[kept]
    end = (start + leave[:, None] * step)[kept]
    whole = (np.diff(kept) == 1) & (leave[kept][:-1] == 1.0) & (enter[kept][1:] == 0.0)
    runs = np.split(np.arange(kept.size), np.flatnonzero(~whole) + 1)
    return [np.vstack([begin[run[:1]], end[run]]) for run in runs]


def _simplified(line: Floats, tolerance: float) -> Floats:
    """The points that a line within this distance needs (Douglas and Peucker 1973)."""
    needed = np.zeros(len(line), dtype=bool)
    needed[[0, -1]] = True
    spans = [(0, len(line) - 1)]
    while spans:
        first, last = spans.pop()
        chord, between = line[last] - line[first], line[first + 1 : last] - line[first]
        length = np.hypot(*chord)
        off = np.abs(between[:, 0] * chord[1] - between[:, 1] * chord[0]) / length if length else np.hypot(*between.T)
        if off.size and off.max() > tolerance:
            middle = first + 1 + int(off.argmax())
            needed[middle] = True
            spans += [(first, middle), (middle, last)]
    simple: Floats = line[needed]
    return simple
