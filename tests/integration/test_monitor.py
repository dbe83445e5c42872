"""A cluster that is lost in the middle of a pass: the pass ends with an error that says so, in bounded time."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from distributed import Client

from spae_dask import workers
from spae_dask.clusters.running import running_scheduler
from spae_dask.engine import monitor
from spae_dask.engine.runner import DaskRunner
from spae_dask.errors import ClusterUnavailable, SlowClusterWarning
from spae_dask.passes.accumulators import Triangular
from spae_dask.passes.events import Event, RowsDone
from spae_dask.passes.options import PassOptions
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.spans import Span
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.conftest import OptionsSetter
from tests.dask_processes import DaskProcesses, end
from tests.engine.bits import bits
from tests.engine.scripted import Scripted
from tests.engine.slowness import warned_of_slowness

N, D, N_BLOCKS = 600, 6, 12

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def one_block_a_span_and_little_patience(options: OptionsSetter) -> None:
    options(min_span_nbytes=1, states_per_span=0, check_seconds=0.2, no_workers_seconds=2.0, restart_seconds=0.1)


@pytest.fixture
def source(tmp_path: Path) -> Scripted:
    X = np.random.default_rng(0).standard_normal((N, D))
    blocks = ZarrBlocks(zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(N // N_BLOCKS, D)), target_nbytes=1)
    (tmp_path / "readings").mkdir()
    return Scripted(blocks, tmp_path / "readings", dict.fromkeys(range(N_BLOCKS), ("slow",)))


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Wait for a worker with more patience than the tests have."""
    with Client(address) as waiting:
        waiting.wait_for_workers(1, timeout=60)
    with running_scheduler(address) as client:
        yield client


def after_the_first_span(act: Callable[[], object]) -> Callable[[Event], None]:
    left = [act]

    def watch(event: Event) -> None:
        if isinstance(event, RowsDone) and left:
            left.pop()()

    return watch


def run(source: Scripted, client: Client, act: Callable[[], object]) -> object:
    return DaskRunner(source, client, 1, after_the_first_span(act)).run_pass(Triangular(D), name="sums")


def test_a_pass_ends_when_all_workers_are_gone_and_none_comes_back(source: Scripted, processes: DaskProcesses) -> None:
    address = processes.scheduler()
    workers = [processes.worker(address) for _ in range(2)]
    with (
        connected(address) as client,
        warned_of_slowness(r"been without workers for 0\.\d s\. Waiting up to 2\.0 s for one\."),
        pytest.raises(ClusterUnavailable, match=rf"^sums: the cluster at {address} has been without workers for 2"),
    ):
        run(source, client, lambda: [end(worker) for worker in workers])


def test_a_pass_goes_on_when_a_worker_comes_back_in_time(
    source: Scripted, processes: DaskProcesses, monkeypatch: pytest.MonkeyPatch, options: OptionsSetter
) -> None:
    options(no_workers_seconds=60.0)
    address = processes.scheduler()
    worker = processes.worker(address)
    told: list[str] = []

    def replace(message: str, category: type[Warning] | None = None, **_: object) -> None:
        if category is SlowClusterWarning:
            told.append(message)
            processes.worker(address)

    # the new worker starts when it is told that there is none, so that no worker is too quick to be missed
    monkeypatch.setattr("spae_dask.workers.warn", replace)
    with connected(address) as client:
        found = run(source, client, lambda: end(worker))
    assert len(told) == 1
    assert "been without workers" in told[0]
    assert bits(found) == bits(SerialRunner(source.inner).run_pass(Triangular(D)))


def test_dask_s_own_setting_says_how_long_workers_are_waited_for() -> None:
    with dask.config.set({"distributed.scheduler.no-workers-timeout": "3 minutes"}):
        assert workers.no_workers_seconds() == 180
    assert workers.no_workers_seconds() == 2


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_pass_ends_when_the_scheduler_is_lost(
    how: str, source: Scripted, processes: DaskProcesses, options: OptionsSetter
) -> None:
    options(answer_seconds=1.0, scheduler_seconds=2.0)
    address = processes.scheduler()
    scheduler = processes.processes[0]
    processes.worker(address)
    signals = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
    with (
        pytest.raises(ClusterUnavailable, match=r"^sums: the scheduler .*answer") as caught,
        connected(address) as client,
    ):
        run(source, client, lambda: os.killpg(scheduler.pid, signals[how]))
    if how == "stopped":
        assert f"the scheduler at {address} has not answered for" in str(caught.value)


def test_the_patience_with_a_scheduler_is_below_a_minute() -> None:
    limits = PassOptions()
    assert limits.scheduler_seconds + limits.answer_seconds + limits.check_seconds < 60


def test_a_span_that_takes_far_longer_than_the_others_is_told_with_its_rows_and_worker(
    source: Scripted, processes: DaskProcesses, options: OptionsSetter, tmp_path: Path
) -> None:
    options(slow_seconds=1.0, slow_factor=2)
    slow = Scripted(source.inner, source.folder, {7: ("very slow",)})
    address = processes.scheduler()
    processes.worker(address)
    with (
        connected(address) as client,
        warned_of_slowness(r"^sums: no span has finished for [\d.]+ s.*350 to 399.*on tcp://") as told,
    ):
        found = DaskRunner(slow, client, 1).run_pass(Triangular(D), name="sums")
    assert len(told) == 1
    assert bits(found) == bits(SerialRunner(source.inner).run_pass(Triangular(D)))


def test_a_message_names_three_spans_at_most() -> None:
    spans = [Span(i, i + 1, 1000 * i, 1000 * (i + 1)) for i in range(5)]
    assert monitor.rows_of(spans) == "rows 0 to 999, 1,000 to 1,999, 2,000 to 2,999 and of 2 more spans"
    assert monitor.rows_of(spans[3:4]) == "rows 3,000 to 3,999"
