"""The size of what a pass sends to the cluster: bounded by spans, and nothing large in any task."""

import pickle
from types import SimpleNamespace
from typing import Any

import cloudpickle
import dask.array as da
import numpy as np
import pytest
from dask.highlevelgraph import HighLevelGraph

from spae_dask.blocks import RowBlocks
from spae_dask.engine.runner import DaskRunner
from spae_dask.passes.accumulators import Accumulator, CrossProducts, Gram
from spae_dask.passes.options import PassOptions
from spae_dask.passes.spans import Span
from spae_dask.storage.sources.dask_blocks import DaskBlocks
from tests.engine.sources import Counted


class Stopped(Exception):
    """Not an error: all spans have been submitted."""


class Taker:
    """Stands for a client: keeps what it is asked to send, until the spans have been sent."""

    def __init__(self) -> None:
        self.loop = object()
        self.scheduler = None
        self.sent: list[Any] = []
        self.n_tasks = 0

    def compute(self, collections: list[Any], optimize_graph: bool = True) -> list[Any]:
        self.sent.append(HighLevelGraph.merge(*(each.__dask_graph__() for each in collections)).to_dict())
        if not optimize_graph:
            self.n_tasks = len(collections)
            raise Stopped
        return [SimpleNamespace(key=each.key, status="pending", release=lambda: None) for each in collections]

    def map(self, *calls: Any, key: list[str], pure: bool) -> None:
        # as arguments of tasks, futures are their keys
        self.sent.append((key, [[_without_futures(each) for each in column] for column in calls[1:]]))
        self.n_tasks = len(key)
        raise Stopped

    @property
    def nbytes(self) -> int:
        return sum(len(cloudpickle.dumps(each)) for each in self.sent)


def _without_futures(given: Any) -> Any:
    return [getattr(each, "key", each) for each in given] if isinstance(given, tuple) else given


def messages_of_pass(source: RowBlocks, accumulator: Accumulator[Any]) -> Taker:
    taker = Taker()
    with pytest.raises(Stopped):
        DaskRunner(source, taker, 1).run_pass(accumulator)
    return taker


def test_a_pass_over_a_million_chunks_is_two_small_messages() -> None:
    source = Counted(n_rows=10**9, n_columns=512, rows_per_block=1000)
    taker = messages_of_pass(source, Gram(512))
    assert len(taker.sent) == 2  # the source and the recipe, and all spans
    most = PassOptions().max_spans
    assert most / 2 < taker.n_tasks <= most
    assert taker.nbytes < 2 << 20


def test_arrays_of_a_recipe_are_sent_once() -> None:
    source = Counted(n_rows=10**6, n_columns=5000, rows_per_block=1000)
    small = CrossProducts(np.arange(10), np.zeros(5000))
    large = CrossProducts(np.arange(10), np.zeros(5000), np.ones(5000), np.ones((5000, 50)))
    sizes = [messages_of_pass(source, recipe).nbytes for recipe in (small, large)]
    recipes = [len(pickle.dumps(recipe)) for recipe in (small, large)]
    assert sizes[1] - sizes[0] < 1.05 * (recipes[1] - recipes[0])


def test_work_on_many_spans_carries_its_arrays_once() -> None:
    class Work:
        def __init__(self) -> None:
            self.arrays = np.ones(10**6)

        def __call__(self, source: RowBlocks, span: Span) -> None: ...

    taker = Taker()
    spans = tuple(Span(i, i + 1, 1000 * i, 1000 * (i + 1)) for i in range(1000))
    with pytest.raises(Stopped):
        DaskRunner(Counted(10**6, 100, 1000), taker, 1).run_spans(Work(), spans)
    assert taker.n_tasks == 1000
    assert 8 * 10**6 < taker.nbytes < 10 << 20


@pytest.mark.parametrize("kind", ["plain", "centered"])
def test_the_graph_of_a_dask_array_grows_with_its_chunks_and_no_faster(kind: str) -> None:
    # every chunk of x - x.mean() needs every other one: copied below each span, the graph would be quadratic
    def nbytes(n_chunks: int) -> int:
        x = da.zeros((100 * n_chunks, 64), chunks=(100, 64))
        return messages_of_pass(DaskBlocks(x if kind == "plain" else x - x.mean(axis=0)), Gram(64)).nbytes

    small, large = (nbytes(n) for n in (150, 1200))
    assert large < 8 * 1.3 * small
    assert large < 2 << 20
