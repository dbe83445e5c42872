"""Workers that die, data that cannot be read, a user who has had enough: the value is right, or the error is."""

import _thread
import inspect
import pickle
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import dask
import numpy as np
import pytest
import zarr
from distributed import Client, Nanny

from spae_dask import errors
from spae_dask.engine.runner import DaskRunner
from spae_dask.errors import InvalidInput, PassFailed, StorageError
from spae_dask.passes.accumulators import Triangular
from spae_dask.passes.events import Event, RowsDone
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.spans import Span, cut_spans
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.conftest import ClusterOpener, OptionsSetter
from tests.engine.bits import bits
from tests.engine.scripted import Scripted

N, D, N_BLOCKS = 1200, 8, 24

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def one_block_a_span(options: OptionsSetter) -> None:
    options(min_span_nbytes=1, states_per_span=0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ZarrBlocks:
    X = np.random.default_rng(0).standard_normal((N, D))
    path = tmp_path_factory.mktemp("chaos") / "x.zarr"
    return ZarrBlocks(zarr.create_array(path, data=X, chunks=(N // N_BLOCKS, D)), target_nbytes=1)


@pytest.fixture(scope="module")
def client(open_cluster: ClusterOpener) -> Client:
    # a task may take two workers with it; by default four
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}):
        return open_cluster(2)


@pytest.fixture
def scripted(store: ZarrBlocks, tmp_path: Path) -> Callable[[dict[int, tuple[str, ...]]], Scripted]:
    return lambda script: Scripted(store, tmp_path, script)


@pytest.mark.parametrize("death", ["killed", "exit"])
def test_a_worker_that_dies_in_the_middle_of_a_pass_does_not_change_a_bit(
    death: str, scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client
) -> None:
    # late in the pass, so that states that wait to be merged die with the worker
    source = scripted({2: ("slow",), 15: (death, "read"), 16: ("slow",)})
    found = DaskRunner(source, client, 1).run_pass(Triangular(D))
    assert source.readings(15) == 2
    assert bits(found) == bits(SerialRunner(store).run_pass(Triangular(D)))


def test_a_worker_that_leaves_in_good_order_does_not_change_a_bit(
    scripted: Callable[..., Scripted], store: ZarrBlocks, open_cluster: ClusterOpener
) -> None:
    client = open_cluster(2)
    left = []

    def let_one_go(event: Event) -> None:
        if isinstance(event, RowsDone) and not left:
            left.extend(list(client.scheduler_info()["workers"])[:1])
            client.retire_workers(left)

    source = scripted(dict.fromkeys(range(8), ("slow",)))
    found = DaskRunner(source, client, 1, let_one_go).run_pass(Triangular(D))
    assert left
    assert bits(found) == bits(SerialRunner(store).run_pass(Triangular(D)))


def test_a_task_that_kills_every_worker_ends_the_pass_with_its_name_and_the_cluster_lives_on(
    scripted: Callable[..., Scripted], store: ZarrBlocks, client: Client
) -> None:
    source = scripted({7: ("killed",)})
    with pytest.raises(
        PassFailed, match=r"^sums: .*died 2 times.*'span-sums-\w+-000\d\d' \(rows [\d,]+ to .*memory"
    ) as caught:
        DaskRunner(source, client, 1).run_pass(Triangular(D), name="sums")
    # it may be a neighbour's name: dask blames every task a dead worker had before it
    assert isinstance(caught.value, RuntimeError)
    assert re.search(r"-000\d\d' \(rows [\d,]+ to [\d,]+\)", str(caught.value))
    assert re.search(r"The cluster logged last: .*died", str(caught.value))
    assert source.readings(7) == 2
    again = DaskRunner(store, client, 1).run_pass(Triangular(D))
    assert bits(again) == bits(SerialRunner(store).run_pass(Triangular(D)))


def test_work_on_spans_survives_a_death_too(scripted: Callable[..., Scripted], client: Client) -> None:
    source = scripted({5: ("killed", "read")})
    spans = cut_spans(source.bounds, D * 8, 0)
    assert DaskRunner(source, client, 1).run_spans(_sum, spans) == SerialRunner(source.inner).run_spans(_sum, spans)
    assert source.readings(5) == 2


def _sum(source: Scripted, span: Span) -> float:
    return float(np.sum(source.read(span.first_block)))


@pytest.mark.parametrize("where", ["cluster", "threads"])
@pytest.mark.parametrize(
    ("action", "kind", "message"),
    [
        ("storage error", StorageError, "chunk 'c/3/0' cannot be read"),
        ("invalid input", InvalidInput, "the block holds words, not numbers"),
    ],
)
def test_an_error_of_the_data_arrives_as_what_it_is(
    where: str, action: str, kind: type[Exception], message: str, scripted: Callable[..., Scripted], client: Client
) -> None:
    runner = DaskRunner(scripted({11: (action,)}), client if where == "cluster" else None, 1)
    with pytest.raises(kind) as caught:
        runner.run_pass(Triangular(D))
    assert type(caught.value) is kind
    assert str(caught.value) == message


def test_a_chunk_that_cannot_be_decoded_is_named_at_the_client(tmp_path: Path, client: Client) -> None:
    array = zarr.create_array(tmp_path / "broken.zarr", data=np.ones((N, D)), chunks=(100, D))
    (tmp_path / "broken.zarr" / "c" / "4" / "0").write_bytes(b"no such thing")
    with pytest.raises(StorageError, match=r"'c/4/0' of .*broken\.zarr \(rows 400 to 499\)") as caught:
        DaskRunner(ZarrBlocks(array, target_nbytes=1), client, 1).run_pass(Triangular(D))
    assert isinstance(caught.value, OSError)


def test_after_an_interrupt_no_task_is_left(scripted: Callable[..., Scripted], client: Client) -> None:
    source = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",)))
    threading.Timer(0.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        DaskRunner(source, client, 1).run_pass(Triangular(D))
    deadline = time.monotonic() + 30
    while _n_tasks(client) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _n_tasks(client) == 0
    assert source.all_readings() < N_BLOCKS


def _n_tasks(client: Client) -> int:
    return int(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))


def test_after_an_interrupt_threads_finish_what_they_began_and_no_more(scripted: Callable[..., Scripted]) -> None:
    source = scripted(dict.fromkeys(range(N_BLOCKS), ("slow",)))
    threading.Timer(0.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        DaskRunner(source, None, 2).run_pass(Triangular(D))
    time.sleep(0.5)
    read = source.all_readings()
    time.sleep(0.5)
    assert source.all_readings() == read < N_BLOCKS


def test_nothing_is_left_on_the_cluster_after_passes_that_went_well(store: ZarrBlocks, client: Client) -> None:
    runner = DaskRunner(store, client, 1)
    runner.run_pass(Triangular(D))
    runner.run_spans(_sum, cut_spans(store.bounds, D * 8, 0))
    deadline = time.monotonic() + 30
    while _n_tasks(client) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _n_tasks(client) == 0


def test_workers_have_a_nanny_that_starts_them_again(client: Client) -> None:
    # what the tests above rest on
    assert all(isinstance(worker, Nanny) for worker in client.cluster.workers.values())


@pytest.mark.parametrize(
    "kind",
    [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)],
    ids=lambda kind: kind.__name__,
)
def test_every_error_survives_pickling_with_its_class_and_message(kind: type[Exception]) -> None:
    received = pickle.loads(pickle.dumps(kind("what was given, what is allowed, what to do")))
    assert type(received) is kind
    assert str(received) == "what was given, what is allowed, what to do"
