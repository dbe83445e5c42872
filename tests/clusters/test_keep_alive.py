"""A scheduler whose client works by itself does not look deserted; one whose client is gone does."""

import time

from spae_dask.clusters.kubernetes import keep_alive
from tests.clusters.conftest import wait_until


def idle_since(client):
    return client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.check_idle())


def test_a_scheduler_is_idle_for_no_longer_than_the_last_sign_of_life(open_cluster):
    client = open_cluster(1)
    wait_until(lambda: idle_since(client) is not None, 20, "an idle scheduler")
    first = idle_since(client)
    with keep_alive(client, 0.1):
        wait_until(lambda: (idle_since(client) or 0.0) > first, 20, "a sign of life")
    time.sleep(0.3)  # a last sign may be on its way
    last = idle_since(client)
    time.sleep(0.5)
    assert idle_since(client) == last
