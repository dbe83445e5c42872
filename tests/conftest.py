"""Settings of the whole suite: Hypothesis profiles, and dask clusters of real processes.

A fixture that starts processes is module-scoped and belongs to the module that asks for it, so tests may run in any
order.
"""

import os

# before numpy is imported: a search makes thousands of small products, on which the threads of a BLAS only wait
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from distributed import Client, LocalCluster
from hypothesis import HealthCheck, settings

settings.register_profile("dev", max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


ClusterOpener = Callable[..., Client]


@pytest.fixture(scope="module")
def open_cluster() -> Iterator[ClusterOpener]:
    """Function that starts a cluster of worker processes and returns its client; all are closed with the module."""
    with ExitStack() as stack:

        def start(n_workers: int, **options: Any) -> Client:
            defaults = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
            cluster = stack.enter_context(LocalCluster(n_workers=n_workers, **(defaults | options)))
            client = stack.enter_context(Client(cluster))
            client.wait_for_workers(n_workers, timeout=60)
            return client

        yield start
