"""Worker processes on this machine."""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client, LocalCluster
from distributed.security import Security

from spae_dask.settings import text_setting


@contextmanager
def local_cluster(n_workers: int, memory_limit: int) -> Iterator[Client]:
    """Start ``n_workers`` single-threaded processes, each limited to ``memory_limit`` bytes; stop them at the end.

    They speak TLS with certificates made for this run, which are nowhere but in their memory: whoever can connect to a
    scheduler runs code as its user, and every user of a machine can connect to its loopback.
    """
    with (
        tempfile.TemporaryDirectory(prefix="spae-workers-") as scratch,
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=memory_limit,
            dashboard_address=text_setting("dashboard-address"),
            local_directory=scratch,
            silence_logs=logging.CRITICAL,
            security=Security.temporary(),
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
