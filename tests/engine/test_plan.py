"""The plan: bytes and passes from metadata, and the refusal of what does not fit."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.errors import MemoryBudgetExceeded
from spae_dask.passes.accumulators import Gram, Moments, Triangular
from spae_dask.passes.layout import write_footprint
from spae_dask.passes.memory import IDLE_NBYTES, LAST_SHARE, LIMIT_SHARE, Footprint, usable, worker_limit_for
from spae_dask.passes.plan import Finish, Plan, Resources
from spae_dask.passes.planner import make_plan, price, tasks_or_refuse
from spae_dask.passes.write import unit_spans
from tests.estimators.sources import Unreadable

MIB = 1 << 20


Metadata = partial(Unreadable, name="somewhere")


def planned(source: Unreadable, limit: int = 4096 * MIB, workers: int = 1, threads: int = 4, **options: Any) -> Plan:
    d = source.shape[1]
    defaults = {"passes": [("core", Gram(d))], "strategy": "gram", "reason": "why not", "finish": Finish(0)}
    resources = {"resources": Resources("here", workers, threads, limit)}
    return make_plan(source, **(defaults | resources | options))


def test_bytes_are_those_of_all_rows_once_a_pass() -> None:
    source = Metadata((123_457, 31), 1000)
    one = planned(source)
    assert one.bytes_read == 123_457 * 31 * 4
    three = planned(source, passes=[("a", Gram(31)), ("b", Moments(31)), ("c", Triangular(31))])
    assert three.bytes_read == 3 * one.bytes_read
    assert [each.name for each in three.passes] == ["a", "b", "c"]
    assert three.worker_nbytes == max(each.worker_nbytes for each in three.passes)
    assert three.tasks_per_worker == min(each.tasks_per_worker for each in three.passes)


def test_memory_does_not_depend_on_the_number_of_rows() -> None:
    small, large = (planned(Metadata((n, 64), 1000)) for n in (10**6, 10**9))
    assert large.passes[0].task_nbytes == small.passes[0].task_nbytes
    assert large.worker_nbytes <= 1.1 * small.worker_nbytes


def test_a_task_counts_its_blocks_its_state_and_its_scratch() -> None:
    source = Metadata((10**6, 200), 5000, read_nbytes=3 * MIB)
    plan = planned(source)
    (each,) = plan.passes
    assert each.block_nbytes == 5000 * 200 * 4
    assert each.state_nbytes == Gram(200).state_nbytes
    assert each.task_nbytes >= 2 * each.block_nbytes + each.state_nbytes + Gram(200).work_nbytes(256) + 3 * MIB
    assert plan.worker_nbytes >= each.tasks_per_worker * each.task_nbytes


def test_more_workers_take_less_time_and_the_same_memory() -> None:
    source = Metadata((10**7, 100), 10_000)
    one, four = planned(source), planned(source, workers=4)
    assert four.seconds == pytest.approx(one.seconds / 4)
    assert four.worker_nbytes == one.worker_nbytes


@pytest.mark.parametrize("rows_per_block", [150_000, 300_000])
def test_chunks_times_threads_beyond_the_limit_lower_the_tasks_at_once(rows_per_block: int) -> None:
    source = Metadata((10**7, 200), rows_per_block)
    roomy, tight = planned(source, limit=16_384 * MIB), planned(source, limit=1024 * MIB)
    assert roomy.tasks_per_worker == 4
    assert 1 <= tight.tasks_per_worker < 4
    assert tight.worker_nbytes <= usable(1024 * MIB)


def test_a_chunk_too_large_for_one_task_is_refused_with_the_remedies() -> None:
    source = Metadata((10**7, 200), 10**6)
    with pytest.raises(MemoryBudgetExceeded) as caught:
        planned(source, limit=1024 * MIB)
    text = str(caught.value)
    for words in ("somewhere", "Nothing was read", "a memory limit of", "smaller chunks", "spae ingest"):
        assert words in text


def test_a_state_too_large_is_not_blamed_on_the_chunks() -> None:
    with pytest.raises(MemoryBudgetExceeded) as caught:
        planned(Metadata((1000, 20_000), 10), limit=2048 * MIB)
    assert "smaller chunks" not in str(caught.value)


def test_final_algebra_that_does_not_fit_is_refused_too() -> None:
    with pytest.raises(MemoryBudgetExceeded, match=r"final linear algebra on 100 features.*fewer features"):
        planned(Metadata((1000, 100), 10), finish=Finish(4096 * MIB))


@pytest.mark.parametrize("finish_nbytes", [0, 3000 * MIB])
@pytest.mark.parametrize(("in_process", "limit_is_given"), [(False, False), (True, False), (True, True)])
def test_the_limit_a_refusal_names_is_the_smallest_for_all_passes_and_the_finish(
    finish_nbytes: int, *, in_process: bool, limit_is_given: bool
) -> None:
    def plan_within(limit: int) -> Plan:
        there = Resources("here", 1, 4, limit, in_process=in_process, limit_is_given=limit_is_given)
        return make_plan(
            Metadata((10**5, 5000), 100),
            [("small", Moments(5000)), ("core", Gram(5000)), ("larger", Triangular(5000))],
            there,
            strategy="gram",
            reason="why not",
            finish=Finish(finish_nbytes),
        )

    with pytest.raises(MemoryBudgetExceeded) as caught:
        plan_within(512 * MIB)
    number, unit = str(caught.value).partition("a memory limit of ")[2].split()[:2]
    enough = int(float(number) * {"MiB": MIB, "GiB": 1024 * MIB}[unit])
    assert plan_within(enough).tasks_per_worker >= 1
    with pytest.raises(MemoryBudgetExceeded):
        plan_within(int(0.97 * enough))


@given(st.integers(1, 2000), st.integers(1, 10**6), st.sampled_from(["f4", "f8", "i1"]), st.integers(1, 16))
def test_the_limit_a_refusal_names_is_enough(d: int, rows_per_block: int, dtype: str, threads: int) -> None:
    source = Metadata((10**6, d), rows_per_block, np.dtype(dtype))
    footprint = write_footprint(source, unit_spans(source.bounds, d * source.dtype.itemsize, 1000), MIB, min(d, 10))
    enough = worker_limit_for(footprint.worker_nbytes(1))
    assert tasks_or_refuse("it", footprint, Resources("here", 1, threads, enough)) >= 1
    with pytest.raises(MemoryBudgetExceeded):
        tasks_or_refuse("it", footprint, Resources("here", 1, threads, enough - 2 * MIB))


@given(st.integers(300, 3000), st.integers(0, 2000))
def test_a_limit_that_is_given_is_used_beyond_the_usual_share_by_one_task_rather_than_refuse(
    limit: int, finish: int
) -> None:
    source, passes = Metadata((10**5, 4000), 500), [("core", Gram(4000)), ("moments", Moments(4000))]
    usual = Resources("here", 1, 4, limit * MIB, in_process=True)
    asked = replace(usual, limit_is_given=True)

    def planned_on(resources: Resources) -> Plan | None:
        try:
            return planned(source, resources=resources, passes=passes, finish=Finish(finish * MIB))
        except MemoryBudgetExceeded:
            return None

    without, within = planned_on(usual), planned_on(asked)
    prices = [
        price(source, passes, each, strategy="gram", pca_loss="exact", finish=Finish(finish * MIB))
        for each in (usual, asked)
    ]
    refused = [each.refusal is not None for each in prices]
    assert refused == [without is None] * 2  # and so the choice of a strategy is the same
    if without is not None:
        assert within is not None
        assert (within.passes, within.notes) == (without.passes, without.notes)
    elif within is not None:
        peak = max(within.worker_nbytes, within.finish_nbytes)
        assert LIMIT_SHARE * limit * MIB < IDLE_NBYTES + peak <= LAST_SHARE * limit * MIB
        assert all(each.tasks_per_worker == 1 for each in within.passes if each.worker_nbytes > usual.usable_nbytes)
        assert "up to 90% may be used" in " ".join(within.notes)


@given(st.integers(0, 2000), st.booleans())
def test_memory_beside_the_tasks_of_a_pass_is_counted_once_a_process_and_in_that_pass_alone(
    nbytes: int, in_process: bool
) -> None:
    source, passes = Metadata((10**5, 1000), 500), [("core", Gram(1000)), ("moments", Moments(1000))]
    there = Resources("here", 1, 4, 2048 * MIB, in_process=in_process, slack=1.25)
    plain, other = planned(source, resources=there, passes=passes).passes
    try:
        plan = planned(source, resources=there, passes=passes, finish=Finish(0, beside={"core": nbytes * MIB}))
    except MemoryBudgetExceeded:
        least = planned(source, resources=replace(there, threads=1), passes=passes).passes[0].worker_nbytes
        assert least + 1.25 * nbytes * MIB > there.usable_nbytes
        return
    assert plan.passes[1] == other
    assert plan.passes[0].worker_nbytes <= there.usable_nbytes
    if plan.passes[0].tasks_per_worker == plain.tasks_per_worker:
        assert plan.passes[0].worker_nbytes == plain.worker_nbytes + 1.25 * nbytes * MIB
    else:
        assert plain.worker_nbytes + 1.25 * nbytes * MIB > there.usable_nbytes


@given(st.integers(0, 10**12))
def test_what_is_usable_is_below_where_workers_spill(limit: int) -> None:
    assert 0 <= usable(limit) <= max(0, LIMIT_SHARE * limit - IDLE_NBYTES)


def test_merging_counts_the_states_that_wait() -> None:
    parts = {"block_nbytes": 0, "n_blocks_held": 1, "read_nbytes": 0, "work_nbytes": 0, "state_nbytes": 10 * MIB}
    alone = Footprint(**parts, n_states_waiting=0, fan_in=1)
    merged = Footprint(**parts, n_states_waiting=3, fan_in=2)
    assert merged.worker_nbytes(1) - alone.worker_nbytes(1) >= 3 * 10 * MIB


def test_a_plan_prints_as_a_table_and_becomes_json() -> None:
    plan = planned(Metadata((10**9, 50), 10**4), notes=["a remark"])
    text = str(plan)
    for words in ("1,000,000,000 x 50 float32", "gram: why not", "186 GiB decoded", "4 of 4 threads", "a remark"):
        assert words in text
    record = json.loads(json.dumps(plan.as_dict()))
    assert record["bytes_read"] == plan.bytes_read
    assert record["passes"][0]["n_spans"] == plan.passes[0].n_spans


@pytest.mark.parametrize(("n", "unit"), [(1000, " s"), (10**9, " min"), (10**11, " h")])
def test_time_for_people(n: int, unit: str) -> None:
    assert unit in str(planned(Metadata((n, 200), min(n, 10**6)), limit=2**40)).split("time")[-1]
