"""Sparse EOFs with a certificate, in xarray's shape."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from spae_dask.errors import InvalidInput
from spae_dask.estimators.saved import known_parameters
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.flags import flags_checked
from spae_dask.passes.events import Event
from spae_dask.rules import RULES
from spae_dask.storage.grids.grid_layout import layout_of
from spae_dask.storage.grids.weights import weights_on
from spae_dask.storage.grids.xarray_blocks import rows_of
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.parameters import OF_ROWS, is_scale_file, several, takes_parameters
from spae_dask.xarray.applying import FittedGrid, covariates_along, data_of, naming_places, scores_of, share_explained
from spae_dask.xarray.columns import find_columns, mask_on, rules_on
from spae_dask.xarray.saved import load_grid_encoder, save_grid_encoder

OF_GRID = ("weights", "lat_dim", "missing_value", "recipe")
"""Parameters that this class sees to itself; all others are ``SparseEncoder``'s."""


class GridEncoder(BaseEstimator):  # type: ignore[misc]
    """Sparse encoder of an array with named dimensions: few cells of the grid a component, and the loss against EOFs'.

    Some dimensions make the samples (usually time), all others the cells of a grid; each cell is a column of the matrix
    that :class:`spae_dask.SparseEncoder` is fitted on, in whatever order the dimensions are. Cells that are NaN
    throughout, such as land, are left out before the fit, and are NaN in all that comes back. With weights each cell is
    multiplied by its weight first, and ``certificate_`` is about the weighted data: its loss, PCA's and the total are
    sums of weighted squares. ``reconstruct`` divides the weights out again.

    Data are read in blocks along the first sample dimension: in memory, from dask blocks as they are chunked, or from
    the file that ``xarray.open_dataset`` opened.

    Parameters
    ----------
    n_components : int, float or "cv", default 2
        k, or a share of the total variance that k EOFs explain.
    weights : None, "coslat" or xarray.DataArray, default None
        Weights of the cells. ``"coslat"``: the square root of the cosine of their latitude, so that squares count by
        area. A DataArray over some or all dimensions of the grid, 0 or more; cells of weight 0 are left out. Weighted
        float32 data stay float32.
    lat_dim : str, optional
        With ``weights="coslat"``: the coordinate of latitude, in degrees, of one dimension or more. By default it is
        known by its CF standard name, else its units, else its name.
    scale : bool or {"std", "patterson"}, default False
        Divide cells by their standard deviations (divisor n - 1), or as ``SparseEncoder`` does, before they are
        weighted: with weights that costs one more read. Cells without variance are left alone and never selected.
        Numbers are given as ``weights``, which multiply.
    missing : {"error", "mean", "zero"}, default "error"
        Treatment of NaN in cells that have data at other times: refuse NaN, or fill it with the mean or with zero.
    missing_value : float or sequence of float, optional
        A number that stands for NaN, or several, before weights are applied.
    memory_limit, checkpoint, progress, **parameters
        As for ``SparseEncoder``: all of its parameters, with the same defaults. Rules name cells by number or name, or
        are DataArrays over the grid. ``min_distance`` is in km where there are latitudes and longitudes. ``recipe``
        changes each entry in the read, such as ``"sqrt"``, before cells are scaled and weighted; ``normalize_total`` is
        refused. Names of ``covariates``, ``row_weights`` and ``fold_groups`` are coordinates of the samples:
        ``covariates="C(time.month)"`` removes the seasons, ``"time.days_in_month"`` lets months count by their days,
        and ``fold_groups="time.year"`` keeps years in one fold.

    Attributes
    ----------
    encoder_ : SparseEncoder
        Fitted on the cells that were kept, weighted; its columns are named after their places.
    certificate_ : Certificate
        Certificate of the loss on the weighted data. Its passes include the one that looked for cells without data.
    layout_ : GridLayout
        Dimensions, coordinates and attributes.
    cells_ : Cells
        Cells that are columns, and the factors that multiply them.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from spae_dask.xarray import GridEncoder
    >>> rng = np.random.default_rng(0)
    >>> field = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 20)) + 0.1 * rng.normal(size=(200, 20))
    >>> da = xr.DataArray(field.reshape(200, 4, 5), dims=("time", "lat", "lon"), coords={"lat": [0, 20, 40, 60]})
    >>> encoder = GridEncoder(n_components=2, n_nonzero=3, weights="coslat").fit(da, sample_dim="time")
    >>> encoder.components().dims, encoder.scores(da).dims
    (('component', 'lat', 'lon'), ('time', 'component'))
    """

    @takes_parameters()
    def __init__(
        self,
        n_components: int | float | str = 2,
        *,
        weights: Any = None,
        lat_dim: str | None = None,
        memory_limit: int | str | None = None,
        checkpoint: str | None = None,
        progress: Callable[[Event], None] | None = None,
        **parameters: Any,
    ) -> None:
        self.n_components = n_components
        self.weights = weights
        self.lat_dim = lat_dim
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.progress = progress
        for name, value in parameters.items():
            setattr(self, name, value)

    def fit(
        self, da: xr.DataArray, sample_dim: str | Sequence[str] | None = None, *, mask: xr.DataArray | None = None
    ) -> "GridEncoder":
        """Read the data once, choose cells, build and certify the encoder.

        One more read, or a part of it, looks for cells that are NaN throughout. None is needed for integers, if every
        cell has data in the first row block, which is looked at, or if a mask is given.

        Parameters
        ----------
        da : xarray.DataArray
            Dimensions in any order.
        sample_dim : str or sequence of str, optional
            Dimension of the samples, or several, whose combinations are. By default the one of time.
        mask : xarray.DataArray of bool, optional
            Over the grid, True for the cells to use.

        Raises
        ------
        NonFiniteInput
            If a cell that is kept is NaN somewhere and ``missing="error"``, or infinite; time and cell are named.
        InvalidInput
            If the data or a parameter cannot be used.
        MemoryBudgetExceeded
            If the plan does not fit.
        StorageError
            If the data cannot be read.
        """
        if self.n_top_features is not None:
            raise InvalidInput(
                f"n_top_features={self.n_top_features!r} chooses columns of a matrix, and a grid is given. Leave it "
                "out, and give a mask of cells: fit(da, mask=da.var('time') > 1)."
            )
        if self.keep_state:
            raise InvalidInput(
                "keep_state=True stores a state for the rows of a matrix, and a grid is given. Leave it out, and fit "
                "again on all samples."
            )
        if several(self.scale) is not None or is_scale_file(self.scale):
            raise InvalidInput(
                "scale gives a divisor for each column of a matrix, and a grid is given. Leave it out, and give "
                "weights, a DataArray over the grid that multiplies the cells."
            )
        layout = layout_of(da, sample_dim)
        parameters = {name: value for name, value in self.get_params().items() if name not in OF_GRID}
        for name in OF_ROWS:
            parameters[name] = covariates_along(parameters[name], da, layout.sample_dims)
        encoder = SparseEncoder(**parameters)
        of_rows = [name for name in ("covariates", "row_weights") if getattr(self, name) is not None]
        if of_rows and self.scale and self.weights is not None:
            raise InvalidInput(
                f"scale=True, weights and {of_rows[0]} cannot be combined: weighted cells are scaled before "
                f"{of_rows[0]} count. Leave out one of the three."
            )
        rules = rules_on(layout, self)
        weights = weights_on(layout, self.weights, self.lat_dim)
        columns = find_columns(da, layout, weights, mask_on(layout, mask), self)
        if weights is not None:  # scaled already, or not at all
            encoder.scale = False
        if rules:  # by the numbers of the cells that are columns
            found = rules.on(columns.cells.numbers.tolist())
            encoder.set_params(**{rule: getattr(found, rule) or None for rule in RULES})
        source = rows_of(da, layout.sample_dims, layout.feature_dims, columns.cells)
        with naming_places(da, layout.sample_dims, layout, columns.cells):
            encoder.fit(source)
        encoder.set_params(**{name: getattr(self, name) for name in OF_ROWS})
        encoder.certificate_ = replace(
            encoder.certificate_,
            passes=encoder.certificate_.passes + columns.passes,
            bytes_read=encoder.certificate_.bytes_read + columns.bytes_read,
        )
        kept = columns.cells.numbers
        encoder.feature_names_in_ = np.array(layout.cell_names(kept), dtype=object)
        self.encoder_, self.layout_, self.cells_ = encoder, layout, columns.cells
        return self

    @property
    def certificate_(self) -> Certificate:
        """Certificate of the loss on the weighted data."""
        check_is_fitted(self)
        return self.encoder_.certificate_

    def components(self) -> xr.DataArray:
        """The encoder: coefficients (component, grid) of unit length, of weighted data; 0 in cells it does not use."""
        fitted = self._fitted()
        return fitted.on_grid(fitted.encoder.components_, "components", fitted.described("sparse components"))

    def decoder(self) -> xr.DataArray:
        """The patterns (component, grid) that scores multiply, in units of the data that a recipe makes, unweighted."""
        fitted = self._fitted()
        patterns = fitted.cells.unweighted(fitted.encoder.decoder_ * fitted.encoder.scale_)
        return fitted.on_grid(patterns, "decoder", fitted.attrs)

    def mean(self) -> xr.DataArray:
        """Mean that is subtracted from each cell, in units of the data that a recipe makes, unweighted."""
        fitted, layout = self._fitted(), self.layout_
        means = layout.on_grid(fitted.cells.unweighted(fitted.encoder.mean_), fitted.cells.numbers, np.nan)
        return layout.labelled(means, (), "mean", fitted.attrs)

    def selected(self) -> xr.DataArray:
        """Mask of the cells that each component uses: booleans (component, grid)."""
        fitted = self._fitted()
        used = fitted.encoder.components_ != 0
        return fitted.on_grid(used, "selected", fitted.described("cells used by sparse components"), fill=False)

    def table(self) -> xr.Dataset:
        """The cells of all components, largest coefficient first; ``.to_dataframe()`` makes a table of it.

        Returns
        -------
        xarray.Dataset
            Along ``entry``: ``component``, ``coefficient``, ``cell``, its name, and the coordinates of the cell, such
            as ``lat`` and ``lon``. A coordinate of one of these names is called ``cell_NAME``.
        """
        encoder = self._fitted().encoder
        H, names = encoder.components_, encoder.feature_names_in_
        entries = [(j, c) for j in range(len(H)) for c in np.argsort(-np.abs(H[j]), kind="stable") if H[j, c] != 0]
        table: dict[str, Any] = {
            "component": ("entry", np.array([j + 1 for j, _ in entries], dtype=np.int64)),
            "coefficient": ("entry", np.array([H[entry] for entry in entries], dtype=np.float64)),
            "cell": ("entry", np.array([names[c] for _, c in entries], dtype=object)),
        }
        cells = self.cells_.numbers[np.array([c for _, c in entries], dtype=np.intp)]
        places = self.layout_.places(cells, "entry")
        return xr.Dataset(
            table | {f"cell_{name}" if name in {*table, "entry"} else name: place for name, place in places.items()}
        )

    def explained_variance_ratio(self) -> xr.DataArray:
        """Share of the weighted variance that each component explains beyond those before it."""
        fitted = self._fitted()
        ratio, dim = fitted.encoder.explained_variance_ratio_, fitted.layout.component_dim
        return xr.DataArray(ratio, dims=dim, coords=fitted.numbers(), name="explained_variance_ratio")

    def scores(self, da: xr.DataArray, covariates: Any = None) -> xr.DataArray:
        """Codes of samples on the same grid: (samples..., component).

        Only selected cells are looked at, and of dask arrays only the chunks that hold them are computed. Lazy for data
        of dask or still in a file. Every dimension that is not one of the grid's counts as samples; there may be none.
        ``covariates`` are those of these samples, as for the fit; those of a fit by names are looked up by the same.

        Raises
        ------
        NonFiniteInput
            If a selected cell is NaN (without values to fill in) or infinite; at once for data in memory.
        InvalidInput
            If the grid is not that of the fit.
        """
        return scores_of(da, self._fitted(), covariates)

    def reconstruct(self, scores: xr.DataArray) -> xr.DataArray:
        """Data on the grid from scores, in units of the data; lazy for lazy scores.

        It is ``mean() + (scores * decoder()).sum("component")``; cells without data are NaN. With covariates it is the
        data at their means. With a recipe it is what the recipe makes of the data.

        Raises
        ------
        InvalidInput
            If the scores are not those of all components.
        """
        return data_of(scores, self._fitted())

    def score(self, da: xr.DataArray, covariates: Any = None) -> float:
        """Share of the weighted variance of other data about ``mean()`` that is explained. One pass."""
        return share_explained(da, self._fitted(), covariates)

    @flags_checked
    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the encoder with its grid as a Zarr group; it appears whole or not at all.

        ``load_encoder`` and ``spae inspect`` read it as well, as the encoder of a matrix with named columns: those that
        the recipe and the weights make of the cells.
        """
        check_is_fitted(self)
        save_grid_encoder(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> "GridEncoder":
        """Read what ``save`` wrote, in Zarr format 3 or copied to format 2.

        Raises
        ------
        NotFound, InvalidInput, StorageError
            As ``load_encoder``; also InvalidInput if it is an encoder without a grid.
        """
        loaded = load_grid_encoder(path)
        made = cls(**known_parameters(cls, loaded.parameters))
        fitted = loaded.fitted
        made.encoder_, made.layout_, made.cells_ = fitted.encoder, fitted.layout, fitted.cells
        return made

    def _fitted(self) -> FittedGrid:
        check_is_fitted(self)
        return FittedGrid(self.encoder_, self.layout_, self.cells_)
