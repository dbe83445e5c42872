"""The record of a fitted encoder: how it was asked for, and where it comes from."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from spae_dask import __version__
from spae_dask.estimators.applying import beside_of
from spae_dask.estimators.covariates import names_in, open_without
from spae_dask.estimators.preparing import recipe_of_fit, scale_given
from spae_dask.passes.plan import Plan
from spae_dask.recipes import recipe_text
from spae_dask.report.encoder_results import EncoderResults
from spae_dask.storage.artifacts.fingerprint import fingerprint
from spae_dask.storage.remote.url_secrets import without_secrets
from spae_dask.strategies.parameters import is_scale_file, several

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
    by_name = {name: list(names_in(parameters.pop(name))) for name in ("covariates", "row_weights")}
    parameters |= {"random_state": encoder.seed_, "recipe": recipe_text(recipe_of_fit(encoder)), "scale": scale}
    parameters |= {"covariates": by_name["covariates"]} if by_name["covariates"] else {}
    return parameters | ({"row_weights": by_name["row_weights"][0]} if by_name["row_weights"] else {})


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
        "spae_dask": __version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **_origin(encoder),
        **{name: value for name, value in asked.items() if name != "path" or hasattr(encoder, "plan_")},
        "seed": encoder.seed_,
        "n_samples": encoder.n_samples_seen_,
        "constant_features": [int(column) for column in encoder.constant_features_],
        "explained_variance_ratio": [float(share) for share in encoder.explained_variance_ratio_],
    }
    if hasattr(encoder, "covariates_"):
        record["covariates"] = list(encoder.covariates_.names)
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
    names = getattr(encoder, "feature_names_in_", None)
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
    )
