"""Sparse rows counted from a point, against the dense difference in extended precision."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spae_dask.maths.linalg.sparse_rows import ShiftedRows, column_sums, mean_of_stored_columns, shifted_rows
from tests.generated import csr_matrices

EPS = np.finfo(np.float64).eps


def dense(counted: ShiftedRows) -> NDArray[np.float64]:
    return counted.rows.toarray() - counted.rest


@given(X=csr_matrices(), scaled=st.booleans(), seed=st.integers(0, 99))
def test_every_view_is_that_of_the_dense_difference(X: Any, scaled: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = X.shape[1]
    origin, scale = rng.standard_normal(d) * rng.integers(0, 2, d), rng.uniform(0.5, 2, d) if scaled else None
    expected = (X.toarray().astype(np.float64) - origin) / (1.0 if scale is None else scale)
    counted = shifted_rows(X, origin, scale)
    Q, Y, chosen = rng.standard_normal((d, 2)), rng.standard_normal((X.shape[0], 3)), np.arange(d)[::-2]
    size = 1 + np.abs(expected).max()
    for found, wanted in (
        (dense(counted), expected),
        (counted.sums, expected.sum(axis=0)),
        (counted.squared_norms, np.sum(expected**2, axis=0)),
        (counted.columns(chosen), expected[:, chosen]),
        (counted.times(Q), expected @ Q),
        (counted.transposed_times(Y), expected.T @ Y),
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13 * len(Y) * size**2)


@given(X=csr_matrices(), seed=st.integers(0, 99))
def test_a_third_more_entries_at_most_and_nothing_is_left_for_columns_that_are_mostly_stored(X: Any, seed: int) -> None:
    origin = np.random.default_rng(seed).standard_normal(X.shape[1])
    counted = shifted_rows(X, origin)
    assert 3 * counted.rows.nnz <= 4 * X.nnz
    mostly = np.count_nonzero(X.toarray(), axis=0) > 0.75 * X.shape[0]
    np.testing.assert_array_equal(counted.rest, np.where(mostly, 0.0, origin))


@given(seed=st.integers(0, 9999), level=st.sampled_from([0.0, 1.0, 1e8]), c=st.sampled_from([1e-9, 1.0, 1e8]))
def test_squared_norms_never_cancel_whatever_the_column_and_the_point(seed: int, level: float, c: float) -> None:
    rng = np.random.default_rng(seed)
    n = 60
    X = np.zeros((n, 4))
    for j, share in enumerate((0.1, 0.75, 0.8, 1.0)):
        at = rng.permutation(n)[: round(share * n)]
        X[at, j] = level + rng.standard_normal(at.size)
    found = shifted_rows(sp.csr_array(X), np.full(4, c)).squared_norms
    exact = np.sum((X.astype(np.longdouble) - c) ** 2, axis=0).astype(np.float64)
    np.testing.assert_allclose(found, exact, rtol=20 * n * EPS)


def test_a_full_column_about_its_mean_keeps_the_digits_that_algebra_would_lose() -> None:
    rng = np.random.default_rng(0)
    X = np.zeros((400, 3))
    X[:, 1] = 1e8 + rng.standard_normal(400)
    counted = shifted_rows(sp.csr_array(X), X.mean(axis=0))
    exact = float(np.sum((X[:, 1].astype(np.longdouble) - X[:, 1].mean()) ** 2))
    assert counted.squared_norms[1] == pytest.approx(exact, rel=1e-13)
    assert abs(np.sum(X[:, 1] ** 2) - 400 * X[:, 1].mean() ** 2 - exact) > 1e-3 * exact


def test_rows_are_counted_from_the_means_of_full_columns_and_from_zero_elsewhere() -> None:
    X = sp.csr_array(np.array([[2.0, 0.0, 1.0], [4.0, 1.0, 0.0], [0.5, 3.0, 0.0], [1.5, 5.0, 0.0]]))
    np.testing.assert_array_equal(mean_of_stored_columns(X), [2.0, 0.0, 0.0])


def test_sums_of_no_entries_are_floats() -> None:
    sums = column_sums(sp.csr_array((3, 2), dtype=np.int8))
    assert sums.dtype == np.float64
    assert not sums.any()


def test_neither_the_rows_nor_their_indices_are_written_to() -> None:
    X = sp.csr_array(np.diag([1.0, 2.0, 3.0]) + 5 * np.eye(3, k=1))
    kept = X.copy()
    shifted_rows(X, np.ones(3), np.full(3, 2.0)).rows.data[:] = 0
    np.testing.assert_array_equal(X.toarray(), kept.toarray())
    np.testing.assert_array_equal(X.indices, kept.indices)
