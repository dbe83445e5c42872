"""Coastlines for maps, from the data of cartopy that are on this machine. Nothing is downloaded."""

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SCALES = ("110m", "50m")
"""Scales of Natural Earth, in the order of preference. Small maps show no more than these."""

NO_DATA = "No coastlines: cartopy's Natural Earth data are not on this machine."

FINEST = 500
"""Lines are drawn to one in so many parts of the longer side of a map, which keeps pages small."""

EDGE = 1e-3
"""Degrees from the edge of a world map; a line along it is no coast."""


@dataclass(frozen=True, eq=False)
class Coast:
    """Coastlines of the Earth, or why there are none.

    Attributes
    ----------
    lines : shapely geometry or None
        Lines of longitudes from -180 to 180 and latitudes, in degrees.
    note : str
        Sentence about their absence.
    """

    lines: Any = None
    note: str = ""

    def within(self, west: float, east: float, south: float, north: float) -> list[Floats]:
        """Pieces (n, 2) inside a frame, whose longitudes may be those of any turn: 190 is -170."""
        if self.lines is None:
            return []
        import shapely
        from shapely.affinity import translate

        pieces: list[Floats] = []
        finest = max(east - west, north - south) / FINEST
        for turn in range(math.ceil((west - 180.0) / 360.0), math.floor((east + 180.0) / 360.0) + 1):
            there = shapely.clip_by_rect(translate(self.lines, 360.0 * turn), west, south, east, north)
            drawn = shapely.simplify(shapely.line_merge(there), finest)
            pieces += [shapely.get_coordinates(line) for line in shapely.get_parts(drawn)]
        return [piece for piece in pieces if np.ptp(piece, axis=0).max() > finest]


def read_coast() -> Coast | None:
    """The coastlines that cartopy has on this machine; None if cartopy is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import shapely
            from cartopy.io.shapereader import Reader
        except ImportError:
            return None
        try:
            path = _stored()
            if path is None:
                return Coast(note=NO_DATA)
            reader = Reader(path)
            try:
                found = shapely.union_all(list(reader.geometries()))
            finally:
                reader.close()
        except Exception as error:  # a damaged file costs the page its coastlines and no more
            return Coast(note=f"No coastlines: cartopy's Natural Earth data cannot be read ({type(error).__name__}).")
        return Coast(shapely.clip_by_rect(found, EDGE - 180.0, EDGE - 90.0, 180.0 - EDGE, 90.0 - EDGE))


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
