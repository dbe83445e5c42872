"""What a fit will read and hold, from metadata alone; and what it did, as planned."""

import pickle
import threading
import tracemalloc
from inspect import signature
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest

from spae_dask import ColumnSelector, SparseEncoder, evaluate, plan
from spae_dask.errors import (
    InvalidInput,
    MemoryBudgetExceeded,
    MissingChunksWarning,
    PrecisionWarning,
    RankDeficientWarning,
)
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.passes.events import Event, PassEnded, PassStarted, RowsDone
from spae_dask.passes.options import PassOptions
from tests.conftest import OptionsSetter
from tests.estimators.sources import Unreadable, Watched, batch_encoder, spread, zarr_array

X = spread(np.random.default_rng(0), 400, 8)


def test_a_plan_reads_nothing() -> None:
    planned = plan(Unreadable((10**7, 200), 20_000), 5, calibrate=False)
    assert planned.shape == (10**7, 200)
    assert planned.bytes_read == 10**7 * 200 * 4
    assert planned.strategy == "gram"
    assert "float32" in planned.reason
    assert plan(Unreadable((10**7, 200), 20_000, np.dtype(float)), 5, calibrate=False).strategy == "tsqr"


def test_the_mean_of_gaps_is_planned_as_one_more_pass() -> None:
    source = Unreadable((10**6, 50), 10**4)
    one, two = (plan(source, 5, missing=each, calibrate=False) for each in ("error", "mean"))
    assert [each.name for each in two.passes] == ["column means", "core"]
    assert two.bytes_read == 2 * one.bytes_read


def test_a_plan_takes_what_the_encoder_takes() -> None:
    elsewhere = {"checkpoint", "progress"}
    assert set(SparseEncoder().get_params()) - elsewhere == set(signature(plan).parameters) - {
        "x",
        "calibrate",
        "resources",
    }


@pytest.mark.parametrize(
    "parameters",
    [
        {"strategy": "sketch", "scale": True},
        {"strategy": "paper", "method": "batch", "n_repeats": 3, "power_iterations": 2},
        {"method": "doubly-sparse", "n_rows": 30, "center": False},
        {"method": "doubly-sparse", "n_nonzero": None, "keep": 0.9},
        {"selection": "leverage", "orthonormal": True, "random_state": 5},
    ],
    ids=str,
)
def test_a_plan_is_that_of_the_fit(parameters: dict[str, Any]) -> None:
    asked = {"n_components": 2, "n_nonzero": 3} | parameters
    assert plan(X, **asked, calibrate=False).passes == SparseEncoder(**asked).fit(X).plan_.passes


@pytest.mark.parametrize("parameters", [{"n_components": 0}, {"n_nonzero": 99}, {"strategy": "x"}, {"missing": "x"}])
def test_a_plan_refuses_what_a_fit_refuses(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        plan(Unreadable((1000, 50), 10), **({"n_components": 2} | parameters))


def test_the_plan_of_a_million_chunks_takes_few_tasks_and_little_time() -> None:
    planned = plan(Unreadable((10**9, 100), 1000), 5, calibrate=False)
    assert planned.passes[0].n_spans <= PassOptions().max_spans + 1
    assert len(pickle.dumps(planned)) < 10_000
    assert "larger chunks would read faster" in str(planned)


def test_less_memory_means_fewer_tasks_at_once_and_never_more_than_the_limit() -> None:
    source = Unreadable((10**6, 500), 10_000)
    planned = [plan(source, 5, memory_limit=f"{limit}MiB", calibrate=False) for limit in (600, 1000, 4000)]
    at_once = [each.tasks_per_worker for each in planned]
    assert at_once == sorted(at_once)
    assert at_once[0] >= 1
    for each in planned:
        assert each.worker_nbytes + (200 << 20) <= 0.7 * each.resources.memory_limit


@pytest.mark.parametrize("d", [1 << 26, 1 << 31, 1 << 40, 1 << 62])
def test_rows_wider_than_memory_are_refused_before_anything_is_made_as_wide(d: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MemoryBudgetExceeded, match=rf"{d:,} columns are too many"):
            plan(Unreadable((60, d), 20), 2, n_nonzero=3, memory_limit="500MB")
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_the_fit_reads_what_the_plan_says() -> None:
    source = Watched(X, rows_per_block=30)
    planned = plan(source, 2, n_nonzero=3, method="batch", calibrate=False)
    encoder = batch_encoder(2, n_nonzero=3).fit(source)
    assert encoder.plan_.as_dict() == planned.as_dict()
    assert encoder.certificate_.bytes_read == planned.bytes_read == X.nbytes


@pytest.mark.parametrize(
    "parameters",
    [
        {"strategy": "paper", "power_iterations": 3, "n_repeats": 5},
        {"strategy": "paper", "projection": "frequent-directions", "split": "dual-set"},
        {"strategy": "paper", "oversampling": 2, "missing": "mean"},
        {"method": "doubly-sparse", "n_rows": 40},
    ],
    ids=str,
)
def test_the_fit_makes_the_passes_that_the_plan_announces(parameters: dict[str, Any]) -> None:
    planned = plan(Watched(X, rows_per_block=30), 2, n_nonzero=3, calibrate=False, **parameters)
    encoder = SparseEncoder(2, n_nonzero=3, **parameters).fit(Watched(X, rows_per_block=30))
    assert encoder.plan_.as_dict() == planned.as_dict()
    assert encoder.certificate_.passes == len(planned.passes)


def test_no_more_blocks_are_held_at_once_than_planned(monkeypatch: pytest.MonkeyPatch, options: OptionsSetter) -> None:
    """The same data under two limits: one task at a time, and as many as there are threads."""
    options(min_span_nbytes=1, states_per_span=0)
    rows = np.random.default_rng(1).random((64, 10))
    monkeypatch.setattr("spae_dask.estimators.runtime.CPU_COUNT", 4)
    for tasks in (1, 3):
        source = Watched(rows, rows_per_block=4, pause=0.02)
        with monkeypatch.context() as patch:
            patch.setattr("spae_dask.passes.planner.tasks_that_fit", lambda *_, tasks=tasks, **__: tasks)
            batch_encoder(1, n_nonzero=1).fit(source)
        assert source.most_at_once <= tasks
        assert (source.most_at_once > 1) == (tasks > 1)


class Log:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.inside = 0
        self.lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        assert self.lock.acquire(blocking=False), "two threads at once"
        self.events.append(event)
        self.lock.release()


@pytest.mark.parametrize("kind", ["numpy", "dask", "zarr"])
def test_whoever_watches_is_told_of_every_row_once(kind: str, tmp_path: Path, options: OptionsSetter) -> None:
    options(min_span_nbytes=4096)
    given = {
        "numpy": lambda: X,
        "dask": lambda: da.from_array(X, chunks=(70, 4)),
        "zarr": lambda: zarr_array(tmp_path / "x.zarr", X, (70, 4)),
    }[kind]()
    for log, call in (
        (log := Log(), lambda log: batch_encoder(2, n_nonzero=3, progress=log).fit(given)),
        (log := Log(), lambda log: ColumnSelector(3, progress=log).fit(given)),
        (log := Log(), lambda log: evaluate(given, batch_encoder(2, n_nonzero=3).fit(X), progress=log)),
        (log := Log(), lambda log: batch_encoder(2, n_nonzero=3, progress=log).fit(X).score(given)),
    ):
        call(log)
        passes = [each for each in log.events if isinstance(each, PassStarted)]
        done = [each for each in log.events if isinstance(each, RowsDone)]
        assert len(passes) == len([each for each in log.events if isinstance(each, PassEnded)])
        assert sum(each.n_rows for each in done) == sum(each.n_rows for each in passes) == 400 * len(passes)
        assert sum(each.nbytes for each in done) == X.nbytes * len(passes)


def test_warnings_point_at_the_line_of_the_user(tmp_path: Path) -> None:
    flat = np.outer(X[:, 0], np.arange(1, 6))
    zarr_array(tmp_path / "x.zarr", X, (100, 8))
    (tmp_path / "x.zarr" / "c" / "1" / "0").unlink()
    encoder = batch_encoder(2, n_nonzero=3).fit(X)
    near = np.outer(X[:, 0], np.arange(1, 6)) + 1e-6 * np.random.default_rng(2).standard_normal((400, 5))
    calls = [
        (RankDeficientWarning, lambda: batch_encoder(2, n_nonzero=2).fit(flat)),
        (RankDeficientWarning, lambda: ColumnSelector(2, n_components=2).fit(flat)),
        (PrecisionWarning, lambda: batch_encoder(1, n_nonzero=2, strategy="gram").fit(near)),
        (MissingChunksWarning, lambda: batch_encoder(2, n_nonzero=3).fit(tmp_path / "x.zarr")),
        (MissingChunksWarning, lambda: ColumnSelector(3).fit(tmp_path / "x.zarr")),
        (MissingChunksWarning, lambda: evaluate(tmp_path / "x.zarr", encoder)),
        (MissingChunksWarning, lambda: encoder.score(tmp_path / "x.zarr")),
        (MissingChunksWarning, lambda: transform_to_zarr(tmp_path / "x.zarr", encoder, str(tmp_path / "z.zarr"))),
    ]
    for category, call in calls:
        with pytest.warns(category) as caught:
            call()
        assert {each.filename for each in caught if each.category is category} == {__file__}, category
