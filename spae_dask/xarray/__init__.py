"""Grids: sparse EOFs with a certificate for arrays with named dimensions, however their dimensions are ordered.

>>> from spae_dask.xarray import GridEncoder
>>> encoder = GridEncoder(n_components=4, n_nonzero=10, weights="coslat")  # then .fit(da, sample_dim="time")

The import also gives every DataArray an accessor: ``da.spae.fit("time", n_components=4, n_nonzero=10)``.
"""

from importlib import import_module

from spae_dask.errors import InvalidInput

try:
    import_module("xarray")
except ImportError as error:
    raise InvalidInput(
        'grids need xarray, which is not installed. Run `pip install "spae-dask[xarray]"`. Everything '
        "except grids works without it."
    ) from error

from spae_dask.xarray.accessor import SpaeAccessor
from spae_dask.xarray.grid_encoder import GridEncoder

__all__ = ["GridEncoder", "SpaeAccessor"]
