"""Coefficients of all columns at once: by dense projections, by differences, and by the condition of a top."""

import numpy as np
import pytest

from spae_dask.maths.encoders import all_columns
from spae_dask.maths.encoders.all_columns import Coefficients


def codes(bases: list[np.ndarray], y: np.ndarray) -> np.ndarray:
    parts = np.split(y, np.cumsum([Q.shape[1] for Q in bases])[:-1])
    return np.column_stack([Q @ part for Q, part in zip(bases, parts, strict=True)])


def explained(bases: list[np.ndarray], squares: np.ndarray, y: np.ndarray) -> float:
    """Share explained by the codes, by a QR of the codes."""
    basis = np.linalg.qr(codes(bases, y))[0]
    return float(np.sum((basis.T * np.sqrt(squares)) ** 2) / np.sum(squares))


def inflation(bases: list[np.ndarray], y: np.ndarray) -> float:
    """Sum of the variance inflation factors, by what a regression of each code on the others leaves."""
    Z = codes(bases, y)
    total = 0.0
    for j in range(Z.shape[1]):
        others = np.delete(Z, j, axis=1)
        left = Z[:, j] - others @ np.linalg.lstsq(others, Z[:, j], rcond=None)[0]
        total += float(Z[:, j] @ Z[:, j] / (left @ left))
    return total


def problem(seed: int, sizes: tuple[int, ...] = (3, 4, 2), m: int = 12) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    bases = [np.linalg.qr(rng.standard_normal((m, s)))[0] for s in sizes]
    return bases, np.exp(2 * rng.standard_normal(m))


@pytest.mark.parametrize("counts", [1e-12, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_the_share_its_slope_and_its_curvature(seed: int, counts: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_columns, "_INFLATION", counts)
    bases, squares = problem(seed)
    given, y, h = Coefficients(bases, squares), np.random.default_rng(seed).standard_normal(9), 1e-5

    def wanted(y: np.ndarray) -> float:
        return counts * inflation(bases, y) - explained(bases, squares, y)

    value, slope = given.unexplained(y)
    assert value == pytest.approx(wanted(y), rel=1e-12)
    steps = h * np.eye(9)
    by_differences = [wanted(y + e) - wanted(y - e) for e in steps]
    np.testing.assert_allclose(slope, np.array(by_differences) / (2 * h), atol=1e-8)
    curvature = [(given.unexplained(y + e)[1] - given.unexplained(y - e)[1]) / (2 * h) for e in steps]
    np.testing.assert_allclose(given.curvature(y), curvature, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_the_top_is_one_to_the_last_digits(seed: int) -> None:
    bases, squares = problem(seed)
    given, start = Coefficients(bases, squares), np.random.default_rng(seed).standard_normal(9)
    top = given.best(start)
    assert explained(bases, squares, top) > explained(bases, squares, start)
    assert np.linalg.norm(given.unexplained(top)[1]) * np.linalg.norm(top) < 1e-12
    assert np.linalg.eigvalsh(given.curvature(top)).min() > -1e-9  # no saddle
    nearby = top + 1e-4 * np.random.default_rng(9).standard_normal((50, 9))
    assert max(explained(bases, squares, y) for y in nearby) <= explained(bases, squares, top) + 1e-13


@pytest.mark.parametrize("seed", range(3))
def test_codes_that_share_a_column_stay_apart_though_nearly_equal_ones_explain_more(seed: int) -> None:
    # the shared column is as strong as direction 1, which the difference of the two others holds to two thirds, and
    # each of them to one half
    shared, one, other = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, -1, 0, 1]]) / np.array([[1], [2**0.5], [2**0.5]])
    bases, squares = (
        [np.column_stack([shared, one]), np.column_stack([shared, other])],
        np.array([1.0, 1.0, 0.01, 0.01]),
    )
    top = Coefficients(bases, squares).best(np.random.default_rng(seed).standard_normal(4))
    limit = (1 + (4 + 2 * 0.01) / 6) / squares.sum()
    assert limit - 1e-4 < explained(bases, squares, top) < limit
    assert np.linalg.cond(codes(bases, top)) < 1e3


def test_codes_that_depend_on_each_other_explain_nothing_more() -> None:
    Q = np.eye(4)[:, :2]
    value, slope = Coefficients([Q, Q], np.ones(4)).unexplained(np.array([1.0, 0.0, 1.0, 0.0]))
    assert value == np.inf
    assert not slope.any()


def test_codes_that_depend_on_each_other_stay_as_they_are() -> None:
    Q, start = np.eye(4)[:, :2], np.array([1.0, 0.5, 1.0, 0.5])
    np.testing.assert_array_equal(Coefficients([Q, Q], np.arange(1.0, 5.0)).best(start), start)


def test_thousands_of_coefficients_are_climbed_without_their_curvature() -> None:
    bases, squares = problem(0, sizes=(510, 510), m=600)
    given, start = Coefficients(bases, squares), np.random.default_rng(0).standard_normal(1020)
    top = given.best(start)
    assert explained(bases, squares, top) > explained(bases, squares, start)
    assert np.linalg.norm(given.unexplained(top)[1]) * np.linalg.norm(top) < 1e-4
