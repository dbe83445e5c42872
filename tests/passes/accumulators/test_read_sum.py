"""Laws of the sum over the rows' bits: it does not depend on how rows are cut, and any change of a row changes it."""

import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.passes.accumulators import Moments
from spae_dask.passes.accumulators.read_sum import (
    MAGNITUDE,
    SUM,
    ReadSum,
    _sums,
    _sums_of_csr,
    sparse_sum_nbytes,
    without_sum,
)
from spae_dask.passes.sweep import update_by_panels

TYPES = ["f2", "f4", "f8", "g", "i1", "u2", "i8", "?"]


def rows_of(dtype, d=5, n=12, seed=0):
    return (np.random.default_rng(seed).normal(size=(n, d)) * 3).astype(dtype)


def state_of(rows, bounds=(), *, stored=True):
    """The state of rows that are read in pieces, each piece merged to those before it."""
    recipe = ReadSum(Moments(rows.shape[1]), stored)
    state, ends = recipe.zero(), [0, *sorted(bounds), rows.shape[0]]
    for start, stop in itertools.pairwise(ends):
        state = recipe.merge(state, update_by_panels(recipe, recipe.zero(), rows[start:stop], start))
    return state


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("d", [3, 4, 8])
@pytest.mark.parametrize("order", ["C", "F"])
@given(bounds=st.lists(st.integers(0, 12), max_size=4), stored=st.booleans())
def test_any_cut_and_any_order_of_memory_give_the_same_sum(dtype, d, order, bounds, stored):
    rows = rows_of(dtype, d)
    cut = state_of(np.array(rows, order=order), bounds, stored=stored)
    assert ReadSum.agree(state_of(rows, stored=stored), cut)


@pytest.mark.parametrize("dtype", TYPES)
@given(row=st.integers(0, 11), column=st.integers(0, 4))
def test_any_other_entry_gives_another_sum(dtype, row, column):
    rows = rows_of(dtype)
    other = rows.copy()
    other[row, column] = rows[row, column] + 1 if rows.dtype.kind == "f" else rows[row, column] ^ rows.dtype.type(1)
    assert not ReadSum.agree(state_of(rows), state_of(other))


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_change_places_give_another_sum(sparse):
    rows = rows_of("f4", n=200)
    other = rows[[70, *range(1, 70), 0, *range(71, 200)]]
    made = sp.csr_array if sparse else np.asarray
    assert not ReadSum.agree(state_of(made(rows)), state_of(made(other)))


@given(bounds=st.lists(st.integers(0, 12), max_size=4), at=st.integers(0, 11))
def test_sparse_rows_are_known_by_values_and_columns(bounds, at):
    rows = sp.random_array((12, 6), density=0.4, random_state=np.random.default_rng(3), format="csr")
    assert ReadSum.agree(state_of(rows), state_of(rows, bounds))
    moved = rows.toarray()
    moved[at] = np.roll(moved[at], 1)
    assert ReadSum.agree(state_of(rows), state_of(sp.csr_array(moved))) == np.array_equal(moved, rows.toarray())


def test_computed_rows_may_differ_by_rounding_and_no_more():
    rows = rows_of("f4")
    near, far = rows * np.float32(1 + 1e-7), rows * np.float32(1 + 1e-4)
    assert not ReadSum.agree(state_of(rows), state_of(near))
    assert ReadSum.agree(state_of(rows, stored=False), state_of(near, stored=False))
    assert not ReadSum.agree(state_of(rows, stored=False), state_of(far, stored=False))


def test_the_other_state_is_the_one_it_would_have_been_without_a_sum():
    rows = rows_of("f4")
    alone = Moments(5)
    expected = update_by_panels(alone, alone.zero(), rows, 0)
    found = state_of(rows)
    assert {SUM, MAGNITUDE} <= found.keys()
    assert without_sum(found).keys() == expected.keys()
    for name, array in alone.merge(alone.zero(), expected).items():
        np.testing.assert_array_equal(without_sum(found)[name], array)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", "i2", "longdouble"])
def test_dense_rows_are_summed_in_small_copies_and_to_the_same_words(dtype: str, order: str) -> None:
    rows = np.asarray(np.random.default_rng(0).integers(0, 100, (1024, 2049)), dtype=dtype, order=order)
    tracemalloc.start()
    found = _sums(rows, 13)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < rows.nbytes / 7
    stored = rows.astype("f8") if dtype == "longdouble" else rows
    words = [int.from_bytes(each.tobytes(), "little") for each in stored[51:115].ravel()]  # the second group of 64 rows
    if stored.dtype.itemsize == 8:
        assert int(found[1]) == sum(words) % 2**64
    else:
        assert int(found[1]) == sum(words)


def test_sparse_rows_are_summed_in_the_memory_that_plans_count() -> None:
    rows = sp.random_array((2000, 1000), density=0.2, format="csr", dtype="f4", random_state=0)
    tracemalloc.start()
    _sums_of_csr(rows, 13)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= sparse_sum_nbytes(rows.nnz)
