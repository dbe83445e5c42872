"""What each of some chosen columns adds to the others."""

import numpy as np
import pytest

from spae_dask.maths.linalg.dropped import added_by_each


def explained(x, columns, k):
    """Of the best k codes on columns: the fit of all columns on them, and its k largest squared singular values."""
    fit = x[:, columns] @ np.linalg.lstsq(x[:, columns], x, rcond=1e-9)[0]
    return np.sum(np.linalg.svd(fit, compute_uv=False)[:k] ** 2)


@pytest.mark.parametrize("k", [1, 3, 6, 9])
@pytest.mark.parametrize("kind", ["plain", "dependent", "zero", "tied", "wide"])
def test_a_column_adds_what_the_codes_lose_without_it(kind, k):
    rng = np.random.default_rng(k)
    x = rng.normal(size=(5 if kind == "wide" else 30, 12)) @ rng.normal(size=(12, 12))
    columns = np.array([1, 2, 3, 4, 7, 10])
    if kind == "dependent":
        x[:, 7] = x[:, 2] - 3 * x[:, 3]
    elif kind == "zero":
        x[:, 4] = 0
    elif kind == "tied":
        x = np.diag([1.0, 2.0, 2.0, 2.0, 3.0, 1.0] * 2)
    want = [explained(x, columns, k) - explained(x, np.delete(columns, j), k) for j in range(columns.size)]
    np.testing.assert_allclose(added_by_each(x, columns, k), want, atol=1e-9 * np.sum(x**2))


def test_units_do_not_matter():
    x = np.random.default_rng(0).normal(size=(20, 6))
    found = added_by_each(x * 1e-120, np.arange(3), 2)
    np.testing.assert_allclose(found * 1e240, added_by_each(x, np.arange(3), 2), rtol=1e-9)
