"""Sources that follow a script, and clusters that somebody else started: what tests of deaths and delays share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.dask_processes import DaskProcesses
from tests.engine.scripted import Scripted


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[DaskProcesses]:
    with DaskProcesses(tmp_path / "dask") as processes:
        yield processes


@pytest.fixture
def scripted(store: ZarrBlocks, tmp_path: Path) -> Callable[[dict[int, tuple[str, ...]]], Scripted]:
    """Function that makes a source of a script, over the array ``store`` of the file that asks for it."""
    (tmp_path / "readings").mkdir()
    return lambda script: Scripted(store, tmp_path / "readings", script)
