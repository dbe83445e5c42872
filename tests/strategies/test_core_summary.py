"""A core is finite, its constant columns are zero, and rounding moves its losses as little as it says."""

import numpy as np
import pytest

from spae_dask.errors import InvalidInput
from spae_dask.strategies.core_summary import constant_columns
from tests.matrices import awkward, factor_model
from tests.strategies.passes import core_of

X = factor_model(np.random.default_rng(0), 90, 7, 2, 0.3) + 3.0


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("constant", [0.0, 0.1, -1 / 3, 7e8, 1e-300, 1e30])
@pytest.mark.parametrize("n", [20, 3000])
def test_constant_columns_are_found_zero_and_left_unscaled(strategy: str, constant: float, n: int) -> None:
    rows = np.random.default_rng(n).standard_normal((n, 4))
    rows[:, 1] = constant
    summary = core_of(rows, strategy=strategy, scale=True)
    assert summary.constant.tolist() == [1]
    assert summary.scale[1] == 1.0
    assert (summary.core[:, 1] == 0).all()
    assert summary.mean[1] == pytest.approx(constant, rel=1e-14)


def test_a_column_that_varies_in_its_last_digits_only_is_constant_and_one_that_varies_more_is_not() -> None:
    assert constant_columns(np.array([1e-16, 1e-14, 0.0, 1e-3]), np.array([1.0, 1.0, 0.0, 1e12])).tolist() == [
        True,
        False,
        True,
        False,
    ]
    rows = 1.0 + 1e-12 * np.random.default_rng(2).standard_normal((200, 2))
    for strategy in ("gram", "tsqr"):
        summary = core_of(rows, strategy=strategy, scale=True)
        assert summary.constant.size == 0
        np.testing.assert_allclose(np.sum(summary.core**2, axis=0), 199, rtol=1e-9)


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("name", sorted(awkward(np.random.default_rng(3))))
def test_awkward_matrices_leave_finite_cores(strategy: str, name: str) -> None:
    rows = awkward(np.random.default_rng(3))[name]
    for center in (True, False):
        for scale in (True, False):
            summary = core_of(rows, strategy=strategy, center=center, scale=scale)
            for array in (summary.core, summary.mean, summary.scale):
                assert np.isfinite(array).all()
            assert (summary.scale > 0).all()


def test_overflow_of_squares_is_refused_with_its_column() -> None:
    rows = X.copy()
    rows[:, 5] *= 1e180
    with pytest.raises(InvalidInput, match=r"column 5 overflow.*Divide the data by a constant"):
        core_of(rows, strategy="gram")


def test_rounding_errors_of_losses_are_of_the_estimated_size() -> None:
    """The loss of one column of data that are nearly of rank one, against its closed form."""
    for exponent in range(1, 15):
        noise = 10.0**-exponent
        rows = np.array([[1.0, 1.0], [-1.0, -1.0], [noise, -noise], [-noise, noise]])
        exact = 16 * noise**2 / (2 + 2 * noise**2)
        for strategy in ("gram", "tsqr"):
            summary = core_of(rows, strategy=strategy)
            column = summary.core[:, :1]
            H, G = np.array([[1.0], [0.0]]), np.linalg.pinv(column) @ summary.core
            loss = float(np.sum((summary.core - column @ G) ** 2))
            assert abs(loss - exact) <= summary.rounding.loss_error(loss, H, G)
