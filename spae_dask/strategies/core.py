"""Strategies ``gram`` and ``tsqr``: one read makes a core, and the encoder is fitted on it.

The core is a small matrix L with ``L'L = X'X``: of a Gram matrix, or a triangular factor. Every loss on it is exact.
"""

import functools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from spae_dask.blocks import RowBlocks, stored_entries
from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.design import Design
from spae_dask.passes.accumulators import (
    Accumulator,
    Beside,
    CenteredTriangle,
    ColumnMoments,
    Folded,
    FoldStates,
    Gram,
    Imputed,
    IntegerGram,
    Moments,
    NonFinite,
    Scatter,
    Together,
    Triangular,
    WholeRows,
    all_weighted,
    integer_gram,
    weighing,
)
from spae_dask.passes.accumulators.base import RunPass, has_exact_sums
from spae_dask.passes.accumulators.nonfinite import refuse_infinite, refuse_non_finite
from spae_dask.passes.accumulators.together import joined, part_of
from spae_dask.passes.online import OnlinePass
from spae_dask.passes.plan import Finish
from spae_dask.strategies.base import (
    Outcome,
    Passes,
    Reader,
    Reports,
    Shape,
    Strategy,
    core_finish,
    holds_integers,
    refuse_fast,
    share_of_search,
)
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.core_summary import CoreSummary, Floats, summarize
from spae_dask.strategies.doubly_sparse import choose_rows, rows_recipe
from spae_dask.strategies.folds import FoldedCore, FoldPlan, chosen_components, encode_with_folds
from spae_dask.strategies.methods import Report
from spae_dask.strategies.parameters import FitParameters, ScaleLike
from spae_dask.strategies.residual_core import residual_of
from spae_dask.strategies.sparse_encoder import FittedEncoder, encode_core, measured_if_fragile, with_components

KEPT_MATRICES = 2
"""d x d matrices more with ``keep_state``: the state that is kept, and in an update that of before."""

NARROW = 1000
"""Columns up to which a d x d matrix costs too little to do without, however few the rows."""


def choose_core(
    dtype: np.dtype[Any], precision: str = "exact", *, sparse: bool = False, few_rows: bool = False
) -> tuple[str, str]:
    """Choose the core of one read, and say why.

    A float64 Gram matrix loses nothing that float32, half or small integer data still held; float64 data may hold
    more, which a triangular factor keeps. Of sparse rows a Gram matrix takes the stored entries alone, where a
    triangular factor must see each zero: hundreds of times the work for digits that counts and their logarithms, which
    is what sparse rows mostly hold, do not have. Few rows are a core themselves, see `are_few`.

    Returns
    -------
    str
        ``"gram"`` or ``"tsqr"``.
    str
        The reason.
    """
    if precision == "fast":
        return "gram", "products in float32, as requested, summed in float64"
    if few_rows:
        return "tsqr", "fewer rows than columns: the rows themselves serve as the core"
    if sparse:
        return "gram", "a Gram matrix uses sparse rows as they are; a QR would also process each of their zeros"
    if dtype.kind == "f" and dtype.itemsize >= 8:
        return "tsqr", "float64 data may hold directions that a Gram matrix would round away"
    if dtype.kind in "iu" and dtype.itemsize >= 8:
        return "tsqr", "64-bit integers may hold directions that a Gram matrix would round away"
    return "gram", f"a Gram matrix keeps all digits of {dtype} data, at half the work of a QR"


def core_for(source: RowBlocks, precision: str = "exact", *, few_rows: bool = False) -> tuple[str, str]:
    """Choose the core of a source, as :func:`choose_core` does."""
    return choose_core(source.dtype, precision, sparse=stored_entries(source) is not None, few_rows=few_rows)


def dense_type(source: RowBlocks) -> np.dtype[Any] | None:
    """Type of the entries of dense rows; None if rows are sparse."""
    return source.dtype if stored_entries(source) is None else None


def are_few(n_rows: int | None, n_features: int) -> bool:
    """True if the rows are a smaller core than any that is made of them, and there are columns enough to matter."""
    return n_rows is not None and n_rows < n_features > NARROW


def core_passes(
    strategy: str,
    n_features: int,
    missing: str,
    precision: str = "exact",
    n_rows: int | None = None,
    dtype: np.dtype[Any] | None = None,
    design: Design | None = None,
    folds: FoldPlan | None = None,
) -> Sequence[tuple[str, Accumulator[Any]]]:
    """Names and recipes of the passes :func:`read_core` makes, for planning; fill values are placeholders."""
    fill = None if missing == "error" else np.zeros(n_features)
    last = ("core", _core_recipe(strategy, n_features, fill, precision, n_rows, dtype, design, folds))
    return [("column means", means_recipe(n_features)), last] if missing == "mean" else [last]


def read_core(
    run_pass: RunPass,
    n_features: int,
    *,
    strategy: str,
    center: bool,
    scale: ScaleLike,
    missing: str,
    precision: str = "exact",
    integers: bool = False,
    n_rows: int | None = None,
    dtype: np.dtype[Any] | None = None,
    design: Design | None = None,
    folds: FoldPlan | None = None,
) -> CoreSummary:
    """Summarise the data into a core.

    Passes: 1; 2 with ``missing="mean"``, since the column means must be known before gaps are filled with them.

    Parameters
    ----------
    run_pass : callable
        Reads the data.
    n_features : int
        d.
    strategy : {"gram", "tsqr"}
        Gram matrix or triangular factor; for "tsqr" the rows themselves, if they are few.
    center : bool
        True to center columns.
    scale : bool, str or sequence of float
        Divisors of the columns, see :func:`~spae_dask.strategies.core_summary.divisors`.
    missing : {"error", "mean", "zero"}
        Treatment of NaN entries: refuse them, or fill them with the column's mean or with zero.
    precision : {"exact", "fast"}
        Arithmetic of the products in a Gram matrix: float64 or float32.
    integers : bool
        True if all entries are integers, see :func:`summarize`.
    n_rows : int or None
        n, if it is known before the pass.
    dtype : numpy.dtype or None
        Type of the entries, if rows are dense.
    design : Design or None
        Covariates, of what they leave of the data the core is.
    folds : FoldPlan or None
        Folds of the rows, of each of which the pass keeps a summary as well.

    Raises
    ------
    NonFiniteInput
        If there are NaN entries and ``missing="error"``, or infinite entries.
    InvalidInput
        If squares of the entries overflow.
    """
    fill = missing_fill(run_pass, n_features, missing)
    found = run_pass(_core_recipe(strategy, n_features, fill, precision, n_rows, dtype, design, folds), "core")
    refuse_non_finite(found["nonfinite"])
    q = None if design is None else design.width
    summarized = functools.partial(
        _summarized, center=center, scale=scale, integers=integers, fill=fill, n_covariates=q
    )
    if folds is None:
        return summarized(found.pop("core"))
    states: FoldStates = found.pop("core")
    return replace(summarized(states.whole()), folded=FoldedCore(states, folds, summarized, n_features, q or 0))


def _summarized(
    found: Scatter | CenteredTriangle,
    *,
    center: bool,
    scale: ScaleLike,
    integers: bool,
    fill: Floats | None,
    n_covariates: int | None,
) -> CoreSummary:
    """Summary of rows, or of what covariates that stand before them leave of them."""
    if n_covariates is None:
        return replace(summarize(found, center=center, scale=scale, integers=integers), fill=fill)
    residual, explained = residual_of(found, n_covariates)
    # of integers the residuals are none
    return replace(summarize(residual, center=center, scale=scale), fill=fill, explained=explained)


def missing_fill(run_pass: RunPass, n_features: int, missing: str) -> Floats | None:
    """Values for NaN entries, one a column; None refuses them. One pass with ``missing="mean"``, else none."""
    if missing == "mean":
        found = run_pass(means_recipe(n_features), "column means")
        moments: ColumnMoments = found["moments"]
        refuse_infinite(found["nonfinite"])
        return moments.mean
    return np.zeros(n_features) if missing == "zero" else None


def means_recipe(n_features: int) -> Accumulator[Any]:
    """Recipe of the extra pass of ``missing="mean"``."""
    return Together({"nonfinite": NonFinite(n_features), "moments": Moments(n_features)})


def core_recipe(strategy: str, n_features: int, precision: str = "exact") -> Gram | IntegerGram | Triangular:
    """Recipe of the core alone, of rows of any type."""
    return CORES[strategy].recipe(n_features, precision)


def core_named(strategy: str, n_features: int) -> Accumulator[Any] | None:
    """Recipe of the core that a strategy makes; None if it makes no core."""
    return core_recipe(strategy, n_features) if strategy in CORES else None


def _core_recipe(
    strategy: str,
    n_features: int,
    fill: Floats | None,
    precision: str,
    n_rows: int | None,
    dtype: np.dtype[Any] | None,
    design: Design | None = None,
    folds: FoldPlan | None = None,
) -> Accumulator[Any]:
    beside = 0 if design is None else design.width
    # beside covariates no entries are integers
    core: Accumulator[Any] = CORES[strategy].recipe(
        beside + n_features, precision, n_rows, dtype if design is None else None
    )
    if isinstance(core, Triangular) and n_rows is not None and are_few(n_rows, n_features):
        core = WholeRows(beside + n_features, n_rows)
    if folds is not None:
        core = Folded(core, folds.rows, beside + n_features)
    if design is not None:
        core = Beside(core, design, n_features)
    recipe = Together({"nonfinite": NonFinite(n_features), "core": core})
    return recipe if fill is None else Imputed(recipe, fill)


def filled(recipe: Accumulator[Any], params: FitParameters, n_features: int) -> Accumulator[Any]:
    """A recipe for rows whose gaps are filled, on rows whose gaps it fills with zeros if the fit does."""
    if params.missing == "error" or isinstance(recipe, Imputed):
        return recipe
    return Imputed(recipe, np.zeros(n_features))


class _CoreStrategy(Strategy):
    """One read into a core; the doubly sparse method reads the rows of its candidates once more."""

    core: ClassVar[str]
    takes_batches = True

    @abstractmethod
    def recipe(
        self, n_features: int, precision: str, n_rows: int | None = None, dtype: np.dtype[Any] | None = None
    ) -> Gram | IntegerGram | Triangular:
        """Recipe of the core alone; of so many dense rows of a type, if they are known."""

    def cannot(self, params: FitParameters) -> str | None:  # noqa: ARG002 - a core can do anything
        return None

    def passes(self, params: FitParameters, source: RowBlocks) -> Passes:
        n, d = source.shape
        dtype, design = dense_type(source), params.covariates
        if params.keep_state:
            return [("core", self._kept_recipe(params, source))]
        folds = params.fold_groups
        passes = list(core_passes(self.core, d, params.missing, params.precision, n, dtype, design, folds))
        if params.method == "doubly-sparse":
            size = d if params.sizes is None else params.shared_size
            placeholder, columns = np.zeros(d), np.arange(size)
            T, fill = np.zeros((size, params.n_components)), None if params.missing == "error" else placeholder
            passes.append(("rows", rows_recipe(params, columns, T, placeholder, placeholder, fill)))
        return all_weighted(passes, params.row_weights)

    def finish(self, params: FitParameters, shape: Shape) -> Finish:
        d = shape[1]
        finish = self._with_folds(params, core_finish(params, d, d), shape)
        return replace(finish, nbytes=finish.nbytes + KEPT_MATRICES * 8 * d * d) if params.keep_state else finish

    def _with_folds(self, params: FitParameters, alone: Finish, shape: Shape) -> Finish:
        """In-memory solve with one more for each fold. The states, a merged one and two cores are held meanwhile."""
        if params.fold_groups is None:
            return alone
        plan: FoldPlan = params.fold_groups
        (n, d), design = shape, params.covariates
        held = _core_recipe(self.core, d, None, params.precision, n, None, design, plan).state_nbytes
        k = plan.rows.n_folds
        seconds = alone.seconds * (1 + k + share_of_search(params) * params.bootstraps) + k * plan.seconds(params, d)
        return Finish(alone.nbytes + held + 3 * held // k, seconds)

    def fit(self, params: FitParameters, reader: Reader, source: RowBlocks, reports: Reports) -> Outcome:
        n, d = source.shape
        integers, run_pass = holds_integers(source), weighing(reader.run_pass, params.row_weights)
        if params.keep_state:
            recipe = self.batch_recipe(params, d, n, dense_type(source))
            online = OnlinePass(recipe, reader.run_state(self._kept_recipe(params, source), "core"), n)
            found = self.fit_batches(params, online, d, reports.search, integers=integers)
            fitted = measured_if_fragile(found.fitted, run_pass)
            return replace(found, fitted=fitted, online=online)
        found = self._fit(
            params,
            run_pass,
            d,
            integers=integers,
            n_rows=n,
            dtype=dense_type(source),
            report=reports.search,
        )
        if params.method == "doubly-sparse":
            chosen = choose_rows(params, found.summary, run_pass, found.fitted)
            return replace(found, fitted=chosen.fitted, rows=chosen.rows)
        return replace(found, fitted=measured_if_fragile(found.fitted, run_pass, params.covariates))

    def batch_recipe(
        self, params: FitParameters, n_features: int, n_rows: int | None = None, dtype: np.dtype[Any] | None = None
    ) -> Accumulator[Any]:
        core = self.recipe(n_features, params.precision, n_rows, dtype)
        return Together({"nonfinite": NonFinite(n_features), "core": core})

    def _kept_recipe(self, params: FitParameters, source: RowBlocks) -> Accumulator[Any]:
        """Recipe of a state to which rows are added: never of the rows themselves, however few they are."""
        n, d = source.shape
        return filled(self.batch_recipe(params, d, n, dense_type(source)), params, d)

    def begin_update(
        self,
        params: FitParameters,
        online: OnlinePass,
        n_features: int,
        n_more: int,
        dtype: np.dtype[Any] | None,
        forget: float,
    ) -> tuple[OnlinePass, float]:
        recipe = online.recipe
        assert isinstance(recipe, Together)
        core, d, n = recipe.parts["core"], n_features, online.n_rows + n_more
        ends = isinstance(core, IntegerGram) and core != self.recipe(d, params.precision, n, dtype)
        if forget == 1.0 and not ends:
            return online, 1.0
        state = online.state
        kept, now, share = part_of(state, "core"), self.recipe(d, params.precision), 1.0
        if isinstance(core, IntegerGram):
            kept = core.in_floats(kept)
        if forget != 1.0:
            assert not isinstance(now, IntegerGram)
            before = int(kept["count"])
            count = round(forget * before)
            if count == 0:
                raise InvalidInput(
                    f"forget={forget:g} leaves no weight to the {before:,} old rows, which are counted as a whole "
                    "number of rows. Give a larger number, or fit again on the new rows."
                )
            kept, share = now.weighted(kept, count), count / before
        state = joined({name: part_of(state, name) for name in recipe.parts} | {"core": kept})
        return OnlinePass(Together({**recipe.parts, "core": now}), state, online.n_rows), share

    def fit_batches(
        self,
        params: FitParameters,
        online: OnlinePass,
        n_features: int,
        report: Report | None,
        *,
        integers: bool = False,
    ) -> Outcome:
        return self._fit(params, online.run_pass, n_features, integers=integers, report=report)

    def _fit(
        self,
        params: FitParameters,
        run_pass: RunPass,
        n_features: int,
        *,
        integers: bool = False,
        n_rows: int | None = None,
        dtype: np.dtype[Any] | None = None,
        report: Report | None = None,
    ) -> Outcome:
        summary = read_core(
            run_pass,
            n_features,
            strategy=self.core,
            center=params.center,
            scale=params.scale,
            missing=params.missing,
            precision=params.precision,
            integers=integers,
            n_rows=n_rows,
            dtype=dtype,
            design=params.covariates,
            folds=params.fold_groups,
        )
        share, params = params.pca_share, with_components(params, summary)

        def encode(point: FitParameters, effort: float | None = None) -> FittedEncoder:
            return encode_core(point, summary, passes=0, bytes_read=0, effort=effort, report=report)

        if summary.folded is None:
            fitted = encode(params)
        else:
            params, components = chosen_components(params, summary.folded.plan, summary.folded.components)
            fitted = encode_with_folds(params, summary.folded, encode, components, report)
        return Outcome(replace(fitted, certificate=replace(fitted.certificate, pca_share=share)), summary)


class GramStrategy(_CoreStrategy):
    """One read into a Gram matrix: of small integers by exact sums, else by sums in float64."""

    name: ClassVar[str] = "gram"
    core: ClassVar[str] = "gram"
    pca_loss: ClassVar[str] = "exact"

    def recipe(
        self, n_features: int, precision: str, n_rows: int | None = None, dtype: np.dtype[Any] | None = None
    ) -> Gram | IntegerGram:
        fast = precision == "fast"
        exact = None if n_rows is None or dtype is None else integer_gram(n_features, dtype, n_rows)
        return Gram(n_features, single=fast) if exact is None or (fast and not exact.single) else exact

    def notes(self, params: FitParameters, source: RowBlocks) -> list[str]:
        n, d = source.shape
        plain = params.covariates is None and params.row_weights is None
        exact = plain and has_exact_sums(self.recipe(d, params.precision, n, dense_type(source)))
        if not exact:
            return []
        return [f"sums of {source.dtype} entries are exact integers, with the same bits on machines of any kind"]

    def lacks_digits(self, found: Certificate, precision: str) -> bool:
        if precision == "fast":
            return super().lacks_digits(found, precision)
        return 0.0 < found.loss < 1e3 * found.loss_error

    def rounding_cause(self, found: Certificate, precision: str) -> str:
        if precision == "fast" or found.left_out > found.loss_error / 2:
            return super().rounding_cause(found, precision)
        return "a Gram matrix rounds small directions away. Use strategy='tsqr' for more digits."


class TsqrStrategy(_CoreStrategy):
    """One read into a triangular factor, or of few rows into those rows themselves."""

    name: ClassVar[str] = "tsqr"
    core: ClassVar[str] = "tsqr"
    pca_loss: ClassVar[str] = "exact, to the most digits"

    def recipe(
        self,
        n_features: int,
        precision: str,  # noqa: ARG002 - it has one precision
        n_rows: int | None = None,  # noqa: ARG002 - one recipe for any rows
        dtype: np.dtype[Any] | None = None,  # noqa: ARG002 - and any type
    ) -> Triangular:
        return Triangular(n_features)

    def cannot(self, params: FitParameters) -> str | None:
        return refuse_fast(params)

    def finish(self, params: FitParameters, shape: Shape) -> Finish:
        n, d = shape
        if are_few(n, d) and not params.keep_state:
            return self._with_folds(params, core_finish(params, n, d), shape)
        return super().finish(params, shape)


CORES: dict[str, _CoreStrategy] = {each.name: each for each in (GramStrategy(), TsqrStrategy())}
"""The strategies that make a core."""
