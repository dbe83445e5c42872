"""Every accumulator once, with what must be true of it: add one entry to ``RECIPES`` and the laws hold it to account.

The oracles see the whole matrix at once, in extended precision, and share no code with the package.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spae_dask.maths.linalg.design import Design
from spae_dask.maths.linalg.sketch import exponential_draws, gaussian_rows, grouped_rows, sign_rows
from spae_dask.passes.accumulators import (
    Accumulator,
    Adjusted,
    Beside,
    ClippedSquares,
    CovariateProducts,
    CrossProducts,
    Cut,
    Folded,
    FoldedByNumber,
    FrequentDirections,
    Gram,
    Imputed,
    IntegerGram,
    Kept,
    MedianSum,
    Moments,
    NonFinite,
    Parted,
    PartedSquares,
    Projection,
    Residual,
    RowFolds,
    RowPool,
    RowSketch,
    RowTotals,
    RowWeights,
    Together,
    Triangular,
    UnitLosses,
    WholeRows,
    weighted,
)
from spae_dask.passes.accumulators.wrapped import Wrapped

Wide = NDArray[np.longdouble]
Facts = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """An accumulator under test.

    Attributes
    ----------
    name : str
        For the test report.
    make : callable
        The recipe for d columns.
    facts : callable
        Named numbers of a result that do not depend on how it is represented.
    oracle : callable
        The same numbers from the matrix (n, d) in extended precision.
    exact_nbytes : bool
        Whether ``state_nbytes`` is the size of the empty state, rather than the largest size of any.
    """

    name: str
    make: Callable[[int], Accumulator[Any]]
    facts: Callable[[Any], Facts]
    oracle: Callable[[Wide], Facts]
    exact_nbytes: bool = True


def origin(d: int) -> NDArray[np.float64]:
    return np.linspace(-1.0, 2.0, d)


def scale(d: int) -> NDArray[np.float64]:
    return 1.0 + np.arange(d) / 2


def chosen(d: int) -> NDArray[np.intp]:
    return np.arange(d)[::-2].copy()


def directions(d: int, k: int = 2) -> NDArray[np.float64]:
    return np.cos(np.outer(1.0 + np.arange(d), 0.7 + np.arange(k)))


def _about_mean(X: Wide) -> Wide:
    return X - X.mean(axis=0)


def _scatter_facts(X: Wide) -> Facts:
    centered = _about_mean(X)
    return {"count": len(X), "mean": X.mean(axis=0), "scatter": centered.T @ centered}


def _scaled(X: Wide) -> Wide:
    d = X.shape[1]
    return (X - origin(d)) / scale(d)


def _products(X: Wide, columns: NDArray[np.intp], Z: Any) -> Facts:
    return {
        "count": len(X),
        "gram": X[:, columns].T @ X[:, columns],
        "cross": X[:, columns].T @ X,
        "directions": X.T @ (X @ Z),
        "norms": np.sum(X * X, axis=0),
    }


def _cross_facts(result: Any) -> Facts:
    return {
        "count": result.count,
        "gram": result.gram,
        "cross": result.cross,
        "directions": result.directions,
        "norms": result.column_norms,
    }


def _projection_oracle(X: Wide) -> Facts:
    scaled = _scaled(X)
    projected = scaled @ directions(X.shape[1])
    return {
        "count": len(X),
        "R'R": projected.T @ projected,
        "cross": scaled.T @ projected,
        "norms": np.sum(scaled * scaled, axis=0),
    }


CUT = Cut.by_codes(np.arange(5000) // 3 % 4, 5)
"""Parts of four kinds, three rows a run, and one without rows."""


def _parted_facts(result: Any) -> Facts:
    parts = list(result)
    return {"whole": result.whole.gram, **{f"{i} {name}": getattr(part, name) for i, part in enumerate(parts)
                                           for name in ("count", "cross", "column_norms")}}  # fmt: skip


def _parted_oracle(X: Wide) -> Facts:
    Y = X - origin(X.shape[1])
    C = Y[:, chosen(X.shape[1])]
    facts: Facts = {"whole": C.T @ C}
    for part in range(5):
        mine = [row for row in range(len(X)) if row // 3 % 4 == part]
        facts |= {
            f"{part} count": len(mine),
            f"{part} cross": C[mine].T @ Y[mine],
            f"{part} column_norms": np.sum(Y[mine] ** 2, axis=0),
        }
    return facts


def _residual(d: int) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    columns = chosen(d)
    return columns, directions(columns.size) / columns.size, directions(d).T / d


def _residual_sums_oracle(X: Wide) -> Facts:
    columns, H_selected, G = _residual(X.shape[1])
    codes = _scaled(X)[:, columns] @ H_selected
    left = _scaled(X) - codes @ G
    return {
        "norms": np.sum(left**2, axis=0),
        "loss": np.sum(left**2),
        "codes": codes.T @ codes,
        "cross": codes.T @ left,
    }


def _filled(X: Wide) -> Wide:
    return np.where(np.isnan(X), origin(X.shape[1]), X)


def _moments_oracle(X: Wide) -> Facts:
    finite = [column[np.isfinite(column)] for column in X.T]
    return {
        "count": np.array([len(c) for c in finite]),
        "mean": np.array([c.mean() if len(c) else 0.0 for c in finite]),
        "squares": np.array([np.sum((c - c.mean()) ** 2) if len(c) else 0.0 for c in finite]),
        "minimum": np.array([c.min() if len(c) else np.inf for c in finite]),
        "maximum": np.array([c.max() if len(c) else -np.inf for c in finite]),
    }


def _clipped_squares(X: Wide) -> Facts:
    d = X.shape[1]
    return {
        "squares": [
            sum(min(x - c, u) ** 2 for x in X[:, j]) for j, (c, u) in enumerate(zip(origin(d), scale(d), strict=True))
        ]
    }


def _parted_squares(d: int) -> PartedSquares:
    first, *others = (ClippedSquares(origin(d) + part, scale(d) * (part + 1)) for part in range(5))
    return PartedSquares(first, CUT, tuple(others))


def _squares_of_parts(result: Any) -> Facts:
    return {f"{part} squares": squares for part, squares in enumerate(result)}


def _parted_squares_oracle(X: Wide) -> Facts:
    d, parts = X.shape[1], np.arange(len(X)) // 3 % 4
    return {
        f"{part} squares": [
            sum(min(x - (c + part), u * (part + 1)) ** 2 for x in X[parts == part, j])
            for j, (c, u) in enumerate(zip(origin(d), scale(d), strict=True))
        ]
        for part in range(5)
    }


def _non_finite_oracle(X: Wide) -> Facts:
    positions = [(i, j) for i, row in enumerate(X) for j, x in enumerate(row) if not np.isfinite(x)]
    return {
        "nan": np.isnan(X).sum(axis=0),
        "inf": np.isinf(X).sum(axis=0),
        "first": np.array(positions[:3], dtype=np.int64).reshape(-1, 2),
    }


def _median_sum_oracle(X: Wide) -> Facts:
    sums = sorted(sum(x for x in row if np.isfinite(x) and x > 0) for row in X)
    filled = [total for total in sums if total > 0]
    n = len(filled)
    return {"median": (filled[(n - 1) // 2] + filled[n // 2]) / 2 if n else 0.0}


def _row_totals_oracle(X: Wide) -> Facts:
    known = np.where(np.isfinite(X), X, 0)
    sums = [sum(row) for row in known]
    negative = np.argwhere(known < 0)
    return {
        "range": (min(sums), max(sums)),
        "whole": all(x == int(x) for row in known for x in row),
        "negative": len(negative),
        "first": negative[0] if len(negative) else (-1, -1),
        "filled": sum(x != 0 for row in known for x in row),
    }


def _sketch_oracle(draw: Callable[..., NDArray[np.float64]]) -> Callable[[Wide], Facts]:
    def oracle(X: Wide) -> Facts:
        S = draw(5, 1, 0, len(X), 4).T
        return {"count": len(X), "about": S @ (X - origin(X.shape[1]))}

    return oracle


def _pool_oracle(X: Wide) -> Facts:
    scaled, columns = _scaled(X), chosen(X.shape[1])
    weights = np.sum((scaled[:, columns] @ directions(columns.size)) ** 2, axis=1)
    keys = exponential_draws(11, 0, len(X))[weights > 0] / weights[weights > 0]
    numbers = np.flatnonzero(weights > 0)[np.argsort(keys, kind="stable")[:3]]
    return {"numbers": numbers, "rows": scaled[numbers]}


def _frequent_oracle(X: Wide) -> Facts:
    centered = _about_mean(X)
    return {
        "count": len(X),
        "mean": X.mean(axis=0),
        "B'B": centered.T @ centered,
        "shrunk": 0.0,
        "squares": np.sum(centered * centered, axis=0),
    }


UNITS = (0, 3, 4, 9, 1 << 40)
"""Row bounds of the sampling units; the last one takes all that is left."""


def _levels(d: int) -> NDArray[np.float64]:
    return 1.0 + np.arange(min(d, 2) + 2) / 3


def _basis(d: int) -> NDArray[np.float64]:
    return np.linalg.qr(directions(d, min(d, 2)))[0]


def _unit_losses(d: int) -> UnitLosses:
    columns, H_selected, G = _residual(d)
    return UnitLosses(np.array(UNITS), columns, H_selected, G, _basis(d), _levels(d), origin(d), scale(d))


def _unit_oracle(X: Wide) -> Facts:
    d = X.shape[1]
    columns, H_selected, G = _residual(d)
    rows, V = _scaled(X), _basis(d)
    losses = np.sum((rows - rows[:, columns] @ H_selected @ G) ** 2, axis=1)
    pca_losses = np.sum((rows - rows @ V @ V.T) ** 2, axis=1)
    numbers = np.column_stack([rows @ V, losses, pca_losses]) / _levels(d)
    sums = np.array([numbers[a:b].sum(axis=0) for a, b in pairwise(UNITS)])
    return {
        "rows": np.diff(UNITS),
        "sums": sums,
        "squares": np.sqrt(np.sum(numbers**2, axis=0)),
        "losses": [losses[a:b].sum() for a, b in pairwise(UNITS)],
    }


class OfBytes(Wrapped):
    """Recipe ``inner`` on X rounded to 8-bit integers, so that rows of any type can be given to it."""

    recipe_kind: ClassVar[str] = "tests.OfBytes"

    def work_nbytes(self, n_rows: int) -> int:
        return super().work_nbytes(n_rows) + 9 * self.inner.n_features * n_rows

    def update(self, state: Any, rows: Any, first_row: int) -> Any:
        return super().update(state, _bytes(rows).astype(np.int8), first_row)

    def update_sparse(self, state: Any, rows: Any, first_row: int) -> Any:
        return self.update(state, rows.toarray(), first_row)


def _bytes(X: Any) -> Any:
    return np.clip(np.rint(X), -128, 127)


def _scatter_found(found: Any) -> Facts:
    return {"count": found.count, "mean": found.mean, "scatter": found.scatter}


DESIGN = Design(
    ((np.arange(1 << 19) % 3).astype(np.int8), np.cos(np.arange(1 << 19))),
    (3, 0),
    np.array([0.3, 0.4, 0.3, 0.1]),
    np.array([[1.0, 0.5], [-1.0, 0.0], [0.0, 0.25], [0.5, 2.0]]),
)
"""Covariates of more rows than any test has."""


def _covariates(n: int) -> Wide:
    numbers = np.arange(n)
    Z = np.column_stack([numbers % 3 == 0, numbers % 3 == 1, numbers % 3 == 2, np.cos(numbers)])
    return (Z.astype(np.longdouble) - DESIGN.center) @ DESIGN.basis


FOLDS = RowFolds(1 << 20, 3, 2, ((7 * np.arange(1 << 19) // 2) % 3).astype(np.uint8))
"""Folds of more rows than any test has, in runs of two or four."""


def _fold_facts(found: Any) -> Facts:
    each = [found.only(fold) for fold in range(3)] + [found.without(1), found.whole()]
    return {name: [getattr(scatter, name) for scatter in each] for name in ("count", "mean", "scatter")}


def _folded_oracle(X: Wide) -> Facts:
    numbers = np.array([FOLDS.numbers[row // 2] for row in range(len(X))], dtype=np.intp)
    parts = [X[numbers == fold] for fold in range(3)] + [X[numbers != 1], X]
    nothing = {"count": 0, "mean": np.zeros(X.shape[1]), "scatter": np.zeros((X.shape[1], X.shape[1]))}
    facts = [_scatter_facts(part) if len(part) else nothing for part in parts]
    return {name: [each[name] for each in facts] for name in nothing}


def _folded_sketch_oracle(X: Wide) -> Facts:
    S = grouped_rows(gaussian_rows, 5, 1, 0, len(X), 4, 3).T
    numbers = FOLDS.of(0, len(X))
    return {"about": [S[:, numbers == fold] @ (X[numbers == fold] - origin(X.shape[1])) for fold in range(3)]}


WEIGHTS = RowWeights(np.sqrt((3 * np.arange(1 << 19) + 2) % 4))
"""Weights 2, 1, 0, 3 of the rows, again and again."""


def _repeated(X: Wide) -> Wide:
    """Each row as many times as its weight says."""
    return np.repeat(X, (3 * np.arange(len(X)) + 2) % 4, axis=0)


def _weighted_products(X: Wide) -> Wide:
    weights = ((3 * np.arange(len(X)) + 2) % 4)[:, None]
    return (weights * _covariates(len(X))).T @ (X - origin(X.shape[1]))


def _weighted_sketch(X: Wide) -> Wide:
    S = grouped_rows(gaussian_rows, 5, 1, 0, len(X), 4, 3).T
    return S @ (np.sqrt((3 * np.arange(len(X)) + 2) % 4)[:, None] * (X - origin(X.shape[1])))


RECIPES = (
    Recipe("Gram", Gram, lambda r: {"count": r.count, "mean": r.mean, "scatter": r.scatter}, _scatter_facts),
    Recipe(
        "IntegerGram",
        lambda d: OfBytes(IntegerGram(d, 0, 128)),
        lambda r: {"count": r.count, "mean": r.mean, "scatter": r.scatter},
        lambda X: _scatter_facts(_bytes(X)),
    ),
    Recipe(
        "Triangular",
        Triangular,
        lambda r: {"count": r.count, "mean": r.mean, "scatter": r.triangle.T @ r.triangle},
        _scatter_facts,
    ),
    Recipe(
        "WholeRows",
        lambda d: WholeRows(d, 4000 + 2**18 // d),
        lambda r: {"count": r.count, "mean": r.mean, "scatter": r.triangle.T @ r.triangle},
        _scatter_facts,
    ),
    Recipe(
        "Moments",
        Moments,
        lambda r: {
            "count": r.count,
            "mean": r.mean,
            "squares": r.squared_deviations,
            "minimum": r.minimum,
            "maximum": r.maximum,
        },
        _moments_oracle,
    ),
    Recipe("ClippedSquares", lambda d: ClippedSquares(origin(d), scale(d)), lambda r: {"squares": r}, _clipped_squares),
    Recipe(
        "NonFinite",
        lambda d: NonFinite(d, n_first=3),
        lambda r: {"nan": r.nan_by_column, "inf": r.inf_by_column, "first": r.first},
        _non_finite_oracle,
        exact_nbytes=False,
    ),
    Recipe(
        "RowTotals",
        RowTotals,
        lambda r: {
            "range": (r.least, r.most),
            "whole": r.whole,
            "negative": r.n_negative,
            "first": r.first_negative or (-1, -1),
            "filled": r.n_filled,
        },
        _row_totals_oracle,
    ),
    Recipe(
        "MedianSum",
        lambda d: MedianSum(d, 4000 + 2**18 // d),
        lambda median: {"median": median},
        _median_sum_oracle,
        exact_nbytes=False,
    ),
    Recipe(
        "CrossProducts",
        lambda d: CrossProducts(chosen(d), origin(d)),
        _cross_facts,
        lambda X: _products(X - origin(X.shape[1]), chosen(X.shape[1]), np.zeros((X.shape[1], 0))),
    ),
    Recipe(
        "CrossProducts, scaled, with directions",
        lambda d: CrossProducts(chosen(d), origin(d), scale(d), directions(d)),
        _cross_facts,
        lambda X: _products(_scaled(X), chosen(X.shape[1]), directions(X.shape[1])),
    ),
    Recipe(
        "Residual",
        lambda d: Residual(*_residual(d), origin(d), scale(d)),
        lambda r: {"norms": r.norms, "loss": r.loss, "codes": r.codes, "cross": r.cross},
        _residual_sums_oracle,
    ),
    Recipe(
        "Projection",
        lambda d: Projection(directions(d), origin(d), scale(d)),
        lambda r: {
            "count": r.count,
            "R'R": r.triangle.T @ r.triangle,
            "cross": r.cross,
            "norms": r.column_norms,
        },
        _projection_oracle,
    ),
    Recipe(
        "RowSketch, Gaussian",
        lambda d: RowSketch(d, 4, seed=5, stream=1, kind="gaussian"),
        lambda r: {"count": r.count, "about": r.about(origin(r.shift.shape[1]))},
        _sketch_oracle(gaussian_rows),
    ),
    Recipe(
        "RowSketch, signs",
        lambda d: RowSketch(d, 4, seed=5, stream=1, kind="sign"),
        lambda r: {"count": r.count, "about": r.about(origin(r.shift.shape[1]))},
        _sketch_oracle(sign_rows),
    ),
    Recipe(
        "RowSketch, groups of three",
        lambda d: RowSketch(d, 4, seed=5, stream=1, kind="gaussian", group=3),
        lambda r: {"count": r.count, "about": r.about(origin(r.shift.shape[1]))},
        _sketch_oracle(partial(grouped_rows, gaussian_rows, group=3)),
    ),
    Recipe(
        "RowPool",
        lambda d: RowPool(3, chosen(d), directions(chosen(d).size), origin(d), scale(d), seed=11),
        lambda r: {"numbers": r.numbers, "rows": r.rows},
        _pool_oracle,
        exact_nbytes=False,
    ),
    Recipe(
        # with as many rows as columns nothing is ever shrunk, so the laws hold exactly
        "FrequentDirections",
        lambda d: FrequentDirections(d, size=d),
        lambda r: {
            "count": r.count,
            "mean": r.mean,
            "B'B": r.sketch.T @ r.sketch,
            "shrunk": r.shrunk,
            "squares": r.squared_deviations,
        },
        _frequent_oracle,
    ),
    Recipe(
        "FrequentDirections, scaled",
        lambda d: FrequentDirections(d, size=d, scaled=True),
        lambda r: {
            "count": r.count,
            "mean": r.mean,
            "B'B": (r.sketch * r.units).T @ (r.sketch * r.units),
            "shrunk": r.shrunk,
            "squares": r.squared_deviations,
        },
        _frequent_oracle,
    ),
    Recipe(
        "Imputed Gram",
        lambda d: Imputed(Gram(d), origin(d)),
        lambda r: {"count": r.count, "mean": r.mean, "scatter": r.scatter},
        lambda X: _scatter_facts(_filled(X)),
    ),
    Recipe(
        "Gram beside covariates",
        lambda d: Beside(Gram(2 + d), DESIGN, d),
        _scatter_found,
        lambda X: _scatter_facts(np.hstack([_covariates(len(X)), X])),
    ),
    Recipe(
        "Adjusted Triangular",
        lambda d: Adjusted(Triangular(d), DESIGN, directions(d).T),
        lambda r: {"count": r.count, "mean": r.mean, "scatter": r.triangle.T @ r.triangle},
        lambda X: _scatter_facts(X - _covariates(len(X)) @ directions(X.shape[1]).T),
    ),
    Recipe(
        "CovariateProducts",
        lambda d: CovariateProducts.of(d, DESIGN),
        lambda r: {"count": r.count, "about": r.about(origin(r.shift.shape[1]))},
        lambda X: {"count": len(X), "about": _covariates(len(X)).T @ (X - origin(X.shape[1]))},
    ),
    Recipe(
        "Kept Gram",
        lambda d: Kept(Gram(d)),
        lambda state: _scatter_found(Gram(state["shift"].shape[1]).result(state)),
        _scatter_facts,
    ),
    Recipe("Folded Gram", lambda d: Folded(Gram(d), FOLDS, d), _fold_facts, _folded_oracle),
    Recipe(
        "Folded RowSketch",
        lambda d: FoldedByNumber(RowSketch(d, 4, seed=5, stream=1, kind="gaussian", group=3), FOLDS, d),
        lambda found: {"about": [found.only(fold).about(origin(found.recipe.n_features)) for fold in range(3)]},
        _folded_sketch_oracle,
    ),
    Recipe("PartedSquares", _parted_squares, _squares_of_parts, _parted_squares_oracle),
    Recipe("Parted", lambda d: Parted(CrossProducts(chosen(d), origin(d)), CUT), _parted_facts, _parted_oracle),
    Recipe(
        "Weighted Gram", lambda d: weighted(Gram(d), WEIGHTS), _scatter_found, lambda X: _scatter_facts(_repeated(X))
    ),
    Recipe(
        "Weighted Triangular",
        lambda d: weighted(Triangular(d), WEIGHTS),
        lambda r: {"count": r.count, "mean": r.mean, "scatter": r.triangle.T @ r.triangle},
        lambda X: _scatter_facts(_repeated(X)),
    ),
    Recipe(
        "Weighted WholeRows",
        lambda d: weighted(WholeRows(d, 4000 + 2**18 // d), WEIGHTS),
        lambda r: {"count": r.count, "mean": r.mean, "scatter": r.triangle.T @ r.triangle},
        lambda X: _scatter_facts(_repeated(X)),
    ),
    Recipe(
        "Weighted Moments",
        lambda d: weighted(Moments(d), WEIGHTS),
        lambda r: {
            "count": r.count,
            "mean": r.mean,
            "squares": r.squared_deviations,
            "minimum": r.minimum,
            "maximum": r.maximum,
        },
        lambda X: _moments_oracle(_repeated(X)),
    ),
    Recipe(
        "Weighted ClippedSquares",
        lambda d: weighted(ClippedSquares(origin(d), scale(d)), WEIGHTS),
        lambda r: {"squares": r},
        lambda X: _clipped_squares(_repeated(X)),
    ),
    Recipe(
        "Weighted CrossProducts",
        lambda d: weighted(CrossProducts(chosen(d), origin(d), scale(d), directions(d)), WEIGHTS),
        _cross_facts,
        lambda X: _products(_scaled(_repeated(X)), chosen(X.shape[1]), directions(X.shape[1])),
    ),
    Recipe(
        "Weighted Residual",
        lambda d: weighted(Residual(*_residual(d), origin(d), scale(d)), WEIGHTS),
        lambda r: {"norms": r.norms, "loss": r.loss, "codes": r.codes, "cross": r.cross},
        lambda X: _residual_sums_oracle(_repeated(X)),
    ),
    Recipe(
        "Weighted RowSketch",
        lambda d: weighted(RowSketch(d, 4, seed=5, stream=1, kind="gaussian", group=3), WEIGHTS),
        lambda r: {"about": r.about(origin(r.shift.shape[1]))},
        lambda X: {"about": _weighted_sketch(X)},
    ),
    Recipe(
        "Weighted Gram beside covariates",
        lambda d: weighted(Beside(Gram(2 + d), DESIGN, d), WEIGHTS),
        _scatter_found,
        lambda X: _scatter_facts(_repeated(np.hstack([_covariates(len(X)), X]))),
    ),
    Recipe(
        "Weighted CovariateProducts",
        lambda d: weighted(CovariateProducts.of(d, DESIGN), WEIGHTS),
        lambda r: {"about": r.about(origin(r.shift.shape[1]))},
        lambda X: {"about": _weighted_products(X)},
    ),
    Recipe(
        "Weighted FrequentDirections",
        lambda d: weighted(FrequentDirections(d, size=d), WEIGHTS),
        lambda r: {
            "count": r.count,
            "mean": r.mean,
            "B'B": r.sketch.T @ r.sketch,
            "shrunk": r.shrunk,
            "squares": r.squared_deviations,
        },
        lambda X: _frequent_oracle(_repeated(X)),
    ),
    Recipe(
        "UnitLosses",
        _unit_losses,
        # the root, so that all facts are of the size of squares
        lambda r: {"rows": r.rows, "sums": r.sums, "squares": np.sqrt(r.squares), "losses": r.losses},
        _unit_oracle,
    ),
    Recipe(
        "Together",
        lambda d: Together({"gram": Gram(d), "gram-2": Moments(d), "deep": Together({"gram": Triangular(d)})}),
        lambda r: {
            "scatter": r["gram"].scatter,
            "mean": r["gram-2"].mean,
            "again": r["deep"]["gram"].triangle.T @ r["deep"]["gram"].triangle,
        },
        lambda X: {
            "scatter": _scatter_facts(X)["scatter"],
            "mean": X.mean(axis=0),
            "again": _scatter_facts(X)["scatter"],
        },
    ),
)


def assert_same_facts(found: Facts, expected: Facts, X: NDArray[Any]) -> None:
    """Up to the rounding of float64 sums of squares of entries as large as those of X."""
    finite = np.abs(X[np.isfinite(X)].astype(np.float64)) if X.dtype.kind == "f" else np.abs(X.astype(np.float64))
    largest = 3.0 + (finite.max() if finite.size else 0.0)  # 3: the origin and the directions of the recipes
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        wanted = np.asarray(value, dtype=np.float64)
        atol = 1e-13 * len(X) * largest**2
        np.testing.assert_allclose(np.asarray(found[name]), wanted, rtol=1e-11, atol=atol, err_msg=name)
