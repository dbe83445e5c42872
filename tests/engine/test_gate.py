"""How many span tasks hold their blocks at once in one process."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

import numpy as np
import pytest
from distributed import Client

from spae_dask.blocks import ArrayBlocks, Block
from spae_dask.engine.runner import DaskRunner
from spae_dask.passes.accumulators import Gram
from spae_dask.passes.spans import Span
from tests.conftest import ClusterOpener, OptionsSetter

N_BLOCKS, D = 12, 3


class _Meter:
    """The most readers there were at once; one a process, so that copies of a source share it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}

    def add(self, name: str, n: int) -> None:
        with self.lock:
            self.now[name] = self.now.get(name, 0) + n
            self.most[name] = max(self.most.get(name, 0), self.now[name])


_METER = _Meter()


@dataclass(frozen=True, eq=False)
class Metered(ArrayBlocks):
    """An array whose readers are counted while they read."""

    def read(self, i: int) -> Block:
        _METER.add(self.name, 1)
        time.sleep(0.02)
        _METER.add(self.name, -1)
        return super().read(i)


def metered(name: str) -> Metered:
    return Metered(np.ones((N_BLOCKS * 10, D)), 10, name)


@pytest.fixture(autouse=True)
def one_block_a_span(options: OptionsSetter) -> None:
    options(min_span_nbytes=1, states_per_span=0)
    _METER.most.clear()


@pytest.fixture(scope="module")
def client(open_cluster: ClusterOpener) -> Client:
    """A worker of four threads in this process."""
    return open_cluster(1, processes=False, threads_per_worker=4)


@pytest.mark.parametrize("tasks", [1, 2, 4])
@pytest.mark.parametrize("where", ["cluster", "threads"])
def test_no_more_span_tasks_run_at_once_than_the_plan_allows(where: str, tasks: int, client: Client) -> None:
    runner = DaskRunner(metered("x"), client if where == "cluster" else None, tasks)
    runner.run_pass(Gram(D))
    assert _METER.most["x"] <= tasks
    if tasks > 1:
        assert _METER.most["x"] > 1
    _METER.most.clear()
    runner.run_spans(_read, tuple(Span(i, i + 1, 10 * i, 10 * i + 10) for i in range(N_BLOCKS)))
    assert _METER.most["x"] <= tasks


def _read(source: Metered, span: Span) -> int:
    return len(source.read(span.first_block))


def test_two_runs_at_once_keep_to_their_own_number(client: Client) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(copy_context().run, DaskRunner(metered(name), client, 1).run_pass, Gram(D)) for name in "ab"
        ]
        assert [run.result().count for run in runs] == [N_BLOCKS * 10] * 2
    assert (_METER.most["a"], _METER.most["b"]) == (1, 1)
