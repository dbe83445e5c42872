"""Nothing keeps the data of a fit alive: memory comes back, and files are closed, without waiting for the collector."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from dask.distributed import Client

from spae_dask import SparseEncoder, evaluate, open_matrix

X = np.random.default_rng(0).normal(size=(300, 6))


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("options", [
    *({"strategy": strategy} for strategy in ("gram", "tsqr", "sketch", "paper", "stream")),
    {"missing": "mean"}, {"method": "iterative"}, {"folds": 3}, {"tolerance": 0.5}, {"recipe": "arcsinh(10)"},
], ids=str)  # fmt: skip
def test_a_fit_lets_go_of_its_source(tmp_path: Path, options: dict[str, Any]) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(50, 6))
    source = open_matrix(tmp_path / "x.zarr")
    alive = weakref.ref(source)
    encoder = SparseEncoder(2, n_nonzero=3, random_state=0, **({"method": "batch"} | options)).fit(source)
    evaluate(source, encoder)
    del source
    assert alive() is None


def test_a_fit_on_a_cluster_lets_go_of_its_source(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(50, 6))
    source = open_matrix(tmp_path / "x.zarr")
    alive = weakref.ref(source)
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None):
        SparseEncoder(2, n_nonzero=3, method="batch").fit(source)
        del source
        assert alive() is None


def test_a_fit_lets_go_of_an_array_in_memory() -> None:
    x = X.copy()
    alive = weakref.ref(x)
    SparseEncoder(2, n_nonzero=3, method="batch").fit(x)
    del x
    assert alive() is None
