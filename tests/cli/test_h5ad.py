"""A stranger with an .h5ad file gets to a report, and reads a good message where the file is bad."""

from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr

from spae_dask import load_encoder
from tests.cli.conftest import QUICK
from tests.storage.anndata_stores import sparse_counts

pytestmark = pytest.mark.usefixtures("undrawn")

X = sparse_counts(n=300)
NAMES = [f"GENE{column}" for column in range(X.shape[1])]


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    made = anndata.AnnData(sp.csr_matrix(X), var=pd.DataFrame(index=NAMES))
    made.layers["dense"], made.layers["by columns"] = X.toarray(), sp.csc_matrix(X)
    made.write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad"


@pytest.mark.parametrize("layer", [[], ["--array", "layers/dense"]])
def test_from_a_file_to_a_report(spae, cells, tmp_path, layer):
    encoder = tmp_path / "e.zarr"
    for verb in (
        ["check", cells, *layer],
        ["plan", cells, *layer, "-k", 2, "-r", 3],
        ["fit", cells, *layer, "-k", 2, "-r", 3, *QUICK, "-o", encoder],
        ["path", cells, *layer, "-k", "1,2", "-r", "2,3", *QUICK],
        ["evaluate", cells, encoder, *layer],
        ["transform", cells, encoder, *layer, "-o", tmp_path / "z.zarr"],
        ["report", encoder, "-o", tmp_path / "report.html"],
        ["ingest", cells, tmp_path / "x.zarr", *layer],
        ["evaluate", tmp_path / "x.zarr", encoder],
        ["evaluate", cells, encoder, "--array", "layers/by columns"],
    ):
        ended = spae(*verb)
        assert ended.code == 0, ended.err
    made = load_encoder(encoder)
    used = [NAMES[column] for column in made.selected_features_]
    assert all(name in spae("inspect", encoder).out for name in used)
    assert all(name in (tmp_path / "report.html").read_text() for name in used)
    expected = (X.toarray() - made.mean_) @ made.components_.T
    np.testing.assert_allclose(zarr.open_array(tmp_path / "z.zarr")[:], expected, atol=1e-5)


def test_bad_files_end_with_the_code_of_what_is_wrong(spae, cells, tmp_path):
    ended = spae("plan", cells, "--array", "obs", "-k", 2, "-r", 3)
    assert (ended.code, "it has X, layers/by columns, layers/dense" in ended.err) == (3, True)
    ended = spae("plan", tmp_path / "none.h5ad", "-k", 2, "-r", 3)
    assert (ended.code, "there is no file" in ended.err) == (3, True)
    cells.write_bytes(cells.read_bytes()[:5000])
    for verb in (["check", cells], ["ingest", cells, tmp_path / "x.zarr"]):
        ended = spae(*verb)
        assert (ended.code, "may be damaged" in ended.err) == (5, True)
    assert not (tmp_path / "x.zarr").exists()
    cells.write_text("not HDF5")
    ended = spae("check", cells)
    assert (ended.code, "is not an HDF5 file" in ended.err) == (3, True)
