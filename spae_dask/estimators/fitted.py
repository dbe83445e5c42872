"""Methods of a fitted encoder on rows, and its view in a notebook."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from spae_dask.estimators.applying import decode_rows, encode_rows, open_lazily, open_rows
from spae_dask.estimators.containers import lazy_frames
from spae_dask.estimators.covariates import Adjustment, adjustment_of, columns_beside
from spae_dask.estimators.fitting import naming_declared, report_missing_chunks
from spae_dask.estimators.planning import plan_passes
from spae_dask.estimators.row_weights import read_row_weights
from spae_dask.estimators.runtime import active_client, runner_for
from spae_dask.flags import flags_checked
from spae_dask.maths.encoders.codes import RowEncoder
from spae_dask.passes.accumulators import Accumulator, CrossProducts, NonFinite, weighted
from spae_dask.passes.accumulators.nonfinite import refuse_non_finite
from spae_dask.passes.events import Event
from spae_dask.storage.open import dask_rows, open_matrix
from spae_dask.strategies.evaluation import Autoencoder, of_rows


@lazy_frames
class FittedMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """``transform`` and its kind, for an estimator with the fitted attributes of ``SparseEncoder``."""

    components_: npt.NDArray[np.float64]
    decoder_: npt.NDArray[np.float64]
    mean_: npt.NDArray[np.float64]
    scale_: npt.NDArray[np.float64]
    fill_: npt.NDArray[np.float64] | None
    selected_features_: npt.NDArray[np.intp]
    n_features_in_: int
    memory_limit: int | str | None
    progress: Callable[[Event], None] | None

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def autoencoder(self) -> Autoencoder:
        """Return the encoder and decoder with means and scales, for evaluation on other data."""
        check_is_fitted(self)
        return Autoencoder(self.components_.T, self.decoder_, self.mean_, self.scale_, self.fill_)

    def row_encoder(self, adjustment: Adjustment | None = None) -> RowEncoder:
        """Return the encoder restricted to its selected columns. It is small and can be pickled for workers.

        ``adjustment`` holds the covariates of all rows, for an encoder that was fitted with covariates.
        """
        check_is_fitted(self)
        columns = self.selected_features_
        encoder = RowEncoder(
            columns=columns,
            H_selected=self.components_[:, columns].T,
            mean=self.mean_[columns],
            scale=self.scale_[columns],
            fill=None if self.fill_ is None else self.fill_[columns],
        )
        if adjustment is None:
            return encoder
        offsets = (adjustment.coefficients[:, columns] / encoder.scale) @ encoder.H_selected
        return replace(encoder, design=adjustment.design, offsets=offsets)

    def transform(self, X: Any, covariates: Any = None) -> Any:
        """Return the codes ``(x - mean_) / scale_ @ components_.T`` of the rows of X. Only selected columns are used.

        Parameters
        ----------
        X : object
            Rows (n, d): anything that :func:`spae_dask.open_matrix` opens.
        covariates : object, optional
            Covariates of these rows, as for the fit, if that had some. Those that it had by names of columns are looked
            up by the same names.

        Returns
        -------
        ndarray or dask array (n, k)
            Codes, float32 for float32 input, else float64. For dask and Zarr input they are a lazy dask array. Its row
            chunks are of unknown length if those of X are. With ``set_output(transform="pandas")`` they are a frame: a
            dask DataFrame if lazy.
        """
        check_is_fitted(self)
        source = open_lazily(self, X)
        return encode_rows(source, self.row_encoder(adjustment_of(self, X, source, covariates)))

    def inverse_transform(self, X: Any) -> Any:
        """Return rows (n, d) of codes (n, k): ``codes @ decoder_ * scale_ + mean_``. Lazy codes give lazy rows.

        Of an encoder with covariates, rows are those at the covariates' means.
        """
        check_is_fitted(self)
        codes = dask_rows(X)
        return decode_rows(open_matrix(X) if codes is None else codes, self.decoder_, self.mean_, self.scale_)

    def score(self, X: Any, y: Any = None, covariates: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Return the share of the variance of X about ``mean_`` that encoder and decoder explain, in one pass.

        1 is perfect, and 0 is no better than the mean. On the data of the fit it is ``certificate_.explained``.
        ``covariates`` are as for ``transform``; the variance is then of what they leave. ``sample_weight`` are weights
        of the rows, as for ``fit``.
        """
        check_is_fitted(self)
        source = open_rows(self, X, beside=columns_beside(sample_weight))
        autoencoder, d = self.autoencoder(), self.n_features_in_
        no_columns = np.zeros(0, dtype=np.intp)
        parts: dict[str, Accumulator[Any]] = {
            "residual": autoencoder.residual(),
            "total": CrossProducts(no_columns, self.mean_, self.scale_),
        }
        adjustment = adjustment_of(self, X, source, covariates)
        recipe = autoencoder.filled(of_rows(NonFinite(d), parts, None if adjustment is None else adjustment.adjusted))
        recipe = weighted(recipe, read_row_weights(sample_weight, X, source))
        client = active_client(source)
        plan = plan_passes(source, [("score", recipe)], client, self.memory_limit, reason="row by row", finish_nbytes=0)
        found = runner_for(report_missing_chunks(source), client, plan, self.progress).run_pass(recipe, "score")
        found = found | found.get("rows", {})
        with naming_declared(source):
            refuse_non_finite(found["nonfinite"])
        total = float(found["total"].column_norms.sum())
        return float(1.0 - found["residual"].loss / total) if total > 0 else 1.0

    @flags_checked
    def get_support(self, indices: bool = False) -> npt.NDArray[Any]:
        """Return the features that any component uses: a mask (d,), or ascending indices."""
        check_is_fitted(self)
        if indices:
            return self.selected_features_.copy()
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self.selected_features_] = True
        return mask


class CertificateRepr:
    """Notebook view for an estimator with ``certificate_``. It comes before ``BaseEstimator`` among the bases."""

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._certificate_html()
        return bundle

    @property
    def _repr_html_(self) -> Any:
        diagram = super()._repr_html_  # type: ignore[misc]  # raises AttributeError if diagrams are turned off
        return lambda: diagram() + self._certificate_html()

    def _certificate_html(self) -> str:
        # looked up in the dictionary, because access would make a stream compute its encoder
        certificate = self.__dict__.get("certificate_")
        return "" if certificate is None else str(certificate._repr_html_())
