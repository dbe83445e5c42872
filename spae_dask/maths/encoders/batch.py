"""Batch encoder: all k columns of H share the same r rows, those of selected columns of X.

Magdon-Ismail & Boutsidis, *Optimal sparse linear encoders and sparse PCA* (2015), Theorem 1: columns C with
``||X - X_{C,k}||^2 <= (1 + eps) ||X - X_k||^2`` give an encoder of the same loss. With ``C = QR``, the paper takes
``H = R^{-1} (Q'X)_k`` up to a right factor; here that factor is chosen so that H has orthonormal columns.
To check a run: ``encoder_loss(core, H)`` equals ``columns_loss(core, selected, k).loss``, and ``H'H`` is the identity.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.loss import LossSplit, encoder_loss, explained_order, rounding_error, total_variance
from spae_dask.maths.linalg.project import DEPENDENT, ColumnBasis, RankTol, column_basis, residual, tolerance_of
from spae_dask.maths.linalg.scaling import FloatArray, IntArray, squared_columns, unit_scaled
from spae_dask.maths.linalg.spectral import column_signs, thin_svd
from spae_dask.maths.selection import GivenSelection, select_columns, selection_named
from spae_dask.maths.selection.adaptive import Split, best_split, paper_split
from spae_dask.maths.selection.dual_set import dual_set_factor


@dataclass(frozen=True, eq=False)
class BatchEncoder:
    """An encoder whose columns share their nonzero rows.

    Attributes
    ----------
    H : ndarray (d, k')
        Orthonormal columns, nonzero only in the selected rows, by descending sequential explained variance.
        ``k'`` is k, or the number of independent selected columns if that is smaller.
    G : ndarray (k', d)
        Its optimal decoder.
    selected : ndarray (r,)
        Selected columns in order chosen.
    split : LossSplit
        Loss of H in its two parts.
    """

    H: FloatArray
    G: FloatArray
    selected: IntArray
    split: LossSplit

    @property
    def loss(self) -> float:
        """Loss of H."""
        return self.split.loss


def encoder_from_columns(
    core: FloatArray, columns: IntArray, n_components: int, *, rank_tol: RankTol = DEPENDENT
) -> tuple[FloatArray, FloatArray]:
    """Best encoder whose nonzero rows are the given columns, and its optimal decoder.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    columns : ndarray (r,)
        Distinct indices; columns that are zero or depend on the others get zero rows.
    n_components : int
        Number k of codes.
    rank_tol : float or ndarray (d,), optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them; one for all columns, or one for each.

    Returns
    -------
    H : ndarray (d, k')
        Orthonormal columns; ``k' = min(k, number of independent columns)``, which may be 0: the caller pads. The
        entry of largest magnitude of each column is positive.
    G : ndarray (k', d)
        ``(XH)^+ X``.
    """
    return _encode(unit_scaled(core)[0], columns, n_components, rank_tol)[:2]


def _encode(
    scaled: FloatArray, columns: IntArray, k: int, rank_tol: RankTol
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Encoder and decoder, with the basis Q of the columns and the singular values of ``Q'X``."""
    if k < 1:
        raise InvalidInput(f"an encoder needs n_components >= 1; got {k}")
    tol = tolerance_of(rank_tol, columns)
    basis = column_basis(scaled[:, columns], rank_tol=tol)
    U, sigma, Wt = thin_svd(basis.Q.T @ scaled)
    width = min(k, basis.kept.size)
    # C T = Q U_k are the best codes; rotating T to orthonormal columns changes neither their span nor the loss
    T = _spread(scaled[:, columns], basis, basis.coefficients(U[:, :width]), tol) * sigma[:width]
    balanced, unit = unit_scaled(T)
    H_all, stretch, rotation = thin_svd(balanced)
    H = np.zeros((scaled.shape[1], width))
    H[columns] = H_all
    G = (stretch * unit)[:, None] * (rotation @ Wt[:width])
    order = explained_order(scaled, H)
    signs = column_signs(H[:, order])
    return H[:, order] * signs, G[order] * signs[:, None], basis.Q, sigma


def _spread(C: FloatArray, basis: ColumnBasis, T: FloatArray, rank_tol: RankTol) -> FloatArray:
    """Coefficients of the same codes with the least norm, where columns depend on each other: twins share the weight.

    Columns a million times smaller than the largest are left as they are: the least norm would only be rounding there.
    """
    if basis.kept.size in (0, C.shape[1]):
        return T
    alike = basis.norms > 1e-6 * np.max(basis.norms)
    if not alike[basis.kept].all():
        return T
    codes = C @ T
    even = np.zeros_like(T)
    even[alike] = np.linalg.lstsq(C[:, alike], codes, rcond=float(np.min(rank_tol)))[0]
    error = float(np.max(np.abs(C @ even - codes), initial=0.0))
    return even if error <= 1e-12 * float(np.max(np.abs(codes), initial=0.0)) else T


def encode_batch(
    core: FloatArray,
    k: int,
    r: int,
    *,
    selection: str | GivenSelection,
    rng: np.random.Generator,
    rank_tol: float = DEPENDENT,
    leading: FloatArray | None = None,
) -> BatchEncoder:
    """Select r columns and build the best encoder on them.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Number of codes.
    r : int
        Nonzeros allowed in each column of H.
    selection : str or callable
        A name in :data:`spae_dask.maths.selection.SELECTIONS`, or ``(core, k, r, rng) -> columns``.
    rng : Generator
        Generator for selections that draw.
    rank_tol : float, optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them and gets no weight.

    Returns
    -------
    BatchEncoder
        Encoder, decoder, selection and loss.
    """
    selected = select_columns(selection, core, k, r, rng, rank_tol=rank_tol, leading=leading)
    scaled, scale = unit_scaled(core)
    H, G, Q, sigma = _encode(scaled, selected, k, rank_tol)
    split = LossSplit(float(np.sum(squared_columns(residual(scaled, Q)))), float(np.sum(sigma[k:] ** 2)))
    # Equal in exact arithmetic. If codes are tiny differences of columns, the loss must be that of the returned H.
    actual = encoder_loss(scaled, H)
    if abs(actual - split.loss) > rounding_error(split.loss, total_variance(scaled)):
        split = LossSplit(split.projection, max(actual - split.projection, 0.0))
    units = scale * scale
    return BatchEncoder(H, G, selected, LossSplit(split.projection * units, split.truncation * units))


class TheoremBound(NamedTuple):
    """Proved bound on the information loss of a batch encoder.

    Attributes
    ----------
    bound : float or None
        Largest information loss; None if nothing is proved.
    theorem : str
        Name of the theorem that proves the bound, in words.
    in_expectation : bool
        True if it holds for the mean over the random draws only.
    """

    bound: float | None
    theorem: str
    in_expectation: bool


_DUAL_SET = "Boutsidis, Drineas & Magdon-Ismail 2014, Theorem 2 (dual-set): 1 + 1/(1 - sqrt(k/r))^2"
_PIVOTING = "Osinsky 2023 (k columns by pivoting): k + 1"
_ADAPTIVE = "Boutsidis, Drineas & Magdon-Ismail 2014, Theorem 5 (adaptive sampling)"


def theorem_bound(selection: str, k: int, r: int) -> TheoremBound:
    """Bound on the information loss of a batch encoder before seeing the data.

    Parameters
    ----------
    selection : str
        A name in :data:`spae_dask.maths.selection.SELECTIONS`.
    k : int
        Number of codes.
    r : int
        Columns selected.

    Returns
    -------
    TheoremBound
        For the selection as implemented here, with exact singular vectors.
    """
    selection_named(selection)
    if r < k:
        return TheoremBound(None, "No bound: fewer columns than codes cannot be compared with rank k.", False)
    if selection == "dual-set":
        bound, theorem = _start_bound(k, r)
        return TheoremBound(bound, theorem, False)
    if selection == "barrier":
        bound, theorem = _barrier_bound(k, r)
        return TheoremBound(bound, theorem, False)
    if selection == "exchange":
        bound, theorem = _start_bound(k, r)
        return TheoremBound(bound, f"{theorem}; exchange starts there and only improves", False)
    if selection in ("adaptive", "adaptive-derandomized") and r > k:
        split = best_split(k, r)
        return _sampled_bound(k, r, split, _start_bound(k, split.start), random=selection == "adaptive")
    if selection == "adaptive-paper" and r > 5 * k:
        return _sampled_bound(k, r, paper_split(k, r), _barrier_bound(k, 5 * k), random=True)
    if selection in ("adaptive", "adaptive-derandomized", "adaptive-paper"):
        bound, theorem = _barrier_bound(k, r)
        return TheoremBound(bound, theorem, False)
    return TheoremBound(
        None, f"No unconditional bound is known for {selection!r}; the measured loss stands alone.", False
    )


def _start_bound(k: int, r: int) -> tuple[float, str]:
    return (k + 1.0, _PIVOTING) if k == 1 else _barrier_bound(k, r)


def _barrier_bound(k: int, r: int) -> tuple[float, str]:
    return (k + 1.0, _PIVOTING) if r == k else (dual_set_factor(k, r), _DUAL_SET)


def _sampled_bound(k: int, r: int, split: Split, start_bound: tuple[float, str], *, random: bool) -> TheoremBound:
    factor, start = start_bound
    if factor <= split.bound:
        return TheoremBound(factor, f"{start}, for the {split.start} columns of the start", False)
    paper = f", at most 1 + 5k/(r - 5k) = {1 + 5 * k / (r - 5 * k):.4g}" if r > 5 * k else ""
    how = "" if random else ", derandomised by conditional expectations"
    text = f"{_ADAPTIVE} after a start of {split.start} columns within {factor:.4g} of PCA{paper}{how}"
    return TheoremBound(split.bound, text, random)
