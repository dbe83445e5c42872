"""The folder of pipelines as it ships, copied to where tests may write."""

import runpy
import shutil
from pathlib import Path

import pytest

SHIPPED = Path(__file__).parents[2] / "pipelines"


@pytest.fixture(scope="session")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder, without what runs in the original have left."""
    folder = tmp_path_factory.mktemp("shipped") / "pipelines"
    shutil.copytree(SHIPPED, folder, ignore=shutil.ignore_patterns("results", "made", "__pycache__"))
    return folder


def make_data(folder: Path, name: str) -> Path:
    """Run the script that writes a pipeline's data; returns where they are."""
    runpy.run_path(str(folder / "data" / f"{name}.py"), run_name="__main__")
    return folder / "data" / "made"
