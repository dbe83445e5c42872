"""One read leaves a core whose Gram matrix is that of the data, centered, scaled and filled as asked."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from spae_dask.algorithms.core import choose_strategy, constant_columns, core_passes, read_core
from spae_dask.errors import InvalidInput, NonFiniteInput
from tests.algorithms.passes import core_of, runner
from tests.matrices import awkward, factor_model

X = factor_model(np.random.default_rng(0), 90, 7, 2, 0.3) + 3.0


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("missing", ["error", "mean", "zero"])
def test_the_core_stands_for_the_data(strategy: str, center: bool, scale: bool, missing: str) -> None:
    rows = X.copy()
    if missing != "error":
        rows[np.random.default_rng(1).random(rows.shape) < 0.1] = np.nan
    summary = core_of(rows, strategy=strategy, center=center, scale=scale, missing=missing)
    filled = np.where(np.isnan(rows), np.nanmean(rows, axis=0) if missing == "mean" else 0.0, rows)
    mean = filled.mean(axis=0) if center else np.zeros(7)
    deviation = filled.std(axis=0, ddof=1) if scale else np.ones(7)
    seen = (filled - mean) / deviation
    np.testing.assert_allclose(summary.core.T @ summary.core, seen.T @ seen, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(summary.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(summary.scale, deviation, rtol=1e-12)
    assert summary.n_samples == 90
    assert summary.strategy == strategy
    assert (summary.fill is None) == (missing == "error")


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("missing", ["error", "mean", "zero"])
def test_the_passes_made_are_the_passes_planned(strategy: str, missing: str) -> None:
    names: list[str] = []

    def run_pass(accumulator: Any, name: str = "pass") -> Any:
        names.append(name)
        return runner(X).run_pass(accumulator, name)

    read_core(run_pass, 7, strategy=strategy, center=True, scale=False, missing=missing)
    assert names == [name for name, _ in core_passes(strategy, 7, missing)]


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


@pytest.mark.parametrize("kind", [sp.csr_array, np.asfortranarray, np.float32])
def test_the_kind_of_rows_does_not_matter(kind: object) -> None:
    rows = X.astype(np.float32)
    wanted = core_of(rows.astype(float)).core
    found = core_of(kind(rows)).core  # type: ignore[operator]
    np.testing.assert_allclose(found.T @ found, wanted.T @ wanted, rtol=1e-9)


@pytest.mark.parametrize("strategy", ["gram", "tsqr"])
@pytest.mark.parametrize("row", [0, 50])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_refused_without_a_warning_wherever_it_is(strategy: str, row: int, bad: float) -> None:
    rows = X.copy()
    rows[row, 3] = bad
    with pytest.raises(NonFiniteInput, match=f"row {row}, column 3"):
        core_of(rows, strategy=strategy)


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
            left = summary.core - column @ np.linalg.pinv(column) @ summary.core
            loss = float(np.sum(left**2))
            assert abs(loss - exact) <= 4 * summary.loss_error(loss)


@pytest.mark.parametrize(
    ("wanted", "dtype", "strategy"),
    [
        ("auto", "f8", "tsqr"),
        ("auto", "f4", "gram"),
        ("auto", "i8", "tsqr"),
        ("auto", "u2", "gram"),
        ("gram", "f8", "gram"),
    ],
)
def test_the_strategy_is_chosen_by_what_the_data_may_hold(wanted: str, dtype: str, strategy: str) -> None:
    chosen, reason = choose_strategy(wanted, np.dtype(dtype))
    assert chosen == strategy
    assert reason
