"""Rows and columns by condition, mask, number and name are those of pandas and numpy, wherever the data are."""

from pathlib import Path
from typing import Any

import anndata
import dask.array as da
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr

from spae_dask import evaluate, load_encoder, plan
from spae_dask.errors import InvalidInput, OtherCheckpoint
from spae_dask.estimators.saved import save_encoder
from spae_dask.report.reproduce import fit_command, python_lines
from spae_dask.scanpy import sparse_pca
from spae_dask.storage.conditions import is_condition
from spae_dask.storage.open import open_matrix
from spae_dask.storage.row_values import stored_values
from tests.estimators.sources import batch_encoder

pytestmark = pytest.mark.filterwarnings("ignore:Writing zarr v2", "ignore:Consolidated metadata")

N, D = 60, 9
NAMES = [f"g{column}" for column in range(D)]


def counts() -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(2)
    return rng.poisson(rng.gamma(0.7, 3.0, size=(3, D))[rng.integers(0, 3, N)]).astype(np.float64)


def cells(matrix: Any = None) -> anndata.AnnData:
    rng, x = np.random.default_rng(7), counts()
    obs = pd.DataFrame(
        {
            "n_counts": x.sum(axis=1),
            "batch": pd.Categorical(rng.choice(["a", "b", "c"], N)).remove_categories("c"),
            "lab": rng.choice(["x", "y"], N),
            "pct mt": np.where(np.arange(N) % 9, rng.random(N), np.nan),
            "doublet": rng.random(N) < 0.2,
            "checked": pd.array(np.arange(N) % 2 == 0, dtype="boolean"),
            "age": pd.array(np.arange(N), dtype="Int64"),
        },
        index=[f"cell{row}" for row in range(N)],
    )
    obs.loc[obs.index[::5], ["age", "checked"]] = pd.NA
    var = pd.DataFrame({"n_cells": (x > 0).sum(axis=0), "mt": np.arange(D) % 4 == 0}, index=NAMES)
    return anndata.AnnData(x if matrix is None else matrix(x), obs=obs, var=var)


@pytest.fixture(scope="module", params=["object", "sparse", "dask", "h5ad", "zarr", "backed", "view"])
def given(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    kind, folder = request.param, tmp_path_factory.mktemp("given")
    adata = cells({"sparse": sp.csr_matrix, "dask": lambda x: da.from_array(x, chunks=(13, 4))}.get(kind))
    if kind in ("h5ad", "backed"):
        path = folder / "x.h5ad"
        adata.write_h5ad(path)
        return anndata.read_h5ad(path, backed="r") if kind == "backed" else str(path)
    if kind == "zarr":
        adata.write_zarr(folder / "x.zarr")
        return str(folder / "x.zarr")
    return adata[:, :] if kind == "view" else adata


def rows_of(source: Any) -> np.ndarray[Any, Any]:
    blocks = [source.read(number) for number in range(len(source.bounds) - 1)]
    return np.vstack([block.toarray() if sp.issparse(block) else block for block in blocks])


CONDITIONS = [
    "n_counts > 12",
    "10 <= n_counts < 20",
    "15 < n_counts",
    "20 >= n_counts",
    "batch == 'a'",
    "batch != 'a'",
    "batch in ['a', 'b']",
    "lab not in ('x',)",
    "doublet",
    "not doublet and lab == 'x'",
    "doublet == False or n_counts > 20",
    "`pct mt` < 0.5",
    "not (`pct mt` < 0.5)",
    "age > 20",
    "age in [3, 4, 7]",
    "index in ['cell3', 'cell4', 'cell50']",
    "n_counts > 5 and (lab == 'x' or (batch == 'b' and not doublet))",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_chooses_the_rows_that_pandas_chooses(given: Any, condition: str) -> None:
    obs = cells().obs.copy()
    obs["age"] = obs["age"].astype("float64")  # so that missing ages compare as missing numbers do
    wanted = obs.query(condition, engine="python").index
    source = open_matrix(given, rows=condition)
    np.testing.assert_array_equal(rows_of(source), counts()[obs.index.isin(wanted)])
    assert 0 < len(wanted) < N


def test_a_flag_that_is_missing_is_not_true(given: Any) -> None:
    known = cells().obs["checked"]
    source = open_matrix(given, rows="checked and n_counts >= 0")
    np.testing.assert_array_equal(rows_of(source), counts()[known.fillna(value=False).to_numpy(dtype=bool)])


@pytest.mark.parametrize("mask", ["index in ['g1', 'g5', 'g8']", "mt or n_cells < 40"])
def test_a_condition_chooses_the_columns_that_pandas_chooses(given: Any, mask: str) -> None:
    var = cells().var
    chosen = var.index.isin(var.query(mask, engine="python").index)
    np.testing.assert_array_equal(rows_of(open_matrix(given, mask=mask)), counts()[:, chosen])


def test_a_condition_is_a_mask_of_columns(given: Any, tmp_path: Path) -> None:
    var, mask = cells().var, "n_cells > 30 and not mt"
    chosen = var.index.isin(var.query(mask, engine="python").index)
    source = open_matrix(given, mask=mask)
    np.testing.assert_array_equal(rows_of(source), counts()[:, chosen])
    encoder = batch_encoder(2, n_nonzero=2).fit(source)
    assert f"uses {chosen.sum()} of {D} columns: {mask}" in encoder.plan_.notes
    save_encoder(encoder, tmp_path / "e.zarr")
    for each in (encoder, load_encoder(tmp_path / "e.zarr")):
        codes = (counts()[:, chosen] - encoder.mean_) @ encoder.components_.T
        np.testing.assert_allclose(np.asarray(each.transform(given)), codes, atol=1e-10)
        # new cells, whose genes have no such columns, and another order
        new = anndata.AnnData(counts()[:, ::-1], var=pd.DataFrame(index=NAMES[::-1]))
        np.testing.assert_allclose(np.asarray(each.transform(new)), codes, atol=1e-10)


def test_rows_columns_and_a_recipe_together(given: Any) -> None:
    x, obs, chosen = counts(), cells().obs, [6, 1, 2, 8]
    rows = ((obs["n_counts"] > 8) & (obs["lab"] == "x")).to_numpy()
    normal = np.log1p(x / np.maximum(x.sum(axis=1, keepdims=True), 1) * np.median(x[rows].sum(axis=1)))
    wanted = batch_encoder(2, n_nonzero=2).fit(normal[rows][:, chosen])
    source = open_matrix(given, rows="n_counts > 8 and lab == 'x'", columns=["g6", "g[12]", "g8"])
    assert list(source.feature_names) == ["g6", "g1", "g2", "g8"]  # type: ignore[attr-defined]
    made = batch_encoder(2, n_nonzero=2, recipe="normalize_total(median), log1p").fit(source)
    assert made.certificate_.loss == pytest.approx(wanted.certificate_.loss, rel=1e-10)
    codes = (normal[:, chosen] - made.mean_) @ made.components_.T
    np.testing.assert_allclose(np.asarray(made.transform(given)), codes, atol=1e-10)  # all rows; columns by name
    told = plan(source, 2, n_nonzero=2, calibrate=False).notes
    assert f"uses {rows.sum()} of {N} rows: n_counts > 8 and lab == 'x'" in told


@pytest.mark.parametrize("kind", ["numpy", "csr", "npy", "zarr", "dask"])
def test_masks_and_numbers_choose_of_any_matrix(kind: str, tmp_path: Path) -> None:
    x: Any = counts()
    np.save(tmp_path / "x.npy", x)
    zarr.create_array(tmp_path / "x.zarr", data=x, chunks=(11, 4))
    data: Any = {
        "npy": str(tmp_path / "x.npy"),
        "zarr": str(tmp_path / "x.zarr"),
        "numpy": x,
        "csr": sp.csr_array(x),
        "dask": da.from_array(x, chunks=(13, 4)),
    }[kind]
    kept, mask = np.array([0, 3, 4, 40, 59]), np.arange(N) % 3 == 0
    np.testing.assert_array_equal(rows_of(open_matrix(data, rows=kept)), x[kept])
    np.testing.assert_array_equal(rows_of(open_matrix(data, rows=mask.tolist())), x[mask])
    np.testing.assert_array_equal(rows_of(open_matrix(data, columns=[5, 0, 2], rows=mask)), x[mask][:, [5, 0, 2]])
    np.testing.assert_array_equal(rows_of(open_matrix(data, columns=np.arange(D) > 4)), x[:, 5:])
    encoder = batch_encoder(2, n_nonzero=2).fit(open_matrix(data, columns=[5, 0, 2], rows=mask))
    save_encoder(encoder, tmp_path / "e.zarr")
    codes = (x[:, [5, 0, 2]] - encoder.mean_) @ encoder.components_.T
    chosen = open_matrix(data, columns=[5, 0, 2])
    np.testing.assert_allclose(np.asarray(load_encoder(tmp_path / "e.zarr").transform(chosen)), codes, atol=1e-10)
    if kind in ("npy", "zarr"):  # of what is in memory, transform takes the columns of the fit, as scikit-learn does
        np.testing.assert_allclose(np.asarray(load_encoder(tmp_path / "e.zarr").transform(data)), codes, atol=1e-10)
        assert evaluate(data, encoder).n_components == 2


@pytest.mark.parametrize("kind", ["parquet", "csv", "folder"])
@pytest.mark.parametrize(
    "condition",
    ["split == 'train' and g0 > 1", "when >= '2020-02' or not kept", "split in ['test'] and `n obs` < 40"],
)
def test_a_condition_chooses_rows_of_a_table_by_any_of_its_columns(kind: str, condition: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(counts(), columns=NAMES).assign(
        split=np.where(np.arange(N) % 3, "train", "test"), when=pd.date_range("2020-01-01", periods=N),
        kept=np.arange(N) % 5 > 0, **{"n obs": np.arange(N)},
    )  # fmt: skip
    path = tmp_path / f"t.{'csv' if kind == 'csv' else 'parquet'}"
    if kind == "csv":
        frame.assign(kept=frame["kept"].astype(int)).to_csv(path, index=False)
        condition = condition.replace("not kept", "kept == 0")
    elif kind == "parquet":
        frame.to_parquet(path, row_group_size=7)
    else:
        path.mkdir()
        for part in range(4):
            frame[part * 15 : (part + 1) * 15].to_parquet(path / f"part.{part}.parquet")
    asked = frame.assign(kept=frame["kept"].astype(int)) if kind == "csv" else frame
    found = open_matrix(path, columns=NAMES, rows=condition)
    rows = np.concatenate([np.asarray(found.read(i)) for i in range(len(found.bounds) - 1)])
    np.testing.assert_array_equal(rows, asked.query(condition)[NAMES].to_numpy())


def test_a_checkpoint_is_of_its_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", counts() + np.arange(N)[:, None])
    rows = np.arange(1, 41)
    encoder = batch_encoder(2, n_nonzero=2, checkpoint=tmp_path / "run")
    encoder.fit(open_matrix(str(tmp_path / "x.npy"), rows=rows))
    encoder.fit(open_matrix(str(tmp_path / "x.npy"), rows=rows.tolist()))
    other = np.delete(np.arange(1, 42), 35)  # as many rows
    with pytest.raises(OtherCheckpoint, match="rows"):
        encoder.fit(open_matrix(str(tmp_path / "x.npy"), rows=other))


def test_the_lines_that_fit_again_choose_the_same(tmp_path: Path) -> None:
    path, rows = str(tmp_path / "x.h5ad"), "lab == 'x' and not doublet"
    cells().write_h5ad(path)
    for how in ({"columns": ["g6", "g[12]"]}, {"mask": "n_cells > 30 and not mt"}):
        source = open_matrix(path, rows=rows, **how)  # type: ignore[arg-type]
        encoder = batch_encoder(2, n_nonzero=2).fit(source)
        save_encoder(encoder, tmp_path / "e.zarr", source=source, overwrite=True)
        record = load_encoder(tmp_path / "e.zarr").provenance_
        scope: dict[str, Any] = {}
        exec("\n".join(python_lines(encoder.get_params(), record)), scope)
        assert np.array_equal(scope["encoder"].components_, encoder.components_)
        command = fit_command(encoder.get_params(), record)
        assert command is not None
        assert "--where" in command
        assert ("--columns g6,g1,g2" in command) == ("columns" in how)
        assert ("--mask 'n_cells > 30 and not mt'" in command) == ("mask" in how)
        assert "chosen by" not in command


REFUSED = [
    ("n_cuonts > 3", r"no column 'n_cuonts' in obs; it has age, batch.*Did you mean 'n_counts'"),
    ("n_counts > 'a'", r"'n_counts' holds numbers, and 'a' is none"),
    ("lab > 3", r"'lab' holds text, and 3 is none"),
    ("doublet == 1", r"'doublet' holds booleans"),
    ("not lab", r"'lab' of obs is not boolean"),
    ("n_counts > 1e9", r"chooses no row"),
    ("n_counts", r"'n_counts' of obs is not boolean"),
    ("n_counts > @x", r"is no condition"),
    ("n_counts.sum() > 3", r"is no condition"),
    ("n_counts > age", r"is no condition"),
    ("n_counts + 1 > 3", r"is no condition"),
    ("__import__('os').system('true') == 0", r"is no condition"),
    ("(lambda: 1)() == 1", r"is no condition"),
    ("lab == f'{1}'", r"is no condition"),
    ("lab in n_counts", r"is no condition"),
    ("lab in [[1]]", r"is no condition"),
    ("lab is None", r"is no condition"),
    ("lab == None", r"is no condition"),
    ("1 > 0", r"is no condition"),
    ("(" * 400 + "doublet" + ")" * 400, r"is no condition"),
    ("not " * 5000 + "doublet", r"is no condition"),
    ("lab == 'x' and", r"is no condition"),
    ("n" * 100_001, r"100,001 characters"),
    ("", r"is no condition"),
]


@pytest.mark.parametrize(("condition", "words"), REFUSED, ids=lambda text: str(text)[:30])
def test_what_is_no_condition_is_refused(condition: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        open_matrix(cells(), rows=condition)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"rows": [3, 2]}, "ascending, each once"),
        ({"rows": [0, 60]}, "numbers from 0 to 59"),
        ({"rows": np.ones(7, dtype=bool)}, "boolean for each of the 60"),
        ({"rows": np.zeros(60, dtype=bool)}, "chooses no row"),
        ({"rows": "n_counts > 3"}, "condition on obs of AnnData"),
        ({"columns": ["g1"]}, r"has no names\. Give numbers"),
        ({"columns": [1, 1]}, "one of them twice"),
        ({"columns": [9]}, "numbers from 0 to 8"),
    ],
)
def test_what_chooses_nothing_of_an_array_is_refused(how: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        open_matrix(counts(), **how)


def test_columns_and_a_mask_are_not_both_given() -> None:
    with pytest.raises(InvalidInput, match="both choose columns"):
        open_matrix(cells(), columns=["g1"], mask="n_cells > 3")
    with pytest.raises(InvalidInput, match=r"no column 'g77'"):
        open_matrix(cells(), columns=["g77"])


def test_names_and_paths_are_no_conditions() -> None:
    assert not any(map(is_condition, ("var/highly_variable", "none", "odd", "raw/var/odd", "var/a-b", "a b", None)))


def test_sparse_pca_takes_a_condition_as_its_mask() -> None:
    adata = cells()
    sparse_pca(adata, 2, n_nonzero=2, method="batch", mask_var="n_cells > 30 and not mt")
    chosen = (adata.var["n_cells"] > 30) & ~adata.var["mt"]
    wanted = batch_encoder(2, n_nonzero=2).fit(counts()[:, chosen.to_numpy()])
    assert adata.uns["spae"]["loss"] == pytest.approx(wanted.certificate_.loss, rel=1e-10)
    assert adata.uns["spae"]["params"]["mask_var"] == "n_cells > 30 and not mt"


@pytest.mark.parametrize("layout", ["records", "categories beside", "texts with gaps as categories"])
def test_labels_of_every_layout_are_compared_and_named_alike(layout: str, tmp_path: Path) -> None:
    path, codes = tmp_path / "x.h5ad", np.array([0, 1, 1, -1, 0], dtype="i1")
    levels, wanted = np.array([b"a", b"b"]), ["a", "b", "b", None, "a"]
    with h5py.File(path, "w") as file:
        file["X"], file["var"] = np.arange(10.0).reshape(5, 2), np.zeros(2, dtype=[("index", "S8")])
        if layout == "records":
            obs = np.zeros(5, dtype=[("index", "S8"), ("batch", "i1")])
            obs["batch"] = codes
            file["obs"], file["uns/batch_categories"] = obs, levels
        elif layout == "categories beside":
            file["obs/batch"], file["obs/__categories/batch"] = codes, levels
        else:
            group = file.create_group("obs/batch")
            group.attrs["encoding-type"] = "categorical"
            group["codes"] = codes
            group["categories/values"], group["categories/mask"] = levels, np.zeros(2, dtype=bool)
            group["categories"].attrs["encoding-type"] = "nullable-string-array"
    assert stored_values(str(path), ["batch"])[0].tolist() == wanted
    assert open_matrix(path, rows="batch == 'b'").read(0).tolist() == [[2.0, 3.0], [4.0, 5.0]]
    with h5py.File(path, "a") as file:
        place = {"records": "obs", "categories beside": "obs/batch"}.get(layout, "obs/batch/codes")
        damaged = file[place][:]
        damaged["batch" if layout == "records" else ...] = 7
        file[place][...] = damaged
    for read in (lambda: stored_values(str(path), ["batch"]), lambda: open_matrix(path, rows="batch == 'b'")):
        with pytest.raises(InvalidInput, match="categories that are not stored"):
            read()
