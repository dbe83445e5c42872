"""A fitted grid encoder on disk and back: the encoder of a matrix, and a group ``grid`` about its columns."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from spae_dask.estimators.record import NOT_STORED, told_rule, with_names
from spae_dask.estimators.saved import load_encoder, save_encoder
from spae_dask.recipes import recipe_text
from spae_dask.rules import RULES
from spae_dask.storage.grids.grid_artifact import GridRecord, read_grid, write_grid
from spae_dask.xarray.applying import FittedGrid
from spae_dask.xarray.columns import rules_on


@dataclass(frozen=True, eq=False)
class LoadedGrid:
    """Contents of a grid encoder read from disk."""

    parameters: dict[str, Any]
    fitted: FittedGrid


def save_grid_encoder(encoder: Any, path: str | Path, *, overwrite: bool) -> None:
    """Write a fitted ``GridEncoder``."""
    parameters = {name: value for name, value in encoder.get_params().items() if name not in NOT_STORED}
    parameters["random_state"] = encoder.encoder_.seed_
    parameters = with_names(parameters) | {"recipe": recipe_text(encoder.recipe)}
    found = rules_on(encoder.layout_, encoder)
    for rule in RULES:
        by_cell = isinstance(parameters[rule], xr.DataArray)
        parameters[rule] = told_rule(rule, getattr(found, rule) if by_cell else parameters[rule])
    weights = parameters["weights"]
    given = weights if isinstance(weights, xr.DataArray) else None
    parameters["weights"] = weights if given is None else "given"
    record = GridRecord(encoder.layout_, encoder.cells_, parameters, given)
    save_encoder(encoder.encoder_, path, overwrite=overwrite, attach=lambda group: write_grid(group, record))


def load_grid_encoder(path: str | Path) -> LoadedGrid:
    """Read a ``GridEncoder``."""
    encoder = load_encoder(path)
    record: GridRecord = getattr(encoder, "_grid", None) or read_grid(path)  # which says that there is none
    if record.by_encoder:  # cells mark missing values and follow the recipe themselves, before they are weighted
        encoder.set_params(missing_value=None, recipe=None)
    encoder._asked, encoder._grid = {}, None  # rows are made of cells here, not opened
    parameters = dict(record.parameters)
    if record.weights is not None:
        parameters["weights"] = record.weights
    return LoadedGrid(parameters, FittedGrid(encoder, record.layout, record.cells))
