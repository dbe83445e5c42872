"""A worker is lost in the middle of a pass: what it had stored is loaded and not read again."""

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

from spae_dask.clusters.running import running_scheduler
from spae_dask.engine.runner import DaskRunner
from spae_dask.errors import StorageError
from spae_dask.passes.accumulators import Triangular
from spae_dask.passes.checkpoint import Checkpoint
from spae_dask.passes.events import Event, RowsDone
from spae_dask.passes.layout import PassLayout
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.spans import Span, cut_spans
from spae_dask.storage.checkpoints.local_states import LocalStates
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.conftest import OptionsSetter
from tests.dask_processes import DaskProcesses, end
from tests.engine.bits import bits
from tests.engine.scripted import Scripted

D, N_BLOCKS, ROWS, FAN_IN = 6, 27, 20, 3

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def one_block_a_span_and_three_states_a_merge(options: OptionsSetter) -> None:
    options(min_span_nbytes=1, states_per_span=0, fan_in=FAN_IN)


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
    # one a span, and one more for each that dask runs again
    assert 1 <= states.n_looks("list") <= N_BLOCKS + after + 1
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


def test_a_span_costs_one_look_into_the_store_and_a_finished_pass_one_in_all(
    scripted: Callable[..., Scripted], store: ZarrBlocks, states: CountedStates, client: Client
) -> None:
    source = scripted({20: ("storage error", "read")})
    with pytest.raises(StorageError, match="cannot be read"):
        DaskRunner(source, client, 1, checkpoint=Checkpoint(states)).run_pass(Triangular(D))
    deadline = time.monotonic() + 60  # a merge that had begun takes states away that a new run has listed
    while any(client.run(_n_at_work).values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert states.n_looks("list") <= N_BLOCKS
    assert states.n_looks("open") == 0
    before, read = states.n_looks("list"), [i for i in range(N_BLOCKS) if source.readings(i)]
    found = DaskRunner(source, client, 1, checkpoint=Checkpoint(states)).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    assert 0 < states.n_looks("list") - before <= N_BLOCKS - len(read) + 2
    before = states.n_looks("list")
    DaskRunner(source, client, 1, checkpoint=Checkpoint(states)).run_pass(Triangular(D))
    assert states.n_looks("list") == before


def _n_at_work(dask_worker: Any) -> int:
    return len(dask_worker.state.executing)


def test_a_merged_state_that_is_lost_is_loaded_from_the_store_and_no_span_is_read_again(
    scripted: Callable[..., Scripted], store: ZarrBlocks, states: CountedStates, client: Client
) -> None:
    """A span's task that dask runs again finds its state merged; then the client loads the merged state."""
    source = scripted(dict.fromkeys(range(9, N_BLOCKS), ("slow",)))
    lost = []

    def lose_a_merged_state(event: Event) -> None:
        if isinstance(event, RowsDone) and not lost:
            merged = [key for key in client.run_on_scheduler(_in_memory) if "-2-00000" in key]
            if merged:
                lost.extend(merged)
                client.run_on_scheduler(_lose, merged[0])

    found = DaskRunner(source, client, 1, lose_a_merged_state, Checkpoint(states)).run_pass(Triangular(D))
    assert lost
    assert bits(found) == expected(store)
    assert source.all_readings() == N_BLOCKS
    # it, and those that a merge was to put together with it
    assert 1 <= states.n_looks("open") <= FAN_IN


def _in_memory(dask_scheduler: Any) -> list[str]:
    return [str(key) for key, task in dask_scheduler.tasks.items() if task.state == "memory"]


def _lose(key: str, dask_scheduler: Any) -> None:
    """As if the only worker that had it were gone."""
    task = dask_scheduler.tasks[key]
    worker = next(iter(task.who_has))
    dask_scheduler.worker_send(worker.address, {"op": "free-keys", "keys": [key], "stimulus_id": "test"})
    dask_scheduler.transitions({key: "released"}, "test")


def test_a_worker_holds_no_more_states_than_the_plan_promises(
    scripted: Callable[..., Scripted], client: Client
) -> None:
    source, held = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",))), []

    def watch(event: Event) -> None:
        if isinstance(event, RowsDone):
            keys = client.run_on_scheduler(_in_memory)
            held.append(sum(key.startswith(("span-", "merge-")) for key in keys))

    DaskRunner(source, client, 1, watch).run_pass(Triangular(D))
    # one more while a merge runs: its result is there before the scheduler has heard of it
    assert 1 < max(held) <= PassLayout.of(source, Triangular(D)).footprint.n_states_waiting + 1


def test_a_result_of_work_that_the_client_knows_is_kept_by_no_worker(
    scripted: Callable[..., Scripted], client: Client
) -> None:
    """Else the worker's death would have the work done again."""
    source, kept = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",))), []
    spans = cut_spans(source.bounds, D * 8, 0)

    def watch(event: Event) -> None:
        watch.done += isinstance(event, RowsDone)  # type: ignore[attr-defined]
        if watch.done == 20 and isinstance(event, RowsDone):  # type: ignore[attr-defined]
            deadline = time.monotonic() + 30
            while (found := client.run_on_scheduler(_n_spans)) > N_BLOCKS - 19 and time.monotonic() < deadline:
                time.sleep(0.05)
            kept.append(found)

    watch.done = 0  # type: ignore[attr-defined]
    DaskRunner(source, client, 1, watch).run_spans(_n_rows, spans)
    assert kept[0] <= N_BLOCKS - 19


def _n_rows(source: Scripted, span: Span) -> int:
    return len(source.read(span.first_block))


def _n_spans(dask_scheduler: Any) -> int:
    return sum(str(key).startswith("span-") for key in dask_scheduler.tasks)
