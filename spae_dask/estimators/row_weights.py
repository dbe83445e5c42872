"""Row weights as they are given: looked up by name, or as values."""

from dataclasses import replace
from typing import Any

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.estimators.covariates import called_by, values_of_rows
from spae_dask.passes.accumulators import RowWeights
from spae_dask.strategies.parameters import PARAMETERS, FitParameters


def with_row_weights(params: FitParameters, x: Any, source: Any) -> FitParameters:
    """Parameters of a fit whose row weights are those of all rows of ``source``; as they are without.

    Raises
    ------
    NotFound, InvalidInput
        As `read_row_weights`.
    """
    weights = read_row_weights(params.row_weights, x, source)
    return params if weights is None else replace(params, row_weights=weights)


def read_row_weights(given: Any, x: Any, source: Any) -> RowWeights | None:
    """Weights of all rows of a source; None if none are given.

    Parameters
    ----------
    given : object
        Name of a column, a file, or values.
    x : object
        The data as they are given, in which a name is looked up.
    source : RowBlocks
        The same, opened.

    Raises
    ------
    NotFound
        If there is no column of that name.
    InvalidInput
        If they are not one number for each row, or one is negative or not finite, or all are 0.
    """
    if given is None:
        return None
    PARAMETERS["row_weights"].check(given)
    columns = values_of_rows(given, x, source, "row weight")
    if len(columns) != 1:
        raise InvalidInput(f"the row weights have {len(columns)} columns. Give one weight for each row.")
    ((name, values),) = columns
    found, called = np.asarray(values), called_by("row weight", name)
    if found.ndim != 1 or found.dtype.kind not in "fiub":
        raise InvalidInput(f"the {called} holds {found.dtype} of shape {found.shape}, and not one number for each row.")
    weights = found.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0.0))
    if bad.size:
        raise InvalidInput(
            f"the {called} is {weights[bad[0]]:g} in row {int(bad[0])}"
            f"{f', and as bad in {bad.size - 1:,} more' if bad.size > 1 else ''}. Give finite numbers of at least 0; "
            "a row of weight 0 does not count."
        )
    if not weights.any():
        raise InvalidInput(f"the {called} is zero in all rows, so that no row counts. Give positive weights.")
    return RowWeights(np.sqrt(weights))
