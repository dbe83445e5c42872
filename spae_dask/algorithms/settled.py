"""Candidate columns settled: encoders on them whose losses are exact, and PCA's loss between certified bounds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spae_dask.accumulators import Products
from spae_dask.accumulators.single import RELATIVE_ERROR
from spae_dask.algorithms.certificate import Certificate
from spae_dask.algorithms.certify import certify_between
from spae_dask.algorithms.core_summary import Floats, refuse_overflow
from spae_dask.algorithms.problem import Problem
from spae_dask.algorithms.proposal import Proposal
from spae_dask.algorithms.sketched import Sketched
from spae_dask.algorithms.smallest import smallest_within
from spae_dask.algorithms.sparse_encoder import FittedEncoder, padded
from spae_dask.algorithms.theory import target_of
from spae_dask.encoding.batch import encoder_from_columns
from spae_dask.encoding.budgets import budgets_of
from spae_dask.encoding.iterative import encode_iterative
from spae_dask.encoding.orthonormal import orthonormalize
from spae_dask.encoding.polished import encode_polished
from spae_dask.linalg.candidates import basis_weights, rows_triangle
from spae_dask.linalg.loss import (
    encoder_loss,
    sequential_explained,
    total_variance,
)
from spae_dask.linalg.project import column_basis
from spae_dask.linalg.spectral import right_singular
from spae_dask.linalg.triangular import add_rows

NEGLIGIBLE = 1e-10
"""Share of the total below which a direction is not used to bound PCA's loss."""

ON_SKETCH = "columns are proposed on a sketch and settled exactly: no bound is known before the data are seen"


@dataclass(frozen=True, eq=False)
class Settled:
    """What the second read leaves.

    Attributes
    ----------
    sketched : Sketched
        Of the first read, without its sketch.
    proposal : Proposal
        The candidates.
    cross : ndarray (c, d)
        C'X.
    weights : ndarray (c, q)
        Make ``C weights`` orthonormal.
    core : ndarray (q, c + c)
        The candidates in that basis, then columns that stand for all others: on it every loss of an encoder on the
        candidates is exact but for ``outside``.
    outside : float
        ``||X - P_C X||^2``.
    spectrum : ndarray
        Singular values of X within the span of the candidates and of X Z: lower bounds on those of X, and close.
    beyond : float
        Total outside that span.
    single : bool
        Whether products were made in float32.
    """

    sketched: Sketched
    proposal: Proposal
    cross: Floats
    weights: Floats
    core: Floats
    outside: float
    spectrum: Floats
    beyond: float
    single: bool

    def pca_interval(self, k: int) -> tuple[float, float]:
        """Certified bounds on ``||X - X_k||^2``.

        With P the projection on the span, ``X'X = X'PX + X'(I - P)X``. The k largest eigenvalues of a sum are at most
        those of ``X'PX`` and the trace of the rest (Ky Fan 1951), and at least those of ``X'PX``. Frequent Directions
        may know better.
        """
        tail = float(np.sum(self.spectrum[k:] ** 2))
        lower, upper = self.sketched.pca_interval(k)
        return max(lower, tail), min(upper, tail + self.beyond)

    @property
    def n_samples(self) -> int:
        """Rows seen."""
        return self.sketched.n_samples

    @property
    def mean(self) -> Floats:
        """Subtracted from X (d,)."""
        return self.sketched.mean

    def fit(self, problem: Problem, known: Sequence[Floats] = (), *, effort: float = 1.0) -> FittedEncoder:
        """Build the encoder of a problem on the candidates, and certify it; no data are read.

        ``known`` are encoders (d, k') on the candidates; the answer loses no more than those of no more columns and
        nonzeros. ``effort`` is that of ``Search``, for a given number of nonzeros.
        """
        sizes = problem.sizes
        H = self._smallest(problem) if sizes is None else self._encode(problem, sizes, effort=effort, known=known)
        if problem.orthonormal:
            H = orthonormalize(self.core, H)[0]
        H = padded(H.T, problem.n_components).T
        return self._fitted(problem, H)

    def reaches(self, problem: Problem, fitted: FittedEncoder) -> bool:
        """Whether an encoder loses no more than ``1 + eps`` times what PCA is known to lose."""
        return fitted.certificate.loss <= self._target(problem)

    def _target(self, problem: Problem) -> float:
        pca = self.pca_interval(problem.n_components)[0 if problem.certified else 1]
        return (1 + problem.eps) * pca + self._error

    @property
    def _error(self) -> float:
        exact: float = 100 * math.sqrt(self.cross.shape[1]) * float(np.finfo(np.float64).eps)
        return (RELATIVE_ERROR if self.single else exact) * self.sketched.total

    def _smallest(self, problem: Problem) -> Floats:
        """Encoder of the fewest nonzeros found that reaches ``eps``; of all candidates if none does."""
        target = self._target(problem) - self.outside

        def loss(r: int) -> float:
            return encoder_loss(self.core, self._encode(problem, r, effort=0.0))

        r = smallest_within(target, loss, 1, self.proposal.columns.size)
        best = self._encode(problem, r)
        while r > 1:
            r -= 1
            fewer = self._encode(problem, r)
            if encoder_loss(self.core, fewer) > target:
                break
            best = fewer
        return best

    def _encode(
        self, problem: Problem, r: int | tuple[int, ...], *, effort: float = 1.0, known: Sequence[Floats] = ()
    ) -> Floats:
        """Encoder (2c, k') on the core, nonzero on candidates only."""
        k, proposal = problem.n_components, self.proposal
        if not self.core.any():
            return np.zeros((self.core.shape[1], 0))
        if problem.method == "iterative":
            supports = iter([np.flatnonzero(h) for h in proposal.H.T])
            return encode_iterative(self.core, k, r, selection=lambda *_: next(supports)).H
        budgets = budgets_of(k, r)
        paper = encoder_from_columns(self.core, proposal.selected[: min(budgets)], k)[0]
        if problem.method == "batch" or problem.shared_support:
            return paper
        starts = [paper, self._on_core(proposal.H), *(self._on_core(H[proposal.columns]) for H in known)]
        return encode_polished(
            self.core,
            k,
            r,
            start_H=min((H for H in starts if _keeps_to(H, budgets)), key=lambda H: encoder_loss(self.core, H)),
            rng=np.random.default_rng(problem.seed),
            effort=effort,
            allowed=np.arange(proposal.columns.size),
        ).H

    def _on_core(self, H: Floats) -> Floats:
        """Encoder (2c, k') from its rows of the candidates."""
        return np.vstack([H, np.zeros((self.core.shape[1] - H.shape[0], H.shape[1]))])

    def _fitted(self, problem: Problem, H: Floats) -> FittedEncoder:
        """The encoder on all d columns, its decoder and its certificate."""
        first, columns, k = self.sketched, self.proposal.columns, problem.n_components
        d, total = self.cross.shape[1], first.total
        wide = np.zeros((d, k))
        wide[columns] = H[: columns.size]
        codes = column_basis(self.core @ H)
        # the decoder is (XH)^+ X, and the codes lie in the span of the candidates: Q'X is read off C'X
        decoder = codes.coefficients(codes.Q.T @ self.weights.T) @ self.cross
        explained = sequential_explained(self.core, H)
        return FittedEncoder(
            H=wide,
            G=decoder,
            mean=first.mean,
            scale=first.scale,
            selected=np.flatnonzero(wide.any(axis=1)),
            chosen=columns[self.proposal.selected],
            explained_ratio=explained / total if total > 0 else np.zeros(k),
            spectrum=self.spectrum,
            constant=first.constant,
            fill=first.fill,
            n_samples=first.n_samples,
            certificate=self._certificate(problem, H),
        )

    def _certificate(self, problem: Problem, H: Floats) -> Certificate:
        return certify_between(
            self.core,
            H,
            self.outside + encoder_loss(self.core, H),
            self.pca_interval(problem.n_components),
            total=self.sketched.total,
            error=self._error,
            certified=problem.certified,
            bound=None,
            theorem=ON_SKETCH,
            target=target_of(problem),
        )


def settle(sketched: Sketched, proposal: Proposal, products: Products, Z: Floats, *, single: bool) -> Settled:
    """Make the candidates' core from their products.

    Parameters
    ----------
    sketched : Sketched
        Of the first read; its sketch is dropped.
    proposal : Proposal
        Candidates C.
    products : Products
        C'C, C'X and X'XZ.
    Z : ndarray (d, p)
        The directions.
    single : bool
        Whether products were made in float32.
    """
    gram, cross = products.gram, products.cross
    refuse_overflow(gram)
    # of directions beyond the rank of X only rounding is left, which at unit length would look like more of X
    along = np.einsum("ij,ij->j", Z, products.directions) > NEGLIGIBLE * sketched.total
    Z, directions = Z[:, along], products.directions[:, along].T
    columns, c = proposal.columns, proposal.columns.size
    weights = basis_weights(gram)
    # of all columns but the candidates; the leading triangle is that of C'X alone
    triangle = rows_triangle([cross, directions], columns)
    core = np.hstack([weights.T @ gram, weights.T @ triangle[:c, :c].T])
    with_directions = cross @ Z
    joint = np.block([[gram, with_directions], [with_directions.T, directions @ Z]])
    on_candidates = np.vstack([gram, with_directions.T]).T
    whole = add_rows(np.asfortranarray(triangle), np.asfortranarray(on_candidates))
    spectrum = right_singular(np.triu(whole) @ basis_weights(joint), 0)[0]
    return Settled(
        sketched=sketched.without_sketch(),
        proposal=proposal,
        cross=cross,
        weights=weights,
        core=core,
        outside=max(sketched.total - total_variance(core), 0.0),
        spectrum=spectrum,
        beyond=max(sketched.total - float(np.sum(spectrum**2)), 0.0),
        single=single,
    )


def _keeps_to(H: Floats, budgets: Sequence[int]) -> bool:
    counts = np.count_nonzero(H, axis=0)
    return H.shape[1] <= len(budgets) and all(n <= r for n, r in zip(counts, budgets, strict=False))
