"""Recipes on the command line and in pipelines: one command from raw counts to a certificate."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import QUICK
from tests.estimators.sources import batch_encoder

pytestmark = pytest.mark.usefixtures("undrawn")

RECIPE = "normalize_total(1e4), log1p"
NOTE = "reads raw data: normalize_total(10000), log1p, in the read"


@pytest.fixture
def counts() -> np.ndarray:
    rng = np.random.default_rng(0)
    kinds = rng.gamma(0.7, 2.0, size=(3, 10))
    return rng.poisson(kinds[rng.integers(0, 3, 120)] * rng.gamma(2.0, 2.0, size=(120, 1)))


@pytest.fixture
def file(counts: np.ndarray, tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", counts)
    return tmp_path / "x.npy"


@pytest.fixture
def loss(counts: np.ndarray) -> float:
    """Loss of the encoder of data that are made by hand."""
    sums = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return batch_encoder(2, n_nonzero=3).fit(np.log1p(counts / sums * 1e4)).certificate_.loss


def test_every_verb_goes_from_raw_counts(spae: Any, file: Path, loss: float, tmp_path: Path) -> None:
    encoder, asked = tmp_path / "e.zarr", ("-k", 2, "-r", 3, *QUICK, "--recipe", RECIPE)
    assert NOTE in spae("plan", file, *asked, "--no-calibrate").out
    fit = spae("fit", file, *asked, "-o", encoder, "--json")
    assert json.loads(fit.out)["certificate"]["loss"] == pytest.approx(loss, rel=1e-9)
    evaluated = spae("evaluate", file, encoder, "--json")
    assert json.loads(evaluated.out)["certificate"]["decoder_loss"] == pytest.approx(loss, rel=1e-9)
    assert "normalize_total(10000), log1p" in evaluated.err
    assert spae("transform", file, encoder, "-o", tmp_path / "z.zarr").code == 0
    assert spae("report", encoder, "-o", tmp_path / "r.html", "--data", file).code == 0
    assert "--recipe &#39;normalize_total(10000), log1p&#39;" in (tmp_path / "r.html").read_text()
    path = spae("path", file, "-k", 2, "-r", "3", *QUICK, "--recipe", RECIPE, "--json")
    assert json.loads(path.out)["points"][0]["loss"] == pytest.approx(loss, rel=1e-2)
    checked = json.loads(spae("check", file, "--recipe", RECIPE, "--json").out)["check"]
    assert checked["whole_numbers"]
    assert checked["problems"] == []


def test_parts_of_an_array_job_follow_it(spae: Any, file: Path, loss: float, tmp_path: Path) -> None:
    asked = (file, "-k", 2, "-r", 3, *QUICK, "--recipe", RECIPE, "--checkpoint", tmp_path / "run")
    assert spae("fit-part", "1/1", *asked).code in (0, 75)
    other = spae("fit-part", "1/1", *asked[:-4], "--recipe", "sqrt", *asked[-2:])
    assert "recipe" in other.err
    assert other.code == 3
    done = spae("fit-finish", *asked, "-o", tmp_path / "e.zarr", "--json")
    assert json.loads(done.out)["certificate"]["loss"] == pytest.approx(loss, rel=1e-9)


def test_a_recipe_that_is_none_is_a_usage_error(spae: Any, file: Path) -> None:
    ended = spae("fit", file, "-k", 2, "-r", 3, "-o", "e.zarr", "--recipe", "logp")
    assert ended.code == 2
    assert "Did you mean 'log1p'?" in ended.err


def test_negative_numbers_end_the_command_where_they_are(spae: Any, counts: np.ndarray, tmp_path: Path) -> None:
    counts[17, 4] = -3
    np.save(tmp_path / "x.npy", counts)
    ended = spae("fit", tmp_path / "x.npy", "-k", 2, "-r", 3, "-o", tmp_path / "e.zarr", "--recipe", "log1p")
    assert ended.code == 3
    assert "row 17, column 4" in ended.err


@pytest.mark.parametrize("given", [f'"{RECIPE}"', '["normalize_total(1e4)", "log1p"]'])
def test_a_pipeline_has_it_as_a_key(spae: Any, file: Path, loss: float, given: str, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(
        f"""
output = "out"

[[step]]
kind = "check"
name = "seen"
data = "x.npy"
recipe = {given}

[[step]]
kind = "fit"
name = "encoder"
data = "x.npy"
n_components = 2
n_nonzero = 3
method = "batch"
recipe = {given}

[[step]]
kind = "evaluate"
name = "again"
data = "x.npy"
encoder = "@encoder"
"""
    )
    ended = spae("run", tmp_path / "p.toml")
    assert ended.code == 0, ended.err
    certificate = json.loads((tmp_path / "out" / "again.json").read_text())
    assert certificate["decoder_loss"] == pytest.approx(loss, rel=1e-9)


def _other_verbs_agree(spae: Any, file: Path, asked: tuple[Any, ...], loss: float, keys: str) -> None:
    """Assert that path, parts and a pipeline find the loss of a fit that was asked for by options, or by keys."""
    folder = file.parent
    path = spae("path", file, "-k", 2, "-r", "3", *asked[4:], "--json")
    assert json.loads(path.out)["points"][0]["loss"] == pytest.approx(loss, rel=1e-2)
    parts = (file, *asked, "--checkpoint", folder / "run")
    assert [spae("fit-part", "1/1", *parts).code for _ in range(2)][-1] in (0, 75)
    done = spae("fit-finish", *parts, "-o", folder / "f.zarr", "--json")
    assert json.loads(done.out)["certificate"]["loss"] == pytest.approx(loss, rel=1e-10)
    (folder / "p.toml").write_text(
        'output = "out"\n[[step]]\nkind = "fit"\ndata = "x.npy"\nn_components = 2\nn_nonzero = 3\n'
        f'method = "batch"\n{keys}[[step]]\nkind = "evaluate"\ndata = "x.npy"\nencoder = "@fit"\n'
    )
    assert spae("run", folder / "p.toml").code == 0
    certificate = json.loads((folder / "out" / "evaluate.json").read_text())
    assert certificate["decoder_loss"] == pytest.approx(loss, rel=1e-9)


def test_the_median_is_found_by_every_verb(spae: Any, file: Path, counts: np.ndarray, tmp_path: Path) -> None:
    sums, asked = counts.sum(axis=1), ("-k", 2, "-r", 3, *QUICK, "--recipe", "normalize_total(median), log1p")
    by_hand = np.log1p(counts / np.maximum(sums, 1)[:, None] * np.median(sums[sums > 0]))
    loss = batch_encoder(2, n_nonzero=3).fit(by_hand).certificate_.loss
    assert "2 (sums of rows, core)" in spae("plan", file, *asked).out
    fit = spae("fit", file, *asked, "-o", tmp_path / "e.zarr", "--json")
    assert json.loads(fit.out)["certificate"]["loss"] == pytest.approx(loss, rel=1e-10)
    number = f"normalize_total({np.median(sums[sums > 0]):g}), log1p"
    assert number in spae("inspect", tmp_path / "e.zarr").out
    evaluated = spae("evaluate", file, tmp_path / "e.zarr", "--json")
    assert json.loads(evaluated.out)["certificate"]["decoder_loss"] == pytest.approx(loss, rel=1e-9)
    assert spae("check", file, "--recipe", asked[-1]).code == 0
    _other_verbs_agree(spae, file, asked, loss, f'recipe = "{asked[-1]}"\n')


def test_columns_of_largest_variance_are_used_by_every_verb(
    spae: Any, file: Path, counts: np.ndarray, tmp_path: Path
) -> None:
    logs = np.log1p(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) * 1e4)
    best = np.sort(np.argsort(-logs.var(axis=0))[:5])
    loss = batch_encoder(2, n_nonzero=3).fit(logs[:, best]).certificate_.loss
    asked = ("-k", 2, "-r", 3, *QUICK, "--recipe", RECIPE, "--top-features", 5)
    assert "2 (variances, core)" in spae("plan", file, *asked).out
    fit = spae("fit", file, *asked, "-o", tmp_path / "e.zarr", "--json")
    assert json.loads(fit.out)["certificate"]["loss"] == pytest.approx(loss, rel=1e-10)
    evaluated = spae("evaluate", file, tmp_path / "e.zarr", "--json")
    assert json.loads(evaluated.out)["certificate"]["decoder_loss"] == pytest.approx(loss, rel=1e-9)
    assert spae("transform", file, tmp_path / "e.zarr", "-o", tmp_path / "z.zarr").code == 0
    assert spae("report", tmp_path / "e.zarr", "-o", tmp_path / "r.html", "--data", file).code == 0
    assert "--top-features 5" in spae("inspect", tmp_path / "e.zarr").out
    _other_verbs_agree(spae, file, asked, loss, f'recipe = "{RECIPE}"\nn_top_features = 5\n')
