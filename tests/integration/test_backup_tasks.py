"""The last spans of a pass do not come: they are run again elsewhere, where that helps, and the bits stay the same."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client, get_worker

from spae_dask.clusters.local import local_cluster
from spae_dask.clusters.running import running_scheduler
from spae_dask.engine import monitor
from spae_dask.engine.monitor import WorkerStatus
from spae_dask.engine.runner import DaskRunner
from spae_dask.errors import StorageError, warn
from spae_dask.passes.accumulators import Triangular
from spae_dask.passes.accumulators.base import Rows, State
from spae_dask.passes.checkpoint import Checkpoint
from spae_dask.passes.events import Event, RowsDone, RunAgain
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.spans import Span, cut_spans
from spae_dask.storage.checkpoints.checkpoint_record import LocalStates
from spae_dask.storage.sources.dask_blocks import DaskBlocks
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.conftest import OptionsSetter
from tests.dask_processes import DaskProcesses, end
from tests.engine.bits import bits
from tests.engine.scripted import Scripted
from tests.engine.slowness import warned_of_slowness

N, D, N_BLOCKS = 600, 6, 12
ROWS = N // N_BLOCKS

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]

Act = Callable[[], object]


@pytest.fixture(autouse=True)
def one_block_a_span_and_little_patience(options: OptionsSetter) -> None:
    options(min_span_nbytes=1, states_per_span=0, check_seconds=0.2, backup_seconds=1.0, silent_seconds=60.0)


@pytest.fixture
def store(tmp_path: Path) -> ZarrBlocks:
    X = np.random.default_rng(0).standard_normal((N, D))
    return ZarrBlocks(zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(ROWS, D)), target_nbytes=1)


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


@pytest.fixture
def mixed(processes: DaskProcesses) -> Iterator[Client]:
    """Of a scheduler with three workers; the first lacks what the others have."""
    address = processes.scheduler()
    processes.worker(address, "--name", "bare")
    with running_scheduler(address, timeout=60) as client:
        for name in ("one", "two"):
            processes.worker(address, "--name", name, "--resources", "GPU=1")
        client.wait_for_workers(3, timeout=60)
        yield client


@pytest.mark.parametrize("annotation", [{"workers": ["one", "two"]}, {"resources": {"GPU": 1}}], ids=" ".join)
def test_a_second_run_keeps_to_the_workers_and_resources_that_the_user_has_named(
    annotation: dict[str, Any], scripted: Callable[..., Scripted], store: ZarrBlocks, mixed: Client
) -> None:
    source, told = scripted({7: ("hangs", "read")}), Told()
    with dask.annotate(**annotation):
        found = DaskRunner(source, mixed, 1, told).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    workers = mixed.scheduler_info()["workers"]
    (again,) = (each for each in told.again if each.first_row == 350)
    assert {workers[address]["name"] for address in (again.slow_worker, again.worker)} == {"one", "two"}


def test_the_first_run_counts_if_it_ends_before_the_second_and_a_fault_of_the_second_is_nobody_s(
    scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client
) -> None:
    source, told = scripted({7: ("very slow", "storage error")}), Told()
    found = DaskRunner(source, client, 1, told).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    assert [each.first_row for each in told.again].count(350) == 1
    assert source.readings(7) == 2


def test_a_span_is_run_again_once_and_then_told_of(
    scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client, options: OptionsSetter
) -> None:
    options(slow_seconds=2.0, slow_factor=2)
    source, told = scripted({7: ("very slow",)}), Told()
    with warned_of_slowness(r"^sums: no span has finished for .*350 to 399"):
        found = DaskRunner(source, client, 1, told).run_pass(Triangular(D), name="sums")
    assert bits(found) == expected(store)
    assert [each.first_row for each in told.again].count(350) == 1
    assert source.readings(7) == 2


def test_what_a_second_run_failed_with_is_told_while_the_first_is_waited_for(
    scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client, options: OptionsSetter
) -> None:
    options(backup_factor=1, slow_seconds=5.0, slow_factor=1)
    source = scripted({7: ("slower still", "storage error")})
    with warned_of_slowness(r"350 to 399.* one failure: chunk 'c/3/0' cannot be read\. The pass is still waiting"):
        found = DaskRunner(source, client, 1).run_pass(Triangular(D))
    assert bits(found) == expected(store)


def test_a_store_that_is_slow_for_all_gets_no_second_reader(
    scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client, options: OptionsSetter
) -> None:
    options(backup_seconds=0.1)
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


class Traced(np.ndarray):
    """An array that notes in which process it was unpickled."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _loaded, (np.asarray(self).copy(),)


UNPICKLED: list[int] = []


def _loaded(array: Any) -> Traced:
    UNPICKLED.append(array.nbytes)
    return array.view(Traced)


@dataclass(frozen=True)
class TracedTriangular(Triangular):
    """Whose states note where they come to."""

    def zero(self) -> State:
        return super().zero() | {"traced": np.zeros(1).view(Traced)}

    def merge(self, a: State, b: State) -> State:
        return super().merge(a, b) | {"traced": a["traced"].copy()}


def test_the_state_of_a_second_run_goes_from_worker_to_worker_and_never_by_way_of_the_client(
    scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client
) -> None:
    source = scripted({7: ("hangs", "read")})
    UNPICKLED.clear()
    state = DaskRunner(source, client, 1).run_state(TracedTriangular(D))
    assert int(state["count"]) == N
    assert type(state["traced"]) is Traced
    assert len(UNPICKLED) == 1  # that of all rows, which was asked for


def test_a_fault_of_the_data_ends_the_pass_at_once_while_a_second_run_is_at_it(
    scripted: Callable[..., Scripted], client: Client
) -> None:
    source, told = scripted({7: ("slow fault", "hangs")}), Told()
    with pytest.raises(StorageError, match=r"^chunk 'c/3/0' cannot be read$"):
        DaskRunner(source, client, 1, told).run_pass(Triangular(D))
    assert source.readings(7) == 2  # and the second, which hangs for longer than a test may take, is not waited for
    assert [each.first_row for each in told.again].count(350) == 1


@dataclass(frozen=True, eq=False)
class Placed(Scripted):
    """Which asks dask on which worker it is read."""

    def read(self, i: int) -> Any:
        assert get_worker().address
        return super().read(i)


def test_a_source_can_ask_dask_on_which_worker_it_is_read(store: ZarrBlocks, client: Client, tmp_path: Path) -> None:
    (tmp_path / "readings").mkdir()
    found = DaskRunner(Placed(store, tmp_path / "readings"), client, 1).run_pass(Triangular(D))
    assert bits(found) == expected(store)


@pytest.mark.parametrize("persisted", [False, pytest.param(True, marks=pytest.mark.slow)])
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


@pytest.fixture
def brief_client(processes: DaskProcesses, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Of a scheduler with two workers that forgets a worker after seconds without a sign of life."""
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL", "5s")
    address = processes.scheduler()
    for _ in range(2):
        processes.worker(address)
    with running_scheduler(address, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.mark.parametrize("afterwards", ["goes on", pytest.param("is killed", marks=pytest.mark.slow)])
def test_a_run_outlives_a_worker_that_is_stopped_in_the_middle_of_a_span(
    afterwards: str,
    scripted: Callable[..., Scripted],
    store: ZarrBlocks,
    processes: DaskProcesses,
    brief_client: Client,
) -> None:
    client, stopped = brief_client, processes.processes[1]
    source = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",)))
    told = Told(lambda: os.kill(stopped.pid, signal.SIGSTOP))
    found = DaskRunner(source, client, 1, told).run_pass(Triangular(D), name="sums")
    assert bits(found) == expected(store)
    assert wait_until(lambda: len(client.scheduler_info()["workers"]) == 1)
    if afterwards == "is killed":
        end(stopped)
    else:
        # it wakes up to hear that nobody counts on it any more, and leaves
        os.kill(stopped.pid, signal.SIGCONT)
        stopped.wait(60)
    assert bits(DaskRunner(store, client, 1).run_pass(Triangular(D))) == expected(store)


def test_states_that_a_stopped_worker_holds_are_made_again(
    scripted: Callable[..., Scripted], store: ZarrBlocks, processes: DaskProcesses, brief_client: Client
) -> None:
    stopped = processes.processes[1]
    source = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",)))

    def stop_when_half_are_done(event: Event) -> None:
        told(event)
        if told.done == N_BLOCKS // 2 and isinstance(event, RowsDone):
            os.kill(stopped.pid, signal.SIGSTOP)

    told = Told()
    found = DaskRunner(source, brief_client, 1, stop_when_half_are_done).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    assert source.all_readings() > N_BLOCKS


def test_the_warning_names_a_worker_that_does_not_respond(
    scripted: Callable[..., Scripted],
    store: ZarrBlocks,
    processes: DaskProcesses,
    client: Client,
    options: OptionsSetter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker wakes when it has been named: until then no backup task and no time limit ends the pass."""
    options(silent_seconds=1.0, slow_seconds=4.0, slow_factor=1, max_backups=0)
    stopped = processes.processes[1]

    def warn_and_wake(message: str, category: type[Warning]) -> None:
        warn(message, category)
        if "No response" in message:
            os.kill(stopped.pid, signal.SIGCONT)

    monkeypatch.setattr(monitor, "warn", warn_and_wake)
    source = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",)))
    told = Told(lambda: os.kill(stopped.pid, signal.SIGSTOP))
    with warned_of_slowness(r"No response for [\d.]+ s from tcp://.*worker-ttl"):
        found = DaskRunner(source, client, 1, told).run_pass(Triangular(D))
    assert bits(found) == expected(store)


def test_a_nanny_starts_a_stopped_worker_again_and_a_cluster_with_a_stopped_one_closes(
    scripted: Callable[..., Scripted], store: ZarrBlocks
) -> None:
    with dask.config.set({"distributed.scheduler.worker-ttl": "5s"}), local_cluster(2, 1 << 30) as client:
        client.wait_for_workers(2, timeout=60)
        stopped, other = client.run(os.getpid).values()
        source = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",)))
        told = Told(lambda: os.kill(stopped, signal.SIGSTOP))
        found = DaskRunner(source, client, 1, told).run_pass(Triangular(D))
        assert bits(found) == expected(store)
        client.wait_for_workers(2, timeout=60)
        assert wait_until(lambda: stopped not in client.run(os.getpid).values())
        os.kill(other, signal.SIGSTOP)


def busy(address: str, n: int, threads: int) -> WorkerStatus:
    return WorkerStatus(address, threads, tuple(f"{address}-{i}" for i in range(n)))


class Answers:
    """Stands for a client of a cluster whose scheduler knows where tasks may run."""

    def __init__(self, allowed: dict[str, frozenset[str] | None]) -> None:
        self.allowed = allowed
        self.scheduler = SimpleNamespace()

    def sync(self, question: Any, callback_timeout: float) -> Any:
        return question()

    def _run_on_scheduler(self, act: Any, keys: tuple[str, ...]) -> dict[str, frozenset[str] | None]:
        return {key: self.allowed.get(key) for key in keys}


def backups(statuses: list[WorkerStatus], n_spans: int, allowed: dict[str, Any] | None = None) -> tuple[Any, Told]:
    """A monitor that has looked twice, and what it told."""
    told, begun = Told(), []
    spans = {f"a-{i}": Span(i, i + 1, 10 * i, 10 * i + 10) for i in range(n_spans)}
    watching = monitor.Monitor(Answers(allowed or {}), "sums", spans, n_spans, told)

    def back_up(key: str, worker: str) -> bool:
        if (first := key not in [each for each, _ in begun]) is True:
            begun.append((key, worker))
        return first

    watching.back_up = back_up
    for _ in range(2):
        watching._start_backups(statuses, 9.0, 1.0)
    return begun, told


def test_a_span_is_run_again_once_on_another_worker_and_few_are(options: OptionsSetter) -> None:
    options(max_backups=3)
    statuses = [busy("a", 5, 8), busy("b", 0, 2), busy("c", 0, 8)]
    assert backups(statuses[:1], 5)[0] == []  # its own threads are no other worker
    begun, told = backups(statuses, 5)
    assert begun == [("a-0", "b"), ("a-1", "b"), ("a-2", "c")]
    assert [(each.first_row, each.slow_worker) for each in told.again] == [(0, "a"), (10, "a"), (20, "a")]


def test_a_span_is_run_again_where_its_first_run_may_be() -> None:
    statuses = [busy("a", 3, 3), busy("b", 0, 2), busy("c", 0, 2)]
    begun, _ = backups(statuses, 3, {"a-0": frozenset("ac"), "a-1": frozenset("a")})
    assert begun == [("a-0", "c"), ("a-2", "b")]


def test_of_two_tasks_of_a_span_the_one_that_lost_is_let_go(
    scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client
) -> None:
    source = scripted({7: ("hangs", "read"), 9: ("very slow", "a second")})
    left: list[bool] = []

    def watch(event: Event) -> None:
        told(event)
        if told.done == N_BLOCKS and isinstance(event, RowsDone):
            left.append(wait_until(lambda: max(_tasks_of_spans(client).values()) == 1))

    told = Told()
    found = DaskRunner(source, client, 1, watch).run_pass(Triangular(D))
    assert bits(found) == expected(store)
    assert {350, 450} >= {each.first_row for each in told.again if each.first_row in (350, 450)} != set()
    assert left == [True]


def _tasks_of_spans(client: Client) -> Counter[str]:
    keys = [key.split("-") for key in client.run_on_scheduler(_keys)]
    return Counter(words[-1] for words in keys if words[0] in ("span", "backup"))


def _keys(dask_scheduler: Any) -> list[str]:
    return [str(key) for key in dask_scheduler.tasks]


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()
