"""Sparse PCA with a certificate, in scikit-learn's shape."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from spae_dask.algorithms.parameters import FitParameters
from spae_dask.algorithms.path import SparsityPath, sparsity_path
from spae_dask.algorithms.sparse_encoder import FittedEncoder
from spae_dask.engine.events import Event, ignore
from spae_dask.engine.threads import one_blas_thread
from spae_dask.errors import InvalidInput
from spae_dask.estimators.checkpointing import CheckpointAt, checkpoint_at
from spae_dask.estimators.fitted import FittedMixin
from spae_dask.estimators.fitting import fit
from spae_dask.estimators.notebook import CertificateRepr
from spae_dask.estimators.planning import seed_of
from spae_dask.estimators.plots import PlotMixin
from spae_dask.estimators.runtime import search_report, store_names
from spae_dask.estimators.streams import RowStream, StreamingMixin
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources.sentinel import MissingValue, with_missing


class SparseEncoder(CertificateRepr, PlotMixin, StreamingMixin, FittedMixin, BaseEstimator):  # type: ignore[misc]
    """Sparse linear encoder whose loss against PCA is measured, for matrices that need not fit in memory.

    Finds H (d, k), with at most r nonzeros a column, and a decoder G (k, d), such that X H G is nearly as good as the
    best rank-k approximation of X, and reports how nearly. The data are read once (twice with ``missing="mean"``) in
    row blocks, on the active dask client if there is one, else on threads of this process.

    Parameters
    ----------
    n_components : int, default 2
        k.
    n_nonzero : int or sequence of int, optional
        r, the most nonzeros a component may have: one number, or one for each component (the paper's r_1, ..., r_k). If
        not given, the smallest found that reaches the target: ``eps`` or ``keep``.
    eps : float, optional
        Target in place of ``n_nonzero``: a loss of at most ``1 + eps`` times PCA's.
    keep : float, optional
        Target in place of ``n_nonzero``: at least this share of the variance that PCA explains, between 0 and 1. It is
        0.95 if neither ``n_nonzero``, ``eps`` nor ``keep`` is given. Giving both ``eps`` and ``keep`` is an error. With
        ``n_nonzero`` neither is used.
    method : {"polished", "batch", "iterative", "doubly-sparse"}, default "polished"
        ``"polished"`` starts from the paper's batch encoder, so it keeps its bound, and then searches each component's
        own r columns; by far the lowest loss. ``"batch"`` and ``"iterative"`` are the paper's: all components on the
        same r columns, or one component after another. ``"doubly-sparse"`` also makes the decoder of few rows of X, at
        the price of one more read; the target then holds with that decoder, and the bound is on its loss.
    selection : {"dual-set", "barrier", "adaptive", "adaptive-paper", "adaptive-derandomized", "greedy", \
"full-greedy", "leverage", "pivoted-qr", "exchange"}, default "dual-set"
        Method of the paper that chooses columns. The polished encoder starts from its choice. ``"barrier"`` and
        ``"adaptive-paper"`` are the paper's own variants. The first uses dual-set's barrier recursion for one component
        too. The second takes 5k columns from that recursion, then makes adaptive sampling. With ``method="iterative"``
        they choose each component's columns, as in the paper. ``"dual-set"`` then stands for a deterministic choice
        with a smaller bound.
    center, scale : bool, default True and False
        Take X about its column means; divide columns by their standard deviations (divisor n - 1; columns without
        variance are left alone and never selected).
    strategy : {"auto", "gram", "tsqr", "sketch", "stream", "sample", "paper"}, default "auto"
        Strategy of the fit: the passes it makes, and the state they keep. ``"gram"`` keeps a float64 Gram matrix.
        ``"tsqr"`` keeps a triangular factor, which keeps more digits of float64 data at twice the work. ``"sketch"``,
        for any number of columns, selects candidate columns from a sketch and refits on them in a second pass. Its loss
        is exact; PCA's loss is an estimate between certified bounds. ``"stream"``, for any number of columns and rows
        that come by once, keeps Frequent Directions and exact column norms. There the loss, too, is an estimate between
        certified bounds, and ``partial_fit`` resumes from the fit. Up to a few hundred columns ``"gram"`` and
        ``"tsqr"`` cost no more and are exact. ``"paper"`` is the paper's own pipeline for its batch encoder: four
        passes or more, each with a thin state, for any number of columns. ``"auto"`` takes one pass up to 5,000
        columns, if that fits in memory, and the sketch beyond.
    precision : {"exact", "fast"}, default "exact"
        ``"exact"``: all arithmetic is in float64. ``"fast"``: products of rows are made in float32 and summed in
        float64, at about half the time. ``certificate_.loss_error`` bounds the error that this may make, about 1e-4 of
        the total for most encoders.
    missing : {"error", "mean", "zero"}, default "error"
        Treatment of NaN: ``"error"`` refuses it, ``"mean"`` fills it with the column's mean (one more pass), and
        ``"zero"`` fills it with zero.
    missing_value : float or sequence of float, optional
        A number that stands for missing beside NaN, such as -1 in integer genotypes, or several, such as
        ``[-1, -2]``: in ``fit`` and wherever the encoder is applied. A stored matrix is converted block by block, to
        float32 where that holds its type.
    orthonormal : bool, default False
        Make the components orthonormal. Loss and combined support stay as they are, but a component may then use every
        feature of the combined support.
    shared_support : bool, default False
        With ``method="polished"``: all components on the same r columns, chosen by exchange.
    n_rows : int, optional
        Rows of the doubly sparse encoder; if not given, four a component, and as many more as a target takes.
    n_repeats : int, default 1
        Independent repeats of a random selection, of which the one of least loss is kept: with ``selection="adaptive"``
        or ``"adaptive-paper"``, and with ``strategy="paper"``, where each repeat has its own projection and all share
        the passes. The bound in expectation then holds, with twice its excess, with probability ``1 - 2^-n_repeats``.
    power_iterations : int, default 0
        With ``strategy="paper"``: extra passes that sharpen the projection.
    oversampling : int, optional
        With ``strategy="paper"``: the sketch that V_k is found on has ``k + oversampling`` rows, so that V_k loses
        ``1 + k/(oversampling - 1)`` times what PCA loses, in expectation. At least 2; ``6k + 1`` if not given, hence
        ``1 + 1/6``, which the paper's split needs.
    split : {"best", "paper", "dual-set"}, default "best"
        With ``strategy="paper"``: how many of the r columns dual-set chooses before the others are sampled. So many
        that the bound is smallest; the paper's 5k, for ``r > 5k``; or all of them.
    projection : {"randomized", "frequent-directions"}, default "randomized"
        With ``strategy="paper"``: how V_k is found. ``"frequent-directions"`` takes it from a deterministic sketch of
        at least ``k + oversampling`` rows, within ``1 + k/(oversampling + 1)`` of PCA for certain (columns that are
        scaled have a larger factor), and makes one pass less. With ``split="dual-set"`` nothing is random: it is the
        paper's deterministic algorithm, at any size.
    certified : bool, default False
        With ``strategy="sketch"`` or ``"stream"``: report a certified lower bound on PCA's loss, by Frequent
        Directions, in place of an estimate.
    n_candidates, sketch_rows : int, optional
        With ``strategy="sketch"``: columns that are settled exactly, and rows of the sketch; by default four times all
        nonzeros, and twenty times those of one component, but at least 200. With ``"stream"``: columns that are
        searched, eight times all nonzeros and at least 256; rows of Frequent Directions, four times the components and
        at least 128, and the more, the narrower the certified intervals.
    tolerance : float, optional
        Read no more row blocks than this takes, and with ``strategy="auto"`` choose ``"sample"``, whose default is
        0.01. Blocks are visited in random order. After 1 %, 2 %, 4 %, ... of them the encoder is fitted on what was
        seen, and the blocks seen next tell its ratio to PCA's loss on all rows, as a 95 % interval over blocks, which
        assumes that all blocks are alike. Once 5 % of the blocks, and 44 of them, have been measured, the fit stops
        when the upper end of that interval is at most ``tolerance`` above 1, or above the ratio that the encoder fitted
        on all rows seen so far reaches on them, which is optimistic: so much, in units of PCA's loss, an encoder fitted
        on all rows could lose less, at most. The certificate is an estimate then, and ``evaluate`` makes it exact by
        one read. If it never stops, each block has been read once and the answer is exact. A dask array whose
        blocks depend on all rows, such as ``x - x.mean(axis=0)``, is computed anew in every round: persist it.
    random_state : int, Generator, RandomState or None, default 0
        Seed of randomized selections and of the order of blocks; None is 0, so that a fit can always be repeated.
    memory_limit : int or str, optional
        Bytes a process may use in all, such as ``"2GB"``. A fit that would need more is refused before it reads.
    checkpoint : str or Path, optional
        A folder, seen by all workers, or the URL of an object store, where the states of ``fit`` are kept as they come.
        A fit that was killed, called again with the same data and parameters, reads only what is missing and gives the
        same bits. States of other data or parameters are refused. They stay there until they are removed
        (``spae checkpoint rm``): a finished fit called again reads nothing but the sample of rows that data are known
        by. A ``CheckpointAt`` says as well which part of an array job this process is.
    progress : callable, optional
        Called with the engine's events (:mod:`spae_dask.engine.events`): of passes, and of the search for supports.

    Attributes
    ----------
    components_ : ndarray (k, d)
        H transposed: unit rows, at most r nonzeros each, the entry of largest magnitude positive. Rows are zero where
        the data have rank below k.
    decoder_ : ndarray (k, d)
        G, the optimal decoder.
    mean_, scale_ : ndarray (d,)
        Codes of x are ``(x - mean_) / scale_ @ components_.T``.
    selected_features_ : ndarray of int
        Features that any component uses, ascending.
    explained_variance_ratio_ : ndarray (k,)
        Share of the total explained by each component beyond those before it; sums to ``1 - loss / total``.
    singular_values_ : ndarray
        Of X centered and scaled, all of them: PCA's loss for any k.
    constant_features_ : ndarray of int
        Features without variance.
    fill_ : ndarray (d,) or None
        Values that replace NaN entries, one a column; None if NaN is refused.
    selected_rows_ : ndarray of int64
        Rows the decoder is made of, only with ``method="doubly-sparse"``.
    certificate_ : Certificate
        The loss against PCA's and how it is known.
    plan_ : Plan
        Plan of the fit: the passes it was expected to make, and the memory and time it was expected to need. Missing
        after ``partial_fit``.
    measured_ : Measured
        Measured time and memory of the fit. Missing after ``partial_fit``, and for loaded encoders.
    n_components_, n_features_in_, n_samples_seen_ : int
        Sizes.
    seed_ : int
        Seed that was used: ``random_state``, or drawn from it.
    feature_names_in_ : ndarray of str
        Only if the data had names.

    References
    ----------
    Magdon-Ismail, M. and Boutsidis, C. (2016). Optimal sparse linear encoders and sparse PCA. NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from spae_dask import SparseEncoder
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 20)) + 0.1 * rng.normal(size=(500, 20))
    >>> encoder = SparseEncoder(n_components=2, n_nonzero=4).fit(x)
    >>> encoder.components_.shape, int((encoder.components_ != 0).sum(axis=1).max())
    ((2, 20), 4)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_nonzero: int | Sequence[int] | None = None,
        eps: float | None = None,
        keep: float | None = None,
        method: str = "polished",
        selection: str = "dual-set",
        center: bool = True,
        scale: bool = False,
        strategy: str = "auto",
        precision: str = "exact",
        missing: str = "error",
        missing_value: MissingValue = None,
        orthonormal: bool = False,
        shared_support: bool = False,
        n_rows: int | None = None,
        n_repeats: int = 1,
        power_iterations: int = 0,
        oversampling: int | None = None,
        split: str = "best",
        projection: str = "randomized",
        certified: bool = False,
        n_candidates: int | None = None,
        sketch_rows: int | None = None,
        tolerance: float | None = None,
        random_state: Any = 0,
        memory_limit: int | str | None = None,
        checkpoint: str | Path | CheckpointAt | None = None,
        progress: Callable[[Event], None] | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero = n_nonzero
        self.eps = eps
        self.keep = keep
        self.method = method
        self.selection = selection
        self.center = center
        self.scale = scale
        self.strategy = strategy
        self.precision = precision
        self.missing = missing
        self.missing_value = missing_value
        self.orthonormal = orthonormal
        self.shared_support = shared_support
        self.n_rows = n_rows
        self.n_repeats = n_repeats
        self.power_iterations = power_iterations
        self.oversampling = oversampling
        self.split = split
        self.projection = projection
        self.certified = certified
        self.n_candidates = n_candidates
        self.sketch_rows = sketch_rows
        self.tolerance = tolerance
        self.random_state = random_state
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> "SparseEncoder":  # noqa: ARG002 - scikit-learn's signature
        """Read the data once, choose columns, build and certify the encoder.

        Parameters
        ----------
        X : object
            Anything :func:`spae_dask.open_matrix` opens, n rows and d columns.
        y : None
            Ignored.

        Raises
        ------
        InvalidInput
            If the data or a parameter cannot be used.
        MemoryBudgetExceeded
            If the plan does not fit; nothing is read then.
        StorageError
            If a chunk cannot be read.
        """
        source, params = with_missing(open_matrix(X), self.missing_value), self._params()
        made = fit(source, params, self.memory_limit, self.progress, checkpoint_at(self.checkpoint))
        self.plan_, self.measured_, self.seed_ = made.plan, made.measured, params.seed
        self._store(made.fitted)
        self._summary = made.summary
        self._stream = None
        if made.feed is not None:
            self._stream = RowStream("stream", made.feed, params.seed, made.fitted.certificate.bytes_read)
        if made.rows is not None:
            self.selected_rows_ = made.rows
        elif hasattr(self, "selected_rows_"):
            del self.selected_rows_
        store_names(self, X, source)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def _params(self) -> FitParameters:
        return FitParameters.of(vars(self) | {"random_state": seed_of(self.random_state)})

    def _store(self, fitted: FittedEncoder) -> None:
        self.components_ = fitted.H.T.copy()
        self.decoder_ = fitted.G
        self.mean_ = fitted.mean
        self.scale_ = fitted.scale
        self.selected_features_ = fitted.selected
        self.explained_variance_ratio_ = fitted.explained_ratio
        self.singular_values_ = fitted.spectrum
        self.constant_features_ = fitted.constant
        self.fill_ = fitted.fill
        self.certificate_ = fitted.certificate
        self.n_components_ = fitted.H.shape[1]
        self.n_samples_seen_ = fitted.n_samples
        self.n_features_in_ = fitted.H.shape[0]
        self.__dict__.pop("_curve", None)

    def sparsity_path(self, n_components: Sequence[int], n_nonzero: Sequence[int]) -> SparsityPath:
        """Loss, symmetric variance and features used for every k and r, by this encoder's method.

        Nothing is read: the core of the last ``fit`` is used. It is kept in this process only, not in pickles or saved
        encoders.

        Parameters
        ----------
        n_components, n_nonzero : sequence of int
            All k and all r wanted.

        Returns
        -------
        SparsityPath
            Prints as a table; ``pandas.DataFrame(path.records())`` makes one of it.

        Raises
        ------
        InvalidInput
            If there is no core of all rows (loaded or unpickled encoders, ``strategy="paper"``, a sample), or a k or r
            is out of range.
        """
        check_is_fitted(self)
        summary = getattr(self, "_summary", None)
        if summary is None:
            raise InvalidInput(
                "this encoder has no core of the data to draw a path from: it was loaded, unpickled, fitted with "
                "strategy='paper', or on a sample. Call fit(x) first, or run `spae path DATA -k ... -r ...`."
            )
        with one_blas_thread():
            report = search_report(self.progress or ignore)
            return sparsity_path(self._params(), summary, n_components, n_nonzero, report=report)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the core, which is as large as d x d; a stream is kept, or it could not go on."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_summary"}
