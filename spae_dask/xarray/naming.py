"""Rows and columns of the matrix by the names they have in the data."""

import numpy as np
import xarray as xr

from spae_dask.errors import NonFiniteInput
from spae_dask.storage.grid_layout import GridLayout, dim_labels, told_array
from spae_dask.storage.xarray_blocks import Cells


def named_error(error: NonFiniteInput, arranged: xr.DataArray, layout: GridLayout, cells: Cells) -> NonFiniteInput:
    """The same error, with the sample and the cell by name where the place is known.

    Parameters
    ----------
    error : NonFiniteInput
    arranged : xarray.DataArray
        Samples first, cells last.
    layout : GridLayout
    cells : Cells
        What the columns are.
    """
    if error.place is None:
        return error
    row, column = error.place
    dims = [str(dim) for dim in arranged.dims[: arranged.ndim - len(layout.shape)]]
    sample = ", ".join(
        f"{dim}={dim_labels(arranged.isel({dim: [i]}), dim, int(i) + 1)[-1]}"
        for dim, i in zip(dims, np.unravel_index(row, [arranged.sizes[dim] for dim in dims]), strict=True)
    )
    (cell,) = layout.cell_names(cells.numbers[[column]])
    value = "infinite" if "infinity" in str(error).partition(":")[0] else "NaN"
    where = f"{sample}, {cell}" if sample else cell
    named = NonFiniteInput(
        f"{told_array(arranged)} is {value} at {where}, in a cell that has data elsewhere. {error} Cells that are NaN "
        "throughout are left out by themselves."
    )
    named.place = error.place
    return named
