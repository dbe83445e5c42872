"""The pipelines that start from raw files run, and their losses are those of data prepared by other libraries."""

import json
import runpy
import shutil
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scanpy as sc
import xarray as xr

from spae_dask import SparseEncoder, load_encoder
from spae_dask.cli.main import main
from spae_dask.errors import NotFound

pytestmark = pytest.mark.usefixtures("undrawn")

SHIPPED = Path(__file__).parents[2] / "pipelines"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shipped") / "pipelines"
    shutil.copytree(SHIPPED, folder, ignore=shutil.ignore_patterns("results", "made", "__pycache__", "examples"))
    return folder


def ran(folder: Path, name: str) -> tuple[Path, Any, Any]:
    """Folder of the data, the certificate of the fit, and the encoder."""
    runpy.run_path(str(folder / "data" / f"{name}.py"), run_name="__main__")
    assert main(["run", str(folder / f"{name}.toml"), "-q"]) == 0
    results = folder / "results" / name
    found = json.loads((results / "encoder.step.json").read_text())["result"]["certificate"]
    assert (results / "report.html").stat().st_size > 0
    assert json.loads((results / "held-out.json").read_text())["ratio"] < 1.2
    return folder / "data" / "made", found, load_encoder(results / "encoder.zarr")


def assert_losses(found: Any, encoder: Any, rows: Any, k: int) -> None:
    """Losses are those of rows that are about their means."""
    spectrum = np.linalg.svd(rows, compute_uv=False)
    assert found["total"] == pytest.approx(np.sum(spectrum**2), rel=1e-5)
    assert found["pca_loss"] == pytest.approx(np.sum(spectrum[k:] ** 2), rel=1e-5)
    codes = rows @ encoder.components_.T
    left = rows - codes @ np.linalg.lstsq(codes, rows, rcond=None)[0]
    assert found["loss"] == pytest.approx(np.sum(left**2), rel=1e-5)


def test_cells_from_raw_counts(copied: Path) -> None:
    made, found, encoder = ran(copied, "raw_cells")
    cells = anndata.read_h5ad(made / "raw_cells.h5ad")
    assert np.array_equal(cells.X.data, np.rint(cells.X.data)), "counts are raw"
    sc.pp.normalize_total(cells, target_sum=1e4)
    sc.pp.log1p(cells)
    rows = cells.X.toarray().astype(np.float64)
    for donor in ("d1", "d2"):
        rows[cells.obs["donor"] == donor] -= rows[cells.obs["donor"] == donor].mean(axis=0)
    assert_losses(found, encoder, rows, 3)


def test_the_loss_of_pca_is_that_of_scanpy_on_the_same_counts(copied: Path) -> None:
    runpy.run_path(str(copied / "data" / "raw_cells.py"), run_name="__main__")
    file = copied / "data" / "made" / "raw_cells.h5ad"
    for recipe, target in (("normalize_total(1e4), log1p", 1e4), ("normalize_total(median), log1p", None)):
        cells = anndata.read_h5ad(file)
        sc.pp.normalize_total(cells, target_sum=target)
        sc.pp.log1p(cells)
        sc.pp.pca(cells, n_comps=5, svd_solver="full" if not hasattr(cells.X, "nnz") else "arpack")
        n = cells.n_obs
        total = np.var(cells.X.toarray().astype(np.float64), axis=0).sum() * n
        loss = total - cells.uns["pca"]["variance"].sum() * (n - 1)
        found = SparseEncoder(5, n_nonzero=10, method="batch", recipe=recipe).fit(file).certificate_
        assert found.pca_loss == pytest.approx(loss, rel=1e-5)
        assert found.total == pytest.approx(total, rel=1e-5)


def test_genotypes_from_files_of_plink(copied: Path) -> None:
    made, found, encoder = ran(copied, "raw_genotypes")
    script = runpy.run_path(str(copied / "data" / "raw_genotypes.py"))
    calls = script["simulate"]()
    calls = calls[np.arange(len(calls)) % 5 != 0].astype(float)
    assert (made / "cohort.bed").stat().st_size == 3 + calls.shape[1] * -(-len(calls) // 4)
    calls[calls == 3] = np.nan
    p = np.nanmean(calls, axis=0) / 2
    rows = np.where(np.isnan(calls), 0.0, (calls - 2 * p) / np.sqrt(p * (1 - p)))
    assert_losses(found, encoder, rows, 2)
    assert all(name.startswith("rs") for name in encoder.feature_names_in_)


def test_anomalies_from_packed_netcdf(copied: Path) -> None:
    made, found, encoder = ran(copied, "raw_climate")
    with xr.open_dataset(made / "t2m.nc", mask_and_scale=False) as stored:
        assert stored["t2m"].dtype == np.int16, "the file is packed"
    with xr.open_dataset(made / "t2m.nc") as decoded:
        t2m = decoded["t2m"].load()
    days = t2m["time"].dt.days_in_month.to_numpy()
    frame = pd.DataFrame(t2m.values.reshape(len(t2m), -1).astype(np.float64))
    months = t2m["time"].dt.month.to_numpy()
    usual = (frame * days[:, None]).groupby(months).sum().div(pd.Series(days).groupby(months).sum(), axis=0)
    areas = np.repeat(np.cos(np.deg2rad(t2m["lat"].to_numpy())), t2m.sizes["lon"])
    rows = np.sqrt(np.outer(days, areas)) * (frame.to_numpy() - usual.loc[months].to_numpy())
    assert_losses(found, encoder, rows, 2)
    assert found["total_weight"] == days.sum()
    assert found["total"] < 0.2 * ((frame - frame.mean()) ** 2).to_numpy().sum() * 30, "the cycle is gone"


def test_names_that_a_netcdf_file_lacks_are_listed(copied: Path) -> None:
    runpy.run_path(str(copied / "data" / "raw_climate.py"), run_name="__main__")
    file = copied / "data" / "made" / "t2m.nc"
    with pytest.raises(NotFound, match=r"t2m\.nc has no coordinate 'tiem\.month'\. It has .*time"):
        SparseEncoder(2, n_nonzero=3, covariates="C(tiem.month)").fit(file)
