"""Cells of a grid that become columns, and their factors, both found before the fit.

Rules for the choice of cells become rules for columns here, and coordinates the positions of a least distance.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput
from spae_dask.estimators.fitting import report_missing_chunks
from spae_dask.estimators.planning import plan_passes
from spae_dask.estimators.preparing import checked_recipe
from spae_dask.estimators.runtime import active_client, runner_for
from spae_dask.passes.accumulators import Accumulator, ColumnMoments, Moments, NonFinite, NonFiniteEntries, Together
from spae_dask.recipes import Recipe, RecipeLike
from spae_dask.rules import RULES, Rules
from spae_dask.storage.grids.grid_layout import GridLayout
from spae_dask.storage.grids.positions import positions_on
from spae_dask.storage.grids.weights import factor_of
from spae_dask.storage.grids.xarray_blocks import Cells, refuse_of_rows, rows_of
from spae_dask.storage.sources.sentinel import check_missing_value
from spae_dask.strategies.core_summary import constant_columns, divisors
from spae_dask.strategies.parameters import PARAMETERS, ScaleLike
from spae_dask.xarray.applying import naming_places

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns that were found, and the reads that this took.

    Attributes
    ----------
    cells : Cells
        The columns.
    passes, bytes_read : int
        Passes over all data made to find the columns, and bytes read in them.
    """

    cells: Cells
    passes: int = 0
    bytes_read: int = 0


def find_columns(
    array: xr.DataArray,
    layout: GridLayout,
    weights: Floats | None,
    mask: npt.NDArray[np.bool_] | None,
    encoder: Any,
) -> Columns:
    """Leave out the cells that hold nothing, and find the factors of the others.

    Passes: none if a mask is given, the data cannot hold NaN, or no cell is NaN throughout the first row block, which
    is looked at; else 1. With ``scale`` and weights together always 1, for means and deviations: columns are scaled
    before they are weighted, or the weights would cancel.

    Parameters
    ----------
    array : xarray.DataArray
    layout : GridLayout
    weights : ndarray (n_cells,), optional
    mask : ndarray (n_cells,) of bool, optional
        Cells to keep.
    encoder : GridEncoder
        Its parameters ``scale``, ``missing``, ``missing_value``, ``recipe``, ``memory_limit`` and ``progress`` are
        used.

    Raises
    ------
    InvalidInput
        If no cell is left, a weight is not finite, or the recipe is none for cells or cannot be followed.
    """
    if encoder.missing_value is not None:
        stored = rows_of(array, layout.sample_dims, layout.feature_dims, Cells(layout.n_cells))
        check_missing_value(encoder.missing_value, stored)
    wanted = np.ones(layout.n_cells, dtype=bool) if mask is None else mask.copy()
    if weights is not None:
        wanted &= weights != 0  # NaN passes, and is refused where there are data
    kept = _numbers(wanted, "the mask and the weights leave none")
    recipe = recipe_on_cells(encoder.recipe)
    cells = Cells(layout.n_cells, _unless_all(kept, layout.n_cells), None, encoder.missing_value, recipe)
    source = rows_of(array, layout.sample_dims, layout.feature_dims, cells)
    scaled = bool(encoder.scale) and weights is not None
    with naming_places(array, layout.sample_dims, layout, cells):
        may_lack = mask is None and source.dtype.kind == "f" and bool(np.isnan(source.read(0)).all(axis=0).any())
    passes, nbytes, deviation = 0, 0, np.ones(kept.size)
    if scaled or may_lack:
        with naming_places(array, layout.sample_dims, layout, cells):
            entries, moments, nbytes = _one_pass(source, encoder, with_moments=scaled)
        passes = 1
        has_data = entries.nan_by_column < source.shape[0] if mask is None else np.ones(kept.size, dtype=bool)
        if moments is not None:
            deviation = _divisors(encoder.scale, moments, source.shape[0], encoder.missing)
        if not has_data.any():
            raise InvalidInput(
                f"{source.describe()} is NaN in every cell at every time, so there is nothing to compute."
            )
        kept, deviation = kept[has_data], deviation[has_data]
    factor = None
    if weights is not None:
        divided = weights.copy()
        divided[kept] /= deviation
        factor = factor_of(divided, layout, kept, source.dtype)
    cells = Cells(layout.n_cells, _unless_all(kept, layout.n_cells), factor, encoder.missing_value, recipe)
    return Columns(cells, passes, nbytes)


def recipe_on_cells(given: RecipeLike) -> Recipe | None:
    """The recipe of a grid, if any: steps that change each entry alone.

    Raises
    ------
    InvalidInput
        If it is none, or adds up the cells of a sample.
    """
    recipe = checked_recipe(given)
    if recipe is not None:
        refuse_of_rows(recipe)
    return recipe


def mask_on(layout: GridLayout, mask: Any) -> npt.NDArray[np.bool_] | None:
    """A mask over the cells of the flat grid.

    Raises
    ------
    InvalidInput
        If it is not a DataArray of booleans over all feature dimensions of the grid.
    """
    if mask is None:
        return None
    if not isinstance(mask, xr.DataArray) or mask.dtype != bool or set(mask.dims) != set(layout.feature_dims):
        given = f"{mask.dtype} over {mask.dims}" if isinstance(mask, xr.DataArray) else type(mask).__name__
        raise InvalidInput(
            f"the mask is {given}. It must be a DataArray of booleans over "
            f"({', '.join(layout.feature_dims)}), True where there are data, such as da.isel(time=0, "
            "drop=True).notnull()."
        )
    flat: npt.NDArray[np.bool_] = np.asarray(layout.checked(mask)[0].transpose(*layout.feature_dims)).reshape(-1)
    return flat


def rules_on(layout: GridLayout, encoder: Any) -> Rules:
    """Rules of an encoder by the numbers of cells of the flat grid.

    Raises
    ------
    InvalidInput
        If a mask is none over the grid, or a cell is not there.
    """
    given = {
        rule: _on_cells(layout, rule, found) if isinstance(found := getattr(encoder, rule), xr.DataArray) else found
        for rule in RULES
    }
    if encoder.min_distance is not None and encoder.positions is None:
        PARAMETERS["min_distance"].check(encoder.min_distance)
        given["positions"] = positions_on(layout, encoder.lat_dim, float(encoder.min_distance))
    rules = Rules.of(given, layout.n_cells)
    return rules.resolved(layout.cell_names(np.arange(layout.n_cells)), layout.n_cells) if rules else rules


def _on_cells(layout: GridLayout, rule: str, given: xr.DataArray) -> npt.NDArray[Any] | None:
    """A rule that is given over the grid: a mask, or a value for each cell."""
    if rule not in ("costs", "groups", "positions"):
        return mask_on(layout, given)
    if set(given.dims) != set(layout.feature_dims):
        raise InvalidInput(f"{rule} are over {given.dims}. Give them over ({', '.join(layout.feature_dims)}).")
    values: npt.NDArray[Any] = np.asarray(layout.checked(given)[0].transpose(*layout.feature_dims)).reshape(-1)
    return values


def _numbers(wanted: npt.NDArray[np.bool_], why_none: str) -> npt.NDArray[np.intp]:
    if not wanted.any():
        raise InvalidInput(f"no cell is left: {why_none}. Keep at least one cell.")
    return np.flatnonzero(wanted)


def _unless_all(kept: npt.NDArray[np.intp], n_cells: int) -> npt.NDArray[np.intp] | None:
    return None if kept.size == n_cells else kept


def _one_pass(
    source: RowBlocks, encoder: Any, *, with_moments: bool
) -> tuple[NonFiniteEntries, ColumnMoments | None, int]:
    d = source.shape[1]
    recipes: dict[str, Accumulator[Any]] = {"nonfinite": NonFinite(d)}
    if with_moments:
        recipes["moments"] = Moments(d)
    recipe = Together(recipes)
    client = active_client(source)
    plan = plan_passes(
        source, [("cells", recipe)], client, encoder.memory_limit, reason="cells without data", finish_nbytes=0
    )
    runner = runner_for(report_missing_chunks(source), client, plan, encoder.progress)
    found = runner.run_pass(recipe, "cells")
    return found["nonfinite"], found.get("moments"), runner.tally.nbytes


def _divisors(scale: ScaleLike, moments: ColumnMoments, n: int, missing: str) -> Floats:
    """Divisors of the cells by name, after gaps are filled; 1 where there is no variance."""
    squares = moments.squared_deviations.copy()
    mean = moments.mean
    if missing == "zero":
        share = moments.count / n
        squares += share * (n - moments.count) * mean**2
        mean = share * mean
    deviation = np.sqrt(squares / max(n - 1, 1))
    still = constant_columns(deviation, mean) | (moments.constant & (moments.count == n))
    return divisors(scale, mean, deviation, still)[0]
