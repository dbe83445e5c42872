"""A package in the place of cartopy: it finds and reads coastlines, never downloads, and warns as it is imported."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Lines = list[list[list[float]]]

FOLDER = Path("shapefiles", "natural_earth", "physical")

PACKAGE = {
    "__init__.py": """
config = {}
""",
    "io/__init__.py": """
from pathlib import Path


class Downloader:
    def _at(self, root, told):
        assert told["category"] == "physical" and told["name"] == "coastline"
        return Path(root, "shapefiles", "natural_earth", "physical", f"ne_{told['resolution']}_coastline.shp")

    def pre_downloaded_path(self, told):
        return self._at(told["config"]["pre_existing_data_dir"], told)

    def target_path(self, told):
        return self._at(told["config"]["data_dir"], told)

    def path(self, told):
        raise ConnectionError("a download")

    acquire_resource = path

    @staticmethod
    def from_config(specification):
        assert specification[:2] == ("shapefiles", "natural_earth")
        return Downloader()
""",
    "io/shapereader.py": """
import json
import warnings
from pathlib import Path
from types import SimpleNamespace

warnings.warn("this module is old", DeprecationWarning)


class Reader:
    def __init__(self, path):
        self.shapes = [[SimpleNamespace(coords=line) for line in shape] for shape in json.loads(Path(path).read_text())]

    def geometries(self):
        return (shape[0] if len(shape) == 1 else SimpleNamespace(geoms=shape) for shape in self.shapes)

    def close(self):
        pass
""",
}


@contextmanager
def without_cartopy() -> Iterator[None]:
    """No cartopy, even if it is installed and imported."""
    real = _taken_out()
    sys.modules["cartopy"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        _taken_out()
        sys.modules.update(real)


@contextmanager
def fake_cartopy(folder: Path) -> Iterator[dict[str, Any]]:
    """Cartopy's configuration, while the package is installed with empty folders of data."""
    for name, text in PACKAGE.items():
        path = folder / "site" / "cartopy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    with without_cartopy(), pytest.MonkeyPatch.context() as patch:
        del sys.modules["cartopy"]
        patch.syspath_prepend(folder / "site")
        import cartopy

        cartopy.config.update(pre_existing_data_dir=folder / "existing", data_dir=folder / "data")
        yield cartopy.config


def _taken_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == "cartopy"]
    return {name: sys.modules.pop(name) for name in names}


def store(root: Path, shapes: list[Lines], scale: str = "110m") -> Path:
    """Write shapes of one line or several to the place where cartopy has coastlines."""
    path = root / FOLDER / f"ne_{scale}_coastline.shp"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(shapes), encoding="utf-8")
    return path
