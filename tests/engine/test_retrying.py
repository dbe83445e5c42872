"""What a store fails to give is asked for again, a few times; what is wrong with the data is not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spae_dask.blocks import ArrayBlocks
from spae_dask.engine.runner import DaskRunner
from spae_dask.errors import InvalidInput, StorageError, TransientStorageError
from spae_dask.passes import sweep
from spae_dask.passes.accumulators import Triangular
from spae_dask.passes.serial import SerialRunner
from tests.engine.bits import bits
from tests.engine.scripted import Scripted

N, D = 120, 5


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr(sweep.time, "sleep", waited.append)
    return waited


@pytest.fixture
def inner() -> ArrayBlocks:
    return ArrayBlocks(np.random.default_rng(1).standard_normal((N, D)), rows_per_block=20)


@pytest.mark.parametrize("threads", [None, 2])
def test_a_store_that_falters_six_times_does_not_change_a_bit(
    threads: int | None, inner: ArrayBlocks, tmp_path: Path, waits: list[float]
) -> None:
    source = Scripted(inner, tmp_path, {2: ("falter",) * 6 + ("read",)})
    runner = SerialRunner(source) if threads is None else DaskRunner(source, None, threads)
    assert bits(runner.run_pass(Triangular(D))) == bits(SerialRunner(inner).run_pass(Triangular(D)))
    assert source.readings(2) == 7
    longest = [0.2, 0.4, 0.8, 1.6, 3.2, 6.4]
    assert [wait / most for wait, most in zip(waits, longest, strict=True)] == pytest.approx([0.75] * 6, abs=0.25)


def test_a_store_that_falters_for_ever_ends_the_pass_and_says_how_often_it_was_tried(
    inner: ArrayBlocks, tmp_path: Path
) -> None:
    source = Scripted(inner, tmp_path, {2: ("falter",)})
    with pytest.raises(TransientStorageError, match=r"SlowDown\. It was tried 7 times within [\d.]+ s\.$"):
        SerialRunner(source).run_pass(Triangular(D))
    assert source.readings(2) == 7


@pytest.mark.parametrize(("action", "kind"), [("invalid input", InvalidInput), ("storage error", StorageError)])
def test_what_will_not_pass_is_not_tried_again(
    action: str, kind: type[Exception], inner: ArrayBlocks, tmp_path: Path, waits: list[float]
) -> None:
    source = Scripted(inner, tmp_path, {2: (action,)})
    with pytest.raises(kind):
        SerialRunner(source).run_pass(Triangular(D))
    assert source.readings(2) == 1
    assert waits == []


class Older(ArrayBlocks):
    """What it reads has fewer rows than it had when it was opened, or fewer columns."""

    def read(self, i: int) -> Any:
        block = super().read(i)
        return block[:-1] if i == 2 else block[:, :-1] if i == 4 else block


@pytest.mark.parametrize(("number", "found"), [(2, "19 x 5"), (4, "20 x 4")])
def test_a_block_of_another_size_than_expected_is_refused_at_once(
    number: int, found: str, inner: ArrayBlocks, waits: list[float]
) -> None:
    older = Older(inner.X, inner.rows_per_block)
    said = f"rows {20 * number} to {20 * number + 19} of the array are {found} numbers, but 20 x 5 were expected"
    with pytest.raises(StorageError, match=said):
        sweep.read_again(older, number)
    assert waits == []
    assert sweep.read_again(older, 0).shape == (20, 5)
