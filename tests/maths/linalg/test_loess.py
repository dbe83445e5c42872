"""The curve is that of the Fortran code of its authors, and of its definition where that code may not be run."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.maths.linalg.loess import loess, vertices

Floats = npt.NDArray[np.float64]


def by_fortran(x: Floats, y: Floats, span: float, degree: int) -> Floats:
    skmisc = pytest.importorskip("skmisc.loess")
    model = skmisc.loess(x, y, span=span, degree=degree)
    model.fit()
    values: Floats = model.outputs.fitted_values
    return values


def points(n: int, n_places: int | None = None) -> tuple[Floats, Floats]:
    """Points, many of which may share one place on the axis."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=n) if n_places is None else np.log10(1 + rng.integers(0, n_places, size=n) / 7)
    return x, np.sin(x) + rng.normal(size=n) / 10


@pytest.mark.parametrize("span", [0.3, 0.75, 1.0])
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize(("n", "n_places"), [(40, None), (151, None), (2000, None), (150, 60), (400, 60)])
def test_the_curve_is_that_of_its_authors(n: int, n_places: int | None, span: float, degree: int) -> None:
    x, y = points(n, n_places)
    np.testing.assert_allclose(loess(x, y, span=span, degree=degree), by_fortran(x, y, span, degree), atol=1e-12)


@given(
    x=st.lists(st.integers(-4, 40), min_size=12, max_size=60).filter(lambda x: len(set(x)) > 4),
    scale=st.sampled_from([1e-9, 1.0, 1e9]),
    span=st.sampled_from([0.3, 0.6, 1.0]),
)
def test_a_polynomial_is_its_own_curve_wherever_points_lie(x: list[int], scale: float, span: float) -> None:
    at = np.array(x, dtype=np.float64)
    y = (at - 3) * (at + 1)
    try:
        curve = loess(at * scale, y, span=span)
    except ValueError as error:
        assert "points" in str(error)  # noqa: PT017 - many points may share a place
        return
    distinct = np.unique(at)
    if span == 1.0 and distinct.size > 6:
        np.testing.assert_allclose(curve, y, atol=1e-7 * np.abs(y).max())
    assert np.isfinite(curve).all()


def test_neither_the_order_of_the_points_nor_their_units_matter() -> None:
    x, y = points(150, 60)
    order, curve = np.random.default_rng(0).permutation(150), loess(x, y, span=0.3)
    np.testing.assert_allclose(loess(x[order], y[order], span=0.3), curve[order], atol=1e-13)
    np.testing.assert_allclose(loess(8 * x, 4 * y, span=0.3), 4 * curve, atol=1e-12)


def test_vertices_cut_cells_of_few_points_and_never_between_equal_ones() -> None:
    x = np.sort(np.random.default_rng(1).integers(0, 30, size=200).astype(np.float64))
    cuts = vertices(x, 10)
    assert cuts[0] < x[0] < x[-1] < cuts[-1]
    assert set(cuts[1:-1].tolist()) <= set(x.tolist())
    for low, high in pairwise(cuts):
        inside = x[(low < x) & (x <= high)]
        assert inside.size <= 10 or np.unique(inside).size == 1


@pytest.mark.parametrize(
    ("x", "words"),
    [(np.ones(20), "as far from it"), (np.arange(5.0), "needs more than 1 of 5 points"), (np.ones(0), "0 of 0")],
)
def test_points_that_have_no_curve_are_refused(x: Floats, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        loess(x, x, span=0.3)


def test_points_of_two_places_have_the_curve_through_their_means() -> None:
    x, y = np.repeat([0.0, 1.0], [5, 3]), np.array([1.0, 2, 3, 4, 5, 7, 8, 9])
    np.testing.assert_allclose(loess(x, y, span=1.0, degree=1), np.repeat([3.0, 8.0], [5, 3]), atol=0.05)
