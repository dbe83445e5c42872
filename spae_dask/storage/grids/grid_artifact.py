"""The grid of an encoder on disk: a Zarr group ``grid`` beside the encoder's arrays, no pickle anywhere.

Arrays: ``kept`` (numbers of the cells that are columns), ``factor`` (what they are multiplied by, or empty),
``weights`` if they were given, and coordinates of numbers and times; they are called ``0``, ``1``, ... Times are
encoded as CF has it.
Attributes: ``format_version``, ``name``, ``dims``, ``sample_dims``, ``feature_dims``, ``shape``, ``attrs``,
``parameters``, ``missing_value``, ``recipe`` if there is one, and ``variables``, one record an array: its name,
dimensions, attributes, digest, and its values instead if they are texts.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
import zarr

from spae_dask.errors import InvalidInput, StorageError
from spae_dask.recipes import recipe_of
from spae_dask.storage.artifacts.artifact import GRID, damaged
from spae_dask.storage.bounded import bounded
from spae_dask.storage.grids.grid_layout import GridLayout
from spae_dask.storage.grids.xarray_blocks import Cells, GridCells
from spae_dask.storage.sources.store_at import root_at
from spae_dask.storage.writing.json_and_csv import from_json, to_json

FORMAT_VERSION, OF_RECIPES, OF_MATRICES = 1, 2, 3
"""Format versions, each for what earlier versions of spae_dask would pass over.

Of most grids; of those whose cells follow a recipe; and of those whose encoder, as that of a matrix, marks missing
values and follows a recipe itself, both before weights.
"""


@dataclass(frozen=True, eq=False)
class GridRecord:
    """Stored record of a grid encoder.

    Attributes
    ----------
    layout : GridLayout
    cells : Cells
    parameters : mapping
        JSON values: how the encoder was asked for.
    weights : xarray.DataArray or None
        If they were given.
    by_encoder : bool
        True if the encoder itself marks missing values and follows the recipe, as the cells say.
    """

    layout: GridLayout
    cells: Cells
    parameters: Mapping[str, Any]
    weights: xr.DataArray | None = None
    by_encoder: bool = False

    @property
    def before_encoder(self) -> GridCells:
        """The cells with what is done to them before the encoder gets its rows."""
        plain = replace(self.cells, missing_value=None, recipe=None) if self.by_encoder else self.cells
        return GridCells(self.layout, plain)


def write_grid(encoder: zarr.Group, record: GridRecord) -> None:
    """Add the group to that of an encoder which is being written."""
    group = encoder.create_group(GRID)
    layout, cells = record.layout, record.cells
    factor = np.zeros(0) if cells.factor is None else cells.factor
    stored = [("kept", xr.Variable("cell", cells.numbers.astype(np.int64))), ("factor", xr.Variable("cell", factor))]
    if record.weights is not None:
        weights = record.weights.reset_coords(drop=True).variable
        stored.append(("weights", xr.Variable(weights.dims, weights.values)))
    flat = layout.coords.reset_index([name for name in layout.coords.indexes if _is_multi(layout.coords, name)])
    stored += [(f"coord {name}", variable) for name, variable in flat.coords.variables.items()]
    group.attrs.update(
        {
            "format_version": _version(record),
            "name": layout.name,
            "dims": list(layout.dims),
            "sample_dims": list(layout.sample_dims),
            "feature_dims": list(layout.feature_dims),
            "shape": list(layout.shape),
            "attrs": _attrs(layout.attrs),
            "parameters": to_json(dict(record.parameters), "parameters"),
            "missing_value": to_json(cells.missing_value, "missing_value"),
            **({} if cells.recipe is None else {"recipe": str(cells.recipe)}),
            "variables": [_write(group, str(i), name, variable) for i, (name, variable) in enumerate(stored)],
        }
    )


def _version(record: GridRecord) -> int:
    if record.by_encoder and (record.cells.recipe, record.cells.missing_value) != (None, None):
        return OF_MATRICES
    return FORMAT_VERSION if record.cells.recipe is None else OF_RECIPES


def read_grid(path: str | Path) -> GridRecord:
    """The grid of an encoder that is known to be one.

    Raises
    ------
    InvalidInput
        If it has none, or one that this version cannot read.
    StorageError
        If an array is lost or is not what was written.
    """
    name = os.fsdecode(path)
    encoder = root_at(name)
    group = encoder.get(GRID)
    if not isinstance(group, zarr.Group):
        raise InvalidInput(
            f"{name} is the encoder of a matrix, without a grid. Read it with load_encoder. GridEncoder.load "
            "reads only the output of GridEncoder.save."
        )
    attrs: dict[str, Any] = dict(group.attrs)
    if attrs.get("format_version") not in (FORMAT_VERSION, OF_RECIPES, OF_MATRICES):
        raise InvalidInput(
            f"the grid of {name} has format version {attrs.get('format_version')!r}, but this version of "
            f"spae_dask reads up to {OF_MATRICES}. Upgrade it: `pip install -U spae-dask`."
        )
    try:
        variables = {record["name"]: _read(group, record, name) for record in attrs["variables"]}
        kept, factor = variables.pop("kept").values, variables.pop("factor").values
        weights = variables.pop("weights", None)
        coords = {key.removeprefix("coord "): variable for key, variable in variables.items()}
        layout = GridLayout(
            name=attrs["name"],
            dims=tuple(attrs["dims"]),
            sample_dims=tuple(attrs["sample_dims"]),
            feature_dims=tuple(attrs["feature_dims"]),
            shape=tuple(attrs["shape"]),
            coords=xr.Dataset(coords=coords),
            attrs=from_json(attrs["attrs"]),
        )
        whole = kept.size == layout.n_cells
        cells = Cells(
            layout.n_cells,
            None if whole else kept.astype(np.intp),
            factor if factor.size else None,
            from_json(attrs["missing_value"]),
            recipe_of(attrs.get("recipe")),
        )
        parameters = from_json(attrs["parameters"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(damaged(name, f"its grid lacks a part or contains a wrong one ({error})")) from error
    by_encoder = attrs["format_version"] == OF_MATRICES
    return GridRecord(layout, cells, parameters, None if weights is None else xr.DataArray(weights), by_encoder)


def _write(group: zarr.Group, key: str, name: str, variable: xr.Variable) -> dict[str, Any]:
    """Store a variable and return its record; texts stay in the record."""
    record: dict[str, Any] = {"name": name, "dims": [str(dim) for dim in variable.dims], "key": key}
    plain = variable.to_base_variable().drop_encoding()
    if plain.dtype.kind in "US" or (plain.dtype.kind == "O" and all(isinstance(v, str) for v in plain.values.flat)):
        return record | {"attrs": _attrs(plain.attrs), "texts": plain.values.astype(str).tolist()}
    is_number = plain.dtype.kind in "fiu"
    encoded = plain if is_number else xr.conventions.encode_cf_variable(plain, name=name)
    values = np.asarray(encoded.values, order="C")
    if values.dtype.kind not in "fiub":
        raise InvalidInput(
            f"the {name!r} holds {plain.dtype}, which cannot be stored. Drop it before the fit: da.drop_vars(...)."
        )
    values = values.astype(values.dtype.newbyteorder("<"))
    group.create_array(
        key,
        shape=values.shape,
        dtype=values.dtype,
        chunks=tuple(max(1, size) for size in values.shape),
        fill_value=np.nan if values.dtype.kind == "f" else None,
    )[...] = values
    return record | {"attrs": _attrs(encoded.attrs), "sha256": _digest(values), "as_cf": not is_number}


def _read(group: zarr.Group, record: Mapping[str, Any], name: str) -> xr.Variable:
    attrs = from_json(record["attrs"])
    if "texts" in record:
        return xr.Variable(record["dims"], np.array(record["texts"], dtype=object), attrs)
    try:
        values = np.asarray(bounded(group[record["key"]])[...], order="C")
    except Exception as error:  # codecs and stores raise exceptions of any type
        raise StorageError(damaged(name, f"its grid cannot be read ({type(error).__name__}: {error})")) from error
    if _digest(values) != record["sha256"]:
        raise StorageError(damaged(name, f"the {record['name']!r} of its grid is not what was written"))
    variable = xr.Variable(record["dims"], values, attrs)
    if not record["as_cf"]:  # attributes may name CF encodings that must not be decoded
        return variable
    return xr.conventions.decode_cf_variable(record["name"], variable, decode_timedelta=True)


def _digest(values: npt.NDArray[Any]) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()


def _attrs(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes as JSON: they describe, so what JSON cannot hold is kept as text."""
    kept = {}
    for key, value in attrs.items():
        try:
            kept[str(key)] = to_json(value, str(key))
        except InvalidInput:
            kept[str(key)] = str(value)
    return kept


def _is_multi(coords: xr.Dataset, name: Any) -> bool:
    return name in coords.dims and len(coords.xindexes.get_all_coords(name, errors="ignore")) > 1
