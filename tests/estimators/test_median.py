"""Rows normalised to the median of their sums: one more read, whose number the encoder keeps."""

import warnings
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
from distributed import Client

from spae_dask import Recipe, evaluate, load_encoder, open_matrix, plan
from spae_dask.errors import InvalidInput, OtherCheckpoint
from spae_dask.estimators.checkpointing import CheckpointAt, fit_part
from spae_dask.estimators.reporting import curve_from_data
from spae_dask.estimators.saved import save_encoder
from spae_dask.passes.checkpoint import ArrayPart
from spae_dask.passes.events import PassStarted
from spae_dask.scanpy import sparse_pca
from tests.estimators.sources import batch_encoder

RECIPE = "normalize_total(median), log1p"


def raw_counts(n: int, d: int = 14, seed: int = 3) -> np.ndarray[Any, Any]:
    """Counts of cells of very different depths; one has none."""
    rng = np.random.default_rng(seed)
    kinds = rng.gamma(0.7, 2.0, size=(3, d))
    counts = rng.poisson(kinds[rng.integers(0, 3, n)] * rng.gamma(2.0, 2.0, size=(n, 1))).astype(np.int32)
    counts[n // 3] = 0
    return counts


def by_scanpy(counts: Any) -> np.ndarray[Any, Any]:
    adata = ad.AnnData(counts.astype(np.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the cell without counts
        sc.pp.normalize_total(adata)
    return np.log1p(np.asarray(adata.X))


COUNTS = raw_counts(240)
ODD = raw_counts(242)  # without the empty row, the median is one of the sums


def stored(kind: str, counts: np.ndarray[Any, Any], folder: Path) -> Any:
    if kind == "zarr":
        zarr.create_array(folder / "x.zarr", data=counts, chunks=(37, 6))
        return str(folder / "x.zarr")
    if kind == "h5ad":
        ad.AnnData(sp.csr_matrix(counts)).write_h5ad(folder / "x.h5ad")
        return str(folder / "x.h5ad")
    if kind == "npy":
        np.save(folder / "x.npy", counts)
        return str(folder / "x.npy")
    return {"numpy": counts, "csr": sp.csr_array(counts), "dask": da.from_array(counts, chunks=(50, 5))}[kind]


@pytest.mark.parametrize("counts", [COUNTS, ODD], ids=["even", "odd"])
@pytest.mark.parametrize("kind", ["numpy", "csr", "zarr", "npy", "dask", "h5ad"])
def test_the_data_are_those_of_scanpy(kind: str, counts: np.ndarray[Any, Any], tmp_path: Path) -> None:
    x, logs = stored(kind, counts, tmp_path), by_scanpy(counts)
    wanted = batch_encoder(2, n_nonzero=4).fit(logs)
    made = batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(x)
    sums = counts.sum(axis=1)
    assert made.target_sum_ == np.median(sums[sums > 0])
    assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)
    assert made.certificate_.passes == wanted.certificate_.passes + 1 == len(made.plan_.passes)
    assert made.certificate_.bytes_read > wanted.certificate_.bytes_read
    codes = (logs - made.mean_) @ made.components_.T
    np.testing.assert_allclose(np.asarray(made.transform(x)), codes, atol=1e-10)
    # other rows have another median, and are normalised to that of the fit
    rest = ad.AnnData(sp.csr_matrix(counts[100:])) if kind == "h5ad" else counts[100:]
    np.testing.assert_allclose(np.asarray(made.transform(rest)), codes[100:], atol=1e-10)
    assert evaluate(x, made).decoder_loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)


@pytest.mark.parametrize("kind", ["memory", "h5ad", "dask"])
def test_sums_are_of_all_genes_under_a_mask_and_of_what_is_known(kind: str, tmp_path: Path) -> None:
    chosen, x = np.arange(14) % 2 == 0, COUNTS.copy()
    x[::9, 2] = -1
    known = np.where(x == -1, 0, x)
    sums = known.sum(axis=1)
    raw = da.from_array(x, chunks=(50, 5)) if kind == "dask" else sp.csr_matrix(x)
    names = [f"g{i}" for i in range(14)]
    adata: Any = ad.AnnData(raw, var=pd.DataFrame({"highly_variable": chosen}, index=names))
    if kind == "h5ad":
        adata.write_h5ad(tmp_path / "x.h5ad")
        adata = str(tmp_path / "x.h5ad")
    made = batch_encoder(2, n_nonzero=3, recipe=RECIPE, missing_value=-1, missing="zero").fit(adata)
    assert made.target_sum_ == np.median(sums[sums > 0])
    wanted = batch_encoder(2, n_nonzero=3).fit(by_scanpy(known)[:, chosen])
    assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)


def test_a_saved_encoder_holds_the_number(tmp_path: Path) -> None:
    made = batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(COUNTS)
    save_encoder(made, tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.recipe == str(Recipe.of(RECIPE).with_target(made.target_sum_))
    assert np.array_equal(loaded.transform(ODD), made.transform(ODD))
    assert np.array_equal(batch_encoder(2, n_nonzero=4, recipe=loaded.recipe).fit(COUNTS).decoder_, made.decoder_)
    curve, _ = curve_from_data(made, open_matrix(COUNTS[:100]))
    assert curve.points
    assert made.recipe == RECIPE
    logs = by_scanpy(COUNTS)
    codes = made.transform(COUNTS)
    np.testing.assert_allclose(made.set_params(recipe=None).transform(logs), codes, atol=1e-10)


def test_a_fit_without_it_keeps_no_target() -> None:
    made = batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(COUNTS).set_params(recipe="sqrt").fit(COUNTS)
    assert not hasattr(made, "target_sum_")
    with pytest.raises(InvalidInput, match=r"target of recipe='normalize_total\(median\), log1p' is not known"):
        made.set_params(recipe=RECIPE).transform(COUNTS)


@pytest.mark.parametrize("target", ["median", "'median'", ' "median" '])
def test_quotes_are_allowed(target: str) -> None:
    assert str(Recipe.of(f"normalize_total({target})")) == "normalize_total(median)"
    assert Recipe.of(f"normalize_total({target})").lacks_target


@pytest.mark.parametrize("given", ["clip(median)", "normalize_total(mean)", "arcsinh('median')"])
def test_no_other_number_is_found(given: str) -> None:
    with pytest.raises(InvalidInput, match="a positive number"):
        Recipe.of(given)


def test_rows_without_counts_have_no_median_and_batches_are_not_read_before() -> None:
    with pytest.raises(InvalidInput, match="all rows of the array sum to 0"):
        batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(np.zeros((9, 5)))
    with pytest.raises(InvalidInput, match=r"fit finds it in a read of all rows.*give the number"):
        batch_encoder(2, n_nonzero=4, recipe=RECIPE).partial_fit(COUNTS)
    stream = batch_encoder(2, n_nonzero=4, recipe=RECIPE, strategy="stream").fit(COUNTS).partial_fit(ODD)
    target = stream.target_sum_
    by_number = batch_encoder(2, n_nonzero=4, recipe=f"normalize_total({target}), log1p", strategy="stream")
    assert np.array_equal(stream.components_, by_number.fit(COUNTS).partial_fit(ODD).components_)


def test_negative_numbers_are_refused_where_they_are() -> None:
    bad = COUNTS.copy()
    bad[17, 4] = -2
    with pytest.raises(InvalidInput, match="row 17, column 4 "):
        batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(bad)


def test_the_plan_tells_of_the_read_and_measures_it(tmp_path: Path) -> None:
    file = stored("zarr", COUNTS, tmp_path)
    for calibrate in (False, True):
        told = plan(file, 2, n_nonzero=4, recipe=RECIPE, calibrate=calibrate)
        usual = plan(file, 2, n_nonzero=4, recipe="normalize_total(100), log1p", calibrate=calibrate)
        assert [each.name for each in told.passes] == ["sums of rows", *(each.name for each in usual.passes)]
        assert "passes    2 (sums of rows, core)" in str(told)
        assert "a read before it finds the median of the sums of rows" in str(told)
        assert [p.n_passes for p in told.alternatives] == [p.n_passes and p.n_passes + 1 for p in usual.alternatives]


def test_a_checkpoint_holds_the_sums_too(tmp_path: Path) -> None:
    file = stored("zarr", COUNTS, tmp_path)
    begun: list[str] = []

    def watch(event: Any) -> None:
        if isinstance(event, PassStarted):
            begun.append(event.name)

    encoder = batch_encoder(2, n_nonzero=4, recipe=RECIPE, checkpoint=tmp_path / "run", progress=watch)
    bits = encoder.fit(file).components_.tobytes()
    assert begun == ["sums of rows", "core"]
    folders = sorted(path.name[:16] for path in (tmp_path / "run").iterdir() if path.is_dir())
    assert folders[0].startswith("01-sums-of-rows")
    assert encoder.fit(file).components_.tobytes() == bits
    with pytest.raises(OtherCheckpoint, match="recipe"):
        encoder.set_params(recipe="normalize_total(100), log1p").fit(file)


def test_parts_of_an_array_job_share_the_read_of_the_sums(tmp_path: Path) -> None:
    file = stored("zarr", np.vstack([COUNTS] * 3), tmp_path)
    wanted = batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(file)
    done = []
    for _ in range(3):
        for number in (1, 2):
            part = ArrayPart(number, 2)
            encoder = batch_encoder(2, n_nonzero=4, recipe=RECIPE, checkpoint=CheckpointAt(tmp_path / "run", part))
            done.append(fit_part(encoder, file, part).missing)
    assert done[-1] == ()
    made = batch_encoder(2, n_nonzero=4, recipe=RECIPE, checkpoint=tmp_path / "run").fit(file)
    assert made.target_sum_ == wanted.target_sum_
    assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-12)


def test_a_cluster_finds_the_same(tmp_path: Path) -> None:
    wanted = batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(COUNTS)
    file, lazy = stored("zarr", COUNTS, tmp_path), stored("dask", COUNTS, tmp_path)
    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"):
        for x in (file, lazy):
            made = batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(x)
            assert made.target_sum_ == wanted.target_sum_
            assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)


def test_sparse_pca_takes_it() -> None:
    adata = ad.AnnData(sp.csr_matrix(COUNTS.astype(np.float32)))
    sparse_pca(adata, 2, n_nonzero=4, method="batch", recipe=RECIPE)
    wanted = batch_encoder(2, n_nonzero=4).fit(by_scanpy(COUNTS))
    assert adata.uns["spae"]["loss"] == pytest.approx(wanted.certificate_.loss, rel=1e-5)
    assert adata.uns["spae"]["params"]["recipe"].startswith("normalize_total(")
    assert "median" not in adata.uns["spae"]["params"]["recipe"]
