"""Iterative encoder: one column of H at a time, each the best rank-1 encoder of what the columns before it leave.

Magdon-Ismail & Boutsidis (2015), section 4 and the theorem on the adaptive iterative encoder. Step j selects r_j
columns of the residual ``D = (I - UU') X``, U an orthonormal basis of the codes so far, and takes the best encoder on
them. If every selection is within ``1 + eps/j`` of rank-1 PCA of its residual, then for every prefix of l columns

    loss <= (e l)^eps ||X - X_l||^2 + eps l^(1 + eps) ||X_l - X_1||^2.

The paper takes ``r_j = 5 + ceil(5j/eps)`` and has this in expectation. A start of one column within a factor 2 and the
derandomised round (:mod:`spae_dask.maths.selection.derandomized`) have it for ``r_j = 1 + ceil(2j/eps)``,
deterministically. With ``selection="adaptive-paper"`` each step is the paper's own, in expectation; with
``selection="barrier"`` it is the dual-set recursion of the paper's experiments, whose factor does not tend to 1.
:func:`prefix_bounds` has the numbers. To check a run: ``encoder_loss(core, H[:, :l])`` is ``losses[l - 1]``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.maths.encoders.batch import encoder_from_columns
from spae_dask.maths.encoders.budgets import budgets_of
from spae_dask.maths.linalg.loss import columns_loss, prefix_losses
from spae_dask.maths.linalg.project import DEPENDENT, RankTol, column_basis, optimal_decoder, residual
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, squared_columns, unit_columns, unit_scaled
from spae_dask.maths.linalg.spectral import right_singular
from spae_dask.maths.selection import GivenSelection, select_columns
from spae_dask.maths.selection.derandomized import adaptive_derandomized
from spae_dask.maths.selection.problem import first_of_best
from spae_dask.maths.selection.targeted_greedy import targeted_greedy


@dataclass(frozen=True, eq=False)
class IterativeEncoder:
    """An encoder whose every prefix is one too.

    Attributes
    ----------
    H : ndarray (d, k')
        Unit columns in the order made; neither orthogonal nor with uncorrelated codes. ``k'`` is less than k only if
        k' codes already explain everything.
    G : ndarray (k', d)
        Its optimal decoder.
    losses : ndarray (k',)
        Loss of each prefix of H.
    pca_steps : ndarray (k',)
        Loss if rank-1 PCA of the residual had made each column: ``losses[j - 1]`` minus the top squared singular value.
    supports : tuple of ndarray
        Columns selected in each step, in order chosen.
    """

    H: FloatArray
    G: FloatArray
    losses: FloatArray
    pca_steps: FloatArray
    supports: tuple[IntArray, ...]

    @property
    def loss(self) -> float:
        """Loss of H; without columns there was nothing to lose."""
        return float(self.losses[-1]) if self.losses.size else 0.0

    def allowed(self, eps: float) -> FloatArray:
        """Largest loss ``(k',)`` the theorem's proof allows after each step: ``(1 + eps/j)`` times `pca_steps`.

        The bound on every prefix holds for this run if no entry of `losses` is larger.
        """
        j = np.arange(1, self.pca_steps.size + 1)
        allowed: FloatArray = (1.0 + eps / j) * self.pca_steps
        return allowed


def guaranteed_columns(
    core: FloatArray,
    k: int,
    r: int,
    rng: np.random.Generator,
    *,
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
) -> IntArray:
    """Select by the derandomised round and by targeted greedy, and take whichever leaves less.

    The first has the guarantee, the second is usually better.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Rank to approximate.
    r : int
        Columns to choose.
    rng : Generator
        Not used: both are deterministic.
    rank_tol : float or ndarray (d,), optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them; one for all columns, or one for each.
    leading : ndarray (d, k'), optional
        Top k right singular vectors, if they are known.

    Returns
    -------
    selected : ndarray (r,)
        Distinct indices in order chosen; fewer only if X has fewer nonzero columns.
    """
    both = (adaptive_derandomized, targeted_greedy)
    choices = [select(core, k, r, rng, rank_tol=rank_tol, leading=leading) for select in both]
    losses = [columns_loss(core, selected, k, rank_tol=rank_tol).loss for selected in choices]
    return choices[first_of_best([-loss for loss in losses], [selected.tolist() for selected in choices])]


def encode_iterative(
    core: FloatArray,
    k: int,
    r: int | Sequence[int],
    *,
    selection: str | GivenSelection | None = None,
    rng: np.random.Generator | None = None,
    rank_tol: float = DEPENDENT,
) -> IterativeEncoder:
    """Build an encoder column by column.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Number of codes.
    r : int or sequence of int
        Nonzeros allowed in each column of H, or in the first, second, ... column; see :func:`iterative_sizes`.
    selection : str or callable, optional
        Selection of the columns of a residual, for rank 1; :func:`guaranteed_columns` if None.
    rng : Generator, optional
        Generator for selections that draw; a fixed seed if None.
    rank_tol : float, optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them and gets no weight. Columns of residuals keep to it relative to the columns they are made of.

    Returns
    -------
    IterativeEncoder
        Encoder, decoder and the losses of all prefixes.

    Raises
    ------
    InvalidInput
        If k or r is below 1, r has not one entry per column, or there is no selection of that name.
    """
    scaled, scale = unit_scaled(core)
    budgets = budgets_of(k, r)
    rng = np.random.default_rng(0) if rng is None else rng
    select = guaranteed_columns if selection is None else partial(select_columns, selection)
    # fewer rows if X has less than full rank; every column keeps its digits
    rows = column_basis(scaled).Q.T @ scaled
    lengths2 = squared_columns(rows)
    U = np.zeros((rows.shape[0], 0))
    made_of = np.zeros((scaled.shape[1], 0))  # coefficients of the unit columns of X in U
    columns: list[FloatArray] = []
    supports: list[IntArray] = []
    pca_steps: list[float] = []
    for budget in budgets:
        D = residual(rows, U)
        noise = rank_tol * np.sqrt(np.maximum(lengths2, _squared_coefficients(lengths2, U.T @ rows, made_of)))
        D[:, squared_columns(D) <= noise**2] = 0.0
        if not np.any(D):
            break
        sigma, leading = right_singular(D, 1)
        left = np.sqrt(squared_columns(D))
        tol = np.divide(noise, left, out=np.ones_like(noise), where=left > 0.0)
        selected = select(D, 1, budget, rng, rank_tol=tol, leading=leading)
        h = encoder_from_columns(D, selected, 1, rank_tol=tol)[0]
        if not h.shape[1]:  # a caller's selection may contain only exhausted columns
            continue
        unit_code, length = unit_columns(D @ h)
        weights = (np.sqrt(lengths2)[:, None] * h - made_of @ (U.T @ rows @ h)) / length
        made_of = np.column_stack([made_of, weights])
        U = np.column_stack([U, unit_columns(residual(unit_code, U))[0]])
        columns.append(h[:, 0])
        supports.append(selected)
        pca_steps.append(float(np.sum(sigma[:0:-1] ** 2)))
    H = np.column_stack(columns) if columns else np.zeros((scaled.shape[1], 0))
    unit = scale * scale
    return IterativeEncoder(
        H, optimal_decoder(core, H), prefix_losses(scaled, H) * unit, np.array(pca_steps) * unit, tuple(supports)
    )


def _squared_coefficients(lengths2: FloatArray, along: FloatArray, made_of: FloatArray) -> FloatArray:
    """Squared lengths ``(d,)`` of the coefficients of unit columns that residuals are made of.

    A residual whose coefficients are long is a small difference of large vectors, with the noise of those.
    """
    mixed = np.sum(along * (made_of.T @ made_of @ along), axis=0)
    squared: FloatArray = lengths2 - 2.0 * np.sqrt(lengths2) * np.sum(made_of.T * along, axis=0) + mixed
    return squared


def prefix_bounds(spectrum: FloatArray, factors: Sequence[float]) -> list[float]:
    """Largest losses of the prefixes, before a column is chosen.

    The residual of j - 1 codes has a top singular value of at least sigma_j (Weyl 1912). So a step within ``f_j`` of
    rank-1 PCA of its residual has ``loss_j <= f_j (loss_{j-1} - sigma_j^2)``, and no step raises the loss. The bounds
    are those of this recursion from ``loss_0 = ||X||^2``. The paper solves it for ``f_j = 1 + eps/j``; its closed
    form, ``(e l)^eps ||X - X_l||^2 + eps l^(1 + eps) ||X_l - X_1||^2``, is never smaller.

    Parameters
    ----------
    spectrum : ndarray
        Singular values of X, descending, all of them.
    factors : sequence of float
        f_1, ..., f_l. Where a factor holds in expectation only, so do the bounds.

    Returns
    -------
    list of float
        Bounds on the losses of l codes, of 1, 2, ...
    """
    squares = np.asarray(spectrum) ** 2
    bounds: list[float] = []
    left = float(np.sum(squares))
    for factor, square in zip(factors, squares, strict=False):
        left = min(left, factor * max(left - float(square), 0.0))
        bounds.append(left)
    return bounds


def iterative_sizes(k: int, eps: float, *, sharp: bool) -> tuple[int, ...]:
    """Nonzeros r_1, ..., r_k for which the theorem holds.

    Parameters
    ----------
    k : int
        Number of columns.
    eps : float
        Accuracy, positive.
    sharp : bool
        ``1 + ceil(2j/eps)``, enough for the default selection; else the paper's ``5 + ceil(5j/eps)``.

    Raises
    ------
    InvalidInput
        If k or eps is not positive.
    """
    if k < 1 or not eps > 0.0:
        raise InvalidInput(f"the sizes of the theorem need k >= 1 and eps > 0; got k = {k}, eps = {eps}")
    start, rate = (1, 2) if sharp else (5, 5)
    return tuple(start + math.ceil(rate * j / eps) for j in range(1, k + 1))
