"""A place for a checkpoint of either kind."""

from pathlib import Path

import pytest


@pytest.fixture(params=["folder", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "kept") if request.param == "folder" else f"{request.getfixturevalue('bucket')}/runs/kept"
