"""The report of an encoder on disk, for the command and for pipelines."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput
from spae_dask.estimators.applying import fitted_grid
from spae_dask.estimators.paths import fit_path
from spae_dask.estimators.preparing import recipe_of_fit, with_positions
from spae_dask.estimators.record import results_of
from spae_dask.estimators.sparse_encoder import SparseEncoder
from spae_dask.flags import flags_checked
from spae_dask.rules import RULES
from spae_dask.storage.artifacts.fingerprint import fingerprint
from spae_dask.storage.writing.publish import publish
from spae_dask.strategies.path import SparsityPath
from spae_dask.strategies.sizes import sizes_of

if TYPE_CHECKING:
    from spae_dask.report.html import Section
    from spae_dask.report.map_section import GridMaps
    from spae_dask.storage.grids.grid_layout import GridLayout

PASSED_ON = (
    "selection",
    "center",
    "scale",
    "missing",
    "missing_value",
    "recipe",
    "covariates",
    "row_weights",
    "precision",
    "shared_support",
    "n_features",
    *RULES,
)
"""Parameters of an encoder that its curve is made with."""

WITH_THE_ENCODER = (
    "The other encoders were made with this one, from the same pass, by a quicker search. This "
    "encoder may therefore lose a little less than the curve at its size."
)


@flags_checked
def write_report(
    encoder: SparseEncoder,
    name: str,
    output: str | Path,
    *,
    curve: SparsityPath | None = None,
    origin: str = "",
    added: Sequence["Section"] = (),
    overwrite: bool = False,
) -> None:
    """Write the report of an encoder as one HTML file, which appears only when it is complete.

    Parameters
    ----------
    encoder : SparseEncoder
        Fitted or loaded encoder.
    name : str
        Name of the encoder on the page: its path.
    output : str or Path
        File that the page is written to.
    curve : SparsityPath, optional
        Losses of encoders of other sizes; by default those that came with the encoder, if any.
    origin : str
        Origin of ``curve``, as text for the page.
    added : sequence of Section
        Sections on the data of this encoder, shown first.
    overwrite : bool
        True to replace an existing file.

    Raises
    ------
    InvalidInput
        If a library that reports need is not installed.
    OutputExists, StorageError
        If the file cannot be written.
    """
    from spae_dask.report.encoder_page import encoder_page
    from spae_dask.report.html import render

    if curve is None:
        curve, origin = encoder.curve(), WITH_THE_ENCODER
    results, maps = results_of(encoder), grid_maps(encoder)
    page = render(encoder_page(results, name=name, curve=curve, origin=origin, added=added, maps=maps))
    with publish(output, overwrite=overwrite) as work:
        work.write_text(page, encoding="utf-8", errors="backslashreplace")  # names of files need not be UTF-8


def grid_maps(encoder: SparseEncoder) -> "GridMaps | None":
    """The components of an encoder of a grid as maps, in units of the data, with coastlines that are on this machine.

    None if it has no grid of two dimensions, or xarray is not installed.
    """
    grid = fitted_grid(encoder)
    if grid is None:
        return None
    from spae_dask.report.coastlines import read_coast
    from spae_dask.report.map_section import GridMaps
    from spae_dask.storage.grids.earth import longitude_dim

    layout, cells = grid.layout, grid.cells
    if len(layout.shape) != 2 or min(layout.shape) < 2:
        return None
    patterns = layout.on_grid(cells.unweighted(encoder.decoder_ * encoder.scale_), cells.numbers, np.nan)
    used = layout.on_grid(encoder.components_ != 0.0, cells.numbers, False)
    dims = [dim for dim in layout.dims if dim in layout.feature_dims]
    axes = [layout.feature_dims.index(dim) for dim in dims]
    order = (0, *(axis + 1 for axis in axes))
    rising = [_coordinates(layout, axis) for axis in axes]
    y, x = (np.arange(float(layout.shape[i])) if at is None else at for i, at in zip(axes, rising, strict=True))
    maps = GridMaps(patterns.transpose(order), used.transpose(order), (dims[0], dims[1]), (y, x))
    longitude = longitude_dim(layout)
    if longitude is None or any(at is None for at in rising):
        return maps
    return replace(maps, coast=read_coast(), longitude=dims.index(longitude))


def _coordinates(layout: "GridLayout", axis: int) -> npt.NDArray[np.float64] | None:
    """Coordinates of a dimension, if they are numbers that rise or fall."""
    coordinate = layout.coords.coords.get(layout.feature_dims[axis])
    if coordinate is not None and coordinate.dtype.kind in "fiu":
        found: npt.NDArray[np.float64] = coordinate.to_numpy().astype(np.float64)
        steps = np.diff(found)
        if np.all(steps > 0.0) or np.all(steps < 0.0):
            return found
    return None


def curve_from_data(
    encoder: SparseEncoder,
    source: RowBlocks,
    *,
    memory_limit: str | None = None,
    progress: Callable[[Any], None] | None = None,
) -> tuple[SparsityPath, str]:
    """Losses of encoders like this one with fewer and more nonzeros, from one read; and where they come from.

    Parameters
    ----------
    encoder : SparseEncoder
        Fitted or loaded.
    source : RowBlocks
        The data, those of the fit or others.
    memory_limit, progress
        As for ``SparseEncoder``.

    Raises
    ------
    InvalidInput
        If the data have another number of features.
    MemoryBudgetExceeded, StorageError
        As a fit does.
    """
    d = encoder.n_features_in_
    if source.shape[1] != d:
        raise InvalidInput(
            f"{source.describe()} has {source.shape[1]} features, but the encoder was fitted on {d}. Give the "
            "data of the fit, or other data with the same features."
        )
    parameters = encoder.get_params() | {"recipe": recipe_of_fit(encoder)}
    if hasattr(encoder, "covariates_") and encoder.covariates is None:
        raise InvalidInput(
            f"the encoder was fitted with the values of covariates ({', '.join(encoder.covariates_.names)}), which are "
            "not stored with it. Draw the curve from the fit: give the losses that `spae path --covariates ...` wrote."
        )
    if encoder.certificate_.total_weight is not None and encoder.row_weights is None:
        raise InvalidInput(
            "the encoder was fitted with the values of row weights, which are not stored with it. Draw the curve from "
            "the fit: give the losses that `spae path --row-weights ...` wrote."
        )
    if encoder._params().rules and encoder.n_top_features is not None:
        raise InvalidInput(
            "the encoder keeps to rules, which name features of all columns, and only those of largest variance are "
            "known here. Draw the curve from the fit: give the losses that `spae path --top-features ...` wrote."
        )
    method = "batch" if encoder.method == "doubly-sparse" else encoder.method
    if encoder._params().sets_panel:  # the sizes are those of panels
        parameters |= {"shared_support": method == "polished", "n_features": None}
    k, r, params = encoder.n_components_, encoder.certificate_.n_nonzero, encoder._params_made()
    params = with_positions(params, fitted_grid(encoder))
    params = params.with_rules(params.rules.resolved(getattr(encoder, "feature_names_in_", None), d))
    found = fit_path(
        source,
        [k],
        sizes_of(params, r, d),
        method=method,
        random_state=encoder.seed_,
        memory_limit=memory_limit,
        progress=progress,
        **{name: parameters[name] for name in PASSED_ON},
    )
    recorded = getattr(encoder, "provenance_", {}).get("data_fingerprint")
    origin = f"The other encoders were made for this report from {source.describe()}."
    if recorded is not None and fingerprint(source) != recorded:
        origin += " These are not the data of the fit: their fingerprint differs."
    return found, origin
