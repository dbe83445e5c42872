"""An encoder with a recipe is that of the data which the recipe makes, wherever raw rows are given to it."""

import warnings
from pathlib import Path
from typing import Any

import anndata as ad
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr
from sklearn.base import clone

from spae_dask import Recipe, evaluate, load_encoder, open_matrix, plan
from spae_dask.errors import InvalidInput, OtherCheckpoint, TransformedTwiceWarning
from spae_dask.estimators.checking import check
from spae_dask.estimators.reporting import curve_from_data, write_report
from spae_dask.estimators.saved import save_encoder
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.report.reproduce import fit_command, python_lines
from tests.estimators.sources import batch_encoder

RECIPE = "normalize_total(1e4), log1p"


def raw_counts(n: int = 240, d: int = 14) -> np.ndarray[Any, Any]:
    """Counts of three kinds of cells, of very different depths."""
    rng = np.random.default_rng(3)
    kinds = rng.gamma(0.7, 2.0, size=(3, d))
    return rng.poisson(kinds[rng.integers(0, 3, n)] * rng.gamma(2.0, 2.0, size=(n, 1))).astype(np.int32)


COUNTS = raw_counts()
LOGS = np.log1p(COUNTS / np.maximum(COUNTS.sum(axis=1, keepdims=True), 1) * 1e4)


@pytest.fixture(params=["numpy", "csr", "zarr", "dask", "h5ad"])
def raw(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "zarr":
        zarr.create_array(tmp_path / "x.zarr", data=COUNTS, chunks=(37, 6))
        return str(tmp_path / "x.zarr")
    if request.param == "h5ad":
        ad.AnnData(sp.csr_matrix(COUNTS)).write_h5ad(tmp_path / "x.h5ad")
        return str(tmp_path / "x.h5ad")
    return {"numpy": COUNTS, "csr": sp.csr_array(COUNTS), "dask": da.from_array(COUNTS, chunks=(50, 5))}[request.param]


@pytest.mark.parametrize("strategy", ["gram", "tsqr", "sketch"])
def test_the_loss_is_that_of_the_data_made_by_hand(raw: Any, strategy: str) -> None:
    options: dict[str, Any] = {"n_nonzero": 4, "strategy": strategy}
    wanted = batch_encoder(2, **options).fit(LOGS)
    found = batch_encoder(2, recipe=RECIPE, **options).fit(raw)
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    assert found.certificate_.pca_loss == pytest.approx(wanted.certificate_.pca_loss, rel=1e-9)
    assert found.certificate_.passes == wanted.certificate_.passes
    np.testing.assert_allclose(found.mean_, LOGS.mean(axis=0), rtol=1e-12)
    codes = (LOGS - found.mean_) @ found.components_.T
    np.testing.assert_allclose(np.asarray(found.transform(raw)), codes, atol=1e-9)
    assert evaluate(raw, found).loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    assert found.score(raw) == pytest.approx(found.certificate_.explained, rel=1e-9)


def test_codes_of_arrays_are_arrays_and_negative_rows_are_refused() -> None:
    encoder = batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(COUNTS)
    assert isinstance(encoder.transform(COUNTS), np.ndarray)
    assert isinstance(encoder.transform(da.from_array(COUNTS, chunks=(50, 5))), da.Array)
    bad = COUNTS.copy()
    bad[5, 1] = -3
    with pytest.raises(InvalidInput, match="row 5, column 1 "):
        encoder.transform(bad)
    unknown = da.from_array(COUNTS, chunks=(50, 5))[np.arange(240) % 2 == 0]
    unknown = unknown[da.from_array(np.ones(120, dtype=bool), chunks=25)]
    np.testing.assert_allclose(encoder.transform(unknown).compute(), encoder.transform(COUNTS[::2]), atol=1e-12)


def test_a_stream_follows_the_recipe_batch_by_batch() -> None:
    whole = batch_encoder(2, n_nonzero=4, strategy="gram").fit(LOGS)
    stream = batch_encoder(2, n_nonzero=4, strategy="gram", recipe=RECIPE)
    for rows in np.array_split(COUNTS, 5):
        stream.partial_fit(rows)
    assert stream.certificate_.loss == pytest.approx(whole.certificate_.loss, rel=1e-9)


def test_a_saved_encoder_keeps_its_recipe_and_tells_it(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", COUNTS)
    for given in (RECIPE, ["normalize_total(1e4)", "log1p"], Recipe.of(RECIPE)):
        encoder = batch_encoder(2, n_nonzero=4, recipe=given).fit(tmp_path / "x.npy")
        assert clone(encoder).recipe == given
        save_encoder(encoder, tmp_path / "e.zarr", source=tmp_path / "x.npy", overwrite=True)
        loaded = load_encoder(tmp_path / "e.zarr")
        assert loaded.recipe == "normalize_total(10000), log1p"
        assert np.array_equal(loaded.transform(COUNTS), encoder.transform(COUNTS))
        raw_codes = loaded.set_params(recipe=None).transform(LOGS)
        np.testing.assert_allclose(raw_codes, encoder.transform(COUNTS), atol=1e-9)
    loaded = load_encoder(tmp_path / "e.zarr")
    command = fit_command(loaded.get_params(), loaded.provenance_)
    assert command is not None
    assert "--recipe 'normalize_total(10000), log1p'" in command
    assert any("recipe='normalize_total(10000), log1p'" in line for line in python_lines(loaded.get_params(), {}))
    write_report(loaded, "e.zarr", tmp_path / "r.html")
    assert "recipe for raw rows" in (tmp_path / "r.html").read_text()
    transform_to_zarr(tmp_path / "x.npy", loaded, tmp_path / "codes.zarr")
    np.testing.assert_allclose(zarr.open(tmp_path / "codes.zarr")[:], loaded.transform(COUNTS), atol=1e-12)
    curve, origin = curve_from_data(loaded, open_matrix(str(tmp_path / "x.npy")))
    assert curve.points[-1].loss <= loaded.certificate_.loss * 1.01
    assert "not the data of the fit" not in origin


def test_an_encoder_without_one_has_none(tmp_path: Path) -> None:
    encoder = batch_encoder(2, n_nonzero=4).fit(LOGS)
    save_encoder(encoder, tmp_path / "e.zarr")
    attributes = zarr.open_group(tmp_path / "e.zarr").attrs
    del attributes["parameters"]["recipe"]
    parameters = {name: value for name, value in attributes["parameters"].items() if name != "recipe"}
    zarr.open_group(tmp_path / "e.zarr", mode="r+").attrs["parameters"] = parameters
    assert load_encoder(tmp_path / "e.zarr").recipe is None  # as written by earlier versions


def test_a_checkpoint_is_of_one_recipe(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", COUNTS)
    encoder = batch_encoder(2, n_nonzero=3, recipe="sqrt", checkpoint=tmp_path / "run").fit(tmp_path / "x.npy")
    with pytest.raises(OtherCheckpoint, match="recipe"):
        encoder.set_params(recipe="log1p").fit(tmp_path / "x.npy")
    encoder.set_params(recipe=["sqrt"]).fit(tmp_path / "x.npy")


def masked(x: Any) -> ad.AnnData:
    names = [f"g{i}" for i in range(x.shape[1])]
    return ad.AnnData(x, var=pd.DataFrame({"highly_variable": np.arange(x.shape[1]) < 9}, index=names))


@pytest.mark.parametrize("kind", ["memory", "h5ad", "dask"])
def test_a_mask_chooses_columns_of_what_all_columns_made(kind: str, tmp_path: Path) -> None:
    adata: Any = masked(sp.csr_matrix(COUNTS) if kind != "dask" else da.from_array(COUNTS, chunks=(50, 5)))
    if kind == "h5ad":
        adata.write_h5ad(tmp_path / "x.h5ad")
        adata = str(tmp_path / "x.h5ad")
    wanted = batch_encoder(2, n_nonzero=4).fit(LOGS[:, :9])
    found = batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(adata)
    assert found.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-9)
    save_encoder(found, tmp_path / "e.zarr")
    fewer = masked(COUNTS[:50, ::-1])  # new cells, whose genes are in another order, without their mask
    fewer.var_names = [f"g{i}" for i in range(14)][::-1]
    del fewer.var["highly_variable"]
    new = np.asarray(load_encoder(tmp_path / "e.zarr").transform(fewer))
    np.testing.assert_allclose(new, np.asarray(found.transform(adata))[:50], atol=1e-9)
    told = plan(adata, 2, n_nonzero=4, recipe=RECIPE, calibrate=False).notes
    assert told[:2] == (
        "uses 9 of 14 columns: var/highly_variable",
        "reads raw data: normalize_total(10000), log1p, in the read",
    )


def test_a_plan_counts_the_raw_block(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=COUNTS, chunks=(60, 14))
    raw_plan = plan(str(tmp_path / "x.zarr"), 2, n_nonzero=4, recipe=RECIPE, calibrate=False)
    copied = tmp_path / "y.zarr"
    zarr.create_array(copied, data=LOGS, chunks=(60, 14))
    plain = plan(str(copied), 2, n_nonzero=4, calibrate=False)
    assert (raw_plan.dtype, raw_plan.bytes_read) == (plain.dtype, plain.bytes_read)
    assert raw_plan.worker_nbytes > plain.worker_nbytes + 60 * 14 * 4


@pytest.mark.filterwarnings("ignore:Writing zarr v2 data:UserWarning")  # anndata's, of its own default
@pytest.mark.parametrize("where", ["memory", "h5ad", "zarr"])
def test_logarithms_of_logarithms_are_warned_of(where: str, tmp_path: Path) -> None:
    adata: Any = masked(COUNTS.astype(np.float32))
    adata.uns["log1p"] = {"base": None}
    if where == "h5ad":
        adata.write_h5ad(tmp_path / "x.h5ad")
        adata = str(tmp_path / "x.h5ad")
    if where == "zarr":
        adata.write_zarr(tmp_path / "x.zarr")
        adata = str(tmp_path / "x.zarr")
    with pytest.warns(TransformedTwiceWarning, match=r"uns\['log1p'\] says that the data are logarithms already"):
        batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(adata)
    assert any("uns['log1p']" in note for note in plan(adata, 2, recipe=RECIPE, calibrate=False).notes)
    assert any("uns['log1p']" in problem for problem in check(adata, recipe=RECIPE).problems)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TransformedTwiceWarning)
        batch_encoder(2, n_nonzero=4, recipe="sqrt").fit(adata)
        batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(COUNTS.astype(np.float32))


def test_data_that_look_like_logarithms_are_warned_of() -> None:
    with pytest.warns(TransformedTwiceWarning, match="below 20, and not whole"):
        batch_encoder(2, n_nonzero=4, recipe=RECIPE).fit(LOGS)
    assert any("look like logarithms" in each for each in check(LOGS, recipe=RECIPE).problems)
    assert check(LOGS, recipe="sqrt").problems == check(COUNTS, recipe=RECIPE).problems == ()


def test_a_check_is_about_raw_rows(raw: Any) -> None:
    found = check(raw, recipe=RECIPE)
    sums = COUNTS.sum(axis=1)
    assert found.row_sums is not None
    assert found.row_sums[::2] == (sums.min(), sums.max())
    assert found.row_sums[1] == pytest.approx(np.median(sums), rel=0.02)
    assert found.share_filled == np.count_nonzero(COUNTS) / COUNTS.size
    assert found.whole_numbers
    assert found.largest == COUNTS.max()
    bad = COUNTS.copy()
    bad[50:52, 3] = -4
    problem = check(bad, recipe=RECIPE).problems[0]
    assert problem == "2 negative entries, the first at row 50, column 3; normalize_total takes none"
    assert not check(COUNTS + 0.5).whole_numbers
