"""Encoders on candidate columns, whose losses follow from exact products, and certified bounds on PCA's loss."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from spae_dask.maths.encoders.batch import encoder_from_columns
from spae_dask.maths.encoders.budgets import budgets_of, counted
from spae_dask.maths.encoders.iterative import encode_iterative
from spae_dask.maths.encoders.orthonormal import orthonormalize
from spae_dask.maths.encoders.polished import encode_polished
from spae_dask.maths.linalg.candidates import basis_weights, rows_triangle
from spae_dask.maths.linalg.loss import (
    encoder_loss,
    sequential_explained,
    total_variance,
)
from spae_dask.maths.linalg.project import column_basis
from spae_dask.maths.linalg.spectral import pca_loss, right_singular, thin_svd
from spae_dask.maths.linalg.triangular import add_rows
from spae_dask.passes.accumulators import Products
from spae_dask.strategies.candidate_set import CandidateSet
from spae_dask.strategies.certificate import Certificate
from spae_dask.strategies.certify import certify_between
from spae_dask.strategies.core_summary import Floats, refuse_overflow
from spae_dask.strategies.methods import Report, watching
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.rounding import ROUNDOFF, Rounding
from spae_dask.strategies.sketched import Columns, Sketched
from spae_dask.strategies.sparse_encoder import FittedEncoder, fewest_that_reach, padded, smallest_within
from spae_dask.strategies.theory import target_of

if TYPE_CHECKING:
    from spae_dask.strategies.folded_refit import FoldedRefit

NEGLIGIBLE = 1e-10
"""Share of the total below which a direction is not used to bound PCA's loss."""

SAFELY_ABOVE, ABOVE, STRONG = 1e5, 10.0, 1e-6
"""Directions that bound PCA's loss are ``SAFELY_ABOVE`` times as strong as the rounding of products, or it would blur
them. The rounding of float32 leaves none so strong: there ``STRONG`` ones count, ``ABOVE`` times the rounding."""

ON_SKETCH = "columns are chosen on a sketch and refitted exactly: no bound is known before the data are seen"


@dataclass(frozen=True, eq=False)
class Refit:
    """Candidate columns and their products with all of X.

    Attributes
    ----------
    sketched : Sketched
        Result of the first read, without its sketch.
    candidates : CandidateSet
        The candidates.
    gram, cross : ndarray (c, c), (c, d)
        C'C and C'X.
    weights : ndarray (c, q)
        Coefficients that make ``C weights`` orthonormal.
    core : ndarray (q, c + c)
        The candidates in that basis, then columns that stand for all others: on it every loss of an encoder on the
        candidates is exact but for ``outside``.
    outside : float
        ``||X - P_C X||^2``.
    basis : PrincipalBasis
        Singular values of X within the span of the candidates and of X Z.
    rounding : Rounding
        Errors of the products.
    folded : FoldedRefit or None
        The same of folds, if the reads kept them.
    """

    sketched: Sketched
    candidates: CandidateSet
    gram: Floats
    cross: Floats
    weights: Floats
    core: Floats
    outside: float
    basis: "PrincipalBasis"
    rounding: Rounding
    folded: "FoldedRefit | None" = None

    def pca_interval(self, k: int) -> tuple[float, float]:
        """Certified bounds on ``||X - X_k||^2``, those of Frequent Directions or of :class:`PrincipalBasis`."""
        lower, upper = self.sketched.pca_interval(k)
        least, most = self.basis.pca_interval(k, self.rounding)
        best = min(upper, most)
        return min(max(lower, least), best), best

    @property
    def n_samples(self) -> float:
        """Rows seen, or the sum of their weights."""
        return self.sketched.n_samples

    @property
    def mean(self) -> Floats:
        """Subtracted from X (d,)."""
        return self.sketched.mean

    def fit(
        self,
        params: FitParameters,
        known: Sequence[Floats] = (),
        *,
        effort: float | None = None,
        report: Report | None = None,
    ) -> FittedEncoder:
        """Build the encoder of a fit on the candidates, and certify it; no data are read.

        ``known`` are encoders (d, k') on the candidates; the answer loses no more than those of no more columns and
        nonzeros. ``effort`` is that of ``Search``, for a given number of nonzeros. ``report`` is called
        with the progress of the search.
        """
        sizes = params.sizes
        H = (
            self._smallest(params, report)
            if sizes is None
            else self._encode(params, sizes, effort=effort, known=map(self._on_core, known), report=report)
        )
        if params.orthonormal:
            H = orthonormalize(self.core, H)[0]
        H = padded(H.T, params.n_components).T
        return self._fitted(params, H)

    def reaches(self, params: FitParameters, fitted: FittedEncoder) -> bool:
        """Return True if an encoder reaches the target, judged by the bounds on PCA's loss."""
        return fitted.certificate.loss <= self._target(params)

    def is_within_reach(self, params: FitParameters) -> bool:
        """Return True if encoders that use all candidates reach the target; none of fewer loses less."""
        k = params.n_components
        return self.outside + pca_loss(right_singular(self.core, k)[0], k) <= self._target(params)

    def _target(self, params: FitParameters) -> float:
        k = params.n_components
        pca = self.pca_interval(k)[0 if params.certified else 1]
        return params.allowed_loss(pca, self.sketched.total) + self.rounding.pca_error(pca, k)

    def rank_tol(self, k: int) -> float:
        """Relative length below which a column's part outside the span of others is noise, see ``Rounding``."""
        return self.rounding.rank_tol(float(np.sum(self.basis.spectrum[k:] ** 2)))

    def _smallest(self, params: FitParameters, report: Report | None) -> Floats:
        """Encoder of the fewest nonzeros found that reaches the target; of all candidates if none does."""
        k, c, target = params.n_components, self.candidates.columns.size, self._target(params) - self.outside
        if not self.is_within_reach(params):  # no search is worth its time
            return encoder_from_columns(self.core, np.arange(c), k, rank_tol=self.rank_tol(k))[0]

        def encode(r: int, effort: float | None, known: Mapping[int, Floats]) -> Floats:
            return self._encode(params, r, effort=effort, known=known.values(), climbed=r in known, report=report)

        def find(quick: Callable[[int], Floats]) -> int:
            return smallest_within(target, lambda r: encoder_loss(self.core, quick(r)), 1, c)

        polishes = params.method == "polished"
        return fewest_that_reach(target, find, encode, lambda H: encoder_loss(self.core, H), polishes=polishes)

    def _encode(
        self,
        params: FitParameters,
        r: int | tuple[int, ...],
        *,
        effort: float | None = None,
        known: Iterable[Floats] = (),
        climbed: bool = False,
        report: Report | None = None,
    ) -> Floats:
        """Encoder (2c, k') on the core, nonzero on candidates only.

        It starts from the best of those ``known`` that have no more nonzeros; they are on the core, too. ``climbed`` is
        that of ``Search``.
        """
        k, candidates, rank_tol = params.n_components, self.candidates, self.rank_tol(params.n_components)
        if not self.core.any():
            return np.zeros((self.core.shape[1], 0))
        if params.method == "iterative":
            supports = iter([np.flatnonzero(h) for h in candidates.H.T])
            return encode_iterative(self.core, k, r, selection=lambda *_: next(supports), rank_tol=rank_tol).H
        budgets = budgets_of(k, r)
        free = self._free(params)
        paper = encoder_from_columns(self.core, self._shared(min(budgets), free), k, rank_tol=rank_tol)[0]
        if params.method == "batch" or params.shared_support:
            return paper
        starts = [paper, self._filled_up(candidates.H), *known]
        return encode_polished(
            self.core,
            k,
            r,
            start_H=min((H for H in starts if _keeps_to(H, budgets, free)), key=lambda H: encoder_loss(self.core, H)),
            rng=np.random.default_rng(params.seed),
            effort=params.effort if effort is None else effort,
            search_tol=params.search_tol,
            allowed=np.arange(candidates.columns.size),
            free=free,
            rank_tol=rank_tol,
            climbed=climbed,
            watch=watching(report, r, self.pca_interval(k)[1], self.outside),
        ).H

    def _free(self, params: FitParameters) -> Columns | None:
        """Places of the candidates that every component may use beside its r; None if there are no such rules."""
        included = params.rules.include
        return np.flatnonzero(np.isin(self.candidates.columns, included)) if included else None

    def _shared(self, r: int, free: Columns | None) -> Columns:
        """Places of the first r columns that the sketch would share, and of the free ones."""
        selected = self.candidates.selected
        if free is None:
            return selected[:r]
        return np.concatenate([free, selected[~np.isin(selected, free)][:r]])

    def _on_core(self, wide: Floats) -> Floats:
        """Encoder (2c, k') on the core from one (d, k') on the candidates."""
        return self._filled_up(wide[self.candidates.columns])

    def _filled_up(self, H: Floats) -> Floats:
        """Encoder (2c, k') from its rows of the candidates."""
        return np.vstack([H, np.zeros((self.core.shape[1] - H.shape[0], H.shape[1]))])

    def _off_core(self, H: Floats) -> Floats:
        """Encoder (d, k') from one on the core."""
        wide = np.zeros((self.cross.shape[1], H.shape[1]))
        wide[self.candidates.columns] = H[: self.candidates.columns.size]
        return wide

    def _fitted(self, params: FitParameters, H: Floats) -> FittedEncoder:
        """The encoder on all d columns, its decoder and its certificate."""
        first, columns, k = self.sketched, self.candidates.columns, params.n_components
        total = first.total
        wide = self._off_core(H)
        codes = column_basis(self.core @ H)
        # the decoder is (XH)^+ X, and the codes lie in the span of the candidates: Q'X is read off C'X
        decoder = codes.coefficients(codes.Q.T @ self.weights.T) @ self.cross
        explained = sequential_explained(self.core, H)
        return FittedEncoder(
            H=wide,
            G=decoder,
            center=first.center,
            scale=first.scale,
            selected=np.flatnonzero(wide.any(axis=1)),
            chosen=columns[self.candidates.selected],
            explained_ratio=explained / total if total > 0 else np.zeros(k),
            spectrum=self.basis.spectrum,
            constant=first.constant,
            fill=first.fill,
            n_samples=first.n_samples,
            certificate=self._certificate(params, H, wide, decoder),
            rounding=self.rounding,
            explained=first.explained,
        )

    def _certificate(self, params: FitParameters, H: Floats, wide: Floats, G: Floats) -> Certificate:
        """Certificate of an encoder ``H`` on the core, ``wide (d, k)`` on X, with its decoder."""
        columns = self.candidates.columns
        loss = loss_from_products(self.sketched.lengths, self.gram, self.cross, wide[columns], G)
        return certify_between(
            self.core,
            H,
            loss,
            self.pca_interval(params.n_components),
            total=self.sketched.total,
            error=self.rounding.loss_error(loss, wide, G),
            certified=params.certified,
            bound=None,
            theorem=ON_SKETCH,
            target=target_of(params),
            n_left_out=self.sketched.n_left_out,
            left_out=self.rounding.left_out,
        )


def loss_from_products(lengths: Floats, gram: Floats, cross: Floats, H: Floats, G: Floats) -> float:
    """``||X - X H G||^2`` from products alone: the total minus what is explained, column by column.

    Parameters
    ----------
    lengths : ndarray (d,)
        Lengths of the columns of X.
    gram, cross : ndarray (c, c), (c, d)
        C'C and C'X.
    H : ndarray (c, k)
        Rows of the encoder for the columns C; all others are zero.
    G : ndarray (k, d)
        Decoder.
    """
    explained = np.einsum("jd,jd->d", G, 2.0 * (H.T @ cross) - (H.T @ gram @ H) @ G)
    return max(float(np.sum(lengths**2 - explained)), 0.0)


@dataclass(frozen=True, eq=False)
class PrincipalBasis:
    """Orthonormal basis U of the span of candidate columns C and of X Z, and the part of X in it.

    Attributes
    ----------
    spectrum : ndarray
        Singular values of ``U'X``: lower bounds on those of X, and close.
    reaches : ndarray (p,)
        Reach, see :mod:`spae_dask.strategies.rounding`, of the pair that approximates PCA with 1, 2, ..., p components:
        ``X H = U P`` and ``G = P'U'X``, P the left singular vectors of ``U'X``.
    stretch : float
        Length of the vector ``l' |W|`` for the weights W with ``U = [C, XZ] W``; it multiplies rounding.
    on_candidates, on_directions : ndarray (c, p), (q, p)
        Weights of that pair: ``X H`` is the candidates times the first, and X Z, for all q directions, times the other.
    """

    spectrum: Floats
    reaches: Floats
    stretch: float
    on_candidates: Floats
    on_directions: Floats

    def pca_interval(self, k: int, rounding: Rounding) -> tuple[float, float]:
        """Certified bounds on ``||X - X_k||^2``, rounding included.

        With P the projection on the span, ``X'X = X'PX + X'(I - P)X``. The k largest eigenvalues of a sum are at most
        those of ``X'PX`` and the trace of the rest (Ky Fan 1951), and at least those of ``X'PX``. The upper bound is
        the loss of a pair of encoder and decoder, so it errs as any loss does. For the lower one, computed basis
        vectors are orthonormal up to an error E: ``X'UU'X <= (1 + ||E||) X'X``.
        """
        total, error = rounding.total, rounding.products + rounding.lengths.size * ROUNDOFF
        of_total = rounding.pca_error(0.0, 0)
        width = min(k, self.reaches.size)
        explained = float(np.sum(self.spectrum[:width] ** 2))
        reach = self.reaches[width - 1] if width else math.sqrt(total)
        upper = total - rounding.excess - explained + error * reach**2 + of_total
        tail = math.sqrt(float(np.sum(self.spectrum[k:] ** 2))) - error * self.stretch * math.sqrt(total)
        lower = max(tail, 0.0) ** 2 / (1.0 + error * self.stretch**2) - of_total
        return max(lower, 0.0), min(upper, total + of_total)


def refit(sketched: Sketched, candidates: CandidateSet, products: Products, Z: Floats) -> Refit:
    """Make the candidates' core from their products.

    Parameters
    ----------
    sketched : Sketched
        Result of the first read; its sketch is dropped.
    candidates : CandidateSet
        Candidates C.
    products : Products
        C'C, C'X and X'XZ.
    Z : ndarray (d, p)
        The directions.
    """
    gram, cross = products.gram, products.cross
    refuse_overflow(gram)
    # of directions beyond the rank of X only rounding is left, which at unit length would look like more of X
    along = np.einsum("ij,ij->j", Z, products.directions) > NEGLIGIBLE * sketched.total
    columns, c = candidates.columns, candidates.columns.size
    weights, dropped = basis_weights(gram, products.noise)
    rounding = replace(
        sketched.rounding,
        products=products.error + sketched.rounding.mean,
        noise=products.noise + dropped + 8 * ROUNDOFF,
        by_products=True,
    )
    # of all columns but the candidates; the leading triangle is that of C'X alone
    triangle = rows_triangle([cross, products.directions[:, along].T], columns)
    core = np.hstack([weights.T @ gram, weights.T @ triangle[:c, :c].T])
    return Refit(
        sketched=sketched.without_sketch(),
        candidates=candidates,
        gram=gram,
        cross=cross,
        weights=weights,
        core=core,
        outside=max(sketched.total - total_variance(core), 0.0),
        basis=_principal_basis(columns, products, Z, along, triangle, rounding),
        rounding=rounding,
    )


class OnCandidates(Protocol):
    """A refit on candidates, of X or of a model of it."""

    def fit(self, params: FitParameters, *, report: Report | None = None) -> FittedEncoder:
        """Build the encoder of a fit."""
        ...

    def reaches(self, params: FitParameters, fitted: FittedEncoder) -> bool:
        """Return True if this encoder reaches it."""
        ...


R = TypeVar("R", bound=OnCandidates)


def fit_to_target(
    params: FitParameters, refit_on: Callable[[int], R], n_candidates: int, most: int, report: Report | None
) -> tuple[FittedEncoder, R]:
    """Fit an encoder to a target: with twice as many candidates again and again, while it is missed.

    Parameters
    ----------
    params : FitParameters
        Parameters of the fit.
    refit_on : callable
        Proposes so many candidates and refits on them.
    n_candidates, most : int
        Candidates at first and at most.
    report : callable, optional
        Called with the progress of the search.

    Returns
    -------
    FittedEncoder, R
        The encoder and its refit.
    """
    while True:
        refitted = refit_on(n_candidates)
        fitted = refitted.fit(params, report=report)
        if n_candidates == most or refitted.reaches(params, fitted):
            return fitted, refitted
        del refitted, fitted  # as large as the products that follow
        n_candidates = min(most, 2 * n_candidates)


def _principal_basis(
    columns: Columns,
    products: Products,
    Z: Floats,
    along: npt.NDArray[np.bool_],
    triangle: Floats,
    rounding: Rounding,
) -> PrincipalBasis:
    """Basis of the span of C and X Z, for the directions Z ``along``.

    ``triangle`` is that of ``[C'X; Z'X'X]`` without the columns C.
    """
    gram, cross, directions = products.gram, products.cross, products.directions[:, along].T
    used = Z[:, along]
    with_directions = cross @ used
    joint = np.block([[gram, with_directions], [with_directions.T, directions @ used]])
    on_candidates = np.vstack([gram, with_directions.T]).T
    whole = add_rows(np.asfortranarray(triangle), np.asfortranarray(on_candidates))
    error = rounding.products
    weights, _ = basis_weights(joint, min(SAFELY_ABOVE * error, max(ABOVE * error, STRONG)))
    _, spectrum, Pt = thin_svd(np.triu(whole) @ weights)
    lengths = np.concatenate([rounding.lengths[columns], rounding.lengths @ np.abs(used)])
    stretch = float(np.linalg.norm(lengths @ np.abs(weights)))
    combined, c = weights @ Pt[: used.shape[1]].T, columns.size
    H = used @ combined[c:]
    H[columns] += combined[:c]
    G = combined[:c].T @ cross + combined[c:].T @ directions
    reaches = np.array([rounding.apart(H[:, :width], G[:width]) for width in range(1, G.shape[0] + 1)])
    on_directions = np.zeros((Z.shape[1], combined.shape[1]))
    on_directions[along] = combined[c:]
    return PrincipalBasis(spectrum, reaches, stretch, combined[:c], on_directions)


def _keeps_to(H: Floats, budgets: Sequence[int], free: Columns | None) -> bool:
    counts = counted(H, free)
    return H.shape[1] <= len(budgets) and all(n <= r for n, r in zip(counts, budgets, strict=False))
