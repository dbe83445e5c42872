"""Folds on the command line: a fit that is killed and resumed, and what commands and pages say of rows held out."""

import csv
import json
import shlex

import numpy as np
import pandas as pd
import pytest
import zarr

from spae_dask import load_encoder
from tests.cli.conftest import QUICK, K, R
from tests.report.page_reader import read_page

pytestmark = pytest.mark.usefixtures("undrawn")

N, D = 180, 8
GROUPS = np.array([f"donor {number}" for number in np.random.default_rng(1).integers(0, 9, N)])


@pytest.fixture
def table(tmp_path):
    """A table of numbers, and of the donor of each row."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(N, 3)) @ rng.normal(size=(3, D)) + 0.3 * rng.normal(size=(N, D))
    frame = pd.DataFrame(values, columns=[f"gene <{j}>" for j in range(D)])
    frame.assign(donor=GROUPS).to_parquet(tmp_path / "cells.parquet")
    return tmp_path / "cells.parquet"


@pytest.fixture
def words(table):
    return [table, "-k", K, "-r", R, "--folds", 3, "--fold-groups", "donor", *QUICK]


def test_resamples_are_asked_for_and_told(spae, words, tmp_path):
    encoder, drawn = tmp_path / "e.zarr", ["--bootstraps", 7]
    told = spae("fit", *words, *drawn, "-o", encoder, "--json").document["certificate"]["held_out"]["bootstraps"]
    assert len(told["ratios"]) == 7
    assert max(told["counts"]) <= 7
    assert "--bootstraps 7" in spae("inspect", encoder).out
    assert spae("report", encoder, "-o", tmp_path / "r.html").code == 0
    page = page_of(tmp_path)
    lower, upper = told["band"]
    assert f"on the same rows is {lower:.4f} to {upper:.4f} with 95% confidence" in " ".join(page.text.split())
    assert any("in resamples" in each.columns for each in page.tables)


def test_a_fit_says_what_folds_say_wherever_an_encoder_is_shown(spae, words, tmp_path):
    encoder = tmp_path / "e.zarr"
    fitted = spae("fit", *words, "-o", encoder, "--json").document
    held_out = fitted["certificate"]["held_out"]
    assert held_out["folds"] == "3 folds of 9 groups (donor)"
    assert sum(held_out["n_rows"]) == N
    ratios = np.array(held_out["losses"]) / np.array(held_out["pca_losses"])
    assert held_out["ratio"] == pytest.approx(ratios.mean())
    assert spae("inspect", encoder, "--json").document["certificate"] == fitted["certificate"]
    shown = spae("inspect", encoder).out
    assert f"held out           {held_out['ratio']:.6f} +- {held_out['ratio_error']:.6f} x the loss of PCA" in shown
    assert "stability          " in shown
    assert "--folds 3 --fold-groups donor" in shown
    assert spae("transform", words[0], encoder, "-o", tmp_path / "codes.zarr").code == 0
    assert spae("report", encoder, "-o", tmp_path / "r.html").code == 0
    page = page_of(tmp_path)
    assert "Rows held out" in page.text
    assert f"The mean ratio of the two losses is {held_out['ratio']:.4f}" in " ".join(page.text.split())
    again = spae(*spae_words(spae("inspect", encoder, "--json").document["fit_command"], tmp_path / "again.zarr"))
    assert again.code == 0
    assert load_encoder(tmp_path / "again.zarr").certificate_ == load_encoder(encoder).certificate_


def page_of(folder):
    return read_page((folder / "r.html").read_text(encoding="utf-8"))


def spae_words(command, output):
    return [*shlex.split(command)[1:-1], str(output)]


def test_without_folds_nothing_is_said(spae, words, tmp_path):
    plain = spae("fit", *words[:5], *QUICK, "--columns", "gene*", "-o", tmp_path / "e.zarr", "--json").document
    assert "held_out" not in plain["certificate"]
    assert "held_out" not in zarr.open_group(tmp_path / "e.zarr").attrs
    assert "held out" not in spae("inspect", tmp_path / "e.zarr").out
    spae("report", tmp_path / "e.zarr", "-o", tmp_path / "r.html")
    assert "Rows held out" not in page_of(tmp_path).text


def test_a_path_names_the_size_that_folds_choose(spae, words, table, tmp_path):
    given = ["path", table, "-k", "1,2,3", "-r", "3,4", "--folds", 3, "--fold-groups", "donor", *QUICK]
    found = spae(*given, "-o", tmp_path / "p.csv", "--json").document
    k, r = found["chosen"]
    assert f"held-out folds choose k = {k} and r = {r}" in spae(*given).out
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["held_out"]) for row in rows] == [point["held_out"] for point in found["points"]]
    fitted = spae("fit", table, "-k", 2, "-r", 4, *words[5:], "-o", tmp_path / "e.zarr", "--json").document
    held_out = next(each for each in found["points"] if (each["n_components"], each["n_nonzero"]) == (2, 4))
    assert held_out["held_out"] == pytest.approx(fitted["certificate"]["held_out"]["ratio"], rel=1e-3)
    assert spae(*given, "-o", tmp_path / "p.png").code == 0
    assert spae("report", tmp_path / "e.zarr", "--path", tmp_path / "p.csv", "-o", tmp_path / "r.html").code == 0
    (tmp_path / "p.json").write_text(json.dumps(found))
    assert spae("report", tmp_path / "e.zarr", "--path", tmp_path / "p.json", "-o", tmp_path / "s.html").code == 0
    plain = spae("path", table, "-k", 2, "-r", "2,4", "--columns", "gene*", *QUICK, "--json").document
    assert "chosen" not in plain
    assert "held_out" not in plain["points"][0]


def test_folds_choose_the_size_of_a_fit(spae, table, tmp_path):
    given = ["fit", table, "-k", "cv", "-r", "cv", "--folds", 3, "--fold-groups", "donor", *QUICK]
    assert spae(*given, "-o", tmp_path / "e.zarr").code == 0
    encoder = load_encoder(tmp_path / "e.zarr")
    assert encoder.n_components == "cv"
    assert encoder.components_.shape == (encoder.n_components_, D)
    assert {each.n_components for each in encoder.certificate_.held_out.sizes} == {encoder.n_components_}
    assert "-k cv -r cv" in spae("inspect", tmp_path / "e.zarr").out
    spae("report", tmp_path / "e.zarr", "-o", tmp_path / "r.html")
    assert "The number of components and of features was chosen by the folds" in page_of(tmp_path).text


def test_a_fit_that_was_killed_goes_on_and_other_folds_are_another_fit(spae, words, tmp_path, monkeypatch):
    given = ["fit", *words, "--method", "batch", "--checkpoint", tmp_path / "kept", "--keep-checkpoint"]

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("spae_dask.strategies.core.encode_with_folds", interrupted)
        assert spae(*given, "-o", tmp_path / "e.zarr").code == 130
    again = spae(*given, "-o", tmp_path / "e.zarr")
    assert "resumed: 1 of 1 spans already done" in again.err
    assert spae("fit", *words, "--method", "batch", "-o", tmp_path / "whole.zarr").code == 0
    whole, resumed = (zarr.open_group(tmp_path / name).attrs for name in ("whole.zarr", "e.zarr"))
    assert whole["held_out"] == resumed["held_out"]
    other = spae(*given[:-2], tmp_path / "kept", "--folds", 4, "-o", tmp_path / "other.zarr")
    assert other.code == 3
    assert "folds was 3, is 4" in other.err


@pytest.mark.parametrize(
    ("given", "words_of_error"),
    [
        (["--folds", 1], "give a whole number from 2 to 100"),
        (["--folds", 12, "--fold-groups", "donor"], "--folds 12 is more than the 9 group(s) of 'donor'"),
        (["--fold-groups", "donor"], "needs folds of the rows"),
        (["--folds", 3, "--strategy", "stream", "--columns", "gene*"], "Use strategy 'gram', 'tsqr' or 'sketch'"),
    ],
    ids=str,
)
def test_what_cannot_be_folded_is_a_mistake_of_the_user(given, words_of_error, spae, table, tmp_path):
    ended = spae("fit", table, "-k", K, "-r", R, *given, "-o", tmp_path / "e.zarr")
    assert ended.code in (2, 3)
    assert words_of_error in " ".join(ended.err.split())
    assert not (tmp_path / "e.zarr").exists()


def test_a_pipeline_has_folds(spae, table, tmp_path):
    pipeline = tmp_path / "p.toml"
    pipeline.write_text(
        'output = "out"\n[[step]]\nkind = "fit"\nname = "f"\ndata = "cells.parquet"\nn_components = 2\n'
        'n_nonzero = "cv"\nfolds = 3\nfold_groups = "donor"\nmethod = "batch"\n'
        '[[step]]\nkind = "path"\nname = "p"\ndata = "cells.parquet"\nn_components = [2]\nn_nonzero = [2, 4]\n'
        'folds = 3\nfold_groups = "donor"\nmethod = "batch"\n'
        '[[step]]\nkind = "report"\nname = "r"\nencoder = "@f"\npath = "@p"\n'
    )
    assert spae("run", pipeline).code == 0
    assert load_encoder(tmp_path / "out" / "f.zarr").certificate_.held_out.n_folds == 3
    assert "held_out_error" in (tmp_path / "out" / "p.csv").read_text()
