"""Held-out folds from one read: encoders of all folds but one, and what they lose on the fold left out.

One pass keeps a summary for each fold. The summaries of all other folds merge into one that an encoder (H, G, mean,
scale) is made on. The fold left out has its own core L about that mean and in that scale, ``L'L = T``, so that the loss
there is ``||L - L H G||^2 = tr((I - H G)' T (I - H G))``. No row is read again. PCA of the other folds is measured on
the same fold, so that the ratio compares two methods that have not seen it. To check a loss: split the rows, and sum
the squares of ``x - mean - (x - mean) H G`` over those held out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.design import COLLINEAR
from spae_dask.maths.linalg.spectral import singular_values
from spae_dask.passes.accumulators import CenteredTriangle, FoldStates, RowFolds, Scatter
from spae_dask.strategies.base import UNKNOWN_NONZERO, encoding_seconds, share_of_search
from spae_dask.strategies.bootstraps import bootstrap
from spae_dask.strategies.core_summary import CoreSummary, Floats, summary_about
from spae_dask.strategies.held_out import (
    HeldOut,
    HeldOutComponents,
    HeldOutSize,
    fold_ratios,
    least_within,
    standard_error,
)
from spae_dask.strategies.methods import Encoded, Report
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sizes import HasEncoder, best_known, by_size, pairs, sizes_of
from spae_dask.strategies.sparse_encoder import FittedEncoder, encode_alone, encode_core

Found = Scatter | CenteredTriangle

N_SIZES = 6
"""Sizes about that of an encoder whose held-out loss is measured with it."""

COLUMN_BLOCKS = 5
"""Blocks of columns, each of which is predicted from the others to choose a number of components."""

QUICK = 0.0
"""Effort of the searches for encoders of other sizes."""


@dataclass(frozen=True, eq=False)
class FoldPlan:
    """Folds of the rows of a fit, and the sizes that they choose from.

    Attributes
    ----------
    rows : RowFolds
        Fold of every row.
    described : str
        Description of the folds.
    components, nonzeros : tuple of int
        Numbers to choose from; none if the number is given.
    """

    rows: RowFolds
    described: str
    components: tuple[int, ...] = ()
    nonzeros: tuple[int, ...] = ()

    @property
    def n_rows(self) -> int:
        """n."""
        return self.rows.n_rows

    def seconds(self, params: FitParameters, d: int) -> float:
        """Time of the quick searches on one fold."""
        sizes = self.nonzeros or (UNKNOWN_NONZERO,) * N_SIZES
        made = (encoding_seconds(replace(params, n_nonzero=r), d, d) for r in sizes)
        return share_of_search(params) * sum(made)


@dataclass(frozen=True, eq=False)
class RowsHeldOut:
    """Rows of a fold, and PCA of all others.

    Attributes
    ----------
    core : ndarray (m, d)
        Core of the fold, or a row sketch of it, about the mean of the others and in their scale.
    leading : callable
        Gives the first k right singular vectors (d, k) of the others.
    """

    core: Floats
    leading: Callable[[int], Floats]

    @property
    def total(self) -> float:
        """Sum of squares of the fold."""
        return _squares(self.core)

    def entries_losses(self, ks: Sequence[int]) -> list[float]:
        """Loss on the fold of k components for each k, if each block of columns is predicted from the rest.

        More components always lose less of whole rows, as they see all that they are to predict. Of entries that they
        do not see, components that are noise lose more (Bro et al. 2008; Owen & Perry 2009). With V the components on
        the columns seen and U on the others, codes of rows L are ``L V (V'V)^+``.
        """
        most = self.leading(max(ks))
        losses = [0.0] * len(ks)
        blocks = np.random.default_rng(0).permutation(most.shape[0]) % COLUMN_BLOCKS
        for number in range(COLUMN_BLOCKS):
            out, seen = blocks == number, blocks != number
            V, U, wanted = most[seen], most[out], self.core[:, out]
            onto, predicted, total = self.core[:, seen] @ V, wanted @ U, _squares(wanted)
            seen_gram, out_gram = V.T @ V, U.T @ U
            for place, k in enumerate(ks):
                codes = onto[:, :k] @ np.linalg.pinv(seen_gram[:k, :k], hermitian=True)
                explained = 2.0 * np.vdot(codes, predicted[:, :k]) - np.vdot(codes @ out_gram[:k, :k], codes)
                losses[place] += total - float(explained)
        return losses


class Pair(HasEncoder, Protocol):
    """An encoder (d, k), and its decoder (k, d)."""

    @property
    def G(self) -> Floats:  # noqa: N802 - the paper's name
        """Decoder ``(k, d)``."""
        ...


class Split(Protocol):
    """A fold, and all others."""

    @property
    def total(self) -> float:
        """Sum of squares of the fold, about the mean of the others and in their scale."""
        ...

    def encode(
        self,
        params: FitParameters,
        known: Sequence[Floats] = (),
        *,
        effort: float | None = None,
        report: Report | None = None,
    ) -> Pair:
        """Fit an encoder to the others; the search may start from encoders of no larger size that are known."""
        ...

    def loss(self, pair: Pair) -> float:
        """Loss on the fold of an encoder of the others, with its own decoder."""
        ...

    def pca_loss(self, k: int) -> float:
        """Loss on the fold of PCA of the others."""
        ...


class FoldSummaries(Protocol):
    """Summaries of the folds of all rows, kept by the reads."""

    @property
    def plan(self) -> FoldPlan:
        """The folds."""
        ...

    @property
    def n_features(self) -> int:
        """d."""
        ...

    def splits(self) -> Iterator[Split]:
        """Each fold, and all others. They are made when they are asked for: one is as large as a few states."""
        ...

    def resample(self, params: FitParameters, counts: Sequence[int]) -> FittedEncoder:
        """Fit a quick encoder to a resample that draws each fold so often."""
        ...

    def components(self, ks: Sequence[int]) -> tuple[HeldOutComponents, ...]:
        """Held-out entries that k components of PCA leave unexplained, for every k, ascending."""
        ...


@dataclass(frozen=True, eq=False)
class CoreSplit:
    """A fold, and all others, by their cores.

    Attributes
    ----------
    training : CoreSummary
        Summary of all other folds.
    held_out : ndarray (m, d)
        Core of the fold, about the mean of the others and in their scale.
    """

    training: CoreSummary
    held_out: Floats

    @property
    def total(self) -> float:
        """Sum of squares of the fold."""
        return _squares(self.held_out)

    def encode(
        self,
        params: FitParameters,
        known: Sequence[Floats] = (),
        *,
        effort: float | None = None,
        report: Report | None = None,
    ) -> Encoded:
        """Fit an encoder to the others, from the best of those known."""
        start = best_known(self.training, known)
        return encode_alone(params, self.training, start=start, effort=effort, report=report)

    def loss(self, pair: Pair) -> float:
        """Loss on the fold of an encoder of the others, with its own decoder."""
        return _squares(self.held_out - (self.held_out @ pair.H) @ pair.G)

    def pca_loss(self, k: int) -> float:
        """Loss on the fold of PCA of the others."""
        V = self.training.leading(k)
        return _squares(self.held_out - (self.held_out @ V) @ V.T)


def _squares(rows: Floats) -> float:
    return float(np.vdot(rows, rows))


@dataclass(frozen=True, eq=False)
class FoldedCore:
    """Summaries of the folds of all rows.

    Attributes
    ----------
    states : FoldStates
        States of the folds: of the data, or of covariates and the data.
    plan : FoldPlan
        The folds.
    summarized : callable
        Makes a summary of what a state holds.
    n_features : int
        d, without covariates.
    n_covariates : int
        Columns of covariates that stand before those of the data.
    """

    states: FoldStates
    plan: FoldPlan
    summarized: Callable[[Found], CoreSummary]
    n_features: int
    n_covariates: int = 0

    def splits(self) -> Iterator[CoreSplit]:
        """Each fold, and all others. They are made when they are asked for: one is as large as a few states.

        Raises
        ------
        InvalidInput
            If the other folds do not tell what a covariate explains.
        """
        for fold in range(self.plan.rows.n_folds):
            others = self.states.without(fold)
            self._check_covariates(others, fold)
            training = self.summarized(others)
            yield CoreSplit(training, self._held_out(self.states.only(fold), others, training))

    def components(self, ks: Sequence[int]) -> tuple[HeldOutComponents, ...]:
        """Held-out entries that k components of PCA leave unexplained, for every k, ascending."""
        return measure_components((RowsHeldOut(each.held_out, each.training.leading) for each in self.splits()), ks)

    def resample(self, params: FitParameters, counts: Sequence[int]) -> FittedEncoder:
        """Fit a quick encoder to a resample that draws each fold so often."""
        found = self.summarized(self.states.resampled(counts))
        return encode_core(params, found, passes=0, bytes_read=0, effort=QUICK)

    def _held_out(self, found: Found, others: Found, training: CoreSummary) -> Floats:
        if training.explained is None:
            return summary_about(found, training.center, training.scale).core
        q = self.n_covariates
        beside = summary_about(found, others.center, np.ones(others.center.shape[1])).core
        core: Floats = (beside[:, q:] - beside[:, :q] @ training.explained.effects) / training.scale
        return core

    def _check_covariates(self, others: Found, fold: int) -> None:
        q = self.n_covariates
        if not q:
            return
        if isinstance(others, Scatter):  # roots of numbers that are known to their error
            spread = np.sqrt(np.clip(np.linalg.eigvalsh(others.scatter[:q, :q]), 0.0, None))
            least = COLLINEAR + np.sqrt(q * others.error)
        else:
            spread, least = singular_values(others.triangle[:, :q]), COLLINEAR
        if spread.size < q or np.min(spread) <= least * np.sqrt(others.count):
            raise InvalidInput(
                f"without fold {fold + 1} of {self.plan.rows.n_folds} some effect of the covariates is not known. A "
                "label, or a change of a number, occurs in this fold alone. Give covariates that vary within groups, "
                "fewer folds, or leave out folds."
            )


def measure_components(folds: Iterable[RowsHeldOut], ks: Sequence[int]) -> tuple[HeldOutComponents, ...]:
    """Held-out entries that k components of PCA leave unexplained, for every k, ascending."""
    shares = [np.array(rows.entries_losses(ks)) / (rows.total or 1.0) for rows in folds]
    means, errors = np.mean(shares, axis=0), standard_error(np.array(shares))
    found = zip(ks, means, errors, strict=True)
    return tuple(HeldOutComponents(k, float(mean), float(error)) for k, mean, error in found)


def chosen_components(
    params: FitParameters, plan: FoldPlan, measured: Callable[[Sequence[int]], tuple[HeldOutComponents, ...]]
) -> tuple[FitParameters, tuple[HeldOutComponents, ...]]:
    """Parameters with the number of components that held-out entries choose, and their losses; as they are if given."""
    if not plan.components:
        return params, ()
    components = measured(plan.components)
    return replace(params, n_components=least_within(components).n_components), components


def measure(
    params: FitParameters,
    folded: FoldSummaries,
    sizes: Sequence[tuple[int, int]],
    *,
    effort: float | None = None,
    report: Report | None = None,
) -> tuple[HeldOutSize, ...]:
    """Losses of encoders of all sizes on the folds that they have not seen, by k and then by r; no data are read."""
    ratios = [_ratios(params, split, folded.n_features, sizes, effort, report) for split in folded.splits()]
    return _held_out_sizes(sizes, ratios)


def _ratios(
    params: FitParameters,
    split: Split,
    n_features: int,
    sizes: Sequence[tuple[int, int]],
    effort: float | None,
    report: Report | None,
) -> list[float]:
    """Losses on a fold of encoders of the others over those of PCA, by k and then by r."""

    def encode(point: FitParameters, known: Sequence[Floats]) -> Pair:
        return split.encode(point, known, effort=effort, report=report)

    made = by_size(params, n_features, sizes, encode)
    by_pca = {k: split.pca_loss(k) for k in {k for k, _ in sizes}}
    return [float(fold_ratios(split.loss(pair), by_pca[k], split.total)) for k, _, pair in made]


def _held_out_sizes(sizes: Sequence[tuple[int, int]], ratios: Sequence[Sequence[float]]) -> tuple[HeldOutSize, ...]:
    means, errors = np.mean(ratios, axis=0), standard_error(np.array(ratios))
    found = zip(sorted(set(sizes)), means, errors, strict=True)
    return tuple(HeldOutSize(k, r, float(mean), float(error)) for (k, r), mean, error in found)


def encode_with_folds(
    params: FitParameters,
    folded: FoldSummaries,
    encode: Callable[[FitParameters, float | None], FittedEncoder],
    components: tuple[HeldOutComponents, ...],
    report: Report | None,
) -> FittedEncoder:
    """Build the encoder of all rows, of a size that the folds choose if it is asked for, and measure it on the folds.

    Its certificate is that of all rows, and holds what the folds say.

    Parameters
    ----------
    params : FitParameters
        Parameters of the fit, with a number of components.
    folded : FoldSummaries
        Summaries of the folds.
    encode : callable
        Fits an encoder to all rows by parameters and an effort.
    components : tuple of HeldOutComponents
        Numbers of components that the number was chosen from; none if it was given.
    report : callable or None
        Called with the progress of the searches.
    """
    plan, d, sizes = folded.plan, folded.n_features, tuple[HeldOutSize, ...]()
    if plan.nonzeros:
        sizes = measure(params, folded, pairs(params, plan.nonzeros), effort=QUICK, report=report)
        params = replace(params, n_nonzero=least_within(sizes).n_nonzero)
    fitted = encode(params, None)
    beside = () if sizes else pairs(params, sizes_of(params, fitted.certificate.n_nonzero, d, N_SIZES))
    losses, pca_losses, totals, supports, ratios = [], [], [], [], []
    for split in folded.splits():
        other = split.encode(params, report=report)
        losses.append(split.loss(other))
        pca_losses.append(split.pca_loss(params.n_components))
        totals.append(split.total)
        supports.append(tuple(int(feature) for feature in np.flatnonzero(other.H.any(axis=1))))
        ratios.append(_ratios(params, split, d, beside, QUICK, report) if beside else [])
    held_out = HeldOut(
        plan.described,
        tuple(int(each) for each in plan.rows.sizes()),
        tuple(losses),
        tuple(pca_losses),
        tuple(totals),
        tuple(supports),
        tuple(int(feature) for feature in fitted.selected),
        sizes or _held_out_sizes(beside, ratios),
        components,
        chose_nonzeros=bool(plan.nonzeros),
        bootstraps=bootstrap(params, fitted, folded, lambda point: encode(point, QUICK)) if params.bootstraps else None,
    )
    return replace(fitted, certificate=replace(fitted.certificate, held_out=held_out))
