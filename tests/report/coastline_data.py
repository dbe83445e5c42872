"""Coastlines of a test in the folders where cartopy looks for its own; cartopy may not download."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cartopy
import cartopy.io
import pytest
import shapefile

Lines = list[list[list[float]]]

FOLDER = Path("shapefiles", "natural_earth", "physical")


@contextmanager
def without_cartopy() -> Iterator[None]:
    """Hide cartopy, as on a machine that lacks it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in sys.modules if name.partition(".")[0] == "cartopy"]:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, "cartopy", None)
        yield


@contextmanager
def with_data_in(folder: Path) -> Iterator[dict[str, Path]]:
    """Cartopy's configuration while its folders are empty ones below a folder."""

    def refuse(url: str) -> None:
        raise AssertionError(f"a download of {url}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cartopy.io, "urlopen", refuse)
        for name in ("pre_existing_data_dir", "data_dir"):
            patch.setitem(cartopy.config, name, folder / name)
        yield cartopy.config


def store(root: Path, shapes: list[Lines], scale: str = "110m") -> Path:
    """Write shapes of one line or several to the place where cartopy has coastlines."""
    path = root / FOLDER / f"ne_{scale}_coastline.shp"
    path.parent.mkdir(parents=True, exist_ok=True)
    with shapefile.Writer(str(path), shapeType=shapefile.POLYLINE) as writer:
        writer.field("featurecla", "C", 20)
        for lines in shapes:
            writer.line(lines)
            writer.record("Coastline")
    return path
