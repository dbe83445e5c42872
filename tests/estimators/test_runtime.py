"""Where a fit runs, and what it says at once when that is nowhere."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from distributed import Client, LocalCluster

from spae_dask.errors import ClusterUnavailable, InvalidInput
from spae_dask.estimators.runtime import resources_for
from tests.estimators.sources import batch_encoder, spread, zarr_array


@pytest.mark.timeout(60)  # and not waited for
def test_a_fit_on_a_client_that_was_closed_is_refused(tmp_path: Path) -> None:
    x = zarr_array(str(tmp_path), spread(np.random.default_rng(0), 60, 4), (20, 4))
    # a default client that is closed while it is current leaves dask's configuration as it had set it
    with (
        LocalCluster(1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
        client.as_current(),
    ):
        client.close()
        with pytest.raises(ClusterUnavailable, match="client is closed"):
            batch_encoder(2, n_nonzero=2).fit(x)


def test_an_answer_without_workers_in_it_counts_as_a_closed_client() -> None:
    scheduler = SimpleNamespace(identity=None, address="tcp://10.0.0.1:8786")
    client = SimpleNamespace(status="running", scheduler=scheduler, sync=lambda *_, **__: {"type": "Scheduler"})
    with pytest.raises(ClusterUnavailable, match="client is closed"):
        resources_for(client, None)


@pytest.mark.parametrize("kind", ["array", "frame of unknown length"])
def test_an_asynchronous_client_is_told_of_and_works_from_a_thread(kind: str) -> None:
    values = spread(np.random.default_rng(0), 60, 4)
    x: Any = da.from_array(values, chunks=(20, 4))
    if kind != "array":
        x = dd.from_dask_array(x, columns=list("abcd"))

    async def fits() -> tuple[str, float]:
        async with (
            LocalCluster(1, processes=False, dashboard_address=":0", asynchronous=True) as cluster,
            Client(cluster, asynchronous=True),
        ):
            with pytest.raises(InvalidInput) as refused:
                batch_encoder(2, n_nonzero=2).fit(x)
            encoder = await asyncio.to_thread(batch_encoder(2, n_nonzero=2).fit, x)
            return str(refused.value), encoder.certificate_.loss

    said, loss = asyncio.run(asyncio.wait_for(fits(), 60))
    assert "asynchronous" in said
    assert "asyncio.to_thread" in said
    assert loss == pytest.approx(batch_encoder(2, n_nonzero=2).fit(values).certificate_.loss)
