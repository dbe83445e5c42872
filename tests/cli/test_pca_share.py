"""A share of the variance in place of K, on the command line and in pipelines."""

from collections.abc import Callable
from pathlib import Path

import anndata
import numpy as np
import pytest
import xarray as xr

from spae_dask import load_encoder
from spae_dask.scanpy import sparse_pca
from spae_dask.xarray import GridEncoder
from tests.cli.conftest import Outcome, planted
from tests.estimators.test_pca_share import smallest_k

pytestmark = pytest.mark.usefixtures("undrawn")

Run = Callable[..., Outcome]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", planted())
    return tmp_path / "x.npy"


def number() -> int:
    x = planted()
    return smallest_k(x - x.mean(axis=0), 0.9)


def test_a_fit_states_the_share_and_the_number(stored: Path, tmp_path: Path, spae: Run) -> None:
    given = ["fit", stored, "-k", "0.9", "-r", 3, "--method", "iterative", "-o", tmp_path / "e.zarr"]
    done = spae(*given, "--json")
    assert done.code == 0, done.err
    found = done.document["certificate"]
    assert found["n_components"] == number() > 1
    assert found["pca_share"] == 0.9
    assert found["pca_explained"] > 0.9
    assert "-k 0.9" in spae("inspect", tmp_path / "e.zarr").out
    assert spae("report", tmp_path / "e.zarr", "-o", tmp_path / "r.html").code == 0
    assert f"{number()}, the fewest with which PCA explains more than 0.9" in (tmp_path / "r.html").read_text()
    assert spae("plan", stored, "-k", "0.9", "-r", 3).code == 0


def test_parts_of_a_fit_choose_together(stored: Path, tmp_path: Path, spae: Run) -> None:
    given = ["-k", "0.9", "-r", 3, "--method", "iterative", "--checkpoint", tmp_path / "kept"]
    for part in ("1/2", "2/2"):
        assert spae("fit-part", part, stored, *given).code == 0
    assert spae("fit-finish", stored, *given, "-o", tmp_path / "e.zarr").code == 0
    assert load_encoder(tmp_path / "e.zarr").n_components_ == number()


@pytest.mark.parametrize("k", ["1.5", "0.0", "x", "0.5,0.6"])
def test_what_is_no_share_is_a_mistake_of_usage(k: str, stored: Path, tmp_path: Path, spae: Run) -> None:
    done = spae("fit", stored, "-k", k, "-r", 3, "-o", tmp_path / "e.zarr")
    assert done.code == 2
    assert "a share between 0 and 1 such as 0.95" in " ".join(done.err.split())


def test_a_sketch_is_refused_before_the_read(stored: Path, tmp_path: Path, spae: Run) -> None:
    done = spae("fit", stored, "-k", "0.9", "-r", 3, "--strategy", "sketch", "-o", tmp_path / "e.zarr")
    assert done.code == 3
    assert "it needs the number before it knows the whole spectrum" in " ".join(done.err.split())


def test_a_pipeline_takes_a_share(stored: Path, tmp_path: Path, spae: Run) -> None:
    (tmp_path / "p.toml").write_text(
        'output = "out"\n[[step]]\nkind = "fit"\nname = "f"\ndata = "x.npy"\nn_components = 0.9\nn_nonzero = 3\n'
        'method = "iterative"\n'
    )
    assert spae("run", tmp_path / "p.toml").code == 0
    assert load_encoder(tmp_path / "out" / "f.zarr").n_components_ == number()


def test_cells_and_grids_take_a_share() -> None:
    adata = anndata.AnnData(planted())
    sparse_pca(adata, 0.9, n_nonzero=3, method="iterative")
    assert adata.obsm["X_spae"].shape[1] == number()
    grid = xr.DataArray(planted(), dims=("time", "cell"))
    found = GridEncoder(0.9, n_nonzero=3, method="iterative").fit(grid, sample_dim="time")
    assert found.encoder_.n_components_ == number()
