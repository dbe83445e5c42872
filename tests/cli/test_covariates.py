"""Covariates on the command line and in pipelines: by names of obs and of tables, and from files."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr

from tests.cli.beside import KINDS, write_beside
from tests.cli.conftest import QUICK, K, R
from tests.cli.test_exit_codes import failed
from tests.estimators.sources import batch_encoder

pytestmark = pytest.mark.usefixtures("undrawn")

N, D = 150, 10
RNG = np.random.default_rng(2)
BATCH = np.array(["x", "y"])[RNG.integers(0, 2, N)]
AGE = RNG.normal(40, 5, N)
ROWS = RNG.gamma(2.0, size=(N, 3)) @ RNG.gamma(1.0, size=(3, D)) + (BATCH == "y")[:, None] + AGE[:, None] / 5
NAMES = [f"g{j}" for j in range(D)]


@pytest.fixture(params=KINDS)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_beside(tmp_path / f"x.{request.param}", ROWS, NAMES, {"batch": BATCH, "age": AGE})


@pytest.fixture(scope="module")
def wanted() -> Any:
    """Loss of the encoder of residuals that are made by hand, and its codes but for signs."""
    Z = np.column_stack([np.ones(N), BATCH == "y", AGE])
    left = ROWS - Z @ np.linalg.lstsq(Z, ROWS, rcond=None)[0]
    encoder = batch_encoder(2, n_nonzero=3).fit(left)
    return encoder.certificate_.loss, encoder.transform(left)


ASKED = ("-k", 2, "-r", 3, *QUICK, "--covariates", "batch,age")


def test_every_verb_removes_them(spae: Any, file: Path, wanted: Any, tmp_path: Path) -> None:
    encoder = tmp_path / "e.zarr"
    assert (
        "removes what 2 covariate(s) explain, in the read: 2 more column(s)"
        in spae("plan", file, *ASKED, "--no-calibrate").out
    )
    fit = spae("fit", file, *ASKED, "-o", encoder, "--json")
    assert json.loads(fit.out)["certificate"]["loss"] == pytest.approx(wanted[0], rel=1e-9)
    evaluated = spae("evaluate", file, encoder, "--json")
    assert json.loads(evaluated.out)["certificate"]["decoder_loss"] == pytest.approx(wanted[0], rel=1e-9)
    assert "removes   what covariates explain, as the encoder did: batch, age" in evaluated.err
    assert spae("transform", file, encoder, "-o", tmp_path / "z.zarr").code == 0
    np.testing.assert_allclose(zarr.open(tmp_path / "z.zarr")[:], wanted[1], atol=1e-4)
    assert spae("report", encoder, "-o", tmp_path / "r.html", "--data", file).code == 0
    page = (tmp_path / "r.html").read_text()
    assert "covariates removed" in page
    assert "--covariates batch,age" in page
    path = spae("path", file, *ASKED, "--json")
    assert json.loads(path.out)["points"][0]["loss"] == pytest.approx(wanted[0], rel=1e-2)
    shown = json.loads(spae("inspect", encoder, "--json").out)
    assert shown["parameters"]["covariates"] == ["batch", "age"]
    assert "--covariates batch,age" in shown["fit_command"]


def test_parts_of_an_array_job_know_them(spae: Any, file: Path, wanted: Any, tmp_path: Path) -> None:
    asked = (file, *ASKED, "--checkpoint", tmp_path / "run")
    assert spae("fit-part", "1/1", *asked).code in (0, 75)
    other = spae("fit-part", "1/1", *asked[:-4], "--covariates", "batch,C(batch)", *asked[-2:])
    assert other.code == 3
    assert "covariates" in other.err
    done = spae("fit-finish", *asked, "-o", tmp_path / "e.zarr", "--json")
    assert json.loads(done.out)["certificate"]["loss"] == pytest.approx(wanted[0], rel=1e-9)


@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_a_file_gives_them_to_data_without_names(spae: Any, wanted: Any, kind: str, tmp_path: Path) -> None:
    data, given, encoder = tmp_path / "x.npy", tmp_path / f"z.{kind}", tmp_path / "e.zarr"
    np.save(data, ROWS)
    if kind == "csv":
        pd.DataFrame({"batch": BATCH, "age": AGE}).to_csv(given, index=False)
    else:
        np.save(given, np.column_stack([BATCH == "y", AGE]))
    asked = ("-k", 2, "-r", 3, *QUICK, "--covariates", given)
    fit = spae("fit", data, *asked, "-o", encoder)
    assert fit.code == 0, fit.err
    assert f"-o CODES.zarr --covariates {given}" in fit.err
    alone = spae("evaluate", data, encoder)
    assert alone.code == 3
    assert "--covariates" in alone.err
    done = spae("evaluate", data, encoder, "--covariates", given, "--json")
    assert json.loads(done.out)["certificate"]["decoder_loss"] == pytest.approx(wanted[0], rel=1e-9)
    assert spae("transform", data, encoder, "-o", tmp_path / "z.zarr", "--covariates", given).code == 0


def test_names_that_are_not_there_end_the_command(spae: Any, file: Path, tmp_path: Path) -> None:
    ended = spae("fit", file, "-k", 2, "-r", 3, "--covariates", "batch,aeg", "-o", tmp_path / "e.zarr")
    assert ended.code == 3
    assert "'aeg'" in ended.err
    assert "age" in ended.err
    assert spae("fit", file, "-k", 2, "-r", 3, "--covariates", ",", "-o", tmp_path / "e.zarr").code == 2


def test_unseen_labels_end_the_command(spae: Any, file: Path, tmp_path: Path) -> None:
    assert spae("fit", file, *ASKED, "-o", tmp_path / "e.zarr").code == 0
    new = tmp_path / "new.csv"
    pd.DataFrame(ROWS, columns=NAMES).assign(batch=np.where(BATCH == "y", "new", BATCH), age=AGE).to_csv(
        new, index=False
    )
    ended = spae("transform", new, tmp_path / "e.zarr", "-o", tmp_path / "z.zarr")
    assert ended.code == 3
    assert "labels that the fit has not seen: 'new'" in ended.err


@pytest.mark.parametrize("given", ['"z.csv"', "[1, 2]", '["batch", "z.npy"]', "3"])
def test_a_pipeline_takes_names_of_columns_alone(spae: Any, given: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    keys = f'data = "x.npy"\nn_components = 2\nn_nonzero = 3\ncovariates = {given}\n'
    (tmp_path / "p.toml").write_text(f'output = "out"\n[[step]]\nkind = "fit"\n{keys}')
    ended = spae("run", tmp_path / "p.toml", "-n")
    assert ended.code == 3
    assert "names of columns" in ended.err


@pytest.mark.parametrize("given", ['"batch,age"', '["batch", "age"]'])
def test_a_pipeline_has_them_as_a_key(spae: Any, file: Path, wanted: Any, given: str, tmp_path: Path) -> None:
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
covariates = {given}

[[step]]
kind = "evaluate"
name = "again"
data = "{file.name}"
encoder = "@encoder"

[[step]]
kind = "transform"
name = "codes"
data = "{file.name}"
encoder = "@encoder"
"""
    )
    ended = spae("run", tmp_path / "p.toml")
    assert ended.code == 0, ended.err
    certificate = json.loads((tmp_path / "out" / "again.json").read_text())
    assert certificate["decoder_loss"] == pytest.approx(wanted[0], rel=1e-9)


@pytest.mark.parametrize("option", ["--covariates", "--row-weights", "--scale"])
@pytest.mark.parametrize(
    ("name", "content"),
    [("w.npy", b""), ("w.npy", b"hello"), ("w.npy", b"PK\x03\x04"), ("w.npy", None), ("w.csv", None)],
)
def test_a_file_of_values_that_is_none_is_refused(spae, store, tmp_path, option, name, content):
    path = tmp_path / name
    if content is None:
        os.mkfifo(path)
    else:
        path.write_bytes(content)
    ended = spae("fit", store, "-k", K, "-r", R, f"{option}={path}", "-o", tmp_path / "e.zarr")
    failed(ended, 3, str(path), "is a pipe" if content is None else "numbers")
