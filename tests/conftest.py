"""Settings of the whole suite: Hypothesis profiles, and dask clusters of real processes.

A fixture that starts processes is module-scoped and belongs to the module that asks for it, so tests may run in any
order.
"""

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import dask
import numpy as np  # noqa: F401 - so that its BLAS is there to be limited
import pytest
import scipy.linalg  # noqa: F401 - and scipy's own
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from spae_dask.estimators import plots
from spae_dask.passes.options import pass_options
from tests.s3_service import KEY, SECRET, create_bucket, moto_process

# A search makes thousands of small products, on which the threads of a BLAS only wait; and bits depend on their number.
# Processes that tests start have their own libraries.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ONE_BLAS_THREAD = threadpool_limits(limits=1, user_api="blas")

# Shells have what they start in the background ignore SIGINT, and so would commands that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Forked processes, workers of clusters among them, begin with what their server has imported once.
dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
get_mp_context()  # dask sets its own list when it is asked first
multiprocessing.set_forkserver_preload(["distributed", "spae_dask.cli.fit", "spae_dask.pipelines.runner"])

settings.register_profile("dev", max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


# Modules and tests live as long as the process, and looking for garbage among them costs a second each time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


ClusterOpener = Callable[..., Client]

OptionsSetter = Callable[..., None]


@pytest.fixture
def options() -> Iterator[OptionsSetter]:
    """Function that sets options of passes until the test ends."""
    with ExitStack() as stack:

        def change(**changes: Any) -> None:
            stack.enter_context(pass_options(**changes))

        yield change


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made and not rendered, which takes most of the time of a page; tests of the report look at them."""
    monkeypatch.setattr("spae_dask.report.html._svg", lambda figure, theme: "data:image/svg+xml;base64,PHN2Zy8+")


@pytest.fixture
def few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """The curve that a fit draws has as few points as it may; tests of curves count them."""
    monkeypatch.setattr(plots, "MOST_POINTS", plots.FEWEST_POINTS)


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


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """An S3 service; one process for the whole run."""
    with moto_process() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """URL of a new bucket, and an environment that leads to it and to nothing else."""
    name = f"b{uuid4().hex[:12]}"
    create_bucket(s3_endpoint, name)
    for variable, value in {
        "AWS_ENDPOINT_URL": s3_endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
    }.items():
        monkeypatch.setenv(variable, value)
    return f"s3://{name}"
