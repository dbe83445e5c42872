"""An encoder on disk, for each test to damage."""

import shutil
from pathlib import Path

import pytest

from spae_dask.storage.artifacts.artifact_writing import write_encoder
from tests.storage.artifacts.encoders import made


@pytest.fixture(scope="module")
def pristine(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("encoder") / "e.zarr"
    write_encoder(path, made())
    return path


@pytest.fixture
def stored(pristine, tmp_path) -> Path:
    return shutil.copytree(pristine, tmp_path / "e.zarr")
