"""Figures of a fitted encoder, drawn by the report's functions on axes of the user's or on new ones.

`cheap_curve` makes the curve that they draw, loss against sparsity, without a read where it costs little.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from spae_dask.estimators.record import results_of
from spae_dask.passes.threads import one_blas_thread
from spae_dask.strategies.core_summary import CoreSummary
from spae_dask.strategies.feature_table import FeatureTable
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.path import SparsityPath, Summary, sparsity_path
from spae_dask.strategies.sizes import MOST_POINTS, sizes_of
from spae_dask.strategies.table import STRATEGIES

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


WORTH_SECONDS = 2.5
"""A curve is made with the encoder if it takes no longer, at nominal rates, so that no clock decides about it."""

QUICK = 0.25
"""Time of a quick search over that of the usual one. Quick encoders lost up to 0.4 % more in trials."""

FEWEST_POINTS = 4
"""Points of a curve; of fewer no shape could be seen."""


def cheap_curve(params: FitParameters, summary: Summary, strategy: str, found: int, d: int) -> SparsityPath | None:
    """The curve about an encoder, if what the fit left allows one and it costs little; else None.

    Parameters
    ----------
    params : FitParameters
        That of the encoder.
    summary : CoreSummary, Refit or Streamed
        Summary that the fit left, in memory.
    strategy : str
        That of the fit.
    found, d : int
        The most nonzeros of a component, and columns of the data.
    """
    if params.method == "doubly-sparse":
        return None
    # no quick search: each point takes seconds
    if params.shared_support or params.n_features is not None or params.selection == "exchange":
        return None
    if not isinstance(summary, CoreSummary) and params.method != "polished":
        return None
    for n_points in range(MOST_POINTS, FEWEST_POINTS - 1, -1):
        sizes = sizes_of(params, found, d, n_points)
        if sum(_seconds(params, strategy, size, int(summary.n_samples), d) for size in sizes) <= WORTH_SECONDS:
            with one_blas_thread():
                return sparsity_path(params, summary, [params.n_components], sizes, effort=0.0, hold_out=False)
    return None


def _seconds(params: FitParameters, strategy: str, r: int, n: int, d: int) -> float:
    return QUICK * STRATEGIES[strategy].finish(replace(params, n_nonzero=r), (n, d)).seconds
