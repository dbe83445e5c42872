"""Weights of rows are looked up by the numbers of the rows, so recipes that lose the numbers take none."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from spae_dask.passes.accumulators import (
    Accumulator,
    Beside,
    Cut,
    Folded,
    FoldedByNumber,
    Gram,
    Imputed,
    Parted,
    RowFolds,
    RowWeights,
    State,
    Together,
    Weighted,
    weighing,
    weighted,
)
from spae_dask.passes.accumulators.wrapped import Wrapped
from tests.passes.accumulators.recipes import DESIGN, RECIPES

N, D = 60, 5
WEIGHTS = RowWeights(np.ones(N))
DEALT = {
    "folds": Folded(Gram(D), RowFolds.of_runs(N, 3, 0), D),
    "parts": Parted(Together({"core": Gram(D)}), Cut.by_codes(np.arange(N) % 3, 3)),
    "one part": Parted(Gram(D), Cut.equal(N, 1)),
    "weights": Weighted(Gram(D), WEIGHTS),
}


@dataclass(frozen=True, eq=False)
class Watched(Wrapped):
    """Recipe ``inner``, with a list of the numbers of its rows."""

    seen: list[int] = field(default_factory=list)

    def update(self, state: State, rows: Any, first_row: int) -> State:
        self.seen.extend(range(first_row, first_row + rows.shape[0]))
        return super().update(state, rows, first_row)


@pytest.mark.parametrize("recipe", [r for r in RECIPES if isinstance(r.make(3), Wrapped)], ids=lambda r: r.name)
def test_a_wrapper_takes_weights_only_if_it_hands_on_the_numbers_of_the_rows(recipe: Any) -> None:
    made = recipe.make(D)
    if isinstance(made, Weighted | FoldedByNumber):  # they hand on weights of their own
        assert not made.takes_weights
        return
    watched = replace(made, inner=Watched(made.inner))
    watched.update(watched.zero(), np.random.default_rng(0).normal(size=(N, D)), 0)
    assert watched.inner.seen == list(range(N)) or not made.takes_weights, "weights would be those of other rows"


@pytest.mark.parametrize("outer", ["alone", "together", "imputed", "beside"])
@pytest.mark.parametrize("dealt", DEALT)
def test_rows_without_numbers_are_never_weighed(dealt: str, outer: str) -> None:
    recipe: Accumulator[Any] = DEALT[dealt]
    if outer == "together":
        recipe = Together({"gram": Gram(D), "dealt": recipe})
    elif outer == "imputed":
        recipe = Imputed(recipe, np.zeros(D))
    elif outer == "beside":
        recipe = Beside(recipe, DESIGN, D)
    assert weighted(recipe, None) is recipe
    with pytest.raises(AssertionError, match="takes no weights"):
        weighted(recipe, WEIGHTS)
    with pytest.raises(AssertionError, match="takes no weights"):
        weighing(lambda recipe, name="": None, WEIGHTS)(recipe)
