"""What a large mean, a drifting mean and narrow types leave of the digits.

The yardstick is the same quantity in extended precision of the very numbers the narrow type holds.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from spae_dask.blocks import ArrayBlocks
from spae_dask.passes.accumulators import Gram, Moments, Triangular
from spae_dask.passes.serial import SerialRunner

Matrix = NDArray[np.generic]


def exact_scatter(X: Matrix) -> NDArray[np.float64]:
    wide = X.astype(np.longdouble)
    centered = wide - wide.mean(axis=0)
    return (centered.T @ centered).astype(np.float64)


def scatter_by(recipe: str, X: Matrix, rows_per_block: int = 700) -> NDArray[np.float64]:
    """Through the engine's own panels."""
    runner = SerialRunner(ArrayBlocks(X, rows_per_block))
    if recipe == "gram":
        return runner.run_pass(Gram(X.shape[1])).scatter
    triangle = runner.run_pass(Triangular(X.shape[1])).triangle
    return triangle.T @ triangle


both = pytest.mark.parametrize("recipe", ["gram", "triangular"])


@both
def test_float32_with_a_mean_ten_thousand_times_its_spread_loses_nothing_it_held(recipe: str) -> None:
    rng = np.random.default_rng(0)
    X = (1e4 + rng.standard_normal((5000, 9)) @ np.diag(np.geomspace(1.0, 0.05, 9))).astype(np.float32)
    expected = exact_scatter(X)
    assert np.max(np.abs(scatter_by(recipe, X) - expected)) < 1e-11 * np.max(expected)
    # the same in float32 has lost most directions, so that the test would notice
    with np.errstate(all="ignore"):
        naive = X.T @ X - len(X) * np.outer(X.mean(axis=0), X.mean(axis=0))
    assert np.max(np.abs(naive - expected)) > 0.1 * np.max(expected)


@both
def test_float64_with_a_mean_ten_to_the_eighth_times_its_spread_keeps_nine_digits(recipe: str) -> None:
    rng = np.random.default_rng(1)
    X = 1e8 + rng.standard_normal((4000, 6))
    expected = exact_scatter(X)
    assert np.max(np.abs(scatter_by(recipe, X) - expected)) < 1e-9 * np.max(expected)


@both
def test_the_two_row_matrix_that_float32_products_cannot_tell_apart_has_its_direction(recipe: str) -> None:
    X = np.array([[10001, 10000], [10000, 10001]], dtype=np.float32)
    values, vectors = np.linalg.eigh(scatter_by(recipe, X))
    np.testing.assert_allclose(values, [0.0, 1.0], atol=1e-14)
    direction = vectors[:, 1] * np.sign(vectors[0, 1])
    np.testing.assert_allclose(direction, [np.sqrt(0.5), -np.sqrt(0.5)], rtol=1e-14)


@both
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_mean_that_drifts_far_from_where_a_span_began_keeps_the_small_directions(recipe: str, dtype: str) -> None:
    # sorted data: the shift of a span is the mean of its first rows, which the last ones have left far behind
    rng = np.random.default_rng(2)
    drift = np.linspace(0.0, 1000.0, 6000)[:, None] * np.array([1.0, -1.0, 0.5, 2.0])
    X = (drift + rng.standard_normal((6000, 4))).astype(dtype)
    expected, found = exact_scatter(X), scatter_by(recipe, X, rows_per_block=10**6)
    assert np.max(np.abs(found - expected)) < 1e-13 * np.max(expected)
    np.testing.assert_allclose(np.linalg.eigvalsh(found), np.linalg.eigvalsh(expected), rtol=1e-8)


@both
def test_a_stray_first_row_does_not_cost_the_digits_of_all_the_others(recipe: str) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30_000, 4))
    X[0] = 1e5
    expected, found = exact_scatter(X), scatter_by(recipe, X)
    # what float64 holds beside the 1e10 of that one row; the other directions keep eight digits
    assert np.max(np.abs(found - expected)) < 1e-13 * np.max(expected)
    np.testing.assert_allclose(np.linalg.eigvalsh(found)[:3], np.linalg.eigvalsh(expected)[:3], rtol=1e-7)


@both
@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "int32", "bool", "float16"])
def test_narrow_types_are_widened_before_any_arithmetic(recipe: str, dtype: str) -> None:
    # full range: sums, differences and squares all overflow the type itself
    rng = np.random.default_rng(4)
    if dtype == "bool":
        X = rng.random((2000, 5)) < 0.4
    elif dtype == "float16":
        X = rng.uniform(-6e4, 6e4, (2000, 5)).astype(dtype)
    else:
        info = np.iinfo(dtype)
        X = rng.integers(info.min, info.max, (2000, 5), dtype=dtype, endpoint=True)
    expected = exact_scatter(X)
    assert np.max(np.abs(scatter_by(recipe, X) - expected)) < 1e-13 * np.max(expected)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool", "float16", "float32"])
def test_moments_of_narrow_types_are_widened_too(dtype: str) -> None:
    rng = np.random.default_rng(5)
    X = (rng.uniform(0, 100, (3000, 4))).astype(dtype)
    moments = SerialRunner(ArrayBlocks(X, 700)).run_pass(Moments(4))
    wide = X.astype(np.longdouble)
    np.testing.assert_allclose(moments.mean, wide.mean(axis=0).astype(float), rtol=1e-14)
    squares = np.sum((wide - wide.mean(axis=0)) ** 2, axis=0).astype(float)
    np.testing.assert_allclose(moments.squared_deviations, squares, rtol=1e-12, atol=1e-300)
    np.testing.assert_array_equal(moments.minimum, X.min(axis=0).astype(float))
    np.testing.assert_array_equal(moments.maximum, X.max(axis=0).astype(float))


def test_moments_do_not_cancel_when_the_mean_is_ten_to_the_eighth_times_the_spread() -> None:
    rng = np.random.default_rng(6)
    X = 1e8 + rng.standard_normal((5000, 3))
    moments = SerialRunner(ArrayBlocks(X, 37)).run_pass(Moments(3))
    np.testing.assert_allclose(moments.squared_deviations, np.diag(exact_scatter(X)), rtol=1e-8)


@both
@pytest.mark.parametrize("value", [0.0, 0.1, -1e8 / 3, 1e100, 1e-100])
def test_constant_columns_have_exactly_no_scatter(recipe: str, value: float) -> None:
    rng = np.random.default_rng(7)
    X = rng.standard_normal((1500, 3)) * abs(value or 1.0)
    X[:, 1] = value
    scatter = scatter_by(recipe, X, rows_per_block=333)
    assert scatter[1, 1] <= (1e-15 * value) ** 2 * len(X)
    assert scatter[1, 1] >= 0.0


@both
def test_columns_of_very_different_size_do_not_disturb_each_other(recipe: str) -> None:
    rng = np.random.default_rng(8)
    size = np.array([1e100, 1.0, 1e-100])
    X = rng.standard_normal((2000, 3))
    scatter = scatter_by(recipe, X * size)
    np.testing.assert_allclose(scatter / size / size[:, None], exact_scatter(X), rtol=1e-10, atol=1e-10 * len(X))


def test_triangular_keeps_singular_values_that_a_gram_matrix_cannot() -> None:
    rng = np.random.default_rng(9)
    Q = np.linalg.qr(rng.standard_normal((800, 6)) - 0.0)[0]
    Q -= Q.mean(axis=0)
    Q = np.linalg.qr(Q)[0]
    sigma = np.geomspace(1.0, 1e-12, 6)
    X = (Q * sigma) @ np.linalg.qr(rng.standard_normal((6, 6)))[0]
    triangle = SerialRunner(ArrayBlocks(X, 100)).run_pass(Triangular(6)).triangle
    found = np.linalg.svd(triangle, compute_uv=False)
    np.testing.assert_allclose(found, sigma, rtol=1e-3)
    assert np.linalg.svd(scatter_by("gram", X), compute_uv=False)[-1] > 100 * sigma[-1] ** 2
