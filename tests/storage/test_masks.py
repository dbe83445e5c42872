"""Masks: a boolean column of var chooses the same columns of AnnData, however it is stored or held."""

from functools import cache
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.utils import Bunch

from spae_dask import ColumnSelector, evaluate, load_encoder, plan
from spae_dask.errors import InvalidInput
from spae_dask.estimators.applying import open_like
from spae_dask.estimators.planning import mask_note
from spae_dask.estimators.saved import save_encoder
from spae_dask.report.reproduce import fit_command, python_lines
from spae_dask.scanpy import sparse_pca
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.open import open_matrix
from tests.estimators.sources import batch_encoder

pytestmark = pytest.mark.filterwarnings("ignore:Writing zarr v2", "ignore:Consolidated metadata")

N, D = 40, 12
VARIABLE = np.arange(D) % 3 != 1
ODD = np.arange(D) % 2 == 1
NAMES = [f"g{column}" for column in range(D)]


def cells(*, n: int = N, sparse: bool = False) -> Any:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, D)) * np.arange(1, D + 1)
    var = pd.DataFrame(
        {"highly_variable": VARIABLE, "odd": ODD, "maybe": pd.array(ODD, dtype="boolean"), "means": np.arange(D) / 7},
        index=NAMES,
    )
    adata = anndata.AnnData(sp.csr_array(X) if sparse else X, var=var)
    adata.layers["twice"] = 2 * adata.X
    adata.raw = adata.copy()
    return adata


KINDS = ("object", "sparse object", "h5ad", "sparse h5ad", "zarr", "backed")


@pytest.fixture(scope="module", params=KINDS)
def given(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """AnnData in one of its shapes."""
    adata, folder = cells(sparse="sparse" in request.param), tmp_path_factory.mktemp("given")
    if "object" in request.param:
        return adata
    if request.param == "zarr":
        adata.write_zarr(folder / "x.zarr")
        return str(folder / "x.zarr")
    adata.write_h5ad(folder / "x.h5ad")
    path = str(folder / "x.h5ad")
    return anndata.read_h5ad(path, backed="r") if request.param == "backed" else path


def rows(source: Any) -> np.ndarray[Any, Any]:
    blocks = [source.read(number) for number in range(len(source.bounds) - 1)]
    return np.vstack([block.toarray() if sp.issparse(block) else block for block in blocks])


@pytest.mark.parametrize(
    ("array", "mask", "chosen"),
    [
        (None, None, VARIABLE),
        (None, "none", np.ones(D, dtype=bool)),
        (None, "var/odd", ODD),
        (None, "var/maybe", ODD),
        ("layers/twice", None, VARIABLE),
        ("raw/X", None, np.ones(D, dtype=bool)),
        ("raw/X", "raw/var/odd", ODD),
    ],
)
def test_a_mask_chooses_columns_and_their_names(given: Any, array: str | None, mask: str | None, chosen: Any) -> None:
    source = open_matrix(given, array=array, mask=mask)
    X = np.asarray(cells().X)[:, chosen] * (2 if array == "layers/twice" else 1)
    np.testing.assert_array_equal(rows(source), X)
    assert list(source.feature_names) == [name for name, used in zip(NAMES, chosen, strict=True) if used]  # type: ignore[attr-defined]


@cache
def loadings_of_sparse_pca() -> Any:
    adata = cells()
    sparse_pca(adata, 2, n_nonzero=3, method="batch")
    return adata.varm["spae"]


def test_a_fit_uses_the_genes_that_sparse_pca_uses(given: Any) -> None:
    encoder = batch_encoder(2, n_nonzero=3).fit(given)
    loadings = loadings_of_sparse_pca()
    np.testing.assert_allclose(encoder.components_, loadings[VARIABLE].T, atol=1e-6)  # flat at its minimum
    assert not loadings[~VARIABLE].any()
    assert f"uses {VARIABLE.sum()} of {D} columns: var/highly_variable" in encoder.plan_.notes


def test_the_encoder_reads_the_columns_of_its_fit_again(given: Any, tmp_path: Path) -> None:
    encoder = batch_encoder(2, n_nonzero=3).fit(open_matrix(given, mask="var/odd"))
    save_encoder(encoder, tmp_path / "e.zarr")
    X = pd.DataFrame(cells().X, columns=NAMES).loc[:, ODD]
    for each in (encoder, load_encoder(tmp_path / "e.zarr")):
        np.testing.assert_allclose(np.asarray(each.transform(given)), encoder.transform(X), atol=1e-9)
        assert evaluate(given, each).loss == pytest.approx(encoder.certificate_.loss)


@pytest.mark.parametrize("has_mask", [False, True])
def test_new_cells_with_another_mask_or_none_give_the_genes_of_the_fit_by_name(has_mask: bool) -> None:
    encoder = batch_encoder(2, n_nonzero=3).fit(cells())
    new = cells(n=7)[:, ::-1].copy()
    if has_mask:
        new.var["highly_variable"] = ODD
    else:
        del new.var["highly_variable"]
    np.testing.assert_allclose(
        encoder.transform(new), encoder.transform(pd.DataFrame(cells(n=7).X, columns=NAMES).loc[:, VARIABLE])
    )
    source = open_like(encoder, new)
    assert mask_note(source) == f"uses {VARIABLE.sum()} of {D} columns: those of the fit, by name"
    without = new[:, :6].copy()
    with pytest.raises(InvalidInput, match="now missing"):
        encoder.transform(without)


def test_an_encoder_of_all_columns_reads_all_of_them() -> None:
    adata = cells()
    encoder = batch_encoder(2, n_nonzero=3).fit(np.asarray(adata.X))
    assert encoder.transform(adata).shape == (N, 2)
    assert ColumnSelector(4).fit(adata).transform(adata).shape == (N, 4)


def test_a_plan_and_a_fit_read_the_same_columns(given: Any) -> None:
    assert plan(given, n_components=2, n_nonzero=3).shape == (N, VARIABLE.sum())


def test_the_command_that_fits_again_names_what_was_chosen(tmp_path: Path) -> None:
    path = tmp_path / "x.h5ad"
    cells().write_h5ad(path)
    encoder = batch_encoder(2, n_nonzero=3).fit(open_matrix(path, array="layers/twice", mask="var/odd"))
    save_encoder(encoder, tmp_path / "e.zarr")
    record = load_encoder(tmp_path / "e.zarr").provenance_
    command = fit_command(encoder.get_params(), record)
    assert command is not None
    assert command.startswith(f"spae fit {path} ")
    assert "--array layers/twice --mask var/odd" in command
    lines = "\n".join(python_lines(encoder.get_params(), record))
    made = Bunch()
    exec(lines, made)
    np.testing.assert_array_equal(made["encoder"].components_, encoder.components_)


def test_the_command_that_fits_again_names_columns_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame(cells().X, columns=["a,b", *NAMES[1:]]).to_csv(path)
    encoder = batch_encoder(2, n_nonzero=2).fit(open_matrix(path, columns=["a,b", "g1*"]))
    save_encoder(encoder, tmp_path / "e.zarr")
    command = fit_command(encoder.get_params(), load_encoder(tmp_path / "e.zarr").provenance_)
    assert command is not None
    assert f"spae fit {path} " in command
    assert """--columns '"a,b",g1*'""" in command


def test_a_mask_of_all_columns_is_as_none() -> None:
    adata = cells()[:, VARIABLE].copy()
    assert not batch_encoder(2, n_nonzero=3).fit(adata).plan_.notes[0].startswith("uses")


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ("var/means", r"var/means of .* float64 of shape \(12,\).*mask='none'"),
        ("var/nix", r"no mask 'var/nix'; its columns of var are .*var/odd.*--mask none"),
        ("odd", "no mask 'odd'"),
        ("raw/var/odd", "no mask 'raw/var/odd'"),
    ],
)
def test_a_mask_that_is_none_is_refused(given: Any, mask: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        open_matrix(given, mask=mask)


def test_a_mask_with_gaps_is_refused(tmp_path: Path) -> None:
    adata = cells()
    adata.var["maybe"] = pd.array([None, *ODD[1:].tolist()], dtype="boolean")
    adata.write_h5ad(tmp_path / "x.h5ad")
    adata.write_zarr(tmp_path / "x.zarr")
    for given in (adata, tmp_path / "x.h5ad", tmp_path / "x.zarr"):
        with pytest.raises(InvalidInput, match="none of them missing"):
            open_matrix(given, mask="var/maybe")


@pytest.mark.parametrize("name", ["x.npy", "t.csv", "t.parquet"])
def test_data_without_var_have_no_mask(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame(cells().X, columns=NAMES)
    if name.endswith("npy"):
        np.save(tmp_path / name, cells().X)
    else:
        getattr(frame, "to_csv" if name.endswith("csv") else "to_parquet")(tmp_path / name, index=False)
    for given in (str(tmp_path / name), frame, np.asarray(cells().X)):
        with pytest.raises(InvalidInput, match=r"column of var of AnnData.*--columns"):
            open_matrix(given, mask="var/odd")
        assert open_matrix(given, mask="none").shape[0] == N


def test_ingest_writes_all_columns_unless_a_mask_is_given(tmp_path: Path) -> None:
    cells().write_h5ad(tmp_path / "x.h5ad")
    for mask, d in ((None, D), ("var/odd", ODD.sum())):
        ingest(tmp_path / "x.h5ad", tmp_path / f"{d}.zarr", mask=mask)
        assert open_matrix(tmp_path / f"{d}.zarr").shape == (N, d)
