"""Plain values of a fitted encoder for reports, from a file or from memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.feature_table import FeatureFacts, FeatureTable

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EncoderResults:
    """A fitted encoder.

    Attributes
    ----------
    certificate : Certificate
        Certificate of the encoder's loss.
    components : ndarray (k, m)
        Encoder, restricted to the m features that any component uses.
    selected : ndarray of int (m,)
        Those features, ascending.
    names : tuple of str or None
        Their names, if the data had any. They come with the data and may hold anything.
    n_features : int
        d, features of the data.
    explained : ndarray (k,)
        Share of the total that each component adds.
    spectrum : ndarray
        Singular values that are known, descending.
    parameters, provenance : Mapping
        Parameters of the fit, and provenance of the encoder; encoders of earlier versions lack some entries.
    folds_names : Mapping
        Names, by column, of features that encoders of folds use, if the data had names.
    facts : FeatureFacts
        Costs and groups of the selected features, and what each adds.
    """

    certificate: Certificate
    components: Floats
    selected: npt.NDArray[np.intp]
    names: tuple[str, ...] | None
    n_features: int
    explained: Floats
    spectrum: Floats
    parameters: Mapping[str, Any]
    provenance: Mapping[str, Any]
    folds_names: Mapping[int, str] = field(default_factory=dict)
    facts: FeatureFacts = field(default_factory=FeatureFacts)

    @property
    def labels(self) -> list[str]:
        """Labels of the selected features: their names, else their numbers, counted from 0."""
        names = [""] * self.selected.size if self.names is None else self.names
        return [
            name if name.strip() else column_label(column) for name, column in zip(names, self.selected, strict=True)
        ]

    @property
    def shares(self) -> Floats:
        """Share (m,) of the encoder that each selected feature makes; they sum to 1.

        Of all squared loadings, each component weighing what it explains.
        """
        weights = self.explained if self.explained.sum() > 0 else np.ones(len(self.explained))
        squares = weights @ self.components**2
        total = float(squares.sum())
        shares: Floats = squares / total if total > 0 else squares
        return shares

    @property
    def table(self) -> FeatureTable:
        """The selected features by falling share, with all that is known of each."""
        held_out, budget = self.certificate.held_out, self.parameters.get("budget")
        drawn = None if held_out is None else held_out.bootstraps
        return FeatureTable.of(
            self.labels,
            self.selected.tolist(),
            self.shares,
            self.facts,
            in_folds=None if held_out is None else held_out.frequencies(),
            in_resamples=None if drawn is None else drawn.frequencies(),
            budget=None if budget is None else float(budget),
        )

    @property
    def pca_explained(self) -> Floats | None:
        """Share (k,) of the total that each of PCA's components adds; None where they are not known exactly."""
        total, k = self.certificate.total, len(self.explained)
        if self.certificate.pca_loss_kind != "exact" or total <= 0 or not self.spectrum.size:
            return None
        shares = np.zeros(k)
        known = self.spectrum[:k] ** 2 / total
        shares[: known.size] = known
        return shares

    @property
    def what(self) -> str:
        """Name of the quantity that is lost and explained: variance if X is centered, else sum of squares."""
        return "variance" if self.parameters.get("center", True) else "sum of squares"

    def strongest(self, count: int) -> npt.NDArray[np.intp]:
        """Places, among the selected, of the features of the largest weights, ascending."""
        order = np.argsort(-self.shares, kind="stable")[:count]
        return np.sort(order)


def column_label(column: int) -> str:
    """Name of a feature that the data have no name for; columns are counted from 0."""
    return f"column {column}"
