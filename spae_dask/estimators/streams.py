"""``partial_fit``: rows handed over a batch at a time, and the encoder of all of them when it is asked for."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spae_dask.blocks import Block, RowBlocks
from spae_dask.errors import InvalidInput, NewStreamWarning, NonFiniteInput, warn
from spae_dask.estimators.applying import open_rows
from spae_dask.estimators.fitting import naming_declared, warn_of_certificate
from spae_dask.estimators.planning import plan_stream
from spae_dask.estimators.preparing import prepared, recipe_of_fit, with_rules
from spae_dask.estimators.runtime import search_report, store_names
from spae_dask.passes.accumulators import Imputed, NonFinite
from spae_dask.passes.accumulators.nonfinite import refuse_non_finite
from spae_dask.passes.accumulators.wrapped import fill_missing
from spae_dask.passes.events import Watcher, ignore
from spae_dask.passes.online import OnlinePass
from spae_dask.passes.sweep import read_again, update_by_panels
from spae_dask.passes.threads import one_blas_thread
from spae_dask.recipes import RecipeLike
from spae_dask.rules import Rules
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources.sentinel import MissingValue
from spae_dask.strategies.core_summary import CoreSummary, refuse_overflow
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.refit import Refit
from spae_dask.strategies.sparse_encoder import FittedEncoder
from spae_dask.strategies.stream import Streamed
from spae_dask.strategies.table import STRATEGIES

LARGEST = float(np.finfo(np.float64).max) * 2.0**-60
"""Squares of entries up to this add up to a finite number, whatever the length of the stream."""

LEARNED = (
    "components_",
    "decoder_",
    "mean_",
    "scale_",
    "selected_features_",
    "explained_variance_ratio_",
    "singular_values_",
    "constant_features_",
    "fill_",
    "certificate_",
    "n_components_",
    "_summary",
    "_rules",
    "_facts",
)
"""Attributes that a stream learns when one of them is first asked for."""

OF_ONE_FIT = ("plan_", "measured_", "selected_rows_", "provenance_", "_curve", "_kept")
"""Attributes that tell how a fit was made, which a stream has none of."""


class RowStream:
    """All rows so far, summarized.

    Parameters
    ----------
    strategy : {"stream", "gram", "tsqr"}
        Strategy whose state is kept of the rows.
    online : OnlinePass
        It, which forgets nothing but the rows themselves.
    seed : int
        Seed of all random choices.
    nbytes : int
        Decoded bytes of the rows so far.
    dtype : numpy.dtype or None
        Type of their entries; None if batches, which may have any, are among them.
    """

    def __init__(
        self,
        strategy: str,
        online: OnlinePass,
        seed: int,
        nbytes: int = 0,
        dtype: np.dtype[Any] | None = None,
    ) -> None:
        self.strategy = strategy
        self.online = online
        self.seed = seed
        self.nbytes = nbytes
        self.dtype = dtype

    def add(self, source: RowBlocks, params: FitParameters) -> None:
        """Add a batch, which is held in memory, or refuse all of it.

        Raises
        ------
        NonFiniteInput, InvalidInput
            If there is NaN that nothing stands for, or an entry too large; the stream is then as before.
        """
        # all are checked before any is added, so that nothing of a refused batch is added
        blocks = [read_again(source, i) for i in range(len(source.bounds) - 1)]
        with naming_declared(source):
            self._refuse(blocks, source.shape[1], params.missing)
        n, d = source.shape
        self.online, _ = STRATEGIES[self.strategy].begin_update(params, self.online, d, n, None, 1.0)
        self.dtype = None
        for block in blocks:
            self.online.add(_zero_filled(block) if params.missing == "zero" else block)
            held: Any = block
            self.nbytes += int(np.prod(held.shape)) * held.dtype.itemsize

    def _refuse(self, blocks: list[Block], d: int, missing: str) -> None:
        entries = NonFinite(d)
        recipe = Imputed(entries, np.zeros(d)) if missing == "zero" else entries
        state, first_row, largest = recipe.zero(), self.online.n_rows, np.zeros(d)
        for block in blocks:
            state = update_by_panels(recipe, state, block, first_row)
            first_row += block.shape[0]
            largest = np.fmax(largest, _largest(block))
        try:
            refuse_non_finite(entries.result(state), once=True)
        except NonFiniteInput as error:
            raise NonFiniteInput(
                f"{error} Rows are numbered from the start of the stream. Nothing of this batch was added."
            ) from None
        with np.errstate(over="ignore"):
            refuse_overflow(largest**2, limit=LARGEST)

    def fit(
        self, params: FitParameters, d: int, watch: Watcher | None = None
    ) -> tuple[FittedEncoder, CoreSummary | Streamed]:
        """The encoder of all rows so far."""
        params, report = replace(params, seed=self.seed), search_report(watch or ignore)
        strategy, integers = STRATEGIES[self.strategy], self.dtype is not None and self.dtype.kind in "iub"
        with one_blas_thread():
            made = strategy.fit_batches(params, self.online, d, report, integers=integers)
        fitted = made.fitted
        certificate = replace(fitted.certificate, passes=1, bytes_read=self.nbytes)
        warn_of_certificate(certificate, int(fitted.H.any(axis=0).sum()), strategy, params.precision)
        return replace(fitted, certificate=certificate), made.summary


def stream_of(encoder: Any) -> RowStream | None:
    """Rows that an encoder keeps the state of, which is read if it is still on the disk; None if it keeps none."""
    stream: RowStream | None = encoder.__dict__.get("_stream")
    if stream is None and encoder.__dict__.get("_kept") is not None:
        stream = encoder._stream = encoder._kept.stream(encoder._params(), encoder.n_features_in_)
    return stream


class StreamingMixin:
    """``partial_fit`` for an estimator with ``_params()``, ``_store(fitted, rules, summary)`` and ``memory_limit``."""

    missing_value: MissingValue
    recipe: RecipeLike
    progress: Watcher | None
    _stream: RowStream | None
    _kept: Any
    _summary: CoreSummary | Refit | Streamed | None
    _rules: Rules
    _params: Callable[[], FitParameters]
    _numbered: Callable[[FitParameters], FitParameters]

    def partial_fit(self, X: Any, y: Any = None) -> Any:  # noqa: ARG002 - scikit-learn's signature
        """Add rows to a stream; the encoder is built when it, or anything learned, is first asked for.

        The state depends on the sequence of rows only: any batches, of one row or of many, give the same bits. The
        state is pickled with the encoder, so that a stream can resume elsewhere. ``sklearn.clone`` leaves it out. With
        ``strategy="auto"`` the state is an exact d x d summary, as for ``fit``. If ``fit`` would make two passes, it
        is that of ``strategy="stream"``. A stream resumes from ``fit`` with ``keep_state=True`` or
        ``strategy="stream"``, and the rows of the fit are its first. Any other ``fit`` ends it. ``update`` adds rows
        that do not fit in memory.

        Parameters
        ----------
        X : object
            Any number of rows (m, d): anything that :func:`spae_dask.open_matrix` opens. They are held in memory; use
            ``fit`` for more.
        y : None
            Ignored.

        Returns
        -------
        SparseEncoder
            This encoder.

        Raises
        ------
        InvalidInput
            If a parameter, the number of features, their names or an entry cannot be used. The stream is as before.
        MemoryBudgetExceeded
            If the state does not fit in memory.
        """
        stream, params = stream_of(self), self._params()
        recipe = recipe_of_fit(self)  # which refuses a target that takes a read of all rows
        source = prepared(open_matrix(X), self.missing_value, recipe) if stream is None else open_rows(self, X)
        params = with_rules(params, source)
        if params.n_top_features is not None:
            raise InvalidInput(
                f"n_top_features={params.n_top_features} takes a read of all rows before the fit, and partial_fit sees "
                "each row once. Leave it out, or call fit."
            )
        strategy, kept = plan_stream(params, source, self.memory_limit)
        if stream is None:
            added = RowStream(strategy, OnlinePass(kept), params.seed)
            added.add(source, params)
            if "components_" in self.__dict__:
                warn(
                    "this encoder was fitted before, and its rows cannot be added to. A new stream starts here. To "
                    "continue from a fit, use keep_state=True or strategy='stream' for it.",
                    NewStreamWarning,
                )
            store_names(self, X, source)
            self._stream = stream = added
        else:
            if params.strategy not in ("auto", stream.strategy):
                raise InvalidInput(
                    f"strategy={params.strategy!r} is not the strategy of this stream, {stream.strategy!r}. Set it "
                    "back, or start another stream with sklearn.base.clone(encoder)."
                )
            stream.add(source, params)
        for name in (*LEARNED, *OF_ONE_FIT):
            self.__dict__.pop(name, None)
        self.n_samples_seen_, self.n_features_in_ = stream.online.n_rows, source.shape[1]
        self.seed_ = stream.seed
        return self

    def __sklearn_is_fitted__(self) -> bool:
        stream: RowStream | None = self.__dict__.get("_stream")
        return "components_" in self.__dict__ or (stream is not None and stream.online.n_rows > 1)

    def __getattr__(self, name: str) -> Any:
        """Compute an attribute from the rows of the stream so far."""
        stream: RowStream | None = self.__dict__.get("_stream")
        if name not in LEARNED or stream is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if stream.online.n_rows < 2:
            raise AttributeError(f"{name!r} is not known yet: the stream has 1 row, and a fit needs at least 2.")
        fitted, summary = stream.fit(self._numbered(self._params()), self.n_features_in_, self.progress)
        self._store(fitted, Rules(), summary)
        return self.__dict__[name]


def _largest(block: Block) -> npt.NDArray[np.float64]:
    """Largest magnitude of every column, (d,); NaN aside."""
    held: Any = block
    if sp.issparse(held):
        most = abs(held.astype(np.float64)).max(axis=0).toarray().ravel()
    else:
        most = np.fmax(*(np.abs(each.reduce(held, axis=0).astype(np.float64)) for each in (np.fmax, np.fmin)))
    return np.asarray(np.nan_to_num(most), dtype=np.float64)


def _zero_filled(block: Block) -> Block:
    held: Any = block
    if not sp.issparse(held):
        return fill_missing(held, np.zeros(held.shape[1]))
    filled = held.copy()
    filled.data = np.where(np.isnan(filled.data), 0, filled.data)
    return filled
