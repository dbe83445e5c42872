"""The examples of the README do what they show."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from distributed import LocalCluster

from spae_dask import leftovers
from spae_dask.cli.main import main

README = (Path(__file__).parents[1] / "README.md").read_text()
EXAMPLES = README.split("## Three examples\n")[1].split("\n## ")[0]
PIPELINE = next(block for block in re.findall(r"```toml\n(.*?)```", README, re.DOTALL) if "[[step]]" in block)


def planted(n: int) -> np.ndarray:
    """Rows of rank 6 with noise, 24 columns wide: enough for every k and r shown."""
    rng = np.random.default_rng(n)
    return (rng.normal(size=(n, 6)) @ rng.normal(size=(6, 24)) + 0.1 * rng.normal(size=(n, 24))).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the files that the examples name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(leftovers, "gettempdir", lambda: str(tmp_path))
    np.save("X.npy", planted(400))
    np.save("new.npy", planted(100)[:, :12])
    np.save("X_new.npy", planted(100))
    np.savetxt("table.csv", planted(200)[:, :12], delimiter=",", header=",".join("abcdefghijkl"), comments="")
    Path("pipeline.toml").write_text(PIPELINE)
    assert main(["ingest", "X_new.npy", "X_new.zarr", "-q"]) == 0
    return tmp_path


def commands() -> list[list[str]]:
    """Lines that start with the command, as a shell would cut them."""
    lines = [line.strip() for line in EXAMPLES.split("\nPython:")[0].splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("spae ")]


def test_every_command_line_ends_well(folder, capsys):
    assert len(commands()) >= 10
    for words in commands():
        assert main(words) == 0, (words, capsys.readouterr().err)
    shown = capsys.readouterr().out
    assert "ratio" in shown
    assert (folder / "results" / "encoder.zarr").exists()


def test_every_python_example_runs(folder):
    assert main(["ingest", "X.npy", "X.zarr", "-q"]) == 0
    x, H = planted(400), np.eye(24)[:, :5]
    batches = np.array_split(planted(400), 7)
    names = {"x": x, "H": H, "batches": batches, "np": np}
    blocks = re.findall(r"```python\n(.*?)```", EXAMPLES, re.DOTALL)
    assert len(blocks) >= 4
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        for block in blocks:
            here = block.replace("tcp://scheduler:8786", cluster.scheduler_address).replace("/shared/", "")
            exec(compile(here, "README.md", "exec"), names)
        names["client"].close()
    assert names["feed"].n_samples_seen_ == 400
    assert names["enc"].certificate_.ratio >= 1
