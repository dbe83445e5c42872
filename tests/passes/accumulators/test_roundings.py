"""The error that a result states is never exceeded, whatever the data and the partition."""

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spae_dask.passes.accumulators import CrossProducts, FrequentDirections, Gram, Moments, Triangular
from tests.generated import partitions

Matrix = NDArray[np.float64]


def strained(kind: str, seed: int) -> Matrix:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((int(rng.integers(2, 300)), 5)) @ rng.standard_normal((5, 5))
    match kind:
        case "large mean":
            return X + 10.0 ** rng.uniform(2, 14, 5)
        case "sorted":
            return np.sort(X, axis=0) * 10.0 ** rng.uniform(0, 6)
        case "stray":
            X[rng.integers(len(X))] *= 1e7
            return X
        case "units":
            return X * 10.0 ** rng.uniform(-30, 30, 5)
    return X


def truth(X: Matrix) -> Any:
    about = X.astype(np.longdouble) - X[0]
    about -= about.mean(axis=0)
    return about.T @ about


def found(recipe: Any, X: Matrix, bounds: tuple[int, ...]) -> Any:
    return recipe.result(reduce(recipe.merge, (recipe.update(recipe.zero(), X[a:b], a) for a, b in pairwise(bounds))))


data = given(
    kind=st.sampled_from(["plain", "large mean", "sorted", "stray", "units"]), seed=st.integers(0, 999), cut=st.data()
)


@data
def test_products_err_by_no_more_than_they_state(kind: str, seed: int, cut: st.DataObject) -> None:
    X = strained(kind, seed)
    bounds = cut.draw(partitions(len(X)))
    gram = found(Gram(5), X, bounds)
    assert np.all(np.abs(gram.scatter - truth(X)) <= gram.error * np.outer(gram.lengths, gram.lengths))
    assert gram.error < 1e-12
    cross = found(CrossProducts(np.array([3, 1]), gram.center), X, bounds)
    lengths = np.sqrt(cross.column_norms)
    assert np.all(np.abs(cross.cross - truth(X)[[3, 1]]) <= cross.error * np.outer(lengths[[3, 1]], lengths))


@data
def test_columns_err_by_no_more_than_they_state(kind: str, seed: int, cut: st.DataObject) -> None:
    X = strained(kind, seed)
    bounds, exact = cut.draw(partitions(len(X))), truth(X)
    lengths = np.sqrt(np.diagonal(exact).astype(float))
    triangle = found(Triangular(5), X, bounds)
    R = triangle.triangle.astype(np.longdouble)
    assert np.all(np.abs(R.T @ R - exact) <= 3 * triangle.error * np.outer(lengths, lengths))
    moments = found(Moments(5), X, bounds)
    assert np.all(np.abs(moments.squared_deviations - lengths**2) <= moments.error * lengths**2)


@data
@pytest.mark.parametrize("scaled", [False, True])
def test_frequent_directions_keep_their_bounds_in_any_units(
    scaled: bool, kind: str, seed: int, cut: st.DataObject
) -> None:
    X = strained(kind, seed)
    sketch = found(FrequentDirections(5, 2, scaled=scaled), X, cut.draw(partitions(len(X))))
    units = sketch.units
    missing = truth(X) - ((sketch.sketch * units).T @ (sketch.sketch * units)).astype(np.longdouble)
    in_units = (missing / np.outer(units, units)).astype(float)
    lengths = np.sqrt(np.diagonal(truth(X)).astype(float)) / units
    slack = 3 * sketch.error * float(np.sum(lengths**2))
    eigenvalues = np.linalg.eigvalsh(in_units)
    assert -slack <= eigenvalues[0]
    assert eigenvalues[-1] <= sketch.shrunk + slack
