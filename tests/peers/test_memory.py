"""Faults that users of other packages reported about memory: growth, surprise, and copies that nobody needs.

That the peak does not grow with the number of rows (dask#3419) is measured on processes in the tests of the engine.
"""

import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

from spae_dask import plan
from spae_dask.errors import MemoryBudgetExceeded
from spae_dask.passes.accumulators import Gram, Triangular
from tests.conftest import OptionsSetter
from tests.estimators.sources import Unreadable, Watched, batch_encoder, spread


def test_a_wide_matrix_is_refused_by_its_bytes_before_it_is_read() -> None:
    """dask#9934: an array of 6 GB took 27 GiB, which nobody was told before."""
    wide = Unreadable((200, 20_000), 200)
    with pytest.raises(MemoryBudgetExceeded, match=r"needs \d.* GiB.*Nothing was read\. Use a memory limit"):
        batch_encoder(2, n_nonzero=3, memory_limit="4GB", strategy="gram").fit(wide)
    # left to itself it takes a route that fits, and says why
    chosen = plan(wide, 2, n_nonzero=3, memory_limit="4GB", calibrate=False)
    assert chosen.strategy == "tsqr"
    assert "the rows themselves serve as the core" in chosen.reason
    assert chosen.finish_nbytes + chosen.worker_nbytes < 1 << 30


@pytest.mark.parametrize(("threads", "limit"), [(8, 700 << 20), (16, 1 << 30)])
def test_chunks_times_threads_beyond_the_limit_run_fewer_at_once_or_not_at_all(
    threads: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """distributed#6110: memory was overrun before anything could spill, and the run hung."""
    monkeypatch.setattr("spae_dask.estimators.runtime.CPU_COUNT", threads)
    source = Unreadable((10**8, 200), 100_000)
    chunk_nbytes = 100_000 * 200 * 4
    assert threads * chunk_nbytes > 0.8 * limit
    fewer = plan(source, 2, memory_limit=limit, calibrate=False)
    assert 1 <= fewer.tasks_per_worker < threads
    assert fewer.worker_nbytes < 0.8 * limit
    with pytest.raises(MemoryBudgetExceeded):
        plan(source, 2, memory_limit=3 * chunk_nbytes, calibrate=False)


def test_fewer_at_once_means_fewer_blocks_read_at_once(monkeypatch: pytest.MonkeyPatch, options: OptionsSetter) -> None:
    """distributed#6110, in a run."""
    monkeypatch.setattr("spae_dask.estimators.runtime.CPU_COUNT", 8)
    monkeypatch.setattr("spae_dask.passes.planner.tasks_that_fit", lambda *_, **__: 1)
    options(min_span_nbytes=1, states_per_span=0)
    source = Watched(spread(np.random.default_rng(0), 60, 4), rows_per_block=5, pause=0.005)
    encoder = batch_encoder(1, n_nonzero=2).fit(source)
    assert encoder.plan_.tasks_per_worker == 1
    assert encoder.plan_.passes[0].n_spans == 12
    assert source.most_at_once == 1


def test_what_every_task_needs_is_not_copied_into_every_task() -> None:
    """dask#11562, distributed#8814: constants in each of many tasks made graphs of gigabytes."""
    encoder = batch_encoder(1, n_nonzero=1).fit(spread(np.random.default_rng(1), 20, 3))
    rng = np.random.default_rng(2)
    encoder.components_ = rng.standard_normal((50, 20_000)) * (np.arange(20_000) < 500)
    encoder.mean_, encoder.scale_ = rng.standard_normal(20_000), np.ones(20_000)
    encoder.selected_features_, encoder.n_features_in_ = np.arange(500), 20_000
    codes = encoder.transform(Unreadable((1_000_000, 20_000), 1000))
    assert codes.npartitions == 1000
    assert len(pickle.dumps(codes.__dask_graph__())) < 1 << 20


@pytest.mark.parametrize("recipe", [Gram(700), Triangular(700)], ids=["gram", "tsqr"])
def test_an_update_makes_no_second_matrix(recipe: Any) -> None:
    """scanpy PR#4126: X'X of every task was made beside the sum it was added to."""
    rows = np.random.default_rng(3).random((recipe.panel_rows, 700)).astype(np.float32)
    state = recipe.update(recipe.zero(), rows, 0)
    tracemalloc.start()
    again = recipe.update(state, rows, rows.shape[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    nbytes = recipe.work_nbytes(recipe.panel_rows)
    largest = max(state.values(), key=lambda array: array.nbytes)
    assert any(array is largest for array in again.values())
    assert nbytes / 2 < peak < 1.1 * nbytes + 65536
    assert nbytes < 0.8 * recipe.state_nbytes or isinstance(recipe, Triangular)
