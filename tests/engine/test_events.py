"""What a watcher is told, and what a runner counts."""

from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client

from spae_dask.blocks import ArrayBlocks, RowBlocks
from spae_dask.engine.runner import DaskRunner
from spae_dask.passes.accumulators import Gram
from spae_dask.passes.events import Event, PassEnded, PassStarted, RowsDone
from spae_dask.passes.layout import Tally
from spae_dask.passes.serial import SerialRunner
from spae_dask.passes.spans import Span, cut_spans
from spae_dask.storage.sources.dask_blocks import DaskBlocks
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.conftest import ClusterOpener, OptionsSetter

N, D = 503, 6


@pytest.fixture(scope="module")
def client(open_cluster: ClusterOpener) -> Client:
    return open_cluster(1, processes=False)


@pytest.fixture(autouse=True)
def small_spans(options: OptionsSetter) -> None:
    options(min_span_nbytes=40 * D * 8, states_per_span=1)


@pytest.fixture(params=["zarr", "array", "dask"])
def source(request: pytest.FixtureRequest) -> RowBlocks:
    X = np.random.default_rng(0).standard_normal((N, D))
    if request.param == "array":
        return ArrayBlocks(X, 20)
    if request.param == "dask":
        return DaskBlocks(da.from_array(X, chunks=(20, D)))
    return ZarrBlocks(zarr.create_array({}, data=X, chunks=(20, D)), target_nbytes=1)


@pytest.fixture(params=["loop", "one thread", "two threads", "cluster"])
def watched(request: pytest.FixtureRequest, source: RowBlocks, client: Client) -> tuple[Any, list[Event]]:
    """A runner of every kind, and the events it has sent so far."""
    events: list[Event] = []
    if request.param == "loop":
        return SerialRunner(source, events.append), events
    tasks = {"one thread": 1, "two threads": 2, "cluster": 1}[request.param]
    return DaskRunner(source, client if request.param == "cluster" else None, tasks, events.append), events


def test_a_pass_starts_once_ends_once_and_does_every_row_between(watched: tuple[Any, list[Event]]) -> None:
    runner, events = watched
    runner.run_pass(Gram(D), name="gram pass")
    started, *rows, ended = events
    assert isinstance(started, PassStarted)
    assert isinstance(ended, PassEnded)
    assert (started.name, ended.name) == ("gram pass", "gram pass")
    assert (started.n_rows, started.nbytes) == (N, N * D * 8)
    assert started.n_spans > 5
    assert all(isinstance(event, RowsDone) for event in rows)
    assert sum(event.n_rows for event in rows) == N
    assert sum(event.nbytes for event in rows) == N * D * 8
    assert len(rows) >= started.n_spans
    assert ended.seconds > 0.0
    assert ended.read_seconds >= 0.0
    assert ended.compute_seconds > 0.0


def test_work_on_spans_is_told_in_the_same_way(watched: tuple[Any, list[Event]]) -> None:
    runner, events = watched
    spans = cut_spans(runner.source.bounds, D * 8, 0)
    runner.run_spans(_n_rows, spans, name="count")
    started, *rows, ended = events
    assert started == PassStarted("count", len(spans), N, N * D * 8)
    assert isinstance(ended, PassEnded)
    assert sum(event.n_rows for event in rows) == N


def _n_rows(source: RowBlocks, span: Span) -> int:
    return span.n_rows


def test_a_tally_counts_passes_and_bytes(watched: tuple[Any, list[Event]]) -> None:
    runner, _ = watched
    assert runner.tally == Tally(0, 0)
    runner.run_pass(Gram(D))
    runner.run_pass(Gram(D))
    assert runner.tally == Tally(2, 2 * N * D * 8)
    runner.run_spans(_n_rows, cut_spans(runner.source.bounds, D * 8, 0))
    assert runner.tally == Tally(3, 3 * N * D * 8)


def test_a_pass_that_fails_is_not_counted(source: RowBlocks) -> None:
    class Broken(ArrayBlocks):
        def read(self, i: int) -> Any:
            raise ZeroDivisionError

    for runner in (SerialRunner(Broken(np.ones((9, D)), 2)), DaskRunner(Broken(np.ones((9, D)), 2), None, 1)):
        with pytest.raises(ZeroDivisionError):
            runner.run_pass(Gram(D))
        assert runner.tally == Tally(0, 0)
