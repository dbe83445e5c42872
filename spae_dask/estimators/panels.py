"""Features of a fitted panel, and the price of the rules that it keeps to."""

from typing import Any

from spae_dask.passes.threads import one_blas_thread
from spae_dask.rules import Rules
from spae_dask.strategies.core_summary import CoreSummary
from spae_dask.strategies.parameters import SHARED
from spae_dask.strategies.path import PathPoint, sparsity_path


def names_of(encoder: Any) -> list[str]:
    """Names of the features that a fitted encoder uses; their numbers if they have none."""
    names, selected = getattr(encoder, "feature_names_in_", None), encoder.selected_features_.tolist()
    return [str(each) for each in selected] if names is None else [str(names[each]) for each in selected]


def chosen_freely(encoder: Any) -> PathPoint | None:
    """The encoder of as many features that are chosen without rules. No data are read.

    Parameters
    ----------
    encoder : SparseEncoder
        Fitted in this process, with the same number of nonzeros for all components.

    Returns
    -------
    PathPoint or None
        Its loss. None without rules, or if the fit has left no core of the data.
    """
    params, summary = encoder._fitted_params(), getattr(encoder, "_summary", None)
    if not params.rules or not isinstance(summary, CoreSummary) or not isinstance(params.sizes, int):
        return None
    if params.shared_support or params.method in SHARED:
        size = len(encoder.selected_features_)
    else:
        size = min(params.sizes + len(params.rules.include), encoder.n_features_in_)
    with one_blas_thread():
        return sparsity_path(params.with_rules(Rules()), summary, [params.n_components], [size]).points[0]
