"""From what was opened to the data of an encoder: missing values, and the recipe for raw rows."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from spae_dask.blocks import LazyRowBlocks, RowBlocks, asked_of
from spae_dask.errors import TransformedTwiceWarning, warn
from spae_dask.estimators.runtime import names_of
from spae_dask.passes.sweep import read_again
from spae_dask.recipes import Recipe, RecipeLike, recipe_of
from spae_dask.storage.masks import LOGGED
from spae_dask.storage.sources.recipe_blocks import lazily_followed, with_recipe
from spae_dask.storage.sources.sentinel import MissingValue, lazily_marked, with_missing
from spae_dask.storage.sources.submatrix import beneath_choice
from spae_dask.strategies.parameters import PARAMETERS, FitParameters

LARGEST_LOG = 20.0
"""Numbers below this that are not whole are taken for logarithms: counts of e^20 do not occur."""


def prepared(source: RowBlocks, missing_value: MissingValue, recipe: RecipeLike = None) -> RowBlocks:
    """The data of an encoder: a source with missing values marked, and then with a recipe followed.

    A recipe is followed beneath a choice of columns, so that rows are normalised by all of their columns.

    Parameters
    ----------
    source : RowBlocks
        Source as it was opened.
    missing_value, recipe
        As for ``SparseEncoder``.

    Raises
    ------
    InvalidInput
        If one of the two is not allowed.
    """
    steps = checked_recipe(recipe)
    if steps is None:
        return with_missing(source, missing_value)
    return beneath_choice(source, lambda whole: with_recipe(with_missing(whole, missing_value), steps))


def resolved(params: FitParameters, X: Any, source: RowBlocks) -> FitParameters:
    """Parameters whose rules name features by number, as the names of the data have them.

    Raises
    ------
    InvalidInput
        If a feature is not there, or no choice can keep to the rules.
    """
    return params.resolved(names_of(X, source), source.shape[1])


def prepared_lazily(array: Any, missing_value: MissingValue, recipe: RecipeLike = None) -> Any:
    """The same of a dask array of all columns, whose rows need not be counted."""
    steps = checked_recipe(recipe)
    return lazily_followed(lazily_marked(array, missing_value), steps, "the dask array")


def checked_recipe(given: RecipeLike) -> Recipe | None:
    """The recipe that a parameter gives, if any.

    Raises
    ------
    InvalidInput
        If it gives none that is allowed.
    """
    PARAMETERS["recipe"].check(given)
    return recipe_of(given)


def recipe_note(source: RowBlocks) -> str | None:
    """State the recipe that a source follows; None without one."""
    recipe: Recipe | None = getattr(source, "recipe", None)
    if recipe is None:
        return None
    chosen = recipe.of_rows and asked_of(source).get("columns") is not None
    return f"reads raw data: {recipe}, in the read" + ("; rows sum over the columns chosen of the table" * chosen)


def recorded_twice(recipe: Recipe | None, source: RowBlocks) -> str | None:
    """State that logarithms would be taken twice, if the store says that its matrix holds some."""
    told = asked_of(source).get(LOGGED)
    if recipe is None or not recipe.logs or told is None:
        return None
    return f"the recipe takes logarithms, and {told} says that the data are logarithms already"


def looks_logged(smallest: float, largest: float, whole: bool) -> bool:
    """Return True for numbers that look like logarithms of counts: at least 0, small, and not all whole."""
    return not whole and smallest >= 0 and largest < LARGEST_LOG


LOGGED_ALREADY = (
    f"the recipe takes logarithms, and the data look like logarithms already: they are below {LARGEST_LOG:g}, and not "
    "whole numbers"
)

ADVICE = "Give raw counts, such as array='layers/counts' of AnnData, or leave out the recipe."


def warn_of_twice(source: RowBlocks) -> None:
    """Warn if the data seem to have followed the recipe before. The first block of a store is looked at.

    Blocks of a task graph are not computed for it.
    """
    recipe: Recipe | None = getattr(source, "recipe", None)
    told = recorded_twice(recipe, source)
    if told is None and recipe is not None and recipe.logs and not isinstance(source, LazyRowBlocks):
        block: Any = read_again(source.raw, 0)  # type: ignore[attr-defined]  # of what follows a recipe
        values = block.data if sp.issparse(block) else np.asarray(block)
        found = values[np.isfinite(values)] if values.dtype.kind == "f" else values[:0]
        if found.size and looks_logged(float(found.min()), float(found.max()), not np.mod(found, 1).any()):
            told = LOGGED_ALREADY
    if told is not None:
        warn(f"{told}. {ADVICE}", TransformedTwiceWarning)
