"""Weights of the rows on the command line and in pipelines: by names of obs and of tables, and from files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spae_dask import SparseEncoder
from tests.cli.beside import KINDS, write_beside
from tests.cli.conftest import QUICK

pytestmark = pytest.mark.usefixtures("undrawn")

N, D = 150, 10
RNG = np.random.default_rng(2)
COUNTS = RNG.integers(0, 4, N)
ROWS = RNG.gamma(2.0, size=(N, 3)) @ RNG.gamma(1.0, size=(3, D)) + RNG.random((N, D))
NAMES = [f"g{j}" for j in range(D)]
ASKED = ("-k", 2, "-r", 3, *QUICK, "--row-weights", "w")


@pytest.fixture(params=KINDS)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_beside(tmp_path / f"x.{request.param}", ROWS, NAMES, {"w": COUNTS})


@pytest.fixture(scope="module")
def wanted() -> float:
    """Loss of the encoder of repeated rows."""
    return float(SparseEncoder(2, n_nonzero=3, method="batch").fit(np.repeat(ROWS, COUNTS, axis=0)).certificate_.loss)


def loss_in(ended: Any, key: str = "loss") -> Any:
    assert ended.code == 0, ended.err
    return json.loads(ended.out)["certificate"][key]


def test_every_verb_weighs_rows(spae: Any, file: Path, wanted: float, tmp_path: Path) -> None:
    encoder = tmp_path / "e.zarr"
    planned = spae("plan", file, *ASKED, "--no-calibrate").out
    assert f"weighs rows, in the read: the weights sum to {COUNTS.sum()}" in planned
    fit = spae("fit", file, *ASKED, "-o", encoder, "--json")
    assert loss_in(fit) == pytest.approx(wanted, rel=1e-9)
    assert loss_in(fit, "total_weight") == COUNTS.sum()
    evaluated = spae("evaluate", file, encoder, "--row-weights", "w", "--json")
    assert loss_in(evaluated, "decoder_loss") == pytest.approx(wanted, rel=1e-9)
    assert loss_in(spae("evaluate", file, encoder, "--json"), "total_weight") is None
    assert spae("transform", file, encoder, "-o", tmp_path / "z.zarr").code == 0
    assert spae("report", encoder, "-o", tmp_path / "r.html", "--data", file).code == 0
    page = (tmp_path / "r.html").read_text()
    assert "Losses are weighted sums over rows." in page
    assert "--row-weights w" in page
    path = json.loads(spae("path", file, *ASKED, "--json").out)
    assert path["points"][0]["loss"] == pytest.approx(wanted, rel=1e-2)
    shown = json.loads(spae("inspect", encoder, "--json").out)
    assert shown["parameters"]["row_weights"] == "w"
    assert "--row-weights w" in shown["fit_command"]


def test_parts_of_an_array_job_know_them(spae: Any, file: Path, wanted: float, tmp_path: Path) -> None:
    asked = (file, *ASKED, "--checkpoint", tmp_path / "run")
    assert spae("fit-part", "1/1", *asked).code in (0, 75)
    other = spae("fit-part", "1/1", file, "-k", 2, "-r", 3, *QUICK, "--checkpoint", tmp_path / "run")
    assert other.code == 3
    done = spae("fit-finish", *asked, "-o", tmp_path / "e.zarr", "--json")
    assert loss_in(done) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_a_file_gives_them_to_data_without_names(spae: Any, wanted: float, kind: str, tmp_path: Path) -> None:
    data, given = tmp_path / "x.npy", tmp_path / f"w.{kind}"
    np.save(data, ROWS)
    np.save(given, COUNTS) if kind == "npy" else pd.DataFrame({"w": COUNTS}).to_csv(given, index=False)
    asked = ("-k", 2, "-r", 3, *QUICK, "--row-weights", given)
    assert loss_in(spae("fit", data, *asked, "-o", tmp_path / "e.zarr", "--json")) == pytest.approx(wanted, rel=1e-9)
    again = spae("evaluate", data, tmp_path / "e.zarr", "--row-weights", given, "--json")
    assert loss_in(again, "decoder_loss") == pytest.approx(wanted, rel=1e-9)


def test_what_are_no_weights_ends_the_command(spae: Any, file: Path, tmp_path: Path) -> None:
    ended = spae("fit", file, "-k", 2, "-r", 3, "--row-weights", "W", "-o", tmp_path / "e.zarr")
    assert ended.code == 3
    assert "'W'" in ended.err
    ended = spae("fit", file, *ASKED, "--strategy", "stream", "-o", tmp_path / "e.zarr")
    assert ended.code == 3
    assert "cannot weigh rows" in ended.err
    for option in (["--folds", 3], ["--keep-state"]):
        ended = spae("fit", file, *ASKED, *option, "-o", tmp_path / "e.zarr")
        assert ended.code == 3
        assert "row weights" in ended.err
    np.save(tmp_path / "w.npy", -np.ones(N))
    ended = spae("fit", file, "-k", 2, "-r", 3, "--row-weights", tmp_path / "w.npy", "-o", tmp_path / "e.zarr")
    assert ended.code == 3
    assert "is -1 in row 0, and as bad in 149 more" in ended.err


@pytest.mark.parametrize("given", ["w", "w.npy"])
def test_a_pipeline_has_them_as_a_key(spae: Any, file: Path, wanted: float, given: str, tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", COUNTS)
    columns = "" if file.suffix == ".h5ad" or given == "w" else f"columns = {json.dumps(NAMES)}"
    (tmp_path / "p.toml").write_text(
        f"""
output = "out"

[[step]]
kind = "fit"
name = "encoder"
data = "{file.name}"
n_components = 2
n_nonzero = 3
method = "batch"
row_weights = "{given}"
{columns}

[[step]]
kind = "evaluate"
name = "again"
data = "{file.name}"
encoder = "@encoder"
row_weights = "{given}"
{columns}
"""
    )
    ended = spae("run", tmp_path / "p.toml")
    assert ended.code == 0, ended.err
    loss = json.loads((tmp_path / "out" / "again.json").read_text())["decoder_loss"]
    assert loss == pytest.approx(wanted, rel=1e-9)
    if given == "w.npy":
        np.save(tmp_path / "w.npy", COUNTS + 1)
        assert spae("run", tmp_path / "p.toml").code == 0
        assert json.loads((tmp_path / "out" / "again.json").read_text())["decoder_loss"] > 1.1 * loss, "made anew"


@pytest.mark.parametrize("given", ["[1, 2]", '"w.parquet"', "3"])
def test_a_pipeline_refuses_what_it_cannot_follow(spae: Any, given: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    keys = f'data = "x.npy"\nn_components = 2\nn_nonzero = 3\nrow_weights = {given}\n'
    (tmp_path / "p.toml").write_text(f'output = "out"\n[[step]]\nkind = "fit"\n{keys}')
    ended = spae("run", tmp_path / "p.toml", "-n")
    assert ended.code == 3
    assert "row_weights" in ended.err


def test_parts_of_the_rows_are_not_weighed(spae: Any, file: Path, tmp_path: Path) -> None:
    encoder = tmp_path / "e.zarr"
    assert spae("fit", file, *ASKED, "-o", encoder).code == 0
    ended = spae("evaluate", file, encoder, "--by", 3, "--row-weights", "w")
    assert ended.code == 2
    assert "Leave out --by or --row-weights" in ended.err
    assert spae("evaluate", file, encoder, "--by", 3).code == 0
    keys = f'data = "{file}"\nencoder = "{encoder}"\nby = 3\nrow_weights = "w"\n'
    (tmp_path / "p.toml").write_text(f'[[step]]\nkind = "evaluate"\nname = "parts"\n{keys}')
    ended = spae("run", tmp_path / "p.toml", "-n")
    assert ended.code == 3
    assert "Leave out 'by' or 'row_weights'" in ended.err
