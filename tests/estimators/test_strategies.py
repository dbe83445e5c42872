"""Which strategy is taken, what the others would cost, and what is said of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from zarr.storage import MemoryStore

from spae_dask import machine, plan
from spae_dask.blocks import StoredEntries
from spae_dask.errors import MemoryBudgetExceeded
from spae_dask.estimators.planning import layout_notes
from spae_dask.passes.memory import IDLE_NBYTES, LAST_SHARE, usable
from spae_dask.passes.plan import Alternative, Resources
from spae_dask.storage.open import open_matrix
from spae_dask.strategies.parameters import STRATEGIES as NAMES
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.table import STRATEGIES, choose, price_all, standing
from tests.estimators.sources import Unreadable, Watched, spread, zarr_array

ROOMY = Resources("here", 1, 2, 2**40)
X = spread(np.random.default_rng(0), 400, 8)


def planned(shape: tuple[int, int], k: int = 5, r: int = 10, **options: Any) -> Any:
    source = Unreadable(shape, max(1, 4_000_000 // shape[1]), np.dtype(options.pop("dtype", "f4")))
    return plan(source, k, n_nonzero=r, **({"resources": ROOMY, "calibrate": False} | options))


def by_name(found: Any) -> dict[str, Alternative]:
    return {each.strategy: each for each in found.alternatives}


def test_every_strategy_there_is_has_a_price() -> None:
    assert set(STRATEGIES) == set(NAMES) - {"auto"}
    assert [each.strategy for each in planned((10**6, 100)).alternatives] == list(STRATEGIES)


def test_the_price_of_the_strategy_taken_is_the_plan() -> None:
    for strategy in STRATEGIES:
        found = planned((10**6, 100), strategy=strategy)
        mine = by_name(found)[strategy]
        assert found.strategy == strategy
        assert (mine.seconds, mine.bytes_read) == (pytest.approx(found.seconds), found.bytes_read)
        assert (mine.worker_nbytes, mine.finish_nbytes) == (found.worker_nbytes, found.finish_nbytes)
        assert mine.n_passes == len(found.passes)


@pytest.mark.parametrize(
    ("shape", "dtype", "strategy"),
    [
        ((10**6, 200), "f4", "gram"),
        ((10**6, 200), "f8", "tsqr"),
        ((10**7, 3000), "f4", "gram"),
        ((10**6, 10_000), "f4", "sketch"),
        ((20_000, 10_000), "f4", "sketch"),  # of few rows too, by the decomposition of the core
        ((4000, 3000), "f4", "gram"),
        ((1000, 3000), "f4", "tsqr"),  # the rows are the core
        ((1000, 10_000), "f4", "tsqr"),
    ],
)
def test_a_core_is_taken_unless_a_sketch_costs_far_less(shape: tuple[int, int], dtype: str, strategy: str) -> None:
    assert planned(shape, dtype=dtype).strategy == strategy


def test_the_number_of_workers_never_changes_the_strategy() -> None:
    for d in (3000, 4000, 4500, 5000, 5500, 6000):
        taken = {planned((10**6, d), resources=replace(ROOMY, n_workers=workers)).strategy for workers in (1, 7, 1000)}
        assert len(taken) == 1


def test_a_core_that_does_not_fit_gives_way_to_a_sketch_and_says_so() -> None:
    tight = replace(ROOMY, memory_limit=1 << 30)
    found = planned((10**6, 4000), resources=tight)
    assert found.strategy == "sketch"
    assert by_name(found)["gram"].refusal in found.reason
    assert by_name(found)["gram"].finish_nbytes > usable(1 << 30)
    assert planned((10**6, 3000), resources=ROOMY).strategy == "gram"


def test_what_was_asked_for_but_does_not_fit_is_told_what_would() -> None:
    with pytest.raises(MemoryBudgetExceeded, match=r"Nothing was read.*Or use strategy='sketch', which fits"):
        planned((10**6, 4000), strategy="gram", resources=replace(ROOMY, memory_limit=1 << 30))


def cohort(where: Resources) -> Any:
    return planned((20_000, 50_000), 10, 20, missing="mean", resources=where)


def test_a_cohort_of_20_000_samples_and_50_000_variants_fits_in_threads_that_were_given_a_gigabyte() -> None:
    within = replace(ROOMY, memory_limit=10**9, in_process=True, limit_is_given=True)
    found = cohort(within)
    assert (found.strategy, found.tasks_per_worker) == ("sketch", 1)
    assert IDLE_NBYTES + max(found.worker_nbytes, found.finish_nbytes) <= LAST_SHARE * 10**9
    mine = by_name(found)["sketch"]
    assert (mine.refusal, mine.worker_nbytes) == (None, found.worker_nbytes)
    assert cohort(replace(within, threads=64)).worker_nbytes == found.worker_nbytes
    with pytest.raises(MemoryBudgetExceeded):  # a machine of that size needs it for others too
        cohort(replace(within, limit_is_given=False))


def test_workers_too_small_for_a_fit_are_told_that_threads_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_fixed", True)  # as in a command
    here = replace(ROOMY, memory_limit=10**9, n_workers=2, cores=2)
    told = "Or use threads of one process and no workers (--cluster none), which fits."
    with pytest.raises(MemoryBudgetExceeded) as refused:
        cohort(here)
    assert str(refused.value).endswith(told)
    for other in (replace(here, cores=None), replace(here, memory_limit=8 * 10**8)):  # elsewhere; too small for both
        with pytest.raises(MemoryBudgetExceeded) as refused:
            cohort(other)
        assert "--cluster none" not in str(refused.value)


@pytest.mark.parametrize(("shape", "name"), [((20_000, 50_000), "sketch"), ((10**6, 300), "tsqr")])
def test_where_nothing_fits_the_refusal_is_that_of_the_strategy_that_needs_least(
    shape: tuple[int, int], name: str
) -> None:
    def limit(strategy: str) -> str:
        tight = replace(ROOMY, memory_limit=380 << 20)
        with pytest.raises(MemoryBudgetExceeded) as refused:
            planned(shape, r=20, dtype="f8", strategy=strategy, resources=tight)
        assert "which fits" not in str(refused.value)
        return str(refused.value)

    assert limit("auto") == limit(name)
    assert limit(name) != limit("tsqr" if name == "sketch" else "sketch")


@pytest.mark.parametrize(
    ("options", "impossible"),
    [
        ({}, set()),
        ({"method": "iterative"}, {"paper"}),
        ({"method": "doubly-sparse"}, {"sketch", "stream", "sample", "paper"}),
        ({"r": None}, {"paper"}),
    ],
)
def test_a_strategy_that_cannot_do_the_fit_says_why_and_has_no_price(
    options: dict[str, Any], impossible: set[str]
) -> None:
    found = by_name(planned((10**5, 100), **options))
    for name, each in found.items():
        assert (each.refusal is not None) == (each.seconds is None) == (name in impossible)
    assert all("cannot do this: " in str(found[name].refusal) for name in impossible)


def test_sparse_float64_rows_take_a_gram_matrix() -> None:
    rows = sp.random_array((200, 50), density=0.05, random_state=np.random.default_rng(0), dtype=float).tocsr()
    found = plan(rows, 2, n_nonzero=3, calibrate=False)
    assert found.strategy == "gram"
    assert "sparse rows as they are" in found.reason
    assert plan(rows.toarray(), 2, n_nonzero=3, calibrate=False).strategy == "tsqr"


def test_of_very_sparse_rows_a_core_of_many_features_is_cheap_enough() -> None:
    class Sparse(Unreadable):
        stored = StoredEntries(tuple(800 * i for i in range(0, 10**7 + 1, 1000)), 0.01)

    assert plan(Sparse((10**7, 7500), 1000), 5, n_nonzero=10, resources=ROOMY, calibrate=False).strategy == "gram"
    assert planned((10**7, 7500)).strategy == "sketch"


def test_how_the_one_taken_stands_is_told_with_the_seconds_of_the_next() -> None:
    def told(**seconds: float) -> str:
        return standing("gram", [Alternative(name, "exact", seconds=each) for name, each in seconds.items()])

    assert told(gram=14, sketch=31, tsqr=40) == "it fits and is the fastest: 14 s, against 31 s (sketch)"
    assert told(gram=31, sketch=14) == "it needs 31 s, strategy='sketch' would need 14 s"
    assert told(gram=16, tsqr=14) == "it fits and is about as fast as any: 16 s, against 14 s (tsqr)"
    assert told(gram=16, paper=1) == "no other strategy can be used here"


def test_no_calibration_reads_nothing_and_one_reads_what_it_says() -> None:
    source = Watched(X, rows_per_block=30)
    unmeasured = plan(source, 2, n_nonzero=3, calibrate=False)
    assert source.reads == []
    assert unmeasured.calibration is None
    assert "nothing was read" in str(unmeasured)
    measured = plan(source, 2, n_nonzero=3)
    assert measured.calibration is not None
    assert len(source.reads) == measured.calibration.n_reads == 3
    assert measured.calibration.nbytes == sum(X[30 * i : 30 * i + 30].nbytes for i in source.reads)
    assert {update.strategy for update in measured.calibration.updates} == set(STRATEGIES) - {"sample"}
    assert "at measured rates" in str(measured)
    assert (measured.strategy, measured.bytes_read) == (unmeasured.strategy, unmeasured.bytes_read)


def test_measured_rates_never_change_the_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spae_dask.passes.calibration.update_rate", lambda recipe, *_: 1e-3 * recipe.state_nbytes)
    source = Watched(X, rows_per_block=30)
    found = plan(source, 2, n_nonzero=3)
    assert found.strategy == "tsqr"
    params = FitParameters(2, 3)
    assert choose(params, source, price_all(params, source, found.resources))[0] == "tsqr"
    assert found.seconds > 1


def test_blocks_of_a_dask_array_are_not_computed_for_a_plan() -> None:
    def refuse(block: Any) -> Any:
        raise AssertionError("computed")

    lazy = da.from_array(X, chunks=(100, 4)).map_blocks(refuse, dtype=float, meta=np.empty((0, 0)))
    found = plan(lazy, 2, n_nonzero=3)
    assert found.calibration is None
    assert "nominal" in str(found)
    assert any("only those column chunks" in note for note in found.notes)


def test_a_refused_plan_is_not_calibrated() -> None:
    source = Watched(X, rows_per_block=30)
    with pytest.raises(MemoryBudgetExceeded):
        plan(source, 2, n_nonzero=3, memory_limit="1MB")
    assert source.reads == []


def test_a_calibrated_plan_goes_through_json(tmp_path: Path) -> None:
    found = plan(zarr_array(tmp_path / "x.zarr", X, (100, 8)), 2, n_nonzero=3)
    record = json.loads(json.dumps(found.as_dict()))
    assert record["calibration"]["nbytes"] == 3 * X.nbytes  # all are one block
    assert [each["strategy"] for each in record["alternatives"]] == list(STRATEGIES)
    assert record["alternatives"][0]["seconds"] == found.alternatives[0].seconds
    assert record["seconds"] == pytest.approx(sum(p["seconds"] for p in record["passes"]) + record["finish_seconds"])


def test_the_table_has_a_line_for_each_strategy_and_marks_the_one_taken() -> None:
    text = str(planned((10**6, 100), method="doubly-sparse"))
    lines = {line.split()[0]: line for line in text.splitlines() if line.startswith("   ")}
    assert set(lines) == set(STRATEGIES)
    assert "gram *" in text
    assert "cannot do this" in lines["paper"]
    assert lines["tsqr"].rstrip().endswith("exact, to the most digits")


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        ((1000, 100), "100 stored objects of about 391 KiB before encoding; transform reads all of them"),
        ((1000, 50), "200 stored objects of about 195 KiB before encoding; transform reads only those that contain"),
        ((5, 100), "20,000 stored objects of about 2.0 KiB before encoding, which is slow on object stores"),
    ],
)
def test_stored_objects_are_counted_and_many_small_ones_called_slow(chunks: tuple[int, int], words: str) -> None:
    store = zarr.create_array(MemoryStore(), shape=(100_000, 100), chunks=chunks, dtype="f4")
    assert words in "\n".join(layout_notes(open_matrix(store)))


def test_fewer_tasks_than_threads_are_told() -> None:
    tight = Resources("here", 1, 16, 700 << 20)
    found = planned((10**6, 500), resources=tight)
    assert found.tasks_per_worker < 16
    assert f"of 16 threads a process, {found.tasks_per_worker} work at once" in "\n".join(found.notes)


def test_workers_that_share_cores_are_not_counted_as_more() -> None:
    alone = planned((10**7, 100), resources=Resources("here", 2, 1, 2**40, cores=2))
    crowded = planned((10**7, 100), resources=Resources("here", 8, 1, 2**40, cores=2))
    assert crowded.passes[0].seconds == alone.passes[0].seconds
