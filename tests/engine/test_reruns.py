"""A worker is lost in the middle of a pass: what it had stored is found, not read again; else nothing is looked for."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
import zarr
from distributed import Client

from spae_dask.accumulators import Triangular
from spae_dask.clusters.running import running_scheduler
from spae_dask.engine.checkpoint import Checkpoint
from spae_dask.engine.distributed import DaskRunner
from spae_dask.engine.events import Event, RowsDone
from spae_dask.engine.serial import SerialRunner
from spae_dask.errors import StorageError
from spae_dask.storage.checkpoints.local_states import LocalStates
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.dask_processes import DaskProcesses, end
from tests.engine.bits import bits
from tests.engine.scripted import Scripted

D, N_BLOCKS, ROWS, FAN_IN = 6, 27, 20, 3

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def one_block_a_span_and_three_states_a_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spae_dask.engine.spans.MIN_SPAN_NBYTES", 1)
    monkeypatch.setattr("spae_dask.engine.spans.STATE_WORTH", 0)
    monkeypatch.setattr("spae_dask.engine.layout.fan_in_for", lambda state_nbytes: FAN_IN)


@dataclass(frozen=True)
class CountedStates(LocalStates):
    """Which leaves a file for every time that a folder is listed or a file is opened, by any process."""

    looks: Path

    def files(self, folder: str) -> list[str]:
        self._count(f"list-{os.getpid()}")
        return super().files(folder)

    def open(self, path: str) -> Any:
        self._count(f"open-{os.getpid()}")
        return super().open(path)

    def _count(self, what: str) -> None:
        (self.looks / f"{what}-{uuid4().hex}").touch()

    def n_looks(self, kind: str = "") -> int:
        """Those of other processes."""
        return len([each for each in self.looks.glob(f"{kind}*") if f"-{os.getpid()}-" not in each.name])


@pytest.fixture
def store(tmp_path: Path) -> ZarrBlocks:
    X = np.random.default_rng(0).standard_normal((N_BLOCKS * ROWS, D))
    return ZarrBlocks(zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(ROWS, D)), target_nbytes=1)


@pytest.fixture
def states(tmp_path: Path) -> CountedStates:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "looks").mkdir()
    return CountedStates(tmp_path / "checkpoint", tmp_path / "looks")


@pytest.fixture
def client(processes: DaskProcesses) -> Iterator[Client]:
    """Of a scheduler with one worker, so that it is known what it has when it is killed."""
    address = processes.scheduler()
    processes.worker(address)
    with running_scheduler(address, timeout=60) as client:
        client.wait_for_workers(1, timeout=60)
        yield client


class Killer:
    """Kills the only worker when so many spans are done, and starts another."""

    def __init__(self, processes: DaskProcesses, address: str, after: int) -> None:
        self.processes, self.address, self.after, self.done = processes, address, after, 0

    def __call__(self, event: Event) -> None:
        self.done += isinstance(event, RowsDone)
        if self.done == self.after and isinstance(event, RowsDone):
            worker: subprocess.Popen[bytes] = self.processes.processes[-1]
            os.kill(worker.pid, signal.SIGKILL)
            end(worker)
            self.processes.worker(self.address)


def expected(source: Any) -> Any:
    return bits(SerialRunner(source).run_pass(Triangular(D)))


@pytest.mark.parametrize("after", [8, 20])
def test_what_a_worker_had_stored_is_not_read_again_when_it_is_killed(
    after: int,
    scripted: Callable[..., Scripted],
    store: ZarrBlocks,
    states: CountedStates,
    processes: DaskProcesses,
    client: Client,
) -> None:
    # what comes next takes long enough for the news to arrive before the pass is over
    later = dict.fromkeys(range(after, after + 5), ("a second",))
    source = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",)) | later)
    killer = Killer(processes, client.scheduler.address, after)
    found = DaskRunner(source, client, 1, killer, Checkpoint(states)).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    # one may have been on its way when the worker was killed
    assert source.all_readings() <= N_BLOCKS + 1
    assert killer.done == N_BLOCKS
    assert 1 <= states.n_looks("list") <= N_BLOCKS
    assert states.n_looks("open") <= N_BLOCKS
    left = {path.name for path in states.root.rglob("*.state")}
    # killed after it had stored a merged state, a worker leaves those that this is made of
    assert "3-00000.state" in left
    assert len(left) <= 1 + FAN_IN


def test_without_a_checkpoint_what_was_lost_is_read_again(
    scripted: Callable[..., Scripted], store: ZarrBlocks, processes: DaskProcesses, client: Client
) -> None:
    source = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",)))
    killer = Killer(processes, client.scheduler.address, 20)
    found = DaskRunner(source, client, 1, killer).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    assert source.all_readings() >= N_BLOCKS + 20


def test_a_first_run_of_a_new_pass_never_looks_and_that_of_a_resumed_one_looks_once_a_span(
    scripted: Callable[..., Scripted], store: ZarrBlocks, states: CountedStates, client: Client
) -> None:
    source = scripted({20: ("storage error", "read")})
    with pytest.raises(StorageError, match="cannot be read"):
        DaskRunner(source, client, 1, checkpoint=Checkpoint(states)).run_pass(Triangular(D))
    assert states.n_looks() == 0
    deadline = time.monotonic() + 60  # a merge that had begun takes states away that a new run has listed
    while any(client.run(_n_at_work).values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    read = [i for i in range(N_BLOCKS) if source.readings(i)]
    found = DaskRunner(source, client, 1, checkpoint=Checkpoint(states)).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    assert 0 < states.n_looks("list") <= N_BLOCKS - len(read) + 2
    assert DaskRunner(source, client, 1, checkpoint=Checkpoint(states)).run_pass(Triangular(D)) is not None


def test_the_scheduler_forgets_the_marks_of_a_client_that_leaves(
    store: ZarrBlocks, states: CountedStates, client: Client
) -> None:
    with Client(client.scheduler.address, set_as_default=False) as other:
        DaskRunner(store, other, 1, checkpoint=Checkpoint(states)).run_pass(Triangular(D))
        DaskRunner(store, other, 1, checkpoint=Checkpoint(states)).run_pass(Triangular(D))
        assert [name for name in client.run_on_scheduler(_plugins) if "spae_dask" in name] == [
            f"spae_dask-reruns-{other.id}"
        ]
    assert not [name for name in client.run_on_scheduler(_plugins) if "spae_dask" in name]


def _n_at_work(dask_worker: Any) -> int:
    return len(dask_worker.state.executing)


def _plugins(dask_scheduler: Any) -> list[str]:
    return list(dask_scheduler.plugins)


def test_what_the_client_knows_of_a_span_is_kept_by_no_worker(
    scripted: Callable[..., Scripted], client: Client
) -> None:
    """Else the worker's death would have it swept again."""
    source, kept = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",))), []

    def watch(event: Event) -> None:
        watch.done += isinstance(event, RowsDone)  # type: ignore[attr-defined]
        if watch.done == 20 and isinstance(event, RowsDone):  # type: ignore[attr-defined]
            deadline = time.monotonic() + 30
            while (found := client.run_on_scheduler(_n_records)) != N_BLOCKS - 20 and time.monotonic() < deadline:
                time.sleep(0.05)
            kept.append(found)

    watch.done = 0  # type: ignore[attr-defined]
    DaskRunner(source, client, 1, watch).run_pass(Triangular(D))
    assert kept == [N_BLOCKS - 20]


def _n_records(dask_scheduler: Any) -> int:
    return sum(str(key).startswith("done-") for key in dask_scheduler.tasks)
