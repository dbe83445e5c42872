"""What tests run where pods can be reached: ``python pods_program.py CLUSTER.toml WHAT``."""

import os
import signal
import sys
import threading
import time

from spae_dask.clusters import kubernetes, kubernetes_manifest
from spae_dask.clusters.connect import connect
from tests.estimators.sources import batch_encoder
from tests.integration.slow_source import Slow


def fit(where: str) -> None:
    """Fit slow data on two workers; say when, and the components in the end."""
    with connect(where) as client:
        assert client is not None
        client.wait_for_workers(2, timeout=150)
        threading.Thread(target=_say_when_busy, args=(client,), daemon=True).start()
        with client.as_current():
            found = batch_encoder(3, n_nonzero=5, strategy="gram").fit(Slow(n_blocks=24, seconds=2.0))
        print("components", found.components_.tobytes().hex(), flush=True)


def _say_when_busy(client) -> None:
    while not any(client.processing().values()):
        time.sleep(0.1)
    print("busy", flush=True)


def desert(where: str) -> None:
    """Do nothing for longer than the operator waits, then die."""
    kubernetes.IDLE_SECONDS = kubernetes_manifest.IDLE_SECONDS = 15
    with connect(where) as client:
        assert client is not None
        time.sleep(45)
        # the operator has looked by now, and would have given it a limit of its own if it had none
        print("limit", int(client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.idle_timeout)), flush=True)
        print("answer", client.submit(sum, [1, 2]).result(timeout=60), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    {"fit": fit, "desert": desert}[sys.argv[2]](sys.argv[1])
