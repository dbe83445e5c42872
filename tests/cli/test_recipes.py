"""Recipes on the command line and in pipelines: one command from raw counts to a certificate."""

import json
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scanpy

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
        f'output = "out"\n[[step]]\nkind = "fit"\ndata = "{file.name}"\nn_components = 2\nn_nonzero = 3\n'
        f'method = "batch"\n{keys}[[step]]\nkind = "evaluate"\ndata = "{file.name}"\nencoder = "@fit"\n'
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


def _every_verb_ranks(spae: Any, file: Path, loss: float, words: tuple[str, ...], keys: str) -> None:
    """Assert that all verbs find the loss of a fit of eight genes, ranked as options or keys say."""
    asked, fitted = ("-k", 2, "-r", 3, *QUICK, "--recipe", "sqrt", "--top-features", 8, *words), file.parent / "e.zarr"
    assert "3 (variances of counts, standardized variances, core)" in spae("plan", file, *asked).out
    fit = spae("fit", file, *asked, "-o", fitted, "--json")
    assert json.loads(fit.out)["certificate"]["loss"] == pytest.approx(loss, rel=1e-10)
    assert " ".join(words[-2:]) in spae("inspect", fitted).out
    _other_verbs_agree(spae, file, asked, loss, f'recipe = "sqrt"\nn_top_features = 8\n{keys}')


def test_genes_of_seurat_v3_are_used_by_every_verb(spae: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    counts, file = rng.poisson(rng.gamma(0.5, 4.0 * rng.uniform(size=40), size=(90, 40))), tmp_path / "x.npy"
    np.save(file, counts)
    adata = anndata.AnnData(counts.astype(np.float64))
    scanpy.pp.highly_variable_genes(adata, flavor="seurat_v3", n_top_genes=8)
    best = np.flatnonzero(adata.var["highly_variable"])
    loss = batch_encoder(2, n_nonzero=3).fit(np.sqrt(counts[:, best])).certificate_.loss
    _every_verb_ranks(spae, file, loss, ("--top-features-flavor", "seurat_v3"), 'top_features_flavor = "seurat_v3"\n')


def test_genes_are_ranked_in_batches_by_every_verb(spae: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    labs, file = rng.integers(0, 3, 180), tmp_path / "x.h5ad"
    counts = rng.poisson(rng.gamma(0.5, 4.0 * rng.uniform(size=(3, 40))[labs]))
    index = [str(row) for row in range(180)]
    adata = anndata.AnnData(counts.astype(np.float64), obs=pd.DataFrame({"lab": labs}, index=index))
    adata.write_h5ad(file)
    scanpy.pp.highly_variable_genes(adata, flavor="seurat_v3", n_top_genes=8, batch_key="lab")
    loss = batch_encoder(2, n_nonzero=3).fit(np.sqrt(counts[:, adata.var["highly_variable"]])).certificate_.loss
    words = ("--top-features-flavor", "seurat_v3", "--top-features-batch", "lab")
    _every_verb_ranks(spae, file, loss, words, 'top_features_flavor = "seurat_v3"\ntop_features_batch = "lab"\n')
