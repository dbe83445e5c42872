"""Sparse PCA with a certificate, in scikit-learn's shape."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from spae_dask.errors import InvalidInput
from spae_dask.estimators.applying import fitted_grid
from spae_dask.estimators.checkpointing import CheckpointAt, checkpoint_at
from spae_dask.estimators.covariates import columns_beside, open_without, removed, resolved
from spae_dask.estimators.fitted import CertificateRepr, FittedMixin
from spae_dask.estimators.fitting import fit
from spae_dask.estimators.folds import FREQUENCIES, frequencies_of, with_folds
from spae_dask.estimators.panels import proof_of
from spae_dask.estimators.planning import seed_of
from spae_dask.estimators.plots import PlotMixin
from spae_dask.estimators.preparing import prepared, scale_given, with_positions, with_rules
from spae_dask.estimators.row_weights import with_row_weights
from spae_dask.estimators.runtime import search_report, store_names
from spae_dask.estimators.streams import RowStream, StreamingMixin
from spae_dask.estimators.top_features import with_batches
from spae_dask.estimators.updating import update
from spae_dask.features import FeaturesLike, LimitsLike, ValuesLike
from spae_dask.passes.events import Event, ignore
from spae_dask.passes.threads import one_blas_thread
from spae_dask.recipes import RecipeLike
from spae_dask.rules import Rules
from spae_dask.storage.sources.sentinel import MissingValue
from spae_dask.strategies.feature_table import FeatureFacts
from spae_dask.strategies.parameters import OF_ROWS, FitParameters, ScaleLike, is_chosen
from spae_dask.strategies.path import SparsityPath, Summary, sparsity_path
from spae_dask.strategies.proof import NODES, Proof
from spae_dask.strategies.sparse_encoder import FittedEncoder


class SparseEncoder(CertificateRepr, PlotMixin, StreamingMixin, FittedMixin, BaseEstimator):  # type: ignore[misc]
    """Sparse linear encoder with a certificate of its loss against PCA, for matrices larger than memory.

    The encoder finds H (d, k), with at most r nonzeros a column, and a decoder G (k, d). X H G is nearly as good as the
    best rank-k approximation of X, and the certificate reports how nearly. The data are read in row blocks. By default
    one pass is enough up to 5,000 columns, and two passes beyond; ``missing="mean"`` adds one. The active dask client
    runs the passes if there is one, else threads of this process.

    Parameters
    ----------
    n_components : int, float or "cv", default 2
        Number of components, k. A share between 0 and 1 stands for the smallest k for which PCA explains more than this
        share of the total variance, as in scikit-learn's ``PCA``; it needs ``strategy="gram"`` or ``"tsqr"``. With
        ``"cv"`` held-out ``folds`` choose it.
    n_nonzero : int, sequence of int or "cv", optional
        Largest number of nonzeros of a component, r: one number, or one for each component (the paper's r_1, ..., r_k).
        With ``"cv"`` held-out ``folds`` choose it: of 1, 2, 3, 5, 8, 12, 20 and 30 the least, beside that of
        components, whose loss on rows held out is within one standard error of the least.
        If it is not given, the fit takes the smallest r found that reaches the target ``eps`` or ``keep``.
    n_features : int, optional
        Largest number of features of all components together: the size of a panel. Without ``n_nonzero`` every
        component may use the whole panel, which is chosen by exchange. With ``n_nonzero`` and ``method="polished"``
        each component uses so many features of the panel at most.
    eps : float, optional
        Target in place of ``n_nonzero``: a loss of at most ``1 + eps`` times PCA's loss.
    keep : float, optional
        Target in place of ``n_nonzero``: smallest share of the variance that PCA explains, between 0 and 1. It is 0.95
        if neither ``n_nonzero``, ``eps`` nor ``keep`` is given. Giving both ``eps`` and ``keep`` is an error. With
        ``n_nonzero`` neither is used.
    method : {"polished", "batch", "iterative", "doubly-sparse"}, default "polished"
        Method that builds the encoder. ``"polished"`` starts from the paper's batch encoder, so it keeps its bound. It
        then searches each component's own r columns, and has by far the lowest loss. ``"batch"`` and ``"iterative"``
        are the paper's: all components on the same r columns, or one component after another. ``"doubly-sparse"`` also
        makes the decoder of few rows of X, at the price of one more pass. The target then holds with that decoder, and
        the bound is on its loss.
    selection : {"dual-set", "barrier", "adaptive", "adaptive-paper", "adaptive-derandomized", "greedy", \
"full-greedy", "leverage", "pivoted-qr", "exchange"}, default "dual-set"
        Method of the paper that chooses columns. The polished encoder starts from its choice. ``"barrier"`` and
        ``"adaptive-paper"`` are the paper's own variants. The first uses dual-set's barrier recursion for one component
        too. The second takes 5k columns from that recursion, then makes adaptive sampling. With ``method="iterative"``
        they choose each component's columns, as in the paper. ``"dual-set"`` then stands for a deterministic choice
        with a smaller bound.
    center : bool, default True
        True to subtract the column means.
    scale : bool, {"std", "patterson"}, str or array-like (d,), default False
        Divisors of the columns; no further pass is made for them. True and ``"std"`` divide by standard deviations
        (divisor n - 1). ``"patterson"`` is for genotypes 0, 1 and 2: it divides by ``sqrt(p (1 - p))``, ``p = mean /
        2``. Under Hardy-Weinberg equilibrium each column then has variance 2. An array, or the name of a ``.npy`` or
        ``.csv`` file, gives a positive divisor for each column. Columns without variance are not scaled and never
        selected.
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
        Precision of the products of rows. ``"exact"`` computes everything in float64. ``"fast"`` computes products in
        float32 and sums them in float64, at about half the time. ``certificate_.loss_error`` bounds the error of that,
        about 1e-4 of the total for most encoders.
    missing : {"error", "mean", "zero"}, default "error"
        Treatment of NaN: ``"error"`` refuses it, ``"mean"`` fills it with the column's mean (one more pass), and
        ``"zero"`` fills it with zero.
    missing_value : float or sequence of float, optional
        Number, or numbers, that stand for missing beside NaN, such as -1 in integer genotypes, or ``[-1, -2]``. They
        hold in ``fit`` and wherever the encoder is applied. A stored matrix is converted block by block, to float32
        where that holds its type.
    recipe : str, Recipe or sequence of str, optional
        Steps that make data of raw rows as they are read, such as ``"normalize_total(1e4), log1p"``. They hold in
        ``fit`` and wherever the encoder is applied, so that it takes raw rows there too. ``normalize_total(target)``
        comes first: it multiplies a row so that it sums to ``target``, over all columns, whatever a mask chooses; rows
        of zeros stay so. The target may be ``median``: the median of the sums of rows that are not 0. One more read
        finds it before the fit, and the encoder keeps it. The other steps change each entry, in the order given:
        ``log1p``, ``sqrt``, ``arcsinh(cofactor)`` (of the entry over the cofactor), ``clip(upper)`` (larger entries
        become ``upper``) and ``binarize`` (entries other than 0 become 1). ``normalize_total``, ``log1p`` and ``sqrt``
        refuse negative numbers. All take 0 to 0, so sparse rows stay sparse. The arithmetic is in float64, and so are
        the data, unless the raw ones are float32.
    n_top_features : int, optional
        Number of columns to use: those of the largest variance, as ``recipe`` makes them. One more read finds them
        before the fit, and all results are about them. ``transform`` takes data with all columns, or with those.
    top_features_flavor : {"variance", "seurat_v3"}, default "variance"
        Order of the columns of which the first ``n_top_features`` are used. ``"seurat_v3"`` is the order of scanpy's
        ``pp.highly_variable_genes(flavor="seurat_v3")``: by the variance of raw counts, whatever ``recipe`` makes of
        them, over the variance that is usual at their mean. Counts beyond ``sqrt(n)`` usual deviations above the mean
        are clipped. Two more reads find the columns.
    top_features_batch : str, array or Series, optional
        Batches of the rows, of at least two rows each, in which ``top_features_flavor="seurat_v3"`` ranks the columns,
        as scanpy does with ``batch_key``. The columns of the smallest median rank are used, over the batches in which
        they are among the first ``n_top_features``. Of equal ranks that of more batches comes first. Batches are given
        as ``fold_groups`` are. Still two reads find the columns; they keep a state for each batch.
    covariates : str, sequence of str, array, DataFrame or mapping, optional
        Covariates of the rows, such as batches, depth or age. The encoder is that of what they leave of the data: of
        the residuals of a least-squares fit of each column on them and a constant. Losses are of the residuals.
        Covariates are given by names of columns of ``obs`` of AnnData or of a table, or of a coordinate of a DataArray:
        ``"batch,age"`` or ``["batch", "age"]``; ``"C(batch)"`` takes numbers as labels. Or they are given by values for
        all rows: an array (n,) or (n, q), a Series, a DataFrame, a dict of arrays, or a ``.csv`` or ``.npy`` file.
        Texts, booleans and categories are labels, and each level has its own effect. Columns of a table that are
        covariates are no data. Strategies ``"gram"``, ``"tsqr"`` and ``"sketch"`` remove covariates, in the reads that
        they make anyway.
    folds : int, optional
        Number of folds, K, that the rows are dealt to. The same read keeps a summary for each fold, which takes K times
        the memory. For each fold, an encoder of all others is fitted, and its loss on that fold is compared with that
        of PCA of the others on the same rows. ``certificate_.held_out`` has the losses, and ``selection_frequency_``
        the share of these encoders that use each feature. Consecutive rows stay together, in about 40 runs a fold.
        Strategies ``"gram"``, ``"tsqr"`` and ``"sketch"`` keep folds.
    bootstraps : int, default 0
        Number of resamples of the folds, each of K folds that are drawn with replacement from the K, by the seed. A
        quick encoder of the size of this one is fitted to each. ``certificate_.held_out.bootstraps`` has a 95 % band of
        the ratio to PCA's loss, and ``bootstrap_frequency_`` the share of these encoders that use each feature. They
        need ``folds`` and no further read. Few folds say little: give 20 or more.
    fold_groups : str, array or Series, optional
        Groups of the rows, such as donors, years or scenes, each of which stays in one fold. They are given as
        ``covariates`` are: by the name of one column, a file, or a label for each row. A column of a table that holds
        groups is no data.
    row_weights : str or array-like (n,), optional
        Weights of the rows, at least 0: the loss is the sum over rows of weight times squared residual, about weighted
        means. A row of weight 2 counts as two rows, and one of weight 0 as none. They are given by the name of a column
        of ``obs`` of AnnData or of a table, or of a coordinate of a DataArray, by a ``.csv`` or ``.npy`` file, or by
        values. ``fit(X, sample_weight=...)`` takes them as well. A column of a table that holds weights is no data.
        Strategies ``"gram"``, ``"tsqr"`` and ``"sketch"`` weigh rows, in the reads that they make anyway.
    orthonormal : bool, default False
        True to make the components orthonormal. The loss and the combined support stay the same, but each component may
        use every feature of the combined support.
    shared_support : bool, default False
        True to put all components of ``method="polished"`` on the same r columns, chosen by exchange.
    include : str, int, sequence or mask, optional
        Features that every component may use beside its r: of a panel that is measured anyway. Names, patterns such as
        ``"MT-*"``, numbers, a mask (d,) of booleans, or a file of names, one a line, that ends in ``.txt``.
    exclude : str, int, sequence or mask, optional
        Features that are never chosen, given in the same way. They still count in the loss, which the other features
        have to explain. Both rules need ``method="polished"``, or ``"batch"`` with ``selection="greedy"`` or
        ``"exchange"``. With them no theorem bounds the loss, so ``bound`` is None.
    costs : mapping, array-like or str, optional
        Cost of each feature, a positive number: by name or number, of all in order, or a ``.csv`` file of names and
        costs. Names that the data lack are passed over. Included features are paid already.
    budget : float, optional
        The most that the features of all components together may cost. Like ``n_features``, it sets a panel, and needs
        no other size.
    groups : mapping, array-like or str, optional
        Group of each feature, a name, given in the same way. Features that are not named are in none.
    at_most, at_least : int or mapping, optional
        The most, and the fewest, features of a group in a panel, included ones among them. One number for all groups,
        or one for each by name. Constant features are never chosen, and a group may have fewer for it.
    positions : mapping, array-like or str, optional
        Position of each feature: a number such as a wavelength, or several, given as costs are. An array has a row for
        each feature.
    min_distance : float, optional
        Smallest distance between two features of a panel. Included ones may be nearer to each other.
    search_tol : float, default 0.001
        Excess over PCA's loss, in units of PCA's loss, at which the search of ``method="polished"`` stops. No choice of
        features can lose less than PCA, so no more than this is left to gain then. The search also stops when a round
        gains less than 2 % of what is left. It counts rounds, never time, so a fit can be repeated.
    effort : int, default 1
        Effort of that search. 0 stops after the first climb. 2 and 3 make more rounds, each with more kicks of supports
        and more rebuilt components.
    n_rows : int, optional
        Number of rows of the doubly sparse encoder; by default four a component, and as many more as a target needs.
    n_repeats : int, default 1
        Number of independent repeats of a random selection; the repeat of least loss is kept. It works with
        ``selection="adaptive"`` or ``"adaptive-paper"``, and with ``strategy="paper"``. There each repeat has its own
        projection, and all share the passes. The bound in expectation then holds, with twice its excess, with
        probability ``1 - 2^-n_repeats``.
    power_iterations : int, default 0
        Number of extra passes that sharpen the projection of ``strategy="paper"``.
    oversampling : int, optional
        Number of rows beyond k of the sketch from which ``strategy="paper"`` finds V_k; at least 2. In expectation, V_k
        loses ``1 + k/(oversampling - 1)`` times what PCA loses. By default ``6k + 1``, hence ``1 + 1/6``, which the
        paper's split needs.
    split : {"best", "paper", "dual-set"}, default "best"
        Number of the r columns that dual-set chooses in ``strategy="paper"`` before the others are sampled. ``"best"``
        takes the number with the smallest bound, ``"paper"`` the paper's 5k, for ``r > 5k``, and ``"dual-set"`` all of
        them.
    projection : {"randomized", "frequent-directions"}, default "randomized"
        Method that finds V_k in ``strategy="paper"``. ``"randomized"`` uses a random sketch. ``"frequent-directions"``
        uses a deterministic sketch of at least ``k + oversampling`` rows. It is within ``1 + k/(oversampling + 1)`` of
        PCA for certain, and makes one pass less. Columns that are scaled have a larger factor. With
        ``split="dual-set"`` nothing is random: it is the paper's deterministic algorithm, at any size.
    certified : bool, default False
        True to report a certified lower bound on PCA's loss in place of an estimate, by Frequent Directions, with
        ``strategy="sketch"`` or ``"stream"``.
    n_candidates, sketch_rows : int, optional
        Number of candidate columns, and number of rows of the sketch. ``strategy="sketch"`` refits on all candidates
        exactly. Its defaults are four times all nonzeros, and twenty times the nonzeros of one component, but at least
        200. ``strategy="stream"`` searches the candidates. Its defaults are eight times all nonzeros and at least 256,
        and four times the components and at least 128. More rows of Frequent Directions give narrower certified
        intervals.
    tolerance : float, optional
        Largest excess, in units of PCA's loss, of the encoder of a sample over an encoder fitted on all rows. The fit
        then reads no more row blocks than this takes. ``strategy="auto"`` takes ``"sample"``, whose default is 0.01.
        The fit visits blocks in random order. After 1 %, 2 %, 4 %, ... of the blocks it fits the encoder on them. The
        next blocks then measure the encoder's ratio to PCA's loss on all rows, as a 95 % interval over blocks. The
        interval assumes that all blocks are alike. The fit may stop once it has measured 5 % of the blocks, and 44 of
        them. It stops if the upper end of the interval is at most ``tolerance`` above 1. It also stops if that end is
        at most ``tolerance`` above an optimistic ratio: the one that the encoder fitted on all rows seen so far reaches
        on them. The certificate is an estimate then, and ``evaluate`` makes it exact in one pass. If the fit never
        stops early, it reads each block once and its answer is exact. A dask array whose blocks depend on all rows,
        such as ``x - x.mean(axis=0)``, is computed anew in every round: persist it.
    keep_state : bool, default False
        True to keep the state of the pass, to which ``update`` adds the rows of other data. Old rows are not read again
        then. The state is stored with the encoder. ``strategy`` must be ``"gram"``, ``"tsqr"``, ``"stream"`` or
        ``"auto"``, which takes one of the first two. Nothing may depend on all rows at once: no means for gaps, no
        ``n_top_features``, no covariates, and no median in the recipe.
    random_state : int, Generator, RandomState or None, default 0
        Seed of randomized selections and of the order of blocks. None stands for 0, so that a fit can always be
        repeated.
    memory_limit : int or str, optional
        Memory limit of a process, in bytes or as text such as ``"2GB"``; by default the workers' limits, or this
        machine's memory. A fit that would need more is refused before it reads.
    checkpoint : str or Path, optional
        Folder that all workers see, or URL of an object store, in which ``fit`` stores the states of its passes. After
        a kill, a fit with the same data and parameters reads only what is missing, and gives the same bits. States of
        other data or parameters are refused. The states stay until they are removed (``spae checkpoint rm``). A
        finished fit that is called again reads only the sample of rows that identifies the data. A ``CheckpointAt``
        also names the part of an array job that this process does.
    progress : callable, optional
        Function that receives the engine's events (:mod:`spae_dask.passes.events`): of passes, and of the search for
        supports.

    Attributes
    ----------
    components_ : ndarray (k, d)
        H transposed: unit rows with at most r nonzeros each. The entry of largest magnitude of a row is positive. Rows
        are zero if the data have rank below k.
    decoder_ : ndarray (k, d)
        G, the optimal decoder.
    mean_, scale_ : ndarray (d,)
        Mean and scale of each column. The code of x is ``(x - mean_) / scale_ @ components_.T``. With covariates the
        scales are those of the residuals, and x is less what they explain.
    selected_features_ : ndarray of int
        Features that any component uses, ascending.
    explained_variance_ratio_ : ndarray (k,)
        Share of the total variance that each component explains beyond those before it. The sum is ``1 - loss /
        total``.
    singular_values_ : ndarray
        All singular values of X, centered and scaled. They give PCA's loss for any k.
    constant_features_ : ndarray of int
        Features without variance.
    fill_ : ndarray (d,) or None
        Values that replace NaN entries, one a column; None if NaN is refused.
    target_sum_ : float
        Target of the rows. Only with ``normalize_total(median)``.
    top_features_ : ndarray of int
        Columns of the data that the fit used, ascending. Only with ``n_top_features``. All other attributes number
        these columns.
    covariates_ : object
        Part of the data that covariates explain, which is removed from rows: ``names``, ``levels``, ``mean`` (p,) and
        ``coefficients`` (p, d) of their columns, one for each level or number. Only with ``covariates``.
    selection_frequency_ : ndarray (d,)
        Share of the encoders of all folds but one that use each feature. Only with ``folds``.
    bootstrap_frequency_ : ndarray (d,)
        Share of the encoders of resampled folds that use each feature. Only with ``bootstraps``.
    selected_rows_ : ndarray of int64
        Rows that the decoder is made of. Only with ``method="doubly-sparse"``.
    certificate_ : Certificate
        Loss against PCA's loss, and the kind of knowledge it rests on.
    plan_ : Plan
        Plan of the fit: the passes it was expected to make, and the memory and time it was expected to need. Missing
        after ``partial_fit``.
    measured_ : Measured
        Measured time and memory of the fit. Missing after ``partial_fit``, and for loaded encoders.
    n_components_, n_features_in_, n_samples_seen_ : int
        Number of components k, of columns d, and of rows n.
    seed_ : int
        Seed of the fit: ``random_state``, or a number drawn from it.
    feature_names_in_ : ndarray of str
        Names of the columns. Only if the data had names.

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
        n_components: int | float | str = 2,
        *,
        n_nonzero: int | str | Sequence[int] | None = None,
        n_features: int | None = None,
        eps: float | None = None,
        keep: float | None = None,
        method: str = "polished",
        selection: str = "dual-set",
        center: bool = True,
        scale: ScaleLike = False,
        strategy: str = "auto",
        precision: str = "exact",
        missing: str = "error",
        missing_value: MissingValue = None,
        recipe: RecipeLike = None,
        n_top_features: int | None = None,
        top_features_flavor: str = "variance",
        top_features_batch: Any = None,
        covariates: Any = None,
        folds: int | None = None,
        bootstraps: int = 0,
        fold_groups: Any = None,
        row_weights: Any = None,
        orthonormal: bool = False,
        shared_support: bool = False,
        include: FeaturesLike = None,
        exclude: FeaturesLike = None,
        costs: ValuesLike = None,
        budget: float | None = None,
        groups: ValuesLike = None,
        at_most: LimitsLike | None = None,
        at_least: LimitsLike | None = None,
        positions: ValuesLike = None,
        min_distance: float | None = None,
        search_tol: float = 0.001,
        effort: int = 1,
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
        keep_state: bool = False,
        random_state: Any = 0,
        memory_limit: int | str | None = None,
        checkpoint: str | Path | CheckpointAt | None = None,
        progress: Callable[[Event], None] | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero = n_nonzero
        self.n_features = n_features
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
        self.recipe = recipe
        self.n_top_features = n_top_features
        self.top_features_flavor = top_features_flavor
        self.top_features_batch = top_features_batch
        self.covariates = covariates
        self.folds = folds
        self.bootstraps = bootstraps
        self.fold_groups = fold_groups
        self.row_weights = row_weights
        self.orthonormal = orthonormal
        self.shared_support = shared_support
        self.include = include
        self.exclude = exclude
        self.costs = costs
        self.budget = budget
        self.groups = groups
        self.at_most = at_most
        self.at_least = at_least
        self.positions = positions
        self.min_distance = min_distance
        self.search_tol = search_tol
        self.effort = effort
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
        self.keep_state = keep_state
        self.random_state = random_state
        self.memory_limit = memory_limit
        self.checkpoint = checkpoint
        self.progress = progress

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "SparseEncoder":  # noqa: ARG002
        """Choose columns, and build and certify the encoder.

        The data are read in the passes of the strategy. ``plan`` shows them beforehand.

        Parameters
        ----------
        X : object
            Matrix (n, d): anything that :func:`spae_dask.open_matrix` opens.
        y : None
            Ignored.
        sample_weight : str or array-like (n,), optional
            Weights of the rows, as the parameter ``row_weights`` gives them. Only one of the two can be given.

        Returns
        -------
        SparseEncoder
            This encoder, fitted.

        Raises
        ------
        InvalidInput
            If the data or a parameter cannot be used.
        MemoryBudgetExceeded
            If the plan does not fit in memory. Nothing is read then.
        StorageError
            If a chunk cannot be read.
        PassFailed
            If a pass cannot be finished.
        ClusterUnavailable
            If the cluster of the active client does not answer, or has no workers in time.
        """
        if sample_weight is not None and self.row_weights is not None:
            raise InvalidInput("row_weights and sample_weight both give weights of the rows. Leave out one of them.")
        params = self._params()
        if sample_weight is not None:
            params = replace(params, row_weights=sample_weight)
        opened = open_without(X, columns_beside(*(getattr(params, name) for name in OF_ROWS)))
        params, covariates = resolved(with_row_weights(params, X, opened), X, opened)
        source = prepared(opened, self.missing_value, self.recipe)
        params = with_folds(with_rules(with_batches(params, X, opened), source), X, opened)
        made = fit(source, params, self.memory_limit, self.progress, checkpoint_at(self.checkpoint))
        self.plan_, self.measured_, self.seed_ = made.plan, made.measured, params.seed
        self._store(made.fitted, made.rules, made.summary)
        self._features = (getattr(source, "feature_names", None), source.shape[1])
        self._stream = self._kept = None
        if made.online is not None:
            nbytes, dtype = made.fitted.certificate.bytes_read, made.source.dtype
            self._stream = RowStream(made.plan.strategy, made.online, params.seed, nbytes, dtype)
        optional = {"target_sum_": made.target, "selected_rows_": made.rows, "top_features_": made.columns}
        for name, found in optional.items():  # of an earlier fit too
            self.__dict__.pop(name, None)
            if found is not None:
                setattr(self, name, found)
        store_names(self, X, made.source)
        if made.fitted.explained is not None:
            names = getattr(self, "feature_names_in_", ())
            self.covariates_ = removed(covariates, params.covariates, made.fitted.explained, names)
        return self

    def update(self, X: Any, *, forget: float = 1.0) -> "SparseEncoder":
        """Add rows to those of the fit, and build and certify the encoder of all of them. Only the new rows are read.

        The encoder must keep a state of its rows: of ``fit`` with ``keep_state=True``, also after it was saved and
        loaded, or of ``partial_fit``. With ``forget=1`` the result is that of ``fit`` on all rows. Where all sums are
        exact integers it has the same bits, else it is equal to rounding. Where the rounding of the state leaves the
        loss uncertain, ``fit`` reads the rows once more. An update cannot, and its certificate states the uncertainty.

        Parameters
        ----------
        X : object
            New rows (m, d): anything that :func:`spae_dask.open_matrix` opens, with the columns of the fit.
        forget : float, default 1.0
            Weight of the old rows, above 0 and at most 1. With 0.9, the old rows count as 0.9 times as many, rounded to
            a whole number. Sums are no exact integers then.

        Returns
        -------
        SparseEncoder
            This encoder. It has no ``plan_`` and no ``measured_``; ``provenance_`` lists all data.

        Raises
        ------
        InvalidInput
            If the encoder keeps no state, or the data or ``forget`` cannot be used. The encoder stays as it was, after
            any error.
        MemoryBudgetExceeded
            If the update does not fit in memory. Nothing is read then.
        StorageError, PassFailed, ClusterUnavailable
            As for ``fit``.
        """
        update(self, X, forget)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def _params(self) -> FitParameters:
        drawn = {"random_state": seed_of(self.random_state), "scale": scale_given(self.scale)}
        return FitParameters.of(vars(self) | drawn)

    def _params_made(self) -> FitParameters:
        """The parameters of more encoders on the same core, with the size of this one where the data chose it."""
        params = replace(self._params(), folds=None, bootstraps=0, fold_groups=None)
        if is_chosen(params.n_components) or params.pca_share is not None:
            params = replace(params, n_components=self.n_components_)
        if is_chosen(params.n_nonzero):
            params = replace(params, n_nonzero=self.certificate_.n_nonzero)
        return params

    def _fitted_params(self) -> FitParameters:
        """The same, with features of the rules by their numbers among the columns of the encoder."""
        return self._numbered(self._params_made())

    def _numbered(self, params: FitParameters) -> FitParameters:
        params = with_positions(params, fitted_grid(self)).resolved(
            *getattr(self, "_features", (None, self.n_features_in_))
        )
        columns = getattr(self, "top_features_", None)
        return params if columns is None else params.with_rules(params.rules.on(columns.tolist()))

    def _store(self, fitted: FittedEncoder, rules: Rules, summary: Summary | None) -> None:
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
        self.n_samples_seen_ = int(fitted.n_samples)
        self.n_features_in_ = fitted.H.shape[0]
        for name in ("_curve", "covariates_", *FREQUENCIES):  # of an earlier fit
            self.__dict__.pop(name, None)
        for name, found in frequencies_of(fitted.certificate.held_out, self.n_features_in_).items():
            setattr(self, name, found)
        self.__dict__.pop("_facts", None)
        self._summary, self._rules = summary, rules

    @cached_property
    def _facts(self) -> FeatureFacts:
        """Facts about the chosen features, found when they are first asked for; of hundreds they take a second."""
        with one_blas_thread():
            return FeatureFacts.of(self._rules, self.selected_features_, self.n_components_, self._summary)

    def sparsity_path(self, n_components: Sequence[int], n_nonzero: Sequence[int]) -> SparsityPath:
        """Compute loss, symmetric variance and features used for every k and r, by this encoder's method.

        No data are read: the method uses the core of the last ``fit``. The core is kept in this process only, not in
        pickles or saved encoders. After a fit with ``folds`` each k and r is measured on rows held out as well.

        Parameters
        ----------
        n_components, n_nonzero : sequence of int
            All values of k, and all values of r.

        Returns
        -------
        SparsityPath
            Table of the results. It prints as a table, and ``pandas.DataFrame(path.records())`` makes a frame.

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
                "this encoder has no core of the data to compute a path from. It was loaded, unpickled, fitted "
                "with strategy='paper', or fitted on a sample. Call fit(x) first, or run `spae path DATA -k ... "
                "-r ...`."
            )
        with one_blas_thread():
            report = search_report(self.progress or ignore)
            return sparsity_path(self._fitted_params(), summary, n_components, n_nonzero, report=report)

    def prove(self, *, node_limit: int | None = NODES, time_limit: float | None = None) -> Proof:
        """Prove that no set of as many features loses less, or bound what any such set could gain.

        All components must share their features, as those of a panel do. No data are read: the branch and bound works
        on the core of the last ``fit``. A limit may end it early. The bound is true all the same, and lies between
        PCA's loss and that of the best set. A feature counts as dependent on others if less than 1e-7 of its length is
        its own.

        Parameters
        ----------
        node_limit : int or None, default 5000
            Most nodes to look into. The result is the same on any machine of one kind. No limit if None.
        time_limit : float, optional
            Seconds after which no more nodes are looked into. The bound then depends on the speed of the machine.

        Returns
        -------
        Proof
            The best set known, its loss, and a bound that no set of as many features falls below. It prints as a table.

        Raises
        ------
        InvalidInput
            If components have features of their own, if there are rules besides ``include`` and ``exclude``, or more
            than 2,000 features, or no core of all rows and columns (loaded or unpickled encoders, a sketch, a sample).

        References
        ----------
        Arai, H., Maung, C. and Schweitzer, H. (2015). Optimal column subset selection by A-star search. AAAI.

        Examples
        --------
        >>> import numpy as np
        >>> from spae_dask import SparseEncoder
        >>> x = np.random.default_rng(0).normal(size=(200, 10)) * np.arange(1, 11)
        >>> SparseEncoder(n_components=2, n_features=4).fit(x).prove().is_best
        True
        """
        return proof_of(self, node_limit, time_limit)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the core, which is as large as d x d. A stream is kept, so that it can resume."""
        if "_rules" in self.__dict__:
            _ = self._facts  # they need the core
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_summary", "_features", "_rules")}
