"""Sparse PCA in AnnData objects: scanpy's conventions, scanpy's own PCA as the measure, whatever holds the matrix."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anndata
import dask.array as da
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import scanpy
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask import SparseEncoder
from spae_dask.errors import InvalidInput, NotFound, OutputExists, SpaeWarning
from spae_dask.scanpy import sparse_pca

mpl.use("agg")

pytestmark = pytest.mark.usefixtures("few_points")

KEYS = {"obsm": "X_spae", "varm": "spae", "uns": "spae", "var": "spae_selected"}


def cells() -> anndata.AnnData:
    """The 700 cells of peripheral blood that come with scanpy, their log counts as a sparse layer."""
    made = scanpy.datasets.pbmc68k_reduced()
    made.layers["logs"] = sp.csr_matrix(made.raw.X)
    del made.raw
    del made.uns["rank_genes_groups"]  # zarr warns of its records
    return made


PBMC = cells()
MASK = PBMC.var["highly_variable"].to_numpy()


def small(X: Any = None) -> anndata.AnnData:
    """Forty cells of twelve genes."""
    x = np.random.default_rng(0).poisson(2.0, (40, 12)).astype("float32")
    names = pd.DataFrame(index=[f"g{column}" for column in range(12)])
    return anndata.AnnData(x if X is None else X, var=names)


def loss_of(x: np.ndarray, H: np.ndarray) -> float:
    """The least loss of a decoder, by least squares."""
    centered = x.astype(float) - x.astype(float).mean(axis=0)
    codes = centered @ H
    return float(((centered - codes @ np.linalg.lstsq(codes, centered, rcond=None)[0]) ** 2).sum())


@pytest.mark.parametrize("layer", [None, "logs"])
def test_loss_and_pca_loss_are_those_of_scanpys_matrix(layer: str | None) -> None:
    adata = PBMC.copy()
    sparse_pca(adata, 4, n_nonzero=8, layer=layer, method="batch")
    scanpy.pp.pca(adata, 4, layer=layer, svd_solver="arpack")
    x = np.asarray(adata.X if layer is None else adata.layers[layer].toarray())[:, MASK].astype(float)
    pca_loss = ((x - x.mean(axis=0)) ** 2).sum() - adata.uns["pca"]["variance"].sum() * (len(x) - 1)
    told = adata.uns["spae"]

    np.testing.assert_allclose(told["pca_loss"], pca_loss, rtol=1e-4)
    np.testing.assert_allclose(told["loss"], loss_of(x, adata.varm["spae"][MASK]), rtol=1e-9)
    assert 1 <= told["ratio"] < 1.05
    assert told["ratio"] == pytest.approx(told["loss"] / told["pca_loss"])
    assert told["variance"].sum() < adata.uns["pca"]["variance"].sum()
    np.testing.assert_allclose(told["variance_ratio"].sum(), 1 - told["loss"] / told["total"], rtol=1e-9)


def test_results_are_where_scanpy_has_its_own(tmp_path: Path) -> None:
    adata = PBMC.copy()
    assert sparse_pca(adata, 3, n_nonzero=5, effort=0) is None
    encoder = adata.varm["spae"]

    assert adata.obsm["X_spae"].shape == (700, 3)
    assert adata.obsm["X_spae"].dtype == np.float32
    assert encoder.shape == (765, 3)
    assert not encoder[~MASK].any()
    assert (encoder != 0).sum(axis=0).tolist() == adata.uns["spae"]["n_nonzero"].tolist() == [5, 5, 5]
    np.testing.assert_array_equal((encoder != 0).any(axis=1), adata.var["spae_selected"])
    x = adata.X.astype(float)
    np.testing.assert_allclose(adata.obsm["X_spae"], (x - x.mean(axis=0)) @ encoder, atol=1e-5)
    assert adata.uns["spae"]["params"]["mask_var"] == "highly_variable"
    assert adata.uns["spae"]["curve"]["n_nonzero"][0] == 1


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
@pytest.mark.filterwarnings("ignore:Writing zarr v2 data:UserWarning")  # anndata's, of its own default
def test_results_are_written_and_read_again(tmp_path: Path, kind: str) -> None:
    adata = small()
    adata.layers["logs"] = sp.csr_matrix(np.log1p(adata.X))
    sparse_pca(adata, 3, n_nonzero=[4, 5, 6], layer="logs", effort=0)
    if kind == "h5ad":
        adata.write_h5ad(tmp_path / "a.h5ad")
        again = anndata.read_h5ad(tmp_path / "a.h5ad")
    else:
        adata.write_zarr(tmp_path / "a.zarr")
        again = anndata.read_zarr(tmp_path / "a.zarr")

    np.testing.assert_array_equal(again.obsm["X_spae"], adata.obsm["X_spae"])
    np.testing.assert_array_equal(again.varm["spae"], adata.varm["spae"])
    assert set(again.uns["spae"]) == set(adata.uns["spae"])
    assert again.uns["spae"]["loss"] == adata.uns["spae"]["loss"]
    assert list(again.uns["spae"]["params"]["n_nonzero"]) == [4, 5, 6]
    assert again.uns["spae"]["params"]["layer"] == "logs"


def test_the_number_of_components_has_both_names_and_one_value() -> None:
    one, other = PBMC.copy(), PBMC.copy()
    sparse_pca(one, n_comps=3, n_nonzero=4, method="batch")
    sparse_pca(other, n_components=3, n_nonzero=4, method="batch")
    np.testing.assert_array_equal(one.varm["spae"], other.varm["spae"])
    assert one.uns["spae"]["params"]["n_vars"] == PBMC.var["highly_variable"].sum()
    with pytest.raises(InvalidInput, match="n_comps=3 and n_components=3 are two names"):
        sparse_pca(PBMC.copy(), 3, n_components=3, n_nonzero=4)


@pytest.mark.filterwarnings("ignore:The set_bad function:PendingDeprecationWarning")  # scanpy's call of matplotlib
def test_neighbors_and_pictures_take_the_codes() -> None:
    adata = PBMC.copy()
    sparse_pca(adata, 5, n_nonzero=6, method="batch")
    scanpy.pp.neighbors(adata, use_rep="X_spae", method="gauss")  # the default compiles for seconds
    assert adata.uns["neighbors"]["params"]["use_rep"] == "X_spae"
    axes = scanpy.pl.embedding(adata, "X_spae", color="bulk_labels", show=False)
    np.testing.assert_allclose(np.sort(axes.collections[0].get_offsets()[:, 0]), np.sort(adata.obsm["X_spae"][:, 0]))


def backed(adata: anndata.AnnData, folder: Path) -> anndata.AnnData:
    adata.write_h5ad(folder / "a.h5ad")
    return anndata.read_h5ad(folder / "a.h5ad", backed="r")


def lazy(adata: anndata.AnnData, folder: Path) -> anndata.AnnData:
    adata.write_zarr(folder / "a.zarr")
    return anndata.experimental.read_lazy(folder / "a.zarr")


def in_dask(adata: anndata.AnnData, folder: Path) -> anndata.AnnData:
    adata.X = da.from_array(adata.X, chunks=(150, 400)) if isinstance(adata.X, np.ndarray) else rows_in_dask(adata.X)
    return adata


def rows_in_dask(X: Any) -> da.Array:
    rows = da.from_array(np.arange(X.shape[0]), chunks=150)
    return rows.map_blocks(lambda i: X[i], chunks=(rows.chunks[0], X.shape[1:]), new_axis=1, meta=X[:0], dtype=X.dtype)


HOLDERS: dict[str, Callable[[anndata.AnnData, Path], anndata.AnnData]] = {
    "backed": backed,
    "lazy": lazy,
    "dask": in_dask,
    "a view": lambda adata, _: adata[np.arange(700)],
}


@pytest.mark.parametrize("matrix", ["dense", "csr"])
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.filterwarnings(
    "ignore:Writing zarr v2 data:UserWarning",  # these are anndata's
    "ignore:Setting element:anndata.ImplicitModificationWarning",  # of views, as for any result
)
def test_the_same_genes_and_codes_whatever_holds_the_matrix(matrix: str, holder: str, tmp_path: Path) -> None:
    known = PBMC.copy()
    known.X = known.layers["logs"].toarray()
    sparse_pca(known, 2, n_nonzero=4, method="batch")
    given = PBMC.copy()
    given.X = given.layers["logs"].toarray() if matrix == "dense" else given.layers["logs"]
    del given.layers["logs"]
    given = HOLDERS[holder](given, tmp_path)
    sparse_pca(given, 2, n_nonzero=4, method="batch")

    assert isinstance(given.obsm["X_spae"], da.Array) is (holder in ("lazy", "dask"))
    np.testing.assert_array_equal(np.asarray(given.var["spae_selected"]), known.var["spae_selected"])
    np.testing.assert_allclose(np.asarray(given.varm["spae"]), known.varm["spae"], atol=1e-5)
    np.testing.assert_allclose(np.asarray(given.obsm["X_spae"]), known.obsm["X_spae"], atol=1e-4)
    assert given.uns["spae"]["passes"] == 1


def test_csc_in_memory_and_on_disk_is_read_by_rows(tmp_path: Path) -> None:
    dense = small()
    sparse_pca(dense, 2, n_nonzero=3, method="batch")
    by_columns = small(sp.csc_matrix(dense.X))
    sparse_pca(by_columns, 2, n_nonzero=3, method="batch")
    np.testing.assert_allclose(by_columns.varm["spae"], dense.varm["spae"], atol=1e-9)
    on_disk = backed(small(sp.csc_matrix(dense.X)), tmp_path)
    sparse_pca(on_disk, 2, n_nonzero=3, method="batch")
    np.testing.assert_allclose(on_disk.varm["spae"], dense.varm["spae"], atol=1e-9)


def test_a_lazy_matrix_is_read_once_by_the_fit_and_once_by_the_codes() -> None:
    x, reads = small().X, []

    def noted(block: np.ndarray) -> np.ndarray:
        if block.size:
            reads.append(len(block))
        return block

    adata = small(da.from_array(x, chunks=(10, -1)).map_blocks(noted, meta=x[:0], dtype=x.dtype))
    sparse_pca(adata, 2, n_nonzero=3, method="batch")
    assert reads == [10] * 4
    adata.obsm["X_spae"].compute()
    assert reads == [10] * 8


@settings(max_examples=10)
@given(st.lists(st.booleans(), min_size=12, max_size=12).filter(any), st.sampled_from(["array", "column", "nullable"]))
def test_a_mask_does_what_the_genes_alone_would(mask: list[bool], how: str) -> None:
    chosen = np.array(mask)
    k = min(2, chosen.sum())
    adata, alone = small(), small()[:, chosen].copy()
    if how != "array":
        adata.var["mine"] = pd.array(mask, dtype="boolean") if how == "nullable" else mask
    sparse_pca(adata, k, n_nonzero=1, effort=0, mask_var=chosen if how == "array" else "mine")
    sparse_pca(alone, k, n_nonzero=1, effort=0)

    np.testing.assert_array_equal(adata.varm["spae"][chosen], alone.varm["spae"])
    assert not adata.varm["spae"][~chosen].any()
    np.testing.assert_array_equal(adata.obsm["X_spae"], alone.obsm["X_spae"])
    assert adata.uns["spae"]["loss"] == alone.uns["spae"]["loss"]


def test_no_mask_takes_all_genes_and_the_default_the_highly_variable_ones() -> None:
    adata = small()
    adata.var["highly_variable"] = [True] * 4 + [False] * 8
    sparse_pca(adata, 2, n_nonzero=4, method="batch")
    assert not adata.var["spae_selected"][4:].any()
    sparse_pca(adata, 2, n_nonzero=12, method="batch", mask_var=None, overwrite=True)
    assert adata.var["spae_selected"].all()


@pytest.mark.parametrize(("old", "mask_var"), [(True, "highly_variable"), (False, None)])
def test_arguments_of_scanpys_pca_are_taken_with_a_warning(old: bool, mask_var: str | None) -> None:
    adata, other = small(), small()
    for each in (adata, other):
        each.var["highly_variable"] = np.arange(12) < 6
    taken = {"svd_solver": "arpack", "chunked": True, "chunk_size": 10}
    with pytest.warns(SpaeWarning) as warned:
        sparse_pca(adata, 2, n_nonzero=3, method="batch", use_highly_variable=old, **taken)
    messages = [str(each.message) for each in warned]
    assert len(messages) == 2, messages
    assert "svd_solver='arpack',chunked=True,chunk_size=10" in messages[0]
    assert f"mask_var={mask_var!r}" in messages[1]
    sparse_pca(other, 2, n_nonzero=3, method="batch", mask_var=mask_var)
    np.testing.assert_array_equal(adata.varm["spae"], other.varm["spae"])
    with pytest.raises(InvalidInput, match="both choose the genes"):
        sparse_pca(small(), 2, n_nonzero=3, mask_var=None, use_highly_variable=old)


def test_a_gene_outside_the_mask_may_hold_anything() -> None:
    adata = small()
    adata.X[:, 5] = np.nan
    sparse_pca(adata, 2, n_nonzero=3, method="batch", mask_var=np.arange(12) != 5)
    assert np.isfinite(adata.obsm["X_spae"]).all()


def test_a_copy_leaves_the_original_as_it_is() -> None:
    adata = small()
    made = sparse_pca(adata, 2, n_nonzero=3, method="batch", copy=True)
    assert not any(key in getattr(adata, slot) for slot, key in KEYS.items())
    assert all(key in getattr(made, slot) for slot, key in KEYS.items())


def test_other_names_stand_beside_and_old_results_are_not_lost() -> None:
    adata = small()
    sparse_pca(adata, 2, n_nonzero=3, method="batch")
    old = adata.obsm["X_spae"].copy()
    with pytest.raises(OutputExists, match=r"adata\.obsm\['X_spae'\].*overwrite=True"):
        sparse_pca(adata, 1, n_nonzero=1, method="batch")
    np.testing.assert_array_equal(adata.obsm["X_spae"], old)
    sparse_pca(adata, 1, n_nonzero=1, method="batch", key_added="other")
    assert (adata.obsm["other"].shape, adata.varm["other"].shape) == ((40, 1), (12, 1))
    assert adata.var["other_selected"].sum() == adata.uns["other"]["combined_nonzero"] == 1
    sparse_pca(adata, 1, n_nonzero=1, method="batch", overwrite=True)
    assert adata.obsm["X_spae"].shape == (40, 1)


def test_centering_scaling_and_types_are_those_asked_for() -> None:
    adata = small()
    x = adata.X.astype(float)
    sparse_pca(adata, 2, n_nonzero=3, method="batch", zero_center=False, dtype="float64")
    np.testing.assert_allclose(adata.obsm["X_spae"], x @ adata.varm["spae"], rtol=1e-12)
    assert adata.obsm["X_spae"].dtype == np.float64
    sparse_pca(adata, 2, n_nonzero=3, method="batch", scale=True, dtype="float64", overwrite=True)
    scaled = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    np.testing.assert_allclose(adata.obsm["X_spae"], scaled @ adata.varm["spae"], atol=1e-10)
    np.testing.assert_allclose(adata.uns["spae"]["total"], 12 * 39, rtol=1e-12)


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no such column": ({"mask_var": "nix"}, InvalidInput, r"no mask 'var/nix'; its columns of var are var/means"),
    "a column of numbers": ({"mask_var": "means"}, InvalidInput, r"float64 of shape \(12,\).*12 columns"),
    "a short mask": ({"mask_var": np.ones(3, bool)}, InvalidInput, r"shape \(3,\)"),
    "a mask of nothing": ({"mask_var": np.zeros(12, bool)}, InvalidInput, r"chooses no column"),
    "a mask of numbers": ({"mask_var": np.arange(12)}, InvalidInput, r"int64 of shape"),
    "no such layer": ({"layer": "nix"}, NotFound, r"no matrix 'layers/nix'; it has X"),
    "an integer type": ({"dtype": "int8"}, InvalidInput, r"'float32' or 'float64'"),
    "no type": ({"dtype": "zz"}, InvalidInput, r"dtype='zz'"),
    "an empty name": ({"key_added": ""}, InvalidInput, r"key_added=''"),
    "a path for a name": ({"key_added": "a/b"}, InvalidInput, r"without slashes"),
    "too many components": ({"n_comps": 13}, InvalidInput, r"from 1 to 12"),
    "no nonzeros": ({"n_nonzero": 0}, InvalidInput, r"n_nonzero=0"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_be_is_refused_and_leaves_no_trace(kind: str) -> None:
    options, error, message = WRONG[kind]
    adata = small()
    adata.var["means"] = np.zeros(12)
    with pytest.raises(error, match=message):
        sparse_pca(adata, **({"n_comps": 2} | options))
    assert not adata.obsm
    assert not adata.varm
    assert not adata.uns
    assert list(adata.var) == ["means"]


def test_other_matrices_are_sent_to_the_estimator() -> None:
    for given_matrix in (np.ones((3, 3)), sp.csr_matrix(np.ones((3, 3))), "cells.h5ad", None):
        with pytest.raises(InvalidInput, match=r"For other matrices use SparseEncoder.*fit_transform"):
            sparse_pca(given_matrix)


def test_what_cannot_be_written_to_is_refused_before_it_is_read(tmp_path: Path) -> None:
    adata = backed(small(), tmp_path)
    with pytest.raises(InvalidInput, match=r"copy=True needs X in memory.*to_memory"):
        sparse_pca(adata, 2, copy=True)
    with pytest.raises(InvalidInput, match=r"a view of a backed object cannot hold results.*mask_var"):
        sparse_pca(adata[:, :5], 2)


def test_the_documentation_shows_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    # scanpy's default compiles for seconds
    monkeypatch.setattr(scanpy.pp, "neighbors", partial(scanpy.pp.neighbors, method="gauss"))
    page = (Path(__file__).parents[2] / "docs" / "data" / "anndata.md").read_text(encoding="utf-8")
    example, from_counts, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"counts": raw_cells()}
    exec(compile(example, "anndata.md", "exec"), names)
    exec(compile(from_counts, "anndata.md", "exec"), names)
    assert names["counts"].uns["spae"]["params"]["recipe"] == "normalize_total(10000), log1p"
    assert names["adata"].var["spae_selected"].sum() == 40
    assert round(names["adata"].uns["spae"]["ratio"], 3) == 1.015
    assert names["adata"].uns["neighbors"]["params"]["use_rep"] == "X_spae"
    assert "the 40 genes" in example
    assert "# 1.015" in example


def raw_cells() -> anndata.AnnData:
    """Raw counts of 300 cells of three kinds, 40 genes, some of them marked."""
    rng = np.random.default_rng(1)
    kinds = rng.gamma(0.5, 2.0, size=(3, 40))
    x = rng.poisson(kinds[rng.integers(0, 3, 300)] * rng.gamma(2.0, 2.0, size=(300, 1)))
    var = pd.DataFrame({"highly_variable": np.arange(40) % 3 == 0}, index=[f"g{column}" for column in range(40)])
    return anndata.AnnData(sp.csr_matrix(x.astype("float64")), var=var)


@pytest.mark.parametrize("kind", ["memory", "backed", "dask"])
@pytest.mark.filterwarnings("ignore:Some cells have zero counts:UserWarning")  # scanpy's; they stay zero here as there
def test_raw_counts_with_a_recipe_are_what_scanpy_makes_of_them(kind: str, tmp_path: Path) -> None:
    made = raw_cells()
    scanpy.pp.normalize_total(made, target_sum=1e4)
    scanpy.pp.log1p(made)
    sparse_pca(made, 3, n_nonzero=5, method="batch")
    raw = raw_cells()
    if kind == "dask":
        raw.X = da.from_array(raw.X.toarray(), chunks=(90, 17)).map_blocks(sp.csr_matrix)
    if kind == "backed":
        raw.write_h5ad(tmp_path / "x.h5ad")
        raw = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
    sparse_pca(raw, 3, n_nonzero=5, method="batch", recipe=["normalize_total(1e4)", "log1p"], dtype="float64")
    told = raw.uns["spae"]
    assert told["params"]["recipe"] == "normalize_total(10000), log1p"
    assert told["params"]["n_vars"] == 14
    np.testing.assert_allclose(told["loss"], made.uns["spae"]["loss"], rtol=1e-9)
    logs = made.X.toarray()[:, made.var["highly_variable"]]
    codes = (logs - logs.mean(axis=0)) @ raw.varm["spae"][made.var["highly_variable"]]
    np.testing.assert_allclose(np.asarray(raw.obsm["X_spae"]), codes, atol=1e-9)


@pytest.mark.parametrize("kind", ["memory", "backed", "dask"])
@pytest.mark.parametrize("covariates", ["phase,n_counts", "values"])
def test_covariates_of_obs_are_removed(kind: str, covariates: str, tmp_path: Path) -> None:
    adata = raw_cells()
    phases = np.array(["G1", "S", "G2M"])[np.arange(300) % 3]
    adata.obs["phase"], adata.obs["n_counts"] = pd.Categorical(phases), np.asarray(adata.X.sum(axis=1)).ravel()
    rows = adata.X.toarray()[:, adata.var["highly_variable"]]
    Z = np.column_stack([phases == "G1", phases == "S", phases == "G2M", adata.obs["n_counts"]]).astype(float)
    left = rows - Z @ np.linalg.lstsq(Z, rows, rcond=None)[0]
    given: Any = covariates
    if covariates == "values":
        given = adata.obs[["phase", "n_counts"]].copy()
    if kind == "dask":
        adata.X = da.from_array(adata.X.toarray(), chunks=(90, 17)).map_blocks(sp.csr_matrix)
    if kind == "backed":
        adata.write_h5ad(tmp_path / "x.h5ad")
        adata = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
    sparse_pca(adata, 3, n_nonzero=5, method="batch", covariates=given, dtype="float64")
    H = adata.varm["spae"][adata.var["highly_variable"]]
    np.testing.assert_allclose(np.asarray(adata.obsm["X_spae"]), left @ H, atol=1e-9)
    np.testing.assert_allclose(adata.uns["spae"]["loss"], loss_of(left, H), rtol=1e-9)
    told = adata.uns["spae"]["params"].get("covariates", [])
    assert list(told) == ([] if covariates == "values" else ["phase", "n_counts"])
    adata.to_memory().write_h5ad(tmp_path / "out.h5ad")


def test_folds_say_how_often_a_gene_is_chosen(tmp_path: Path) -> None:
    adata = raw_cells()
    donors = np.array([f"donor {number}" for number in np.arange(300) // 20])
    adata.obs["donor"] = pd.Categorical(donors)
    rows = adata.X.toarray()[:, adata.var["highly_variable"]]
    known = SparseEncoder(3, n_nonzero=5, method="batch", folds=4, fold_groups=donors, bootstraps=5).fit(rows)
    sparse_pca(adata, 3, n_nonzero=5, method="batch", folds=4, fold_groups="donor", bootstraps=5)
    wanted = {"frequency": known.selection_frequency_, "bootstrap_frequency": known.bootstrap_frequency_}
    for name, want in wanted.items():
        frequency = adata.var[f"spae_{name}"].to_numpy()
        np.testing.assert_allclose(frequency[adata.var["highly_variable"]], want)
        assert not frequency[~adata.var["highly_variable"]].any()
    held_out = adata.uns["spae"]["held_out"]
    assert held_out["ratio"] == pytest.approx(known.certificate_.held_out.ratio)
    assert list(adata.uns["spae"]["params"]["fold_groups"]) == ["donor"]
    adata.write_h5ad(tmp_path / "out.h5ad")
    stored = anndata.read_h5ad(tmp_path / "out.h5ad")
    np.testing.assert_allclose(stored.uns["spae"]["held_out"]["losses"], held_out["losses"])
    band = stored.uns["spae"]["held_out"]["bootstraps"]["band"]
    np.testing.assert_allclose(band, known.certificate_.held_out.bootstraps.band)
    with pytest.raises(OutputExists, match="spae_frequency"):
        sparse_pca(adata, 3, n_nonzero=5, method="batch", folds=4)
    sparse_pca(adata, "cv", n_nonzero=5, method="batch", folds=4, overwrite=True)
    assert adata.varm["spae"].shape[1] == adata.obsm["X_spae"].shape[1] > 0
