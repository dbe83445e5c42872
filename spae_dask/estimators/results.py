"""A fitted encoder as the plain values that its report and figures are made from."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from spae_dask.estimators.record import parameters_of, provenance_of
from spae_dask.report.encoder_results import EncoderResults


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
