"""From what was opened to the data of an encoder: missing values, and the recipe for raw rows."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.blocks import LazyRowBlocks, RowBlocks, asked_of, remember
from spae_dask.errors import InvalidInput, NotCountsWarning, TransformedTwiceWarning, warn
from spae_dask.passes.sweep import read_again
from spae_dask.recipes import Recipe, RecipeLike, recipe_of
from spae_dask.storage.masks import LOGGED
from spae_dask.storage.row_values import numbers_of_file
from spae_dask.storage.sources.recipe_blocks import lazily_followed, with_recipe
from spae_dask.storage.sources.sentinel import MissingValue, lazily_marked, with_missing
from spae_dask.storage.sources.submatrix import beneath_choice, chosen_columns
from spae_dask.strategies.parameters import PARAMETERS, FitParameters, is_number, is_scale_file, several

if TYPE_CHECKING:
    from spae_dask.storage.grids.xarray_blocks import GridCells

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


def with_positions(params: FitParameters, grid: "GridCells | None") -> FitParameters:
    """Parameters whose least distance is between cells of a grid, if positions are not given: in km on the Earth.

    Raises
    ------
    InvalidInput
        If the cells have no positions, or no two of them are so far apart.
    """
    if grid is None or params.min_distance is None or params.positions is not None:
        return params
    from spae_dask.storage.grids.positions import positions_on

    PARAMETERS["min_distance"].check(params.min_distance)
    everywhere = positions_on(grid.layout, None, float(params.min_distance))
    return replace(params, positions=tuple(everywhere[cell] for cell in grid.cells.numbers))


def with_rules(params: FitParameters, source: RowBlocks) -> FitParameters:
    """Parameters whose rules name features by number, as the names of the data have them.

    Raises
    ------
    InvalidInput
        If a feature is not there, or no choice can keep to the rules. If weighted cells of a grid are to be scaled.
    """
    params = with_positions(params, getattr(source, "grid_cells", None))
    weights = asked_of(source).get("weights")
    if weights is not None and params.scale is not False:
        raise InvalidInput(
            f"weights={weights!r} and scale cannot be combined here: scaled columns lose their weights. Leave out one "
            "of them. GridEncoder in Python scales cells before it weights them."
        )
    return params.resolved(getattr(source, "feature_names", None), source.shape[1])


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


def scale_given(given: Any) -> Any:
    """The parameter ``scale`` as a fit takes it: True for ``"std"``, and a tuple of the numbers of an array or a file.

    Raises
    ------
    NotFound
        If there is no such file.
    InvalidInput
        If a file does not hold numbers.
    """
    if is_scale_file(given):
        return tuple(numbers_of_file(given, "scale").tolist())
    numbers = several(given)
    if numbers is None:
        return True if isinstance(given, str) and given == "std" else given
    return tuple(float(each) if is_number(each) else each for each in numbers)


def recipe_note(source: RowBlocks) -> str | None:
    """State the recipe that a source follows; None without one."""
    recipe: Recipe | None = getattr(source, "recipe", None)
    if recipe is None:
        return None
    chosen = recipe.of_rows and asked_of(source).get("columns") is not None
    return (
        f"reads raw data: {recipe}, in the read"
        + ("; a read before it finds the median of the sums of rows" * recipe.lacks_target)
        + ("; rows sum over the columns chosen of the table" * chosen)
    )


def raw_rows(source: RowBlocks) -> RowBlocks | None:
    """Raw rows, with all columns, that are read before the target of a recipe is known; None if it is known."""
    recipe: Recipe | None = getattr(source, "recipe", None)
    raw: RowBlocks | None = getattr(source, "raw", None)
    return raw if recipe is not None and recipe.lacks_target else None


def with_top(source: RowBlocks, columns: npt.NDArray[np.intp]) -> RowBlocks:
    """The columns of a source that vary most; it remembers them."""
    asked = asked_of(source) | {"top": columns.tolist(), "n_before": source.shape[1]}
    return remember(chosen_columns(source, columns), **asked)


def recipe_of_fit(estimator: Any) -> RecipeLike:
    """The recipe of an estimator, with the target that its fit found.

    Raises
    ------
    InvalidInput
        If it is yet to be found.
    """
    recipe = recipe_of(getattr(estimator, "recipe", None))
    if recipe is None or not recipe.lacks_target:
        return getattr(estimator, "recipe", None)
    target = getattr(estimator, "target_sum_", None)
    if target is None:
        raise InvalidInput(
            f"the target of recipe='{recipe}' is not known: fit finds it in a read of all rows. Call fit, or give the "
            "number; the median sum is printed by `spae check`."
        )
    return recipe.with_target(target)


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
    """Warn if the data seem to have followed the recipe before. The first block of raw rows of a store is looked at.

    Blocks of a task graph are not computed for it. Grids have no raw rows: their numbers need not be counts.
    """
    recipe: Recipe | None = getattr(source, "recipe", None)
    raw: RowBlocks | None = getattr(source, "raw", None)
    told = recorded_twice(recipe, source)
    if told is None and recipe is not None and recipe.logs and raw is not None and not isinstance(raw, LazyRowBlocks):
        found = _floats_of_first_block(raw)
        if found.size and looks_logged(float(found.min()), float(found.max()), not np.mod(found, 1).any()):
            told = LOGGED_ALREADY
    if told is not None:
        warn(f"{told}. {ADVICE}", TransformedTwiceWarning)


def warn_of_fractions(source: RowBlocks) -> None:
    """Warn if data that are taken for counts are not whole numbers. The first block of a store is looked at."""
    if isinstance(source, LazyRowBlocks):
        return
    found = _floats_of_first_block(source)
    if np.mod(found, 1).any():
        warn(
            f"top_features_flavor='seurat_v3' takes counts, and {source.describe()} holds numbers that are not whole. "
            "Give raw counts, such as array='layers/counts' of AnnData.",
            NotCountsWarning,
        )


def _floats_of_first_block(source: RowBlocks) -> npt.NDArray[np.floating[Any]]:
    """Finite entries of the first block, zeros that are not stored apart; none of integers."""
    block: Any = read_again(source, 0)
    values = block.data if sp.issparse(block) else np.asarray(block)
    return values[np.isfinite(values)] if values.dtype.kind == "f" else np.zeros(0)
