"""The record of a fitted encoder: how it was asked for, and where it comes from."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from spae_dask import __version__
from spae_dask.estimators.applying import beside_of
from spae_dask.estimators.covariates import names_in, open_without
from spae_dask.estimators.preparing import recipe_of_fit, scale_given
from spae_dask.features import costs_of, features_of, groups_of, is_table, limits_of, positions_of
from spae_dask.passes.plan import Plan
from spae_dask.recipes import recipe_text
from spae_dask.report.encoder_results import EncoderResults
from spae_dask.rules import RULES
from spae_dask.storage.artifacts.fingerprint import fingerprint
from spae_dask.storage.remote.address import without_secrets
from spae_dask.strategies.parameters import OF_ROWS, PARAMETERS, OfRow, is_scale_file, several

NOT_STORED = ("memory_limit", "checkpoint", "progress")
"""Parameters that say where a fit ran, not what it found."""

NOT_KEPT = ("alternatives", "calibration", "shape", "dtype")
"""Fields of a plan that the record leaves out: costs of other strategies, and facts that the record has elsewhere."""


def parameters_of(encoder: Any) -> dict[str, Any]:
    """Return the parameters of a fitted ``SparseEncoder``, with the seed that was used."""
    parameters = {name: value for name, value in encoder.get_params().items() if name not in NOT_STORED}
    scale = encoder.scale if several(encoder.scale) is None else scale_given(encoder.scale)
    if is_scale_file(scale):
        scale = str(Path(scale).resolve())
    parameters |= {"random_state": encoder.seed_, "recipe": recipe_text(recipe_of_fit(encoder)), "scale": scale}
    parameters |= {name: told_rule(name, parameters[name]) for name in RULES}
    return with_names(parameters)


def with_names(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with the names of what tells something of rows, such as covariates; values are not recorded."""
    found = {name: value for name, value in parameters.items() if name not in OF_ROWS}
    for name in OF_ROWS:
        names = names_in(parameters[name])
        if names:
            found[name] = parameters[name] if isinstance(PARAMETERS[name].kind, OfRow) else list(names)
    return found


READ: Mapping[str, Callable[[Any], Any]] = {
    "include": features_of,
    "exclude": features_of,
    "costs": costs_of,
    "budget": float,
    "groups": groups_of,
    "at_most": limits_of,
    "at_least": limits_of,
    "positions": positions_of,
    "min_distance": float,
}
"""Functions that read the rules as they are given."""


def told_rule(rule: str, given: Any) -> Any:
    """A rule as it is recorded: names, values by name or in order, or the absolute path of a file of values."""
    if given is None or is_table(given):
        return given if given is None else str(Path(given).resolve())
    found: Any = READ[rule](given)
    return (list(found) or None) if isinstance(found, tuple) else found


def provenance_of(encoder: Any, source: Any = None) -> dict[str, Any]:
    """Return the provenance of an encoder: version, date, data, seed, strategy, the plan and the measurements.

    Parameters
    ----------
    encoder : SparseEncoder
        Fitted. Of a loaded one the record is as it was stored.
    source : object, optional
        The data it was fitted on, to be fingerprinted.
    """
    if hasattr(encoder, "provenance_") and not hasattr(encoder, "plan_"):
        return dict(encoder.provenance_)  # loaded: where it came from stays as it was recorded
    asked: dict[str, Any] = getattr(encoder, "_asked", {})
    record = {
        **found_record(encoder),
        **_origin(encoder),
        **{name: value for name, value in asked.items() if name != "path" or hasattr(encoder, "plan_")},
    }
    if hasattr(encoder, "covariates_"):
        record["covariates"] = list(encoder.covariates_.names)
    for name in ("fold_groups", "top_features_batch"):
        labels = getattr(encoder, name, None)
        if labels is not None and not names_in(labels):
            record[name] = "values"
    if encoder.certificate_.total_weight is not None:
        record["row_weights"] = encoder.row_weights if isinstance(encoder.row_weights, str) else "given as values"
    if hasattr(encoder, "selected_rows_"):
        record["selected_rows"] = [int(row) for row in encoder.selected_rows_]
    if source is not None:
        opened = open_without(source, beside_of(encoder))
        record["data_fingerprint"] = fingerprint(opened)
        if getattr(opened, "passed_over", ()):
            record["raw"] = True  # otherwise the same command would read other numbers
    if hasattr(encoder, "plan_"):
        record["planned"] = _planned(encoder.plan_)
    if hasattr(encoder, "measured_"):
        record["measured"] = encoder.measured_.as_dict()
    return record


def found_record(encoder: Any) -> dict[str, Any]:
    """Part of the provenance that tells when an encoder was found, and results that are stored nowhere else."""
    return {
        "spae_dask": __version__,
        "date": now(),
        "seed": encoder.seed_,
        "n_samples": encoder.n_samples_seen_,
        "constant_features": [int(column) for column in encoder.constant_features_],
        "explained_variance_ratio": [float(share) for share in encoder.explained_variance_ratio_],
        "features": encoder._facts.as_dict(),
    }


def now() -> str:
    """Date and time, as records have them."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _planned(plan: Plan) -> dict[str, Any]:
    return {name: value for name, value in plan.as_dict().items() if name not in NOT_KEPT}


def _origin(encoder: Any) -> dict[str, Any]:
    if hasattr(encoder, "plan_"):
        plan = encoder.plan_
        return {
            "strategy": plan.strategy,
            "source": without_secrets(plan.source),
            "shape": list(plan.shape),
            "dtype": plan.dtype,
        }
    assert encoder._stream is not None, "without a plan it was loaded, or learned from a stream"
    return {
        "strategy": encoder._stream.strategy,
        "source": "rows given to partial_fit",
        "shape": [encoder.n_samples_seen_, encoder.n_features_in_],
        "dtype": "float64",
    }


def results_of(encoder: Any) -> EncoderResults:
    """Results of a ``SparseEncoder`` for reports, fitted here or loaded.

    Raises
    ------
    NotFittedError
        If it is not fitted.
    """
    check_is_fitted(encoder)
    selected = encoder.selected_features_
    names, held_out = getattr(encoder, "feature_names_in_", None), encoder.certificate_.held_out
    in_folds = {} if names is None or held_out is None else {each: str(names[each]) for each in held_out.counts()}
    return EncoderResults(
        certificate=encoder.certificate_,
        components=encoder.components_[:, selected],
        selected=selected,
        names=None if names is None else tuple(str(names[column]) for column in selected),
        n_features=encoder.n_features_in_,
        explained=encoder.explained_variance_ratio_,
        spectrum=encoder.singular_values_,
        parameters=parameters_of(encoder),
        provenance=provenance_of(encoder),
        folds_names=in_folds,
        facts=encoder._facts,
    )
