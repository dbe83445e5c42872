"""Pipelines in a temporary folder, run in this process."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spae_dask.pipelines.pipeline import read_pipeline
from spae_dask.pipelines.runner import Outcome, dry_run, run_pipeline
from spae_dask.pipelines.work import Machinery


class InProcess:
    """Threads of this process."""

    memory = None

    def ready(self, source: Any) -> Any:
        return nullcontext()

    planned_resources = ready

    def named(self, plan: Any, source: Any) -> Any:
        return plan


class NoProgress:
    """Watches nothing."""

    def __call__(self, event: Any) -> None: ...

    def begin(self, name: str) -> None: ...

    def stand_at(self, rows: int, n_rows: int | None) -> None: ...

    def end(self) -> None: ...


@dataclass
class Folder:
    """A folder with data ``x.npy`` and a pipeline ``p.toml`` whose results are in ``out``."""

    path: Path
    said: list[str] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.path / "out"

    def write(self, text: str) -> Path:
        """Write the pipeline."""
        (self.path / "p.toml").write_text(text, encoding="utf-8")
        return self.path / "p.toml"

    def run(self, *, force: bool = False) -> dict[str, Outcome]:
        """Run it; outcomes by step."""
        outcomes: list[Outcome] = []
        machinery = Machinery(InProcess(), NoProgress(), self.said.append)
        run_pipeline(read_pipeline(self.path / "p.toml"), machinery, force=force, tell=outcomes.append)
        return {each.name: each for each in outcomes}

    def statuses(self, *, force: bool = False) -> dict[str, str]:
        """Run it; what became of each step."""
        return {name: each.status for name, each in self.run(force=force).items()}

    def dry_run(self) -> dict[str, Outcome]:
        """Say what a run would do; outcomes by step."""
        outcomes: list[Outcome] = []
        dry_run(read_pipeline(self.path / "p.toml"), InProcess(), force=False, tell=outcomes.append)
        return {each.name: each for each in outcomes}

    def files(self) -> dict[str, bytes]:
        """All files below the folder, with their content."""
        return {str(each.relative_to(self.path)): each.read_bytes() for each in self.path.rglob("*") if each.is_file()}


def planted(seed: int = 0) -> np.ndarray[Any, Any]:
    """Rows of rank 3 with a little noise."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(300, 3)) @ rng.normal(size=(3, 8)) + 0.1 * rng.normal(size=(300, 8))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    np.save(tmp_path / "x.npy", planted())
    return Folder(tmp_path)


@pytest.fixture
def edit(folder: Folder) -> Callable[[str, str], None]:
    """Replace text of the pipeline, which must hold it once."""

    def replace(old: str, new: str) -> None:
        text = (folder.path / "p.toml").read_text(encoding="utf-8")
        assert text.count(old) == 1
        folder.write(text.replace(old, new))

    return replace
