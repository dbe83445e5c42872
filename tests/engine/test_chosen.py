"""Some blocks of a source, as a source of their own."""

import pickle

import dask.array as da
import numpy as np
import pytest

from spae_dask.blocks import ArrayBlocks, LazyRowBlocks
from spae_dask.engine.runner import DaskRunner
from spae_dask.passes.accumulators import Gram
from spae_dask.passes.chosen import ChosenBlocks, choose_blocks
from spae_dask.passes.serial import SerialRunner
from spae_dask.storage.sources.dask_blocks import DaskBlocks

X = np.random.default_rng(0).standard_normal((23, 4))
NUMBERS = np.array([4, 0, 2])
ROWS = np.r_[20:23, 0:5, 10:15]


def test_chosen_blocks_are_read_in_the_order_given() -> None:
    chosen = choose_blocks(ArrayBlocks(X, 5), NUMBERS)
    assert chosen.shape == (13, 4)
    assert tuple(chosen.bounds) == (0, 3, 8, 13)
    np.testing.assert_array_equal(np.vstack([chosen.read(i) for i in range(3)]), X[ROWS])
    assert not isinstance(chosen, LazyRowBlocks)


def test_a_pass_over_chosen_blocks_sees_their_rows_only() -> None:
    found = SerialRunner(choose_blocks(ArrayBlocks(X, 5), NUMBERS)).run_pass(Gram(4))
    assert found.count == 13
    np.testing.assert_allclose(found.mean, X[ROWS].mean(axis=0), rtol=1e-13)


@pytest.mark.parametrize("runner", ["serial", "dask"])
def test_chosen_blocks_of_a_dask_array_are_lazy_and_of_any_lengths(runner: str) -> None:
    computed = []

    def noted(block: np.ndarray) -> np.ndarray:
        if block.size:
            computed.append(len(block))
        return block

    array = da.from_array(X, chunks=((3, 0, 9, 4, 7), 2)).map_blocks(noted, dtype=X.dtype, meta=X[:0])
    chosen = choose_blocks(DaskBlocks(array), np.array([3, 1]))
    assert isinstance(chosen, LazyRowBlocks)
    assert tuple(chosen.bounds) == (0, 7, 16)
    made = SerialRunner(chosen) if runner == "serial" else DaskRunner(chosen, None, 2)
    rows = X[np.r_[16:23, 3:12]]
    np.testing.assert_allclose(made.run_pass(Gram(4)).mean, rows.mean(axis=0), rtol=1e-13)
    assert set(computed) == {7, 9}


def test_it_pickles_into_the_source_and_the_numbers() -> None:
    chosen = choose_blocks(ArrayBlocks(X, 5), NUMBERS)
    plain = len(pickle.dumps(chosen))
    assert tuple(chosen.bounds) == (0, 3, 8, 13)
    assert len(pickle.dumps(chosen)) == plain
    again = pickle.loads(pickle.dumps(chosen))
    assert type(again) is ChosenBlocks
    np.testing.assert_array_equal(again.read(0), chosen.read(0))
