"""The pipelines that ship run, go on where they were, and come to results that mean what their first lines say."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from spae_dask import load_encoder
from spae_dask.cli.main import main
from tests.integration.shipped import make_data
from tests.report.page_reader import read_page


@dataclass(frozen=True)
class Ran:
    """A pipeline that has run."""

    toml: Path
    results: Path
    made: Path

    def loss(self, step: str) -> dict[str, Any]:
        """What a fit or an evaluation found out."""
        found: dict[str, Any] = json.loads((self.results / f"{step}.step.json").read_text())["result"]["certificate"]
        return found

    def codes(self, step: str) -> np.ndarray[Any, Any]:
        return np.asarray(zarr.open_array(self.results / f"{step}.zarr", mode="r")[:])

    def features(self) -> list[tuple[str, ...]]:
        """Names of the features of each component."""
        encoder = load_encoder(self.results / "encoder.zarr")
        return [tuple(encoder.feature_names_in_[row != 0]) for row in encoder.components_]


def run(copied: Path, name: str) -> Ran:
    made = make_data(copied, name)
    assert main(["run", str(copied / f"{name}.toml"), "-q"]) == 0
    return Ran(copied / f"{name}.toml", copied / "results" / name, made)


@pytest.fixture(scope="module")
def climate(copied):
    return run(copied, "climate")


@pytest.fixture(scope="module")
def features(copied):
    return run(copied, "features")


@pytest.fixture(scope="module")
def genetics(copied):
    return run(copied, "genetics")


@pytest.fixture(scope="module")
def remote_sensing(copied):
    return run(copied, "remote_sensing")


@pytest.fixture(scope="module")
def single_cell(copied):
    return run(copied, "single_cell")


@pytest.fixture(params=["climate", "features", "genetics", "remote_sensing", "single_cell"])
def ran(request):
    return request.getfixturevalue(request.param)


def test_a_second_run_has_nothing_to_do_but_plan(ran, capsys):
    capsys.readouterr()
    assert main(["run", str(ran.toml), "-q", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert len(steps) >= 7
    assert [each["kind"] for each in steps if each["status"] != "skipped"] == ["plan"]


def test_the_report_shows_the_losses_of_the_path(ran):
    with (ran.results / "path.csv").open(newline="") as file:
        path = list(csv.DictReader(file))
    most = max(int(each["n_components"]) for each in path)
    page = read_page((ran.results / "report.html").read_text(encoding="utf-8"), scripts=1)
    assert page.errors == []
    (table,) = [each for each in page.tables if "times PCA's loss" in each.columns]
    assert list(table.rows) == [each["n_nonzero"] for each in path if int(each["n_components"]) == most]
    assert (ran.results / "path.png").read_bytes().startswith(b"\x89PNG")


def test_few_genes_tell_cell_types_as_well_as_pca_of_all_genes(single_cell):
    cells = anndata.read_zarr(single_cell.made / "cells.zarr")
    assert single_cell.loss("encoder")["ratio"] < 1.01
    assert single_cell.loss("held-out")["ratio"] < 1.02
    nearest, types = KNeighborsClassifier(5), cells.obs["cell_type"].astype(str).to_numpy()
    kept = np.isin(types, [each for each in set(types) if (types == each).sum() >= 10])
    sparse = cross_val_score(nearest, single_cell.codes("codes")[kept], types[kept]).mean()
    dense = cross_val_score(nearest, PCA(5).fit_transform(cells.X.toarray())[kept], types[kept]).mean()
    assert sparse > dense - 0.03 > 0.6


def test_the_panel_has_genes_that_immunologists_know(single_cell):
    panel = {gene for component in single_cell.features() for gene in component}
    assert len(panel) <= 60
    # of B cells, of natural killer cells, of monocytes, of cells that present antigens
    for known in (
        {"CD79A", "CD79B"},
        {"NKG7", "GNLY", "CST7"},
        {"LYZ", "S100A9", "S100A8", "LST1"},
        {"HLA-DRA", "CD74"},
    ):
        assert panel & known, sorted(panel)


def test_three_places_in_the_pacific_measure_el_nino(climate):
    sst = xr.open_dataset(climate.made / "sst.nc", decode_timedelta=False)["sst"]
    sea = sst.notnull().any("time")
    assert 0 < sea.sum() < sea.size
    assert len(load_encoder(climate.results / "encoder.zarr").feature_names_in_) == sea.sum()
    places = [dict(part.split("=") for part in name.split(", ")) for name in climate.features()[0]]
    assert len(places) == 3
    assert all(160 < float(each["lon"]) < 270 for each in places)
    nino = sst.sel(lon=slice(190, 240)).mean(("lat", "lon"))
    assert abs(np.corrcoef(climate.codes("codes")[:, 0], nino)[0, 1]) > 0.95
    assert climate.loss("encoder")["ratio"] < 1.03


def test_bands_chosen_on_dark_squares_do_on_light_ones(remote_sensing):
    fitted, held_out = remote_sensing.loss("encoder"), remote_sensing.loss("held-out")
    assert fitted["ratio"] < 1.03
    assert held_out["ratio"] < fitted["ratio"] + 0.01
    encoder = load_encoder(remote_sensing.results / "encoder.zarr")
    H = encoder.components_.T
    pixels = np.load(remote_sensing.made / "pixels_new.npy") - encoder.mean_  # about the mean of the fit
    left = pixels - (z := pixels @ H) @ np.linalg.lstsq(z, pixels)[0]
    assert held_out["loss"] == pytest.approx((left**2).sum(), rel=1e-6)


def test_populations_are_apart_in_the_codes(genetics):
    fitted, new = (
        xr.open_zarr(genetics.made / f"{name}.zarr")["population"].to_numpy() for name in ("genotypes", "genotypes_new")
    )
    judge = NearestCentroid().fit(genetics.codes("codes"), fitted)
    assert judge.score(genetics.codes("codes_new"), new) > 0.95


def test_missing_calls_count_as_the_mean_of_their_variant(genetics):
    calls = xr.open_zarr(genetics.made / "genotypes.zarr")["call_dosage"].to_numpy().T.astype(float)
    gaps = calls == -1
    assert 0.01 < gaps.mean() < 0.03
    calls[gaps] = np.nan
    filled = np.where(gaps, 0.0, calls - np.nanmean(calls, axis=0))
    s = np.linalg.svd(filled, compute_uv=False)
    found = genetics.loss("encoder")
    assert found["pca_loss"] == pytest.approx((s[3:] ** 2).sum(), rel=1e-5)
    H = load_encoder(genetics.results / "encoder.zarr").components_.T
    left = filled - (z := filled @ H) @ np.linalg.lstsq(z, filled)[0]
    assert found["loss"] == pytest.approx((left**2).sum(), rel=1e-5)
    assert all(name.startswith("rs") for component in genetics.features() for name in component)


def test_the_fewest_features_keep_to_the_error_that_was_stated(features):
    found = features.loss("encoder")
    table = pd.read_parquet(features.made / "features.parquet").drop(columns="diagnosis")
    chosen = features.features()
    assert {name for component in chosen for name in component} <= set(table.columns)
    assert found["total"] == pytest.approx((len(table) - 1) * len(table.columns))  # each has sample variance 1
    assert found["ratio"] <= 1.1
    with (features.results / "path.csv").open(newline="") as file:
        path = {int(each["n_nonzero"]): float(each["ratio"]) for each in csv.DictReader(file)}
    r = max(map(len, chosen))
    assert path[r - 1] > 1.1 >= path[r]
    assert features.loss("held-out")["ratio"] < 1.2
