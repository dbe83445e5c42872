"""A run waits for its first worker: one started later, or one that an adaptive cluster starts for work."""

import threading
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster

from spae_dask.clusters.running import running_scheduler
from spae_dask.errors import ClusterUnavailable
from tests.conftest import OptionsSetter
from tests.dask_processes import DaskProcesses
from tests.engine.slowness import warned_of_slowness
from tests.estimators.sources import batch_encoder

pytestmark = pytest.mark.timeout(150)


@pytest.fixture
def store(tmp_path: Path) -> str:
    X = np.random.default_rng(0).standard_normal((200, 6))
    zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(50, 6))
    return str(tmp_path / "x.zarr")


def test_a_worker_that_comes_late_is_waited_for_and_told_of(
    store: str, processes: DaskProcesses, options: OptionsSetter
) -> None:
    options(restart_seconds=0.5)
    address = processes.scheduler()
    with Client(address) as client:
        late = threading.Timer(4.0, processes.worker, [address])
        late.start()
        with warned_of_slowness(r"been without workers for [\d.]+ s\. Waiting up to 5\.0 min"):
            fitted = batch_encoder(2, n_nonzero=3).fit(store)
        late.join()
        assert fitted.plan_.resources.where == f"dask workers of {client.scheduler.address}"


def test_connecting_waits_as_long_as_a_pass_does(store: str, processes: DaskProcesses) -> None:
    address = processes.scheduler()
    late = threading.Timer(10.0, processes.worker, [address])  # a scheduler must answer within 8 seconds
    late.start()
    with running_scheduler(address) as client:
        assert len(client.scheduler_info(n_workers=-1)["workers"]) == 1
    late.join()


def test_an_adaptive_cluster_without_workers_is_given_work_so_that_it_starts_one(store: str) -> None:
    with (
        LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        cluster.adapt(minimum=0, maximum=1)
        fitted = batch_encoder(2, n_nonzero=3).fit(store)
    assert fitted.plan_.resources.n_workers == 1


def test_the_wait_ends_and_names_the_setting(store: str, processes: DaskProcesses) -> None:
    address = processes.scheduler()
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "2s"}),
        Client(address),
        pytest.raises(ClusterUnavailable, match=r"no workers after 2\.0 s.*no-workers-timeout"),
    ):
        batch_encoder(2, n_nonzero=3).fit(store)
