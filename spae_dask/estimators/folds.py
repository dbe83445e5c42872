"""Folds of the rows of a fit, as they are asked for: by runs of rows, or by groups that stay together."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import RowBlocks
from spae_dask.errors import InvalidInput
from spae_dask.estimators.covariates import labels_of
from spae_dask.passes.accumulators import RowFolds
from spae_dask.strategies.folds import FoldPlan
from spae_dask.strategies.held_out import HeldOut
from spae_dask.strategies.parameters import PARAMETERS, FitParameters, is_chosen
from spae_dask.strategies.sizes import COMPONENTS, NONZEROS

FREQUENCIES = ("selection_frequency_", "bootstrap_frequency_")
"""Attributes that tell how often encoders of folds, and of resamples of them, use each feature."""


def frequencies_of(held_out: HeldOut | None, n_features: int) -> dict[str, npt.NDArray[np.float64]]:
    """These attributes (d,) by name, as far as there were folds and resamples."""
    found = () if held_out is None else (held_out, held_out.bootstraps)
    known = ((name, each) for name, each in zip(FREQUENCIES, found, strict=False) if each is not None)
    return {name: each.frequency(n_features) for name, each in known}


def with_folds(params: FitParameters, x: Any, source: RowBlocks) -> FitParameters:
    """Parameters of a fit whose folds are those of the rows; as they are without folds.

    A number that folds choose becomes the largest of those to choose from, by which the fit is planned.

    Parameters
    ----------
    params : FitParameters
        Parameters whose rules name features by number.
    x : object
        The data as they are given, in which the names of groups are looked up.
    source : RowBlocks
        The same, opened.

    Raises
    ------
    InvalidInput
        If a parameter is not allowed, or there are fewer rows or groups than folds.
    """
    if params.folds is None:
        return params
    n, d = source.shape
    sizes = {"features": d, "samples": n}
    for name in ("n_components", "n_nonzero", "folds", "fold_groups", "bootstraps"):
        PARAMETERS[name].check(getattr(params, name), sizes)
    params.check_folds()
    folds, d = int(params.folds), min(d, int(params.n_top_features or d))
    if params.fold_groups is None:
        if n < folds:
            raise InvalidInput(f"folds={folds} is more than the {n:,} row(s) of {source.describe()}. Give fewer folds.")
        rows = RowFolds.of_runs(n, folds, params.seed)
        described = f"{folds} folds in runs of {rows.run:,} row{'s' if rows.run != 1 else ''}"
    else:
        labels = labels_of(params.fold_groups, x, source, "group", most=n)
        name, groups = labels.name, labels.values
        n_groups = int(groups.max()) + 1
        if n_groups < folds:
            raise InvalidInput(
                f"folds={folds} is more than the {n_groups} group(s) of {name!r}, and a group stays in one fold. Give "
                f"{f'folds={n_groups} or fewer' if n_groups > 1 else 'other groups'}."
            )
        rows = RowFolds.of_groups(groups, folds)
        described = f"{folds} folds of {n_groups:,} groups ({name})"
    others = n - int(rows.sizes().max())
    if others < 2:
        raise InvalidInput(
            f"all rows but {others} are in one fold, and a fit of the others needs at least 2. Give groups of fewer "
            "rows, or leave out folds."
        )
    ks = tuple(k for k in COMPONENTS if k <= d) if is_chosen(params.n_components) else ()
    most = min(d - len(params.rules.exclude), int(params.n_features or d))
    rs = tuple(r for r in NONZEROS if r <= most) if is_chosen(params.n_nonzero) else ()
    return replace(
        params,
        n_components=max(ks, default=params.n_components),
        n_nonzero=max(rs) if rs else params.n_nonzero,
        fold_groups=FoldPlan(rows, described, ks, rs),
    )
