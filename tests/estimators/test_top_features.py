"""Columns of largest variance, found out of core by one more read."""

from pathlib import Path
from typing import Any

import anndata as ad
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scanpy as sc
import scipy.sparse as sp
import zarr

from spae_dask import evaluate, load_encoder, plan
from spae_dask.errors import InvalidInput, NonFiniteInput, OtherCheckpoint
from spae_dask.estimators.saved import save_encoder
from spae_dask.report.reproduce import fit_command
from spae_dask.scanpy import sparse_pca
from tests.estimators.sources import batch_encoder

N, D, TOP = 150, 16, 7
NAMES = [f"g{column}" for column in range(D)]


def counts() -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(4)
    kinds = rng.gamma(0.6, 3.0, size=(3, D))
    return rng.poisson(kinds[rng.integers(0, 3, N)] * rng.gamma(2.0, 1.0, size=(N, 1))).astype(np.float64)


COUNTS = counts()
COUNTS[4] = 0
RECIPE = "normalize_total(median), log1p"


def by_scanpy() -> np.ndarray[Any, Any]:
    adata = ad.AnnData(COUNTS[COUNTS.sum(axis=1) > 0])
    sc.pp.normalize_total(adata)
    made = np.zeros_like(COUNTS)
    made[COUNTS.sum(axis=1) > 0] = np.log1p(np.asarray(adata.X))
    return made


LOGS = by_scanpy()
WANTED = np.sort(np.argsort(-LOGS.var(axis=0))[:TOP])


def stored(kind: str, folder: Path) -> Any:
    if kind == "zarr":
        zarr.create_array(folder / "x.zarr", data=COUNTS, chunks=(37, 6))
        return str(folder / "x.zarr")
    named = ad.AnnData(sp.csr_matrix(COUNTS), var=pd.DataFrame(index=NAMES))
    if kind == "h5ad":
        named.write_h5ad(folder / "x.h5ad")
        return str(folder / "x.h5ad")
    frame = pd.DataFrame(COUNTS, columns=NAMES)
    arrays = {"numpy": COUNTS, "csr": sp.csr_array(COUNTS), "dask": da.from_array(COUNTS, chunks=(50, 5))}
    return (arrays | {"object": named, "frame": frame})[kind]


@pytest.mark.parametrize("kind", ["numpy", "csr", "zarr", "dask", "h5ad", "object", "frame"])
def test_the_fit_is_that_of_the_columns_of_largest_variance(kind: str, tmp_path: Path) -> None:
    x = stored(kind, tmp_path)
    wanted = batch_encoder(2, n_nonzero=3).fit(LOGS[:, WANTED])
    made = batch_encoder(2, n_nonzero=3, recipe=RECIPE, n_top_features=TOP).fit(x)
    assert made.top_features_.tolist() == WANTED.tolist()
    assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)
    assert [each.name for each in made.plan_.passes] == ["sums of rows", "variances", "core"]
    assert made.certificate_.passes == 3
    assert made.n_features_in_ == TOP
    save_encoder(made, tmp_path / "e.zarr")
    codes = (LOGS[:, WANTED] - made.mean_) @ made.components_.T
    for each in (made, load_encoder(tmp_path / "e.zarr")):
        np.testing.assert_allclose(np.asarray(each.transform(x)), codes, atol=1e-10)
        assert evaluate(x, each).decoder_loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    if kind in ("h5ad", "object"):
        assert list(made.feature_names_in_) == [NAMES[column] for column in WANTED]
        new = ad.AnnData(COUNTS[:, ::-1], var=pd.DataFrame(index=NAMES[::-1]))
        np.testing.assert_allclose(np.asarray(made.transform(new)), codes, atol=1e-10)


def test_the_largest_variances_are_those_within_a_mask(tmp_path: Path) -> None:
    mask = np.arange(D) % 3 != 1
    adata = ad.AnnData(COUNTS, var=pd.DataFrame({"highly_variable": mask}, index=NAMES))
    adata.write_h5ad(tmp_path / "x.h5ad")
    within = np.flatnonzero(mask)
    best = within[np.sort(np.argsort(-LOGS.var(axis=0)[within])[:4])]
    wanted = batch_encoder(2, n_nonzero=3).fit(LOGS[:, best])
    for x in (adata, tmp_path / "x.h5ad"):
        made = batch_encoder(2, n_nonzero=3, recipe=RECIPE, n_top_features=4).fit(x)
        assert within[made.top_features_].tolist() == best.tolist()
        assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)
        codes = (LOGS[:, best] - made.mean_) @ made.components_.T
        np.testing.assert_allclose(np.asarray(made.transform(x)), codes, atol=1e-10)
    save_encoder(made, tmp_path / "e.zarr", source=str(tmp_path / "x.h5ad"))
    command = fit_command(made.get_params(), load_encoder(tmp_path / "e.zarr").provenance_)
    assert command is not None
    assert "--top-features 4" in command
    assert "--columns" not in command


def test_sparse_pca_puts_the_genes_in_their_places() -> None:
    mask = np.arange(D) % 3 != 1
    adata = ad.AnnData(COUNTS, var=pd.DataFrame({"highly_variable": mask}, index=NAMES))
    sparse_pca(adata, 2, n_nonzero=3, method="batch", recipe=RECIPE, n_top_features=4)
    within = np.flatnonzero(mask)
    best = within[np.sort(np.argsort(-LOGS.var(axis=0)[within])[:4])]
    wanted = batch_encoder(2, n_nonzero=3).fit(LOGS[:, best])
    assert adata.uns["spae"]["loss"] == pytest.approx(wanted.certificate_.loss, rel=1e-10)
    np.testing.assert_allclose(adata.varm["spae"][best], wanted.components_.T, atol=1e-8)
    assert not np.delete(adata.varm["spae"], best, axis=0).any()
    assert adata.uns["spae"]["params"]["n_vars"] == 4
    np.testing.assert_allclose(adata.obsm["X_spae"], wanted.transform(LOGS[:, best]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("missing", ["zero", "mean"])
def test_gaps_are_filled_before_variances_are_taken(missing: str) -> None:
    x = LOGS.copy()
    x[::3, 5] = np.nan
    filled = np.where(np.isnan(x), 0.0 if missing == "zero" else np.nanmean(x, axis=0), x)
    made = batch_encoder(2, n_nonzero=3, n_top_features=TOP, missing=missing).fit(x)
    assert made.top_features_.tolist() == np.sort(np.argsort(-filled.var(axis=0))[:TOP]).tolist()
    with pytest.raises(NonFiniteInput, match=r"\bcolumn\b.* 5\b"):
        batch_encoder(2, n_nonzero=3, n_top_features=TOP).fit(x)


def test_a_checkpoint_holds_the_variances_too(tmp_path: Path) -> None:
    file = stored("zarr", tmp_path)
    encoder = batch_encoder(2, n_nonzero=3, recipe=RECIPE, n_top_features=TOP, checkpoint=tmp_path / "run")
    bits = encoder.fit(file).components_.tobytes()
    folders = sorted(path.name for path in (tmp_path / "run").iterdir() if path.is_dir())
    assert [name[:12] for name in folders] == ["01-sums-of-r", "02-variances", "03-core-" + folders[2][8:12]]
    assert encoder.fit(file).components_.tobytes() == bits
    with pytest.raises(OtherCheckpoint, match="n_top_features"):
        encoder.set_params(n_top_features=5).fit(file)


def test_a_plan_is_about_the_columns_that_will_be_used() -> None:
    told = plan(COUNTS, 2, n_nonzero=3, n_top_features=TOP)
    assert told.shape == (N, TOP)
    assert [each.name for each in told.passes] == ["variances", "core"]
    assert f"uses {TOP} of {D} columns: those that vary most, found before the fit" in told.notes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_top_features": 0}, "n_top_features=0 is not allowed: give a whole number from 1 to 16"),
        ({"n_top_features": 17}, "n_top_features=17 .* from 1 to 16"),
        ({"n_top_features": 2}, "n_nonzero=3 is not allowed: give a whole number from 1 to 2"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        batch_encoder(2, n_nonzero=3, **change).fit(COUNTS)
    with pytest.raises(InvalidInput, match="a read of all rows before"):
        batch_encoder(2, n_nonzero=3, n_top_features=4).partial_fit(COUNTS)
