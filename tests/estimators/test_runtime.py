"""Where a fit runs, and what it says at once when that is nowhere."""

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from distributed import Client

from spae_dask import SparseEncoder
from spae_dask.errors import ClusterUnavailable
from spae_dask.estimators.runtime import resources_for
from tests.estimators.sources import spread, zarr_array

ClusterOpener = Callable[..., Client]


def test_a_fit_on_a_client_that_was_closed_is_refused_at_once(open_cluster: ClusterOpener, tmp_path: Path) -> None:
    x = zarr_array(str(tmp_path), spread(np.random.default_rng(0), 60, 4), (20, 4))
    client = open_cluster(1)
    with client.as_current():
        client.close()
        began = time.monotonic()
        with pytest.raises(ClusterUnavailable, match="client is closed"):
            SparseEncoder(2, n_nonzero=2).fit(x)
        assert time.monotonic() - began < 5


def test_an_answer_without_workers_in_it_counts_as_a_closed_client() -> None:
    scheduler = SimpleNamespace(identity=None, address="tcp://10.0.0.1:8786")
    client = SimpleNamespace(status="running", scheduler=scheduler, sync=lambda *_, **__: {"type": "Scheduler"})
    with pytest.raises(ClusterUnavailable, match="client is closed"):
        resources_for(client, None)
