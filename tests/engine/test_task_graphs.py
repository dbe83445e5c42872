"""The size of the task graph: bounded by spans, and nothing large in any task."""

import pickle
import time
from typing import Any

import cloudpickle
import dask.array as da
import numpy as np
import pytest
from dask.highlevelgraph import HighLevelGraph

from spae_dask.accumulators import Accumulator, CrossProducts, Gram
from spae_dask.blocks import RowBlocks
from spae_dask.engine.distributed import DaskRunner
from spae_dask.engine.spans import MAX_SPANS, Span
from spae_dask.storage.sources.dask_blocks import DaskBlocks
from tests.engine.sources import Counted


class Stopped(Exception):
    """Not an error: the graph has been seen."""


class GraphTaker:
    """Stands for a client: keeps what it is asked to compute."""

    def compute(self, collections: list[Any], optimize_graph: bool) -> None:
        assert not optimize_graph
        self.graph = HighLevelGraph.merge(*(collection.__dask_graph__() for collection in collections)).to_dict()
        raise Stopped


def graph_of_pass(source: RowBlocks, accumulator: Accumulator[Any]) -> dict[Any, Any]:
    taker = GraphTaker()
    with pytest.raises(Stopped):
        DaskRunner(source, taker, 1).run_pass(accumulator)
    return taker.graph


def test_a_pass_over_a_million_chunks_is_a_small_graph_built_in_seconds() -> None:
    source = Counted(n_rows=10**9, n_columns=512, rows_per_block=1000)
    began = time.process_time()
    graph = graph_of_pass(source, Gram(512))
    nbytes = len(cloudpickle.dumps(graph))
    seconds = time.process_time() - began
    # one sweep and one small record of it a span, a seventh of that in merges, the recipe and the source
    assert MAX_SPANS < len(graph) < 2.2 * MAX_SPANS
    assert nbytes < 10 << 20
    assert seconds < 20.0


def test_arrays_of_a_recipe_are_in_the_graph_once() -> None:
    source = Counted(n_rows=10**6, n_columns=5000, rows_per_block=1000)
    small = CrossProducts(np.arange(10), np.zeros(5000))
    large = CrossProducts(np.arange(10), np.zeros(5000), np.ones(5000), np.ones((5000, 50)))
    sizes = [len(cloudpickle.dumps(graph_of_pass(source, recipe))) for recipe in (small, large)]
    recipes = [len(pickle.dumps(recipe)) for recipe in (small, large)]
    assert sizes[1] - sizes[0] < 1.05 * (recipes[1] - recipes[0])


def test_work_on_many_spans_carries_its_arrays_once() -> None:
    class Work:
        def __init__(self) -> None:
            self.arrays = np.ones(10**6)

        def __call__(self, source: RowBlocks, span: Span) -> None: ...

    taker = GraphTaker()
    spans = tuple(Span(i, i + 1, 1000 * i, 1000 * (i + 1)) for i in range(1000))
    with pytest.raises(Stopped):
        DaskRunner(Counted(10**6, 100, 1000), taker, 1).run_spans(Work(), spans)
    assert len(cloudpickle.dumps(taker.graph)) < 10 << 20


@pytest.mark.parametrize("kind", ["plain", "centered"])
def test_the_graph_of_a_dask_array_grows_with_its_chunks_and_no_faster(kind: str) -> None:
    # every chunk of x - x.mean() needs every other one: copied below each span, the graph would be quadratic
    def graph(n_chunks: int) -> dict[Any, Any]:
        x = da.zeros((100 * n_chunks, 64), chunks=(100, 64))
        return graph_of_pass(DaskBlocks(x if kind == "plain" else x - x.mean(axis=0)), Gram(64))

    small, large = (len(cloudpickle.dumps(graph(n))) for n in (150, 1200))
    assert large < 8 * 1.3 * small
    assert large < 2 << 20
