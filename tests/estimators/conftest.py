"""Clusters of worker processes, started once for a module that asks for them."""

from collections.abc import Iterator

import pytest
from distributed import Client

from spae_dask.clusters.local import local_cluster


@pytest.fixture(scope="module")
def one_worker() -> Iterator[Client]:
    """Client of one worker process."""
    with local_cluster(1, memory_limit=1 << 30) as client:
        yield client


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Client]:
    """Client of two worker processes."""
    with local_cluster(2, memory_limit=1 << 30) as client:
        yield client
