"""Genes of scanpy's flavour seurat_v3, found out of core by two reads of raw counts."""

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

from spae_dask import SparseEncoder, load_encoder, plan
from spae_dask.errors import InvalidInput, NonFiniteInput, NotCountsWarning, OtherCheckpoint
from spae_dask.estimators.saved import save_encoder
from spae_dask.scanpy import sparse_pca
from tests.estimators.sources import batch_encoder, gapped

N, D, TOP = 130, 150, 25
NAMES = [f"g{column}" for column in range(D)]
RECIPE = "normalize_total(1e4), log1p"


def counts() -> np.ndarray[Any, Any]:
    """Negative binomial counts: many genes have equal sums, two have one huge outlier each, and one is 0."""
    rng = np.random.default_rng(1)
    size, mean = rng.uniform(0.4, 3.0, size=D), rng.gamma(0.7, 2.0, size=D) + 0.1
    made = rng.negative_binomial(size, size / (size + mean), size=(N, D)).astype(np.float64)
    made[7, 3], made[50, 80], made[:, 11] = 900, 2000, 0
    assert np.unique(made.sum(axis=0)).size < 0.9 * D
    return made


COUNTS = counts()


def by_scanpy(x: np.ndarray[Any, Any], top: int = TOP) -> list[int]:
    """The genes; the last one in and the first one out differ by more than rounding."""
    adata = ad.AnnData(sp.csr_matrix(x))
    sc.pp.highly_variable_genes(adata, flavor="seurat_v3", n_top_genes=top)
    order = np.sort(adata.var["variances_norm"])[::-1]
    assert order[top - 1] > order[top] * (1 + 1e-6)
    return np.flatnonzero(adata.var["highly_variable"]).tolist()


WANTED = by_scanpy(COUNTS)


def encoder(**options: Any) -> SparseEncoder:
    given = {"n_nonzero": 3, "n_top_features": TOP, "top_features_flavor": "seurat_v3", "recipe": RECIPE}
    return batch_encoder(2, **given | options)


def stored(kind: str, folder: Path) -> Any:
    if kind == "zarr":
        zarr.create_array(folder / "x.zarr", data=COUNTS.astype(np.int32), chunks=(37, 60))
        return str(folder / "x.zarr")
    named = ad.AnnData(sp.csr_matrix(COUNTS), var=pd.DataFrame(index=NAMES))
    if kind == "h5ad":
        named.write_h5ad(folder / "x.h5ad")
        return str(folder / "x.h5ad")
    arrays = {"numpy": COUNTS, "csr": sp.csr_array(COUNTS), "dask": da.from_array(COUNTS, chunks=(50, 40))}
    return (arrays | {"object": named})[kind]


@pytest.mark.parametrize("recipe", [RECIPE, "normalize_total(median), log1p", None])
@pytest.mark.parametrize("kind", ["numpy", "csr", "zarr", "dask", "h5ad", "object"])
def test_they_are_scanpys_whatever_holds_the_counts_and_whatever_the_recipe_makes_of_them(
    kind: str, recipe: str | None, tmp_path: Path
) -> None:
    made = encoder(recipe=recipe).fit(stored(kind, tmp_path))
    assert made.top_features_.tolist() == WANTED
    own = ["variances of counts", "standardized variances"]
    assert [each.name for each in made.plan_.passes] == ["sums of rows"] * ("median" in (recipe or "")) + own + ["core"]
    assert made.certificate_.passes == len(made.plan_.passes)


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_they_do_not_depend_on_how_rows_are_cut(rows: int) -> None:
    assert encoder().fit(da.from_array(COUNTS, chunks=(rows, -1))).top_features_.tolist() == WANTED


def test_another_order_would_find_others() -> None:
    mean, usual = COUNTS.mean(axis=0), batch_encoder(2, n_nonzero=3, n_top_features=TOP).fit(COUNTS).top_features_
    assert usual.tolist() != WANTED, "variances of raw counts"
    assert {3, 80} <= set(np.argsort(-COUNTS.var(axis=0) / (mean + 1e-9))[:TOP].tolist()), "outliers that are clipped"
    assert not {3, 80} <= set(WANTED)


def test_the_fit_is_that_of_these_genes_and_the_encoder_keeps_them(tmp_path: Path) -> None:
    logs = np.log1p(COUNTS / COUNTS.sum(axis=1, keepdims=True) * 1e4)[:, WANTED]
    x, wanted = stored("csr", tmp_path), batch_encoder(2, n_nonzero=3).fit(logs)
    made = encoder().fit(x)
    assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)
    save_encoder(made, tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.get_params()["top_features_flavor"] == "seurat_v3"
    np.testing.assert_allclose(loaded.transform(x), wanted.transform(logs), atol=1e-8)


def test_genes_are_ranked_within_a_mask_and_scanpys_door_puts_them_in_their_places() -> None:
    mask = np.arange(D) % 4 != 1
    adata = ad.AnnData(sp.csr_matrix(COUNTS), var=pd.DataFrame({"highly_variable": mask}, index=NAMES))
    best = np.flatnonzero(mask)[by_scanpy(COUNTS[:, mask], 20)]
    options = {"n_nonzero": 3, "method": "batch", "recipe": RECIPE, "top_features_flavor": "seurat_v3"}
    sparse_pca(adata, 2, n_top_features=20, **options)
    logs = np.log1p(COUNTS / COUNTS.sum(axis=1, keepdims=True) * 1e4)[:, best]
    wanted = batch_encoder(2, n_nonzero=3).fit(logs)
    np.testing.assert_allclose(adata.varm["spae"][best], wanted.components_.T, atol=1e-8)
    assert not np.delete(adata.varm["spae"], best, axis=0).any()


@pytest.mark.parametrize("kind", ["numpy", "csr"])
def test_a_row_of_weight_two_counts_twice(kind: str, tmp_path: Path) -> None:
    weights = 1 + np.arange(N) % 3
    repeated = by_scanpy(np.repeat(COUNTS, weights, axis=0))
    assert repeated != WANTED, "else the weights decide nothing"
    assert encoder(row_weights=weights).fit(stored(kind, tmp_path)).top_features_.tolist() == repeated


@pytest.mark.filterwarnings("ignore:.*flavor='seurat_v3'. expects raw count data:UserWarning")
@pytest.mark.parametrize("missing", ["zero", "mean"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_gaps_are_filled_before_genes_are_ranked(kind: Any, missing: str) -> None:
    x, filled = gapped(COUNTS, missing)
    assert encoder(missing=missing).fit(kind(x)).top_features_.tolist() == by_scanpy(filled)
    with pytest.raises(NonFiniteInput, match=r"\bcolumn\b.* 0\b"):
        encoder().fit(kind(x))


def test_a_checkpoint_holds_both_reads(tmp_path: Path) -> None:
    file = stored("zarr", tmp_path)
    made = encoder(checkpoint=tmp_path / "run")
    bits = made.fit(file).components_.tobytes()
    names = sorted(path.name.rsplit("-", 1)[0] for path in (tmp_path / "run").iterdir() if path.is_dir())
    assert names == ["01-variances-of-counts", "02-standardized-variances", "03-core"]
    assert made.fit(file).components_.tobytes() == bits
    with pytest.raises(OtherCheckpoint, match="top_features_flavor"):
        made.set_params(top_features_flavor="variance").fit(file)


def test_a_plan_prices_the_reads() -> None:
    asked = {"n_nonzero": 3, "recipe": RECIPE, "n_top_features": TOP, "calibrate": False}
    one, two = (plan(COUNTS, 2, top_features_flavor=each, **asked) for each in ("variance", "seurat_v3"))
    assert [each.name for each in two.passes] == ["variances of counts", "standardized variances", "core"]
    assert two.bytes_read == one.bytes_read + COUNTS.nbytes
    assert all(b.n_passes == a.n_passes + 1 for a, b in zip(one.alternatives, two.alternatives, strict=True))


@pytest.mark.parametrize(
    ("change", "x", "words"),
    [
        ({"n_top_features": None}, COUNTS, r"top_features_flavor='seurat_v3' .* n_top_features, such as 2000"),
        ({"top_features_flavor": "seurat"}, COUNTS, r"top_features_flavor='seurat' .* Did you mean 'seurat_v3'"),
        ({"recipe": None}, COUNTS - 1, r"takes counts, but column 0 of .* holds -1\. .*'variance'"),
        ({"n_top_features": 3}, COUNTS[:, :5], r"the variances of 5 columns, and loess cannot \(.+\)"),
    ],
)
def test_parameters_and_data_that_do_not_fit_are_refused(change: dict[str, Any], x: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        encoder(**change).fit(x)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_numbers_that_are_not_whole_are_warned_of(kind: Any) -> None:
    with pytest.warns(NotCountsWarning, match="holds numbers that are not whole"):
        encoder().fit(kind(COUNTS / 2))


def test_columns_without_variance_alone_have_no_curve() -> None:
    x = np.ones((6, 4))
    x[:, 0] = 0
    with pytest.warns(UserWarning, match="nonzero"):
        made = encoder(recipe=None, n_nonzero=1, n_top_features=2).fit(x)
    assert made.top_features_.tolist() == [0, 1]
