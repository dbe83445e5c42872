"""Held-out folds of wide data: the two reads of strategy ``sketch`` keep their sums for each fold.

The sketch of all other folds proposes candidates of its own, and an encoder on them sees no row of the fold left out.
The second read holds the products of all these candidates for each fold, about the mean of all rows. Moved to the mean
of the other folds they give the encoder of those, and what it loses on the fold left out. No row is read again.

PCA of the other folds is the pair that ``PrincipalBasis`` makes of their products. Its directions Z come from the
sketch of all rows, which helps PCA if anything. They leave out columns that vary in one fold alone: PCA of the others
has no weights for them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.blas import dger

from spae_dask.errors import InvalidInput
from spae_dask.passes.accumulators import ColumnMoments, FoldStates, Products
from spae_dask.passes.accumulators.shift import step_between
from spae_dask.strategies.candidate_set import CandidateSet, choose_candidates
from spae_dask.strategies.core_summary import Floats
from spae_dask.strategies.folds import QUICK, FoldPlan, Pair, RowsHeldOut, measure_components
from spae_dask.strategies.held_out import HeldOutComponents
from spae_dask.strategies.methods import Report
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.refit import Refit, loss_from_products, refit
from spae_dask.strategies.sketched import Columns, FoldedSketch, Sketched
from spae_dask.strategies.sparse_encoder import FittedEncoder


def sketched_components(folded: FoldedSketch, most: int) -> tuple[HeldOutComponents, ...]:
    """Held-out entries that 1 to ``most`` components leave unexplained, estimated on row sketches of the folds."""
    training = ((fold, folded.without(fold)) for fold in range(folded.n_folds))
    rows = (RowsHeldOut(folded.held_out(fold, others), others.leading) for fold, others in training)
    return measure_components(rows, range(1, most + 1))


def with_directions_of_folds(folded: FoldedSketch, Z: Floats) -> Floats:
    """Directions, then the same without columns that are constant in all folds but one; Z alone if there are none."""
    alone = folded.without_sketches()
    constant = np.unique(np.concatenate([alone.without(fold).dropped for fold in range(folded.n_folds)]))
    if not Z[constant].any():
        return Z
    of_folds = Z.copy()
    of_folds[constant] = 0.0
    return np.hstack([Z, of_folds])


@dataclass(frozen=True, eq=False)
class FoldCandidates:
    """Candidates of all rows, and of all folds but one.

    Attributes
    ----------
    whole : CandidateSet
        Those of all rows.
    others : sequence of CandidateSet
        Those of all folds but one, for each.
    columns : ndarray of int
        Columns that the second read takes, ascending.
    """

    whole: CandidateSet
    others: Sequence[CandidateSet]
    columns: Columns

    @classmethod
    def chosen(
        cls,
        params: FitParameters,
        folded: FoldedSketch,
        whole: CandidateSet,
        n_candidates: int,
        report: Report | None = None,
    ) -> "FoldCandidates":
        """Choose candidates on the sketch of all folds but one, for each.

        The second read takes those of all rows, and of all others the ones that most folds propose.
        """
        others = []
        for fold in range(folded.n_folds):
            training = folded.without(fold)
            V = training.leading(params.n_components)
            others.append(choose_candidates(params, training.W, V, n_candidates, report=report))
        proposals = Counter(column for each in others for column in each.columns.tolist())
        beside = sorted(set(proposals) - set(whole.columns.tolist()), key=lambda column: (-proposals[column], column))
        needed = sorted({column for each in others for column in _used(each)} & set(beside))
        more = list(dict.fromkeys([*needed, *beside]))[: n_beside(n_candidates)]
        columns = np.union1d(whole.columns, np.array(more, dtype=np.intp))
        return cls(whole, [_among(each, columns) for each in others], columns)


def n_beside(n_candidates: int) -> int:
    """Columns that the second read takes at most beside so many candidates of all rows."""
    return n_candidates // 2


def _used(found: CandidateSet) -> list[int]:
    """Columns that the encoder on the sketch uses, or that the method of the paper selects."""
    used = np.union1d(np.flatnonzero(found.H.any(axis=1)), found.selected)
    columns: list[int] = found.columns[used].tolist()
    return columns


def _among(found: CandidateSet, columns: Columns) -> CandidateSet:
    """The candidates that are among some columns."""
    kept = np.flatnonzero(np.isin(found.columns, columns))
    selected = found.selected[np.isin(found.selected, kept)]
    return replace(found, columns=found.columns[kept], H=found.H[kept], selected=np.searchsorted(kept, selected))


@dataclass(frozen=True, eq=False)
class FoldedRefit:
    """Products of candidates for each fold.

    Attributes
    ----------
    sketch : FoldedSketch
        Moments of the folds.
    products : FoldStates
        Products of ``candidates.columns`` and of Z for each fold, about the mean of all rows and in their scale.
    candidates : FoldCandidates
        Candidates of all rows, and of all folds but one.
    about : Sketched
        All rows, whose mean and scale the products have.
    Z : ndarray (d, p) or (d, 2 p)
        Directions of all rows, and those of folds if they differ.
    n_directions : int
        p.
    of_components : tuple of HeldOutComponents
        Numbers of components, from 1, and held-out entries that they leave unexplained.
    """

    sketch: FoldedSketch
    products: FoldStates
    candidates: FoldCandidates
    about: Sketched
    Z: Floats
    n_directions: int
    of_components: tuple[HeldOutComponents, ...]

    @property
    def plan(self) -> FoldPlan:
        """The folds."""
        return self.sketch.plan

    @property
    def n_features(self) -> int:
        """d."""
        return int(self.Z.shape[0])

    def whole(self) -> Products:
        """Products of the candidates of all rows, and of their directions."""
        found = _of_columns(self.products.whole(), self.candidates.columns, self.candidates.whole.columns)
        return replace(found, directions=found.directions[:, : self.n_directions])

    @property
    def _of_folds(self) -> Floats:
        return self.Z[:, -self.n_directions :]

    def splits(self) -> Iterator["RefitSplit"]:
        """Each fold, and all others."""
        for fold, candidates in enumerate(self.candidates.others):
            moments, training = self.sketch.moments, self.sketch.without(fold)
            Z, columns = self._directions(training), candidates.columns
            others = self._moved(self.products.without(fold), moments.without(fold), columns, training)
            found = refit(training, candidates, others, Z)
            mine = moments.only(fold)
            held_out = self._moved(self.products.only(fold), mine, columns, training)
            yield RefitSplit(found, others.directions, held_out, _lengths(mine, training), Z)

    def resample(self, params: FitParameters, counts: Sequence[int]) -> FittedEncoder:
        """Fit a quick encoder, on the candidates of all rows, to a resample that draws each fold so often."""
        moments = self.sketch.moments.resampled(counts)
        drawn, candidates = self.sketch.about(moments, ()), self.candidates.whole
        products = self._moved(self.products.resampled(counts), moments, candidates.columns, drawn)
        return refit(drawn, candidates, products, self._directions(drawn)).fit(params, effort=QUICK)

    def components(self, ks: Sequence[int]) -> tuple[HeldOutComponents, ...]:
        """Held-out entries that k components of PCA leave unexplained, for every k, ascending.

        Raises
        ------
        InvalidInput
            If the fit was of fewer components.
        """
        if max(ks) > len(self.of_components):
            raise InvalidInput(
                f"n_components={max(ks)} is more than the {len(self.of_components)} of the fit, and a sketch keeps no "
                "rows of its folds to measure more. Fit with as many components."
            )
        return tuple(self.of_components[k - 1] for k in ks)

    def _directions(self, to: Sketched) -> Floats:
        """The directions as they multiply rows in another scale."""
        return self._of_folds * (to.scale / self.about.scale)[:, None]

    def _moved(self, found: Products, moments: ColumnMoments, columns: Columns, to: Sketched) -> Products:
        """Products of some of the columns, of rows of such moments, about another center and in another scale."""
        part = _of_columns(found, self.candidates.columns, columns)
        cross, directions, before = part.cross, part.directions[:, -self.n_directions :], self.about
        if step_between(before.center, to.center).any():
            n = moments.count[0].item()
            step = step_between(before.center, to.center) / before.scale
            rest = n * (step_between(before.center, moments.center) / before.scale - step)
            # sum of (x - a - step) (x - a - step)', where the x - a sum up to n step + rest
            for u, v in ((n * step + rest, step), (step, rest)):
                cross = dger(-1.0, v, u[columns], a=cross.T, overwrite_a=1).T
                directions = directions - np.outer(u, v @ self._of_folds)
        ratio = before.scale / to.scale
        ratio[to.dropped] = 0.0
        cross *= ratio
        cross *= ratio[columns, None]
        return replace(
            part,
            gram=(cross[:, columns] + cross[:, columns].T) / 2,
            cross=cross,
            directions=directions * ratio[:, None],
            column_norms=_lengths(moments, to) ** 2,
        )


def _of_columns(found: Products, columns: Columns, wanted: Columns) -> Products:
    """Products of some of the columns, in arrays of their own."""
    places = np.searchsorted(columns, wanted)
    return replace(found, gram=found.gram[np.ix_(places, places)], cross=found.cross[places])


def _lengths(moments: ColumnMoments, to: Sketched) -> Floats:
    """Lengths of the columns of rows of such moments, about another center and in another scale."""
    step = step_between(to.center, moments.center)
    lengths: Floats = np.sqrt(moments.squared_deviations + moments.count * step**2) / to.scale
    return lengths


@dataclass(frozen=True, eq=False)
class RefitSplit:
    """A fold, and all others, by products of candidates.

    Attributes
    ----------
    training : Refit
        Candidates of all other folds.
    directions : ndarray (d, p)
        X'XZ of all other folds.
    held_out : Products
        Products of the same candidates in the fold, about the mean of the others and in their scale.
    lengths : ndarray (d,)
        Lengths of the columns of the fold, about that mean and in that scale.
    Z : ndarray (d, p)
        Directions.
    """

    training: Refit
    directions: Floats
    held_out: Products
    lengths: Floats
    Z: Floats

    @property
    def total(self) -> float:
        """Sum of squares of the fold."""
        return float(self.lengths @ self.lengths)

    def encode(
        self,
        params: FitParameters,
        known: Sequence[Floats] = (),
        *,
        effort: float | None = None,
        report: Report | None = None,
    ) -> Pair:
        """Fit an encoder to the others, from the best of those known."""
        return self.training.fit(params, known, effort=effort, report=report)

    def loss(self, pair: Pair) -> float:
        """Loss on the fold of an encoder of the others, with its own decoder."""
        H = pair.H[self.training.candidates.columns]
        return loss_from_products(self.lengths, self.held_out.gram, self.held_out.cross, H, pair.G)

    def pca_loss(self, k: int) -> float:
        """Loss on the fold of PCA of the others."""
        basis = self.training.basis
        H, weights = basis.on_candidates[:, :k], basis.on_directions[:, :k]
        G = H.T @ self.training.cross + weights.T @ self.directions.T
        XH = self.held_out.cross.T @ H + self.held_out.directions @ weights
        codes = H.T @ XH[self.training.candidates.columns] + weights.T @ (self.Z.T @ XH)
        explained = 2.0 * float(np.vdot(G.T, XH)) - float(np.vdot(codes, G @ G.T))
        return max(self.total - explained, 0.0)
