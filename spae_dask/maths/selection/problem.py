"""Input of every selection: the scaled core, its top singular vectors, and the columns that may be chosen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.project import DEPENDENT, RankTol
from spae_dask.maths.linalg.scaling import BoolArray, FloatArray, IntArray, squared_columns, unit_scaled
from spae_dask.maths.linalg.spectral import leading_subspace

TIE = 1e-9
"""Relative difference below which two scores, or two losses, are equal: more than rounding makes of them on cores of
the same data."""

REST = 1e-9
"""Rounding of what is left of a number, over the number before others were subtracted, if it is divided by a short
length."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Column selection posed on a core.

    Attributes
    ----------
    core : ndarray (m, d)
        The core, divided by a power of two so that squares are harmless.
    V_k : ndarray (d, k')
        Its top right singular vectors; ``k'`` is k or the rank, whichever is smaller.
    r : int
        Columns to choose: what was asked for, or the number that may be chosen if that is smaller.
    nonzero : ndarray (d,) of bool
        Columns that may be chosen.
    rank_tol : float or ndarray (d,)
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them; one for all columns, or one for each.
    """

    core: FloatArray
    V_k: FloatArray
    r: int
    nonzero: BoolArray
    rank_tol: RankTol = DEPENDENT

    @property
    def k(self) -> int:
        """Number of singular vectors."""
        return int(self.V_k.shape[1])

    def residual_of_pca(self) -> tuple[FloatArray, FloatArray]:
        """``E = L - L V_k V_k'`` and its squared column lengths; exactly zero if the rank is at most k.

        The lengths are what the barrier methods weigh; ``sum(e) <= 1e-28 ||L||^2`` is rounding noise.
        """
        E = (self.core @ self.V_k) @ self.V_k.T
        np.subtract(self.core, E, out=E)
        e = squared_columns(E)
        if np.sum(e) <= 1e-28 * np.sum(squared_columns(self.core)):
            return np.zeros_like(E), np.zeros_like(e)
        return E, e


def pose(
    core: FloatArray,
    k: int,
    r: int,
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
    allowed: IntArray | None = None,
) -> Problem:
    """Check the arguments of a selection and compute what all of them need.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Rank to approximate, at least 1.
    r : int
        Columns to choose, at least 1.
    rank_tol : float or ndarray (d,), optional
        Relative length of a column's part outside the span of others below which the column counts as dependent on
        them; one for all columns, or one for each.
    leading : ndarray (d, k'), optional
        Top k right singular vectors of the core, if they are known.
    allowed : ndarray of int, optional
        The only columns that may be chosen. All if None.

    Raises
    ------
    InvalidInput
        If k or r is below 1.
    """
    if k < 1 or r < 1:
        raise InvalidInput(f"column selection needs k >= 1 and r >= 1; got k = {k}, r = {r}")
    scaled, _ = unit_scaled(core)
    nonzero = np.any(scaled != 0.0, axis=0)
    if leading is None:
        leading = leading_subspace(scaled, k) if nonzero.any() else np.zeros((scaled.shape[1], 0))
    if allowed is not None:
        nonzero &= np.isin(np.arange(nonzero.size), allowed)
    available = int(np.count_nonzero(nonzero))
    return Problem(scaled, leading, min(r, available), nonzero, rank_tol)


def lowest_best(score: FloatArray, allowed: BoolArray | None = None, begun: float = 0.0) -> int:
    """Lowest index among the allowed ones, all if None, whose score equals the largest.

    Twins, such as duplicated columns, score the same up to rounding; without the tolerance the last bit would choose,
    and the same data in other chunks would give another answer. Scores are equal to ``TIE``, or, of squares of what is
    left of numbers whose largest square was ``begun``, to the rounding of those.
    """
    best = float((score if allowed is None else score[allowed]).max())
    slack = TIE * abs(best)
    if begun > 0.0:
        slack = max(slack, float(rounding_of_rest(np.asarray(best), np.asarray(begun))))
    near = score >= best - slack
    return int((near if allowed is None else near & allowed).argmax())


def rounding_of_rest(rest: FloatArray, begun: FloatArray) -> FloatArray:
    """Error of squares of what is left of numbers, after all else was subtracted, by the largest square at first."""
    error: FloatArray = REST * np.sqrt(np.maximum(rest, REST**2 * begun) * begun)
    return error


def ranked(score: FloatArray) -> IntArray:
    """Indices by descending score; those whose scores agree to ``TIE`` of the largest by index."""
    largest = float(np.max(np.abs(score), initial=0.0))
    steps = np.round(score / (TIE * largest)) if largest > 0.0 else np.zeros_like(score)
    return np.argsort(-steps, kind="stable").astype(np.intp)


def first_of_best(values: Sequence[float], supports: Sequence[Iterable[int]]) -> int:
    """Place of the largest value; of those equal to ``TIE`` that of the support whose sorted indices come first."""
    order = sorted(range(len(values)), key=lambda i: sorted(supports[i]))
    return order[lowest_best(np.array([values[i] for i in order]))]


def distinct(columns: IntArray) -> IntArray:
    """Drop repeats, keeping the first of each."""
    _, first = np.unique(columns, return_index=True)
    kept: IntArray = columns[np.sort(first)]
    return kept
