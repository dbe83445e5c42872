"""AnnData objects as matrices: in memory, backed, lazy, and views of these."""

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from spae_dask import open_matrix
from spae_dask.errors import InvalidInput, NotFound
from spae_dask.storage.sources.submatrix import Submatrix
from tests.estimators.sources import batch_encoder
from tests.storage.anndata_stores import sparse_counts
from tests.storage.test_h5_files import rows_of

X0 = sparse_counts()
NAMES = [f"gene {column}" for column in range(X0.shape[1])]
SOME = np.array([0, 3, 4, 150, 199])
RESTORED = "ignore:Writing zarr v2 data:UserWarning"  # anndata's, of its own default


def made(kind: str, folder: Path) -> anndata.AnnData:
    X: Any = X0.toarray() if kind.endswith("dense") else sp.csr_matrix(X0)
    adata = anndata.AnnData(X, var=pd.DataFrame(index=NAMES))
    adata.layers["twice"] = sp.csr_matrix(X0 * 2)
    if kind.startswith("memory"):
        return adata
    if kind.startswith("backed"):
        adata.write_h5ad(folder / "a.h5ad")
        return anndata.read_h5ad(folder / "a.h5ad", backed="r")
    adata.write_zarr(folder / "a.zarr")
    return anndata.experimental.read_lazy(folder / "a.zarr")


KINDS = ["memory dense", "memory csr", "backed dense", "backed csr", "lazy dense", "lazy csr"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings(RESTORED)
def test_an_object_is_its_matrix_and_the_names_of_its_variables(kind: str, tmp_path: Path) -> None:
    adata = made(kind, tmp_path)
    source = open_matrix(adata)
    np.testing.assert_array_equal(rows_of(source), X0.toarray())
    assert list(source.feature_names) == NAMES  # type: ignore[attr-defined]
    assert source.in_process is kind.startswith("memory")
    layer = open_matrix(adata, array="layers/twice")
    np.testing.assert_array_equal(rows_of(layer), 2 * X0.toarray())
    assert list(layer.feature_names) == NAMES  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings(RESTORED)
def test_a_view_is_what_it_shows(kind: str, tmp_path: Path) -> None:
    columns = [7, 2, 11]
    source = open_matrix(made(kind, tmp_path)[SOME, columns])
    np.testing.assert_array_equal(rows_of(source), X0.toarray()[SOME][:, columns])
    assert list(source.feature_names) == [NAMES[column] for column in columns]  # type: ignore[attr-defined]
    assert isinstance(source, Submatrix) is kind.startswith("backed")


def test_a_backed_view_out_of_order_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"changes their order.*to_memory\(\)"):
        open_matrix(made("backed csr", tmp_path)[SOME[::-1]])


def test_raw_has_names_of_its_own() -> None:
    adata = anndata.AnnData(X0.toarray(), var=pd.DataFrame(index=NAMES))
    adata.raw = adata
    narrow = adata[:, :3].copy()
    assert open_matrix(narrow, array="raw/X").shape == X0.shape
    assert list(open_matrix(narrow, array="raw/X").feature_names) == NAMES  # type: ignore[attr-defined]


def test_what_an_object_has_not_is_told_with_what_it_has() -> None:
    for array in ("obsm/X_pca", "layers/nix", "raw/X", "nix"):
        with pytest.raises(NotFound, match=rf"no matrix '{array}'; it has X, layers/twice\."):
            open_matrix(made("memory csr", Path()), array=array)
    with pytest.raises(NotFound, match=r"no matrix 'X'; it has none"):
        open_matrix(anndata.AnnData(obs=pd.DataFrame(index=["a", "b"]), var=pd.DataFrame(index=["g"])))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings(RESTORED)
def test_a_fit_takes_objects_and_keeps_names(kind: str, tmp_path: Path) -> None:
    adata = made(kind, tmp_path)
    encoder = batch_encoder(n_components=2, n_nonzero=3).fit(adata)
    known = batch_encoder(n_components=2, n_nonzero=3).fit(X0.toarray())
    np.testing.assert_allclose(encoder.components_, known.components_, atol=1e-7)
    assert list(encoder.feature_names_in_) == NAMES
    np.testing.assert_allclose(np.asarray(encoder.transform(adata)), known.transform(X0.toarray()), atol=1e-5)


def test_other_genes_in_the_same_number_are_refused() -> None:
    adata = made("memory csr", Path())
    encoder = batch_encoder(n_components=2, n_nonzero=3).fit(adata)
    with pytest.raises(InvalidInput, match=r"same order as they were in fit"):
        encoder.transform(adata[:, ::-1])
