"""Genes of scanpy's flavour seurat_v3 with batches, found out of core by two reads of raw counts."""

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
from spae_dask.errors import InvalidInput, NonFiniteInput, NotFound
from spae_dask.estimators.saved import save_encoder
from spae_dask.estimators.top_features import in_batches
from spae_dask.passes.accumulators import Moments
from spae_dask.scanpy import sparse_pca
from tests.estimators.sources import batch_encoder, gapped

N, D, TOP = 210, 150, 25
NAMES = [f"g{column}" for column in range(D)]
RECIPE = "normalize_total(1e4), log1p"
LABS = np.array(["b", "a", "c"])[np.random.default_rng(5).integers(0, 3, N)]


def counts() -> np.ndarray[Any, Any]:
    """Negative binomial counts, whose genes vary otherwise in each batch; batch b lacks every fourth gene.

    Genes that a batch has differ in their means there. Among equal means the loess of scikit-misc follows the last bit.
    """
    rng = np.random.default_rng(1)
    size, mean = rng.uniform(0.4, 3.0, (3, D)), rng.gamma(0.7, 800.0, (3, D)) + 40
    lab = np.searchsorted(["a", "b", "c"], LABS)
    made = rng.negative_binomial(size[lab], (size / (size + mean))[lab]).astype(np.float64)
    made[np.ix_(LABS == "b", np.arange(0, D, 4))] = 0
    made[7, 3], made[50, 80] = 360_000, 800_000
    return made


COUNTS = counts()


def by_scanpy(x: np.ndarray[Any, Any], top: int = TOP) -> list[int]:
    """Genes of the same flavour and batches."""
    adata = ad.AnnData(sp.csr_matrix(x), obs=pd.DataFrame({"lab": LABS}, index=[f"c{row}" for row in range(N)]))
    sc.pp.highly_variable_genes(adata, flavor="seurat_v3", n_top_genes=top, batch_key="lab")
    return np.flatnonzero(adata.var["highly_variable"]).tolist()


WANTED = by_scanpy(COUNTS)


def encoder(**options: Any) -> SparseEncoder:
    given = {"n_nonzero": 3, "n_top_features": TOP, "top_features_flavor": "seurat_v3", "recipe": RECIPE}
    return batch_encoder(2, **given | {"top_features_batch": LABS} | options)


def stored(kind: str, folder: Path) -> Any:
    if kind == "zarr":
        zarr.create_array(folder / "x.zarr", data=COUNTS.astype(np.int32), chunks=(37, 60))
        return str(folder / "x.zarr")
    if kind == "tall chunks":
        zarr.create_array(folder / "x.zarr", data=COUNTS.astype(np.float32), chunks=(N, 20))
        return str(folder / "x.zarr")
    obs = pd.DataFrame({"lab": pd.Categorical(LABS)}, index=[f"c{row}" for row in range(N)])
    named = ad.AnnData(sp.csr_matrix(COUNTS), obs=obs, var=pd.DataFrame(index=NAMES))
    if kind == "h5ad":
        named.write_h5ad(folder / "x.h5ad")
        return str(folder / "x.h5ad")
    arrays = {"numpy": COUNTS, "csr": sp.csr_array(COUNTS), "dask": da.from_array(COUNTS, chunks=(50, 40))}
    frame = pd.DataFrame(COUNTS, columns=NAMES).assign(lab=LABS)
    return (arrays | {"object": named, "frame": frame})[kind]


def test_no_means_of_a_batch_are_equal() -> None:
    for lab in set(LABS):
        sums = COUNTS[lab == LABS].sum(axis=0)
        assert len(set(sums[sums > 0])) == np.count_nonzero(sums)


def test_batches_matter() -> None:
    assert encoder(top_features_batch=None).fit(COUNTS).top_features_.tolist() != WANTED
    assert encoder(top_features_batch=np.sort(LABS)).fit(COUNTS).top_features_.tolist() != WANTED


@pytest.mark.parametrize("kind", ["numpy", "csr", "zarr", "tall chunks", "dask", "h5ad", "object", "frame"])
def test_they_are_scanpys_whatever_holds_the_counts(kind: str, tmp_path: Path) -> None:
    labs = "lab" if kind in ("h5ad", "object", "frame") else LABS
    made = encoder(top_features_batch=labs).fit(stored(kind, tmp_path))
    assert made.top_features_.tolist() == WANTED
    assert [each.name for each in made.plan_.passes] == ["variances of counts", "standardized variances", "core"]
    assert made.certificate_.passes == 3


@pytest.mark.parametrize("top", [5, 60, 100])
def test_they_are_scanpys_however_many(top: int) -> None:
    """Of genes that a batch lacks, scanpy leaves the order open, so they are beyond the last place."""
    assert encoder(n_top_features=top, n_nonzero=2).fit(COUNTS).top_features_.tolist() == by_scanpy(COUNTS, top)


@pytest.mark.parametrize("rows", [1, 64])
def test_they_do_not_depend_on_how_rows_are_cut(rows: int) -> None:
    assert encoder().fit(da.from_array(COUNTS, chunks=(rows, -1))).top_features_.tolist() == WANTED


def test_one_batch_is_none() -> None:
    alone = encoder(top_features_batch=None).fit(COUNTS).top_features_
    assert encoder(top_features_batch=np.full(N, "one")).fit(COUNTS).top_features_.tolist() == alone.tolist()


def test_columns_come_by_median_rank_then_by_number_of_batches_then_by_place() -> None:
    # ranks of the columns in three batches: a column of the first two of a batch counts there
    ranks = np.array([[1, 0, 2, 3, 4], [0, 2, 1, 3, 4], [3, 2, 1, 0, 4]])
    order = np.argsort(-in_batches(-ranks.astype(float), 2), kind="stable")
    # medians: 0.5 of two, 0 of one, 1 of two, 0 of one, none
    assert order.tolist() == [1, 3, 0, 2, 4]


@pytest.mark.filterwarnings("ignore:.*flavor='seurat_v3'. expects raw count data:UserWarning")
@pytest.mark.parametrize("missing", ["zero", "mean"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_gaps_are_filled_as_the_fit_fills_them(kind: Any, missing: str) -> None:
    x, filled = gapped(COUNTS, missing)
    assert encoder(missing=missing).fit(kind(x)).top_features_.tolist() == by_scanpy(filled)
    with pytest.raises(NonFiniteInput, match=r"\bcolumn\b.* 0; .* at row 0, column 0"):
        encoder().fit(kind(x))


def test_a_plan_prices_a_state_for_each_batch() -> None:
    asked = {"n_nonzero": 3, "n_top_features": TOP, "top_features_flavor": "seurat_v3", "calibrate": False}
    one, three = (plan(COUNTS, 2, top_features_batch=each, **asked) for each in (None, LABS))
    assert [each.name for each in three.passes] == [each.name for each in one.passes]
    assert three.bytes_read == one.bytes_read
    grown = three.passes[0].state_nbytes - one.passes[0].state_nbytes
    assert grown == 2 * Moments(D).state_nbytes
    assert three.passes[1].state_nbytes == 3 * one.passes[1].state_nbytes


def test_the_encoder_keeps_the_name(tmp_path: Path) -> None:
    x = stored("object", tmp_path)
    made = encoder(top_features_batch="lab").fit(x)
    save_encoder(made, tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.top_features_batch == ["lab"]
    np.testing.assert_array_equal(loaded.transform(x), made.transform(x))


def test_scanpys_door_takes_a_column_of_obs(tmp_path: Path) -> None:
    adata = stored("object", tmp_path)
    options = {"n_nonzero": 3, "method": "batch", "recipe": RECIPE, "top_features_flavor": "seurat_v3"}
    sparse_pca(adata, 2, n_top_features=TOP, top_features_batch="lab", **options)
    assert set(np.flatnonzero(adata.varm["spae"].any(axis=1))) <= set(WANTED)
    assert list(adata.uns["spae"]["params"]["top_features_batch"]) == ["lab"]


def test_a_checkpoint_knows_the_batches(tmp_path: Path) -> None:
    file, made = stored("zarr", tmp_path), encoder(checkpoint=tmp_path / "run")
    bits = made.fit(file).components_.tobytes()
    assert made.fit(file).components_.tobytes() == bits
    with pytest.raises(InvalidInput, match="top_features_batch"):
        made.set_params(top_features_batch=np.roll(LABS, 1)).fit(file)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"top_features_flavor": "variance"}, r"top_features_batch names the batches .*'variance' ranks all rows"),
        ({"n_top_features": None}, r"n_top_features, such as 2000"),
        ({"row_weights": np.ones(N)}, r"top_features_batch ranks genes by rows .* Leave out one of the two"),
        ({"top_features_batch": LABS[:-1]}, f"{N - 1} values, but the array has {N} rows"),
        ({"top_features_batch": np.where(np.arange(N) == 4, "x", LABS)}, r"the batch 'x' of .* has 1 row\(s\)"),
        ({"top_features_batch": np.where(np.arange(N) < 2, "x", LABS)}, r"columns of batch 'x', and loess cannot"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], words: str) -> None:
    ones = COUNTS.copy()
    ones[:2] %= 2
    with pytest.raises(InvalidInput, match=words):
        encoder(**change).fit(ones)


def test_a_column_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises((NotFound, InvalidInput), match="leb"):
        encoder(top_features_batch="leb").fit(stored("object", tmp_path))
