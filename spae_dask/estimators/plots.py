"""Figures of a fitted encoder, drawn by the report's functions on axes of the user's or on new ones."""

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from spae_dask.estimators.curves import cheap_curve
from spae_dask.estimators.record import results_of
from spae_dask.strategies.feature_table import FeatureTable
from spae_dask.strategies.path import SparsityPath

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Plots:
    """Figures of one fitted encoder. Each method draws on ``ax``, or on a new figure, and returns the axes.

    A method imports matplotlib. If it is missing, the method raises InvalidInput, which names the extra to install.

    Parameters
    ----------
    encoder : SparseEncoder
        Fitted encoder.
    """

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder

    def loss(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the share of the variance lost against the nonzeros of a component, PCA's loss and the paper's bound.

        Encoders of other sizes are drawn if they are known without a read, see ``curve``.
        """
        from spae_dask.report.encoder_axes import draw_loss, on_axes

        check_is_fitted(self._encoder)
        certificate, curve = self._encoder.certificate_, self._encoder.curve()
        return on_axes(ax, lambda axes, theme: draw_loss(axes, certificate, curve, theme))

    def loadings(self, ax: "Axes | None" = None) -> "Axes":
        """Draw a heat map of the components on the features they use; of many, on those of the largest weights."""
        from spae_dask.report.encoder_axes import draw_encoder_loadings, on_axes

        found = results_of(self._encoder)
        return on_axes(ax, lambda axes, theme: draw_encoder_loadings(axes, found, theme))

    def explained_variance(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the share of the variance that each component adds, beside PCA's."""
        from spae_dask.report.encoder_axes import draw_explained, on_axes

        found = results_of(self._encoder)
        return on_axes(ax, lambda axes, theme: draw_explained(axes, found.explained, found.pca_explained, theme))

    def features(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the features of the largest weights as bars."""
        from spae_dask.report.encoder_axes import draw_features, on_axes

        found = results_of(self._encoder)
        return on_axes(ax, lambda axes, theme: draw_features(axes, found, theme))


class PlotMixin:
    """``plot``, ``curve`` and ``table`` for an encoder that keeps what its fit left as ``_summary``."""

    @property
    def plot(self) -> Plots:
        """Figures: ``plot.loss()``, ``plot.loadings()``, ``plot.explained_variance()`` and ``plot.features()``."""
        return Plots(self)

    def table(self) -> FeatureTable:
        """Return the chosen features by falling weight, as a list to order or to measure from. No data are read.

        Returns
        -------
        FeatureTable
            A row for each feature: ``rank``, ``feature``, ``column``, ``weight``, and where known ``adds``, ``cost``,
            ``cost_so_far``, ``group`` and ``in_folds``. ``weight`` is the share of all squared loadings, where each
            component weighs what it explains. ``adds`` is the share of the total that the best codes on all chosen
            features lose without this one. ``in_folds`` is the share of the encoders of folds that use it. The table
            prints as text, and ``pandas.DataFrame(encoder.table().records())`` makes a frame.
        """
        return results_of(self).table

    def curve(self) -> SparsityPath | None:
        """Return the losses of encoders like this one with fewer and more nonzeros. No data are read.

        The first call computes them, by a quicker search than that of ``fit``. They are stored with the encoder. For
        sizes of your own, by full searches, use ``sparsity_path``.

        Returns
        -------
        SparsityPath or None
            Curve of the losses. It is None if it would take more than seconds, or if the fit leaves nothing to compute
            it from. That is so for ``strategy="paper"``, ``method="doubly-sparse"``, and encoders that were stored
            without a curve.
        """
        check_is_fitted(self)
        encoder: Any = self
        if "_curve" not in self.__dict__:
            found = encoder.certificate_.n_nonzero  # asked for first: a stream then makes its encoder, and _summary
            stream, plan, summary = (self.__dict__.get(name) for name in ("_stream", "plan_", "_summary"))
            strategy = next((each.strategy for each in (stream, plan) if each is not None), "")
            self._curve: SparsityPath | None = (
                None
                if summary is None
                else cheap_curve(encoder._fitted_params(), summary, strategy, found, encoder.n_features_in_)
            )
        return self._curve
