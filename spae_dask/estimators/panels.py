"""Features of a fitted panel, the price of the rules that it keeps to, and the proof that no others are better."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from sklearn.utils.validation import check_is_fitted

from spae_dask.errors import InvalidInput
from spae_dask.passes.threads import one_blas_thread
from spae_dask.rules import Rules
from spae_dask.strategies.core_summary import CoreSummary
from spae_dask.strategies.parameters import SHARED, Count, Number, check_value
from spae_dask.strategies.path import PathPoint, sparsity_path
from spae_dask.strategies.proof import Proof, prove_features


def names_of(encoder: Any, features: Iterable[int] | None = None) -> list[str]:
    """Names of features, those that a fitted encoder uses if none are given; their numbers if they have no names."""
    selected = encoder.selected_features_.tolist() if features is None else list(features)
    names = getattr(encoder, "feature_names_in_", None)
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


def proof_of(
    encoder: Any,
    node_limit: int | None,
    time_limit: float | None,
    clock: Callable[[], float] = time.monotonic,
) -> Proof:
    """Prove that the features of an encoder are the best, or bound what others can gain; see ``SparseEncoder.prove``.

    ``clock`` tells the seconds that ``time_limit`` counts.
    """
    check_is_fitted(encoder)
    if node_limit is not None:
        check_value("node_limit", node_limit, Count(0))
    if time_limit is not None:
        check_value("time_limit", time_limit, Number("60 for a minute"))
    summary = getattr(encoder, "_summary", None)
    if not isinstance(summary, CoreSummary):
        raise InvalidInput(
            "this encoder has no core of all columns to prove anything on. It was loaded or unpickled, or fitted with "
            "strategy='sketch', 'stream', 'paper' or a sample. Call fit(x) first, with strategy='gram' or 'tsqr', or "
            "run `spae prove DATA -k ... -n ...`."
        )
    end = None if time_limit is None else clock() + time_limit
    with one_blas_thread():
        return prove_features(
            encoder._fitted_params(),
            summary,
            encoder.selected_features_,
            node_limit=node_limit,
            stop=lambda: end is not None and clock() >= end,
        )
