"""One read leaves a core whose Gram matrix is that of the data, centered, scaled and filled as asked."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from spae_dask.strategies.core import choose_core, core_passes, read_core
from tests.matrices import factor_model
from tests.strategies.passes import core_of, runner

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
    assert (summary.rounding.rows > 0) == (strategy == "tsqr")
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


@pytest.mark.parametrize("kind", [sp.csr_array, np.asfortranarray, np.float32])
def test_the_kind_of_rows_does_not_matter(kind: object) -> None:
    rows = X.astype(np.float32)
    wanted = core_of(rows.astype(float)).core
    found = core_of(kind(rows)).core  # type: ignore[operator]
    np.testing.assert_allclose(found.T @ found, wanted.T @ wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("dtype", "strategy"),
    [
        ("f8", "tsqr"),
        ("f4", "gram"),
        ("i8", "tsqr"),
        ("u2", "gram"),
    ],
)
def test_the_strategy_is_chosen_by_what_the_data_may_hold(dtype: str, strategy: str) -> None:
    chosen, reason = choose_core(np.dtype(dtype))
    assert chosen == strategy
    assert reason
