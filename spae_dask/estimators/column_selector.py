"""Feature selection: the r columns that keep the largest share of what PCA keeps."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from spae_dask.blocks import ArrayBlocks
from spae_dask.errors import InvalidInput, RankDeficientWarning, warn
from spae_dask.estimators.applying import lazy_array, lazy_columns, open_lazily, refuse_non_finite_array
from spae_dask.estimators.checkpointing import CheckpointAt, checkpoint_at
from spae_dask.estimators.class_weights import by_class
from spae_dask.estimators.containers import lazy_frames
from spae_dask.estimators.covariates import columns_beside, open_without
from spae_dask.estimators.fitted import CertificateRepr
from spae_dask.estimators.fitting import fit
from spae_dask.estimators.planning import seed_of
from spae_dask.estimators.preparing import scale_given
from spae_dask.estimators.row_weights import read_row_weights
from spae_dask.estimators.runtime import store_names
from spae_dask.passes.events import Event
from spae_dask.storage.open import dask_rows, open_matrix
from spae_dask.storage.sources.sentinel import MissingValue, with_missing
from spae_dask.strategies.parameters import FitParameters, ScaleLike, check_count


@lazy_frames
class ColumnSelector(CertificateRepr, SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Selector of the r columns from which k codes lose little more than PCA does.

    The columns are those of ``SparseEncoder(method="batch")``. ``transform`` returns them unchanged.

    Parameters
    ----------
    n_columns : int, default 2
        Number of columns to select, r.
    n_components : int, optional
        Number of principal components, k, whose content the columns should keep. By default half of ``n_columns``, and
        at least 1. Fewer components leave out content that the other columns could hold. More components leave no
        columns to choose among.
    class_weight : "balanced", mapping or None, default None
        Weights of rows by their label, y, so that rare classes count. With ``"balanced"`` each class counts the same:
        a row weighs ``n / (number of classes * rows of its class)``. A dict has a weight for each label; labels that it
        leaves out have the weight 1. Weights multiply ``sample_weight`` of ``fit``, as in scikit-learn. Labels serve
        for nothing else.
    selection, center, scale, strategy, missing, missing_value, random_state, memory_limit, checkpoint, progress
        As for ``SparseEncoder``.

    Attributes
    ----------
    selected_idx_ : ndarray (r,) of int
        Selected columns, in the order of their choice.
    certificate_ : Certificate
        Loss of the best k-component encoder on these columns, against PCA's loss.
    plan_ : Plan
        Plan of the fit: the passes it was expected to make, and the memory and time it was expected to need.
    n_features_in_, n_samples_seen_ : int
        Number of columns d, and of rows n.
    """

    def __init__(
        self,
        n_columns: int = 2,
        *,
        n_components: int | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        selection: str = "dual-set",
        center: bool = True,
        scale: ScaleLike = False,
        strategy: str = "auto",
        missing: str = "error",
        missing_value: MissingValue = None,
        random_state: Any = 0,
        memory_limit: int | str | None = None,
        checkpoint: str | Path | CheckpointAt | None = None,
        progress: Callable[[Event], None] | None = None,
    ) -> None:
        self.n_columns = n_columns
        self.n_components = n_components
        self.class_weight = class_weight
        self.selection = selection
        self.center = center
        self.scale = scale
        self.strategy = strategy
        self.missing = missing
        self.missing_value = missing_value
        self.random_state = random_state
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.progress = progress

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "ColumnSelector":
        """Choose the columns of X.

        The choice keeps the content of X, whatever the labels. To choose columns by what they tell of labels, use
        scikit-learn's ``SelectKBest``, ``SelectFromModel`` or ``SequentialFeatureSelector``.

        Parameters
        ----------
        X : object
            Matrix (n, d): anything that :func:`spae_dask.open_matrix` opens.
        y : str or array-like (n,), optional
            Label of each row, for ``class_weight``: values, or the name of a column of ``obs`` of AnnData or of a
            table. Ignored without ``class_weight``.
        sample_weight : str or array-like (n,), optional
            Weights of the rows, as ``row_weights`` of ``SparseEncoder`` gives them.

        Returns
        -------
        ColumnSelector
            This selector, fitted.

        Raises
        ------
        InvalidInput
            If the data, labels, weights or a parameter cannot be used.
        MemoryBudgetExceeded
            If the plan does not fit in memory. Nothing is read then.
        StorageError
            If a chunk cannot be read.
        """
        labels = None if self.class_weight is None else np.asarray(y) if isinstance(y, list | tuple) else y
        opened = open_without(X, columns_beside(sample_weight, labels))
        weights = by_class(read_row_weights(sample_weight, X, opened), self.class_weight, labels, X, opened)
        source = with_missing(opened, self.missing_value)
        check_count("n_columns", self.n_columns, source.shape[1])
        half = max(1, int(self.n_columns) // 2)
        params = FitParameters.of(
            vars(self)
            | {
                "n_components": half if self.n_components is None else self.n_components,
                "n_nonzero": self.n_columns,
                "method": "batch",
                "random_state": seed_of(self.random_state),
                "scale": scale_given(self.scale),
                "row_weights": weights,
            }
        )
        made = fit(source, params, self.memory_limit, self.progress, checkpoint_at(self.checkpoint))
        fitted = made.fitted
        if fitted.chosen.size < self.n_columns:
            warn(
                f"only {fitted.chosen.size} of {self.n_columns} columns are selected, because no other column "
                "adds anything.",
                RankDeficientWarning,
            )
        self.selected_idx_ = fitted.chosen
        self.certificate_ = fitted.certificate
        self.plan_ = made.plan
        self.n_features_in_ = source.shape[1]
        self.n_samples_seen_ = int(fitted.n_samples)
        store_names(self, X, source)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def _get_support_mask(self) -> npt.NDArray[np.bool_]:
        check_is_fitted(self)
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self.selected_idx_] = True
        return mask

    def transform(self, X: Any) -> Any:
        """Return the selected columns of X, in ascending order.

        NaN and infinity in an array in memory are refused unless ``missing`` says what NaN means. They are not filled.

        Parameters
        ----------
        X : object
            Rows (m, d).

        Returns
        -------
        ndarray, sparse matrix or dask array (m, r)
            An array for arrays; a lazy dask array for dask and Zarr input.
        """
        check_is_fitted(self)
        source = open_lazily(self, X)
        columns = np.flatnonzero(self._get_support_mask())
        if not isinstance(source, ArrayBlocks):
            return lazy_columns(source, columns)
        if self.missing == "error":
            refuse_non_finite_array(source)
        rows: Any = source.X
        return rows[:, columns]

    def inverse_transform(self, X: Any) -> Any:
        """Return rows of all d columns, with zeros for the columns that were not selected.

        Parameters
        ----------
        X : object
            Rows (m, r) of the selected columns, as ``transform`` returns them.

        Returns
        -------
        ndarray, sparse matrix or dask array (n, d)
            Rows of the type of X; lazy for dask and Zarr input.

        Raises
        ------
        InvalidInput
            If X has another number of columns.
        """
        mask = self._get_support_mask()
        array = dask_rows(X)
        source = open_matrix(X) if array is None else array
        if source.shape[1] != mask.sum():
            raise InvalidInput(
                f"X has a different shape than during fitting: it has {source.shape[1]} columns, but {mask.sum()} "
                "are selected. Give the output of transform."
            )
        if isinstance(source, ArrayBlocks):
            return super().inverse_transform(X)
        thin = lazy_array(source).rechunk({1: -1})
        meta = np.empty((0, 0), dtype=thin.dtype)
        return thin.map_blocks(_among_zeros, mask, chunks=(thin.chunks[0], (mask.size,)), dtype=thin.dtype, meta=meta)


def _among_zeros(rows: Any, mask: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Columns put where the mask is true, among zeros."""
    wide = np.zeros((rows.shape[0], mask.size), dtype=rows.dtype)
    wide[:, mask] = rows.toarray() if sp.issparse(rows) else rows
    return wide
