"""Rows and columns of the matrix by the names they have in the data."""

import numpy as np
import xarray as xr

from spae_dask.errors import NonFiniteInput
from spae_dask.storage.grids.grid_layout import GridLayout, dim_labels, told_array
from spae_dask.storage.grids.xarray_blocks import Cells


def named_error(
    error: NonFiniteInput, array: xr.DataArray, sample_dims: tuple[str, ...], layout: GridLayout, cells: Cells
) -> NonFiniteInput:
    """Add the names of the sample and the cell to an error, if the position is known.

    Parameters
    ----------
    error : NonFiniteInput
    array : xarray.DataArray
    sample_dims : tuple of str
        Dimensions of the rows.
    layout : GridLayout
    cells : Cells
        Cells that are the columns.
    """
    if error.place is None:
        return error
    row, column = error.place
    places = np.unravel_index(row, [array.sizes[dim] for dim in sample_dims]) if sample_dims else ()
    sample = ", ".join(
        f"{dim}={dim_labels(array.isel({dim: [i]}), dim, int(i) + 1)[-1]}"
        for dim, i in zip(sample_dims, places, strict=True)
    )
    (cell,) = layout.cell_names(cells.numbers[[column]])
    value = "infinite" if "infinity" in str(error).partition(":")[0] else "NaN"
    where = f"{sample}, {cell}" if sample else cell
    named = NonFiniteInput(
        f"{told_array(array)} is {value} at {where}, in a cell that has data elsewhere. {error} Cells that are NaN "
        "throughout are left out by themselves."
    )
    named.place = error.place
    return named
