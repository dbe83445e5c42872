"""Accessor ``da.spae``: the grid encoder of an array, from the array itself."""

from collections.abc import Sequence
from typing import Any

import xarray as xr

from spae_dask.xarray.grid_encoder import GridEncoder


@xr.register_dataarray_accessor("spae")  # type: ignore[no-untyped-call]
class SpaeAccessor:
    """Sparse EOFs of an array with named dimensions, as ``da.spae``.

    ``import spae_dask.xarray`` adds it to every DataArray.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> import spae_dask.xarray
    >>> rng = np.random.default_rng(0)
    >>> da = xr.DataArray(rng.normal(size=(50, 4, 5)), dims=("time", "lat", "lon"))
    >>> encoder = da.spae.fit("time", n_components=2, n_nonzero=3)
    >>> encoder.scores(da).dims
    ('time', 'component')
    """

    def __init__(self, da: xr.DataArray) -> None:
        self._da = da

    def fit(
        self, sample_dim: str | Sequence[str] | None = None, *, mask: xr.DataArray | None = None, **parameters: Any
    ) -> GridEncoder:
        """Fit a grid encoder to this array: ``GridEncoder(**parameters).fit(da, sample_dim, mask=mask)``.

        Parameters
        ----------
        sample_dim, mask
            As for :meth:`GridEncoder.fit`.
        **parameters
            All parameters of :class:`GridEncoder`, with its defaults.

        Returns
        -------
        GridEncoder
            Fitted encoder.

        Raises
        ------
        TypeError
            If the encoder has no parameter of a name.
        NonFiniteInput, InvalidInput, MemoryBudgetExceeded, StorageError
            As :meth:`GridEncoder.fit`.
        """
        return GridEncoder(**parameters).fit(self._da, sample_dim, mask=mask)
