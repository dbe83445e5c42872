"""What can be read as a matrix, in words, and what is refused of anything that can."""

from typing import Any

import numpy as np

from spae_dask.errors import InvalidInput, NotNumbers

READABLE = (
    "a Zarr store (path, URL or zarr.Array) of an array, a CSR matrix or an AnnData object, an .npy or .h5ad file, a "
    "Parquet file or folder, an Arrow file, an AnnData object, a numpy array, a scipy.sparse matrix, a DataFrame, a "
    "dask array or an xarray.DataArray of two dimensions"
)


def check_two_dimensional(ndim: int, shape: tuple[int, ...], name: str) -> None:
    """Refuse anything but a matrix."""
    if ndim != 2:
        raise InvalidInput(
            f"{name} has {ndim} dimension(s), shape {tuple(shape)}. Expected 2D array: rows are samples, columns are "
            "features. Reshape your data: one sample is x.reshape(1, -1), one feature is x.reshape(-1, 1)."
        )


def check_real(dtype: np.dtype[Any], name: str) -> None:
    """Refuse types that are not real numbers."""
    if dtype.kind == "c":
        raise InvalidInput(f"{name} is {dtype}. Complex data not supported: give real and imaginary parts as columns.")
    if dtype.kind not in "fiub":
        raise NotNumbers(
            f"{name} holds {dtype}, not numbers. Allowed are floats, integers and booleans of any size: "
            "convert or drop the columns that are not numeric."
        )
