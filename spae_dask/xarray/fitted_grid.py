"""A fitted encoder on the grid that its columns are cells of: its arrays, labelled as the data are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.storage.grids.grid_layout import GridLayout
from spae_dask.storage.grids.xarray_blocks import Cells


@dataclass(frozen=True, eq=False)
class FittedGrid:
    """A fitted encoder, with the grid that it was fitted on.

    Attributes
    ----------
    encoder : SparseEncoder
        Encoder of the matrix of the kept cells, weighted.
    layout : GridLayout
        Dimensions, coordinates and attributes of the data.
    cells : Cells
        Cells that are columns, and the factors that multiply them.
    """

    encoder: SparseEncoder
    layout: GridLayout
    cells: Cells

    def numbers(self) -> dict[str, Any]:
        """The coordinate of components, from 1."""
        return {self.layout.component_dim: np.arange(1, self.encoder.n_components_ + 1)}

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of an array in units of the data; of what a recipe makes of them, its name alone."""
        recipe = self.cells.recipe
        return dict(self.layout.attrs) if recipe is None else self.described(str(recipe))

    def described(self, what: str) -> dict[str, Any]:
        """Attributes of an array that is not in units of the data."""
        name = self.layout.attrs.get("long_name", self.layout.name)
        return {"long_name": what if name is None else f"{what} of {name}"}

    def on_grid(self, values: Any, name: str, attrs: dict[str, Any], fill: Any = np.nan) -> xr.DataArray:
        """Values (k, d) as an array (component, grid), with ``fill`` in cells that are no columns."""
        grid = self.layout.on_grid(values, self.cells.numbers, fill)
        return self.layout.labelled(grid, (self.layout.component_dim,), name, attrs).assign_coords(self.numbers())
