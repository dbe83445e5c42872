"""Figures of a fitted encoder, drawn by the report's functions on axes of the user's or on new ones."""

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from spae_dask.algorithms.path import SparsityPath
from spae_dask.estimators.curves import cheap_curve
from spae_dask.estimators.results import results_of
from spae_dask.estimators.streams import RowStream

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Plots:
    """Figures of one fitted encoder. Each method draws on ``ax``, or on a new figure of pyplot's, and returns the axes.

    matplotlib is imported when a figure is asked for; without it each method raises InvalidInput, which names the extra
    to install.

    Parameters
    ----------
    encoder : SparseEncoder
        Fitted.
    """

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder

    def loss(self, ax: "Axes | None" = None) -> "Axes":
        """Share of the variance lost against the nonzeros of a component, with PCA's loss and the paper's bound.

        Encoders of other sizes are drawn where they are known without a read, see ``curve_``.
        """
        from spae_dask.report.encoder_axes import draw_loss, on_axes

        certificate, curve = self._encoder.certificate_, self._encoder.curve_
        return on_axes(ax, lambda axes, theme: draw_loss(axes, certificate, curve, theme))

    def loadings(self, ax: "Axes | None" = None) -> "Axes":
        """Heat map of the components on the features they use; of many, on those of the largest share."""
        from spae_dask.report.encoder_axes import draw_encoder_loadings, on_axes

        found = results_of(self._encoder)
        return on_axes(ax, lambda axes, theme: draw_encoder_loadings(axes, found, theme))

    def explained_variance(self, ax: "Axes | None" = None) -> "Axes":
        """Share of the variance that each component adds, beside PCA's."""
        from spae_dask.report.encoder_axes import draw_explained, on_axes

        found = results_of(self._encoder)
        return on_axes(ax, lambda axes, theme: draw_explained(axes, found.explained, found.pca_explained, theme))

    def features(self, ax: "Axes | None" = None) -> "Axes":
        """The features of the largest share of the encoder, as bars."""
        from spae_dask.report.encoder_axes import draw_features, on_axes

        found = results_of(self._encoder)
        return on_axes(ax, lambda axes, theme: draw_features(axes, found, theme))


class PlotMixin:
    """``plot`` and ``curve_`` for an encoder that keeps what its fit left as ``_summary``."""

    @property
    def plot(self) -> Plots:
        """Figures: ``plot.loss()``, ``plot.loadings()``, ``plot.explained_variance()`` and ``plot.features()``."""
        check_is_fitted(self)
        return Plots(self)

    @property
    def curve_(self) -> SparsityPath | None:
        """Losses with fewer and more nonzeros, without a read; None where that is not to be had, or would cost much."""
        check_is_fitted(self)
        encoder: Any = self
        if "_curve" not in self.__dict__:
            r = (
                encoder.certificate_.n_nonzero
            )  # a stream makes its encoder, and with it _summary, when this is asked for
            stream: RowStream | None = self.__dict__.get("_stream")
            strategy = (
                stream.strategy if stream is not None else encoder.plan_.strategy if "plan_" in vars(self) else ""
            )
            summary = self.__dict__.get("_summary")
            self._curve: SparsityPath | None = cheap_curve(
                encoder._problem(), summary, strategy, r, encoder.n_features_in_
            )
        return self._curve
