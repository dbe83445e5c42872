"""A online of rows: the bits of one running state, whatever the batches."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from spae_dask.passes.accumulators import FrequentDirections, Moments, RowSketch, Together, Triangular
from spae_dask.passes.online import OnlinePass
from spae_dask.passes.sweep import update_by_panels
from tests.generated import partitions

D = 1500
RECIPE = Together({"moments": Moments(D), "frequent": FrequentDirections(D, 20), "sketch": RowSketch(D, 5)})
X = np.random.default_rng(0).standard_normal((2 * RECIPE.panel_rows + 31, D)).astype(np.float32)


def bits(found):
    arrays = (*vars(found["moments"]).values(), *vars(found["frequent"]).values(), *vars(found["sketch"]).values())
    return [np.asarray(array).tobytes() for array in arrays]


@pytest.fixture(scope="module")
def wanted():
    """The same rows in panels, by hand."""
    return bits(RECIPE.result(update_by_panels(RECIPE, RECIPE.zero(), X.astype(np.float64), 0)))


@given(bounds=partitions(len(X)))
def test_any_batches_give_the_bits_of_panels(bounds, wanted):
    online = OnlinePass(RECIPE)
    for start, stop in pairwise(bounds):
        online.add(X[start:stop])
    assert online.n_rows == len(X)
    assert bits(online.run_pass(RECIPE)) == wanted


def test_single_rows_sparse_rows_looking_and_pickling_change_nothing(wanted):
    online = OnlinePass(RECIPE)
    for row in X[:40]:
        online.add(row[None, :])
    online.run_pass(RECIPE)
    online.add(sp.csr_array(X[40:200]))
    online = pickle.loads(pickle.dumps(online))
    online.add(X[200:])
    assert bits(online.run_pass(RECIPE)) == bits(online.run_pass(RECIPE)) == wanted


def test_a_batch_may_be_overwritten_once_it_was_added(wanted):
    online, buffer = OnlinePass(RECIPE), np.empty((7, D))
    for start in range(0, len(X), 7):
        rows = X[start : start + 7]
        buffer[: len(rows)] = rows
        online.add(buffer[: len(rows)])
    assert bits(online.run_pass(RECIPE)) == wanted


def test_it_goes_on_from_a_state_that_it_leaves_alone():
    recipe = Triangular(D // 100)
    rows = X[:, : D // 100]
    state = recipe.update(recipe.zero(), rows[:100], 0)
    kept = {name: array.copy() for name, array in state.items()}
    for array in state.values():
        array.flags.writeable = False
    online = OnlinePass(recipe, state, 100)
    online.add(rows[100:])
    found, centered = online.run_pass(recipe), rows - rows.mean(axis=0, dtype=np.float64)
    assert found.count == online.n_rows == len(rows)
    np.testing.assert_allclose(found.triangle.T @ found.triangle, centered.T @ centered, rtol=1e-9, atol=1e-9)
    assert all(np.array_equal(kept[name], state[name]) for name in kept)
