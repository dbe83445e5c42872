"""Masks on the command line: the genes of scanpy by default, told, and the same for every verb on the same file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import QUICK
from tests.storage.test_masks import ODD, VARIABLE, D, N, cells

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    cells().write_h5ad(tmp_path / "x.h5ad")
    return tmp_path / "x.h5ad"


def test_every_verb_on_one_file_uses_the_columns_of_its_fit(spae: Any, file: Path, tmp_path: Path) -> None:
    encoder, told = tmp_path / "e.zarr", f"uses {VARIABLE.sum()} of {D} columns: var/highly_variable"
    fit = spae("fit", file, "-k", 2, "-r", 3, *QUICK, "-o", encoder)
    assert (fit.code, told in fit.err) == (0, True)
    assert told in spae("plan", file, "-k", 2, "-r", 3, "--no-calibrate").out
    assert told in spae("check", file).out
    for verb in (
        ("evaluate", file, encoder),
        ("transform", file, encoder, "-o", tmp_path / "z.zarr"),
        ("report", encoder, "-o", tmp_path / "r.html", "--data", file),
        ("path", file, "-k", 2, "-r", "2,3", *QUICK),
    ):
        ended = spae(*verb)
        assert (ended.code, told in ended.err) == (0, True), verb


@pytest.mark.parametrize("mask", ["none", "var/odd"])
def test_a_mask_that_is_given_is_recorded_and_used_again(spae: Any, file: Path, tmp_path: Path, mask: str) -> None:
    encoder = tmp_path / "e.zarr"
    assert spae("fit", file, "-k", 2, "-r", 3, *QUICK, "-o", encoder, "--mask", mask).code == 0
    document = json.loads(spae("inspect", encoder, "--json").out)
    assert f"--mask {mask}" in document["fit_command"]
    words = [
        str(tmp_path / "again.zarr") if word == "encoder.zarr" else word for word in document["fit_command"].split()
    ]
    assert spae(*words[1:]).code == 0
    again = json.loads(spae("inspect", tmp_path / "again.zarr", "--json").out)
    assert again["components"] == document["components"]
    evaluated = json.loads(spae("evaluate", file, encoder, "--json").out)
    assert evaluated["certificate"]["loss"] == pytest.approx(document["certificate"]["loss"])


def test_a_checkpoint_of_one_mask_is_not_gone_on_with_under_another(spae: Any, file: Path, tmp_path: Path) -> None:
    fit = ("fit-part", "1/2", file, "-k", 2, "-r", 3, *QUICK, "--checkpoint", tmp_path / "run")
    half = cells()
    half.var["even"] = ~ODD
    half.X[:, :] = np.arange(N)[:, None]  # all columns are equal, so that no number tells the masks apart
    half.write_h5ad(file)
    assert spae(*fit, "--mask", "var/odd").code == 0
    ended = spae(*fit, "--mask", "var/even")
    assert "columns was" in ended.err
    assert ended.code != 0


def test_a_mask_of_data_without_var_is_refused(spae: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(4))
    ended = spae("check", tmp_path / "x.npy", "--mask", "var/odd")
    assert ended.code == 3
    assert "--columns" in ended.err


def test_a_pipeline_fits_and_evaluates_under_the_mask_it_names(spae: Any, file: Path, tmp_path: Path) -> None:
    steps = """
        output = "results"
        [[step]]
        kind = "fit"
        name = "encoder"
        data = "x.h5ad"
        mask = "var/odd"
        n_components = 2
        n_nonzero = 3
        [[step]]
        kind = "evaluate"
        name = "evaluation"
        data = "x.h5ad"
        encoder = "@encoder"
    """
    (tmp_path / "pipeline.toml").write_text(steps)
    ended = spae("run", tmp_path / "pipeline.toml")
    assert ended.code == 0
    assert (ended.out + ended.err).count(f"uses {ODD.sum()} of {D} columns: var/odd") == 2
