"""Frequent Directions keeps its five invariants, whatever the order of the rows and the merge tree."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.maths.linalg.frequent import shrink
from spae_dask.passes.accumulators import FrequentDirections
from tests.matrices import power_law


def random_tree(accumulator, X, rng):
    """State of the rows of X, cut and merged at random."""
    cuts = np.sort(rng.choice(np.arange(1, len(X)), size=rng.integers(1, 9), replace=False))
    bounds = [0, *cuts.tolist(), len(X)]
    states = [accumulator.update(accumulator.zero(), X[a:b], a) for a, b in pairwise(bounds)]
    while len(states) > 1:
        i = int(rng.integers(len(states) - 1))
        states[i : i + 2] = [accumulator.merge(states[i], states[i + 1])]
    return accumulator.result(states[0])


@given(
    seed=st.integers(0, 10**6),
    size=st.integers(2, 10),
    offset=st.sampled_from([0.0, 50.0]),
    d=st.sampled_from([12, 300]),
)
def test_all_five_invariants_hold_under_any_merge_tree(seed, size, offset, d):
    rng = np.random.default_rng(seed)
    X = power_law(rng, 60, d, decay=0.7)[rng.permutation(60)] + offset
    found = random_tree(FrequentDirections(d, size), X, rng)
    centered = X - X.mean(axis=0)
    squares = np.linalg.svd(centered, compute_uv=False) ** 2
    total, B = squares.sum(), found.sketch
    rounding = 1e-10 * total
    gap = np.linalg.eigvalsh(centered.T @ centered - B.T @ B)
    assert gap[0] >= -rounding
    assert gap[-1] <= found.shrunk + rounding
    assert (size + 1) * found.shrunk <= total - np.sum(B * B) + rounding
    for k in range(1, min(size, 11)):
        opt = squares[k:].sum()
        assert found.shrunk <= opt / (size + 1 - k) + rounding
        Z = np.linalg.svd(B, full_matrices=False)[2][:k].T
        assert np.sum((centered - centered @ Z @ Z.T) ** 2) <= opt + k * found.shrunk + rounding
        lower, upper = found.optimum_interval(k)
        assert lower <= opt + rounding
        assert opt <= upper + rounding


@pytest.mark.parametrize("decay", [0.3, 2.0, 12.0])
def test_wide_rows_are_shrunk_like_narrow_ones(decay):
    rng = np.random.default_rng(1)
    rows = power_law(rng, 20, 200, decay=decay)
    sketch, delta = shrink(rows, 8)
    sigma = np.linalg.svd(rows, compute_uv=False)
    assert delta == pytest.approx(sigma[8] ** 2, rel=1e-6)
    wanted = np.sqrt(sigma[:8] ** 2 - sigma[8] ** 2)
    assert np.linalg.svd(sketch, compute_uv=False) == pytest.approx(wanted, rel=1e-7)


def test_the_interval_holds_about_another_origin_and_scale():
    rng = np.random.default_rng(0)
    X = power_law(rng, 200, 10, decay=1.0) + 3.0
    origin, scale = np.linspace(0, 1, 10), np.linspace(0.5, 2, 10)
    accumulator = FrequentDirections(10, 6)
    found = accumulator.result(accumulator.update(accumulator.zero(), X, 0))
    squares = np.linalg.svd((X - origin) / scale, compute_uv=False) ** 2
    for k in (1, 2, 4):
        lower, upper = found.optimum_interval(k, origin, scale)
        assert lower <= squares[k:].sum() * (1 + 1e-12)
        assert squares[k:].sum() <= upper * (1 + 1e-12)


def test_rows_that_fit_are_not_shrunk():
    rows = np.arange(6.0).reshape(2, 3)
    sketch, delta = shrink(rows, 2)
    assert delta == 0
    assert np.array_equal(sketch, rows)


@pytest.mark.parametrize("size", [1, 3])
def test_shrinking_takes_the_next_singular_value_off_all(size):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((8, 5))
    sketch, delta = shrink(rows, size)
    squares = np.linalg.svd(rows, compute_uv=False) ** 2
    assert delta == pytest.approx(squares[size])
    assert np.linalg.svd(sketch, compute_uv=False)[:size] ** 2 == pytest.approx(squares[:size] - squares[size])
