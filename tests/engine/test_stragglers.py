"""The last spans of a pass do not come: they are run again elsewhere, where that helps, and the bits stay the same."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client

from spae_dask.accumulators import Triangular
from spae_dask.accumulators.base import Rows, State
from spae_dask.clusters.local import local_cluster
from spae_dask.clusters.running import running_scheduler
from spae_dask.engine import stragglers, watchdog
from spae_dask.engine.checkpoint import Checkpoint
from spae_dask.engine.distributed import DaskRunner
from spae_dask.engine.events import Event, RowsDone, RunAgain
from spae_dask.engine.serial import SerialRunner
from spae_dask.engine.spans import Span, cut_spans
from spae_dask.engine.stragglers import Holder, idle_places
from spae_dask.errors import SlowClusterWarning
from spae_dask.storage.dask_blocks import DaskBlocks
from spae_dask.storage.state_store import LocalStates
from spae_dask.storage.zarr_blocks import ZarrBlocks
from tests.dask_processes import DaskProcesses, end
from tests.engine.bits import bits
from tests.engine.scripted import Scripted

N, D, N_BLOCKS = 600, 6, 12
ROWS = N // N_BLOCKS

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]

Act = Callable[[], object]


@pytest.fixture(autouse=True)
def one_block_a_span_and_little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spae_dask.engine.spans.MIN_SPAN_NBYTES", 1)
    monkeypatch.setattr("spae_dask.engine.spans.STATE_WORTH", 0)
    monkeypatch.setattr(watchdog, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(stragglers, "STRAGGLER_SECONDS", 1.0)
    monkeypatch.setattr(stragglers, "SILENT_SECONDS", 60.0)


@pytest.fixture
def store(tmp_path: Path) -> ZarrBlocks:
    X = np.random.default_rng(0).standard_normal((N, D))
    return ZarrBlocks(zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(ROWS, D)), target_nbytes=1)


@pytest.fixture
def scripted(store: ZarrBlocks, tmp_path: Path) -> Callable[[dict[int, tuple[str, ...]]], Scripted]:
    (tmp_path / "readings").mkdir()
    return lambda script: Scripted(store, tmp_path / "readings", script)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[DaskProcesses]:
    with DaskProcesses(tmp_path / "dask") as processes:
        yield processes


@pytest.fixture
def client(processes: DaskProcesses) -> Iterator[Client]:
    """Of a scheduler with two workers that nobody starts again."""
    address = processes.scheduler()
    for _ in range(2):
        processes.worker(address)
    with running_scheduler(address, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


class Told:
    """Keeps the second runs, and acts when the third span is done."""

    def __init__(self, act: Act = lambda: None) -> None:
        self.again: list[RunAgain] = []  # a span that waits behind the one that hangs may be among them
        self.done = 0
        self.act = act

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunAgain):
            self.again.append(event)
        if isinstance(event, RowsDone):
            self.done += 1
            if self.done == 3:
                self.act()


def expected(source: Any) -> Any:
    return bits(SerialRunner(source).run_pass(Triangular(D)))


def test_a_read_that_hangs_the_first_time_is_made_again_on_the_other_worker(
    scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client
) -> None:
    source, told = scripted({7: ("hangs", "read")}), Told()
    found = DaskRunner(source, client, 1, told).run_pass(Triangular(D), name="sums")
    assert bits(found) == expected(store)
    (again,) = (each for each in told.again if each.first_row == 350)
    assert again.last_row == 400
    assert {again.slow_worker, again.worker} == set(client.scheduler_info()["workers"])
    assert again.seconds >= 1.0 > again.usual_seconds
    assert source.readings(7) == 2
    assert source.all_readings() <= N_BLOCKS + len(told.again)
    assert told.done == N_BLOCKS
    # the thread that hangs holds no worker up
    assert bits(DaskRunner(store, client, 1).run_pass(Triangular(D))) == expected(store)


def test_the_first_run_counts_if_it_ends_before_the_second_and_a_fault_of_the_second_is_nobody_s(
    scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client
) -> None:
    source, told = scripted({7: ("very slow", "storage error")}), Told()
    found = DaskRunner(source, client, 1, told).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    assert [each.first_row for each in told.again].count(350) == 1
    assert source.readings(7) == 2


def test_a_span_is_run_again_once_and_then_told_of(
    scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "SLOW_SECONDS", 2.0)
    monkeypatch.setattr(watchdog, "SLOW_FACTOR", 2)
    source, told = scripted({7: ("very slow",)}), Told()
    with pytest.warns(SlowClusterWarning, match=r"^sums: no span has been finished for .*350 to 399"):
        found = DaskRunner(source, client, 1, told).run_pass(Triangular(D), name="sums")
    assert bits(found) == expected(store)
    assert [each.first_row for each in told.again].count(350) == 1
    assert source.readings(7) == 2


def test_a_store_that_is_slow_for_all_gets_no_second_reader(
    scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stragglers, "STRAGGLER_SECONDS", 0.1)
    source, told = scripted(dict.fromkeys(range(N_BLOCKS), ("a second",))), Told()
    found = DaskRunner(source, client, 1, told).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    assert told.again == []
    assert source.all_readings() == N_BLOCKS


def test_work_that_may_write_is_not_done_by_two_at_once(scripted: Callable[..., Scripted], client: Client) -> None:
    source, told = scripted({5: ("very slow",)}), Told()
    spans = cut_spans(source.bounds, D * 8, 0)
    found = DaskRunner(source, client, 1, told).run_spans(_sum, spans)
    assert found == SerialRunner(source.inner).run_spans(_sum, spans)
    assert told.again == []
    assert source.readings(5) == 1


def _sum(source: Scripted, span: Span) -> float:
    return float(np.sum(source.read(span.first_block)))


@dataclass(frozen=True)
class StuckOnce(Triangular):
    """Whose update of the rows from 350 on hangs the first time that anyone makes it."""

    folder: Path

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        if first_row == 7 * ROWS:
            try:
                (self.folder / "stuck").touch(exist_ok=False)
            except FileExistsError:
                (self.folder / "again").touch()
            else:
                time.sleep(300)
        return super().update(state, rows, first_row)


@pytest.mark.parametrize("persisted", [False, True])
def test_spans_of_a_dask_array_are_run_again_from_the_same_blocks(
    persisted: bool, client: Client, tmp_path: Path
) -> None:
    lazy = da.from_array(np.random.default_rng(0).standard_normal((N, D)), chunks=(ROWS, D))
    counted = lazy.map_blocks(_counted, str(tmp_path), dtype=lazy.dtype, meta=np.empty((0, 0)))
    source, told = DaskBlocks(client.persist(counted) if persisted else counted), Told()
    found = DaskRunner(source, client, 1, told).run_pass(StuckOnce(D, tmp_path))
    assert bits(found) == expected(DaskBlocks(lazy))
    assert [each.first_row for each in told.again].count(350) == 1
    assert (tmp_path / "again").exists()
    assert len(list(tmp_path.glob("block-*"))) == N_BLOCKS


def _counted(block: Any, folder: str) -> Any:
    (Path(folder) / f"block-{time.time_ns()}-{os.getpid()}").touch()
    return block


def test_a_second_run_stores_its_state_and_the_next_run_finds_it(
    scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client, tmp_path: Path
) -> None:
    source, told = scripted({7: ("hangs", "read")}), Told()
    (tmp_path / "checkpoint").mkdir()
    states = LocalStates(tmp_path / "checkpoint")
    found = DaskRunner(source, client, 1, told, Checkpoint(states)).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    assert source.readings(7) == 2
    read = source.all_readings()
    found = DaskRunner(source, client, 1, told, Checkpoint(states)).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    assert source.all_readings() == read


@pytest.mark.parametrize("afterwards", ["goes on", "is killed"])
def test_a_worker_that_is_stopped_in_the_middle_of_a_span_is_taken_for_dead(
    afterwards: str,
    scripted: Callable[..., Scripted],
    store: ZarrBlocks,
    processes: DaskProcesses,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stragglers, "SILENT_SECONDS", 5.0)
    stopped: subprocess.Popen[bytes] = processes.processes[1]
    source = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",)))
    told = Told(lambda: os.kill(stopped.pid, signal.SIGSTOP))
    with pytest.warns(SlowClusterWarning, match=r"^sums: nothing has been heard for \d+ seconds of tcp://.* \(rows "):
        found = DaskRunner(source, client, 1, told).run_pass(Triangular(D), name="sums")
    assert bits(found) == expected(store)
    assert len(client.scheduler_info()["workers"]) == 1
    if afterwards == "is killed":
        end(stopped)
    else:
        # it wakes up to hear that nobody counts on it any more, and leaves
        os.kill(stopped.pid, signal.SIGCONT)
        stopped.wait(60)
    assert bits(DaskRunner(store, client, 1).run_pass(Triangular(D))) == expected(store)


def test_states_that_a_stopped_worker_holds_are_made_again(
    scripted: Callable[..., Scripted],
    store: ZarrBlocks,
    processes: DaskProcesses,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stragglers, "SILENT_SECONDS", 5.0)
    stopped = processes.processes[1]
    source = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",)))

    def stop_when_most_are_done(event: Event) -> None:
        told(event)
        if told.done == N_BLOCKS - 1 and isinstance(event, RowsDone):
            os.kill(stopped.pid, signal.SIGSTOP)

    told = Told()
    with pytest.warns(SlowClusterWarning, match=r"nothing has been heard"):
        found = DaskRunner(source, client, 1, stop_when_most_are_done).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    assert source.all_readings() > N_BLOCKS


def test_a_nanny_starts_a_stopped_worker_again_and_a_cluster_with_a_stopped_one_closes(
    scripted: Callable[..., Scripted], store: ZarrBlocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stragglers, "SILENT_SECONDS", 5.0)
    with local_cluster(2, 1 << 30) as client:
        client.wait_for_workers(2, timeout=60)
        stopped, other = client.run(os.getpid).values()
        source = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",)))
        told = Told(lambda: os.kill(stopped, signal.SIGSTOP))
        with pytest.warns(SlowClusterWarning, match=r"nothing has been heard"):
            found = DaskRunner(source, client, 1, told).run_pass(Triangular(D))
        assert bits(found) == expected(store)
        client.wait_for_workers(2, timeout=60)
        assert stopped not in client.run(os.getpid).values()
        os.kill(other, signal.SIGSTOP)
        began = time.monotonic()
    assert time.monotonic() - began < 60


def busy(address: str, n: int, *, threads: int = 1, silence: float = 0.0, running: bool = True) -> Holder:
    return Holder(address, threads, tuple(f"{address}-{i}" for i in range(n)), silence, running)


@pytest.mark.parametrize(
    ("holders", "places"),
    [
        ([busy("a", 1), busy("b", 0)], ["b"]),
        ([busy("a", 2), busy("b", 0)], ["b"]),  # one runs, one waits for its turn
        ([busy("a", 1), busy("b", 1)], []),
        ([busy("a", 1), busy("b", 1), busy("c", 0)], []),  # more are at work than not
        ([busy("a", 1), busy("b", 1), busy("c", 0), busy("d", 0)], ["c", "d"]),
        ([busy("a", 1, threads=4), busy("b", 3, threads=4)], ["a", "a", "a", "b"]),
        ([busy("a", 1), busy("b", 0, running=False)], []),
        ([busy("a", 1, silence=99), busy("b", 0)], ["b"]),
        ([busy("a", 0, silence=99), busy("b", 1)], []),
        ([], []),
    ],
)
def test_spans_are_run_again_only_if_half_of_the_threads_have_nothing_to_do(
    holders: list[Holder], places: list[str]
) -> None:
    assert idle_places(holders) == places


class Answers:
    """Stands for a client that starts nothing."""

    def __init__(self) -> None:
        self.places: list[str] = []

    def compute(self, place: str, optimize_graph: bool) -> str:
        assert not optimize_graph
        self.places.append(place)
        return place


def test_a_span_is_run_again_once_on_another_worker_and_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stragglers, "MOST_SECOND_RUNS", 3)
    client, told = Answers(), Told()
    spans = {f"a-{i}": Span(i, i + 1, 10 * i, 10 * i + 10) for i in range(5)}
    again = stragglers.Stragglers(client, spans, lambda key, place: place, told, lambda question: None)
    holders = [busy("a", 5, threads=8), busy("b", 0, threads=2), busy("c", 0, threads=8)]
    again.run_again(holders[:1], 9.0, 1.0)
    assert client.places == []  # its own threads are no other worker
    for _ in range(2):
        again.run_again(holders, 9.0, 1.0)
    assert client.places == ["b", "b", "c"]
    assert [(each.first_row, each.slow_worker) for each in told.again] == [(0, "a"), (10, "a"), (20, "a")]


class Finished:
    """Stands for a second run that has ended."""

    status = "finished"

    def result(self) -> str:
        return "the state"


def test_a_state_is_sent_to_the_worker_that_has_the_task_and_again_only_if_it_still_has_it_much_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        stragglers, "_send", lambda client, run, key, address: sent.append((run.result(), key, address))
    )
    client = SimpleNamespace(
        scheduler=SimpleNamespace(processing=lambda: {"a": [], "b": ["x", "sweep-1"]}),
        compute=lambda *_, **__: Finished(),
    )
    spans = {"sweep-1": Span(0, 1, 0, 10)}
    second = stragglers.Stragglers(client, spans, lambda key, place: place, Told(), lambda question: question())
    second.run_again([Holder("b", 1, ("sweep-1",)), Holder("a", 1)], 9.0, 1.0)
    for seconds, n_sent in ((60.0, 1), (60.0, 1)):
        monkeypatch.setattr(stragglers, "HAND_SECONDS", seconds)
        second.hand_over()
        assert wait_until(lambda n=n_sent: len(sent) == n)
    now = time.monotonic()
    monkeypatch.setattr(stragglers.time, "monotonic", lambda: now + 61)
    second.hand_over()
    monkeypatch.undo()
    assert wait_until(lambda: sent == [("the state", "sweep-1", "b")] * 2)


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()
