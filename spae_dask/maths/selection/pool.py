"""Most promising columns of a core that has too many columns to search them all."""

from collections.abc import Sequence

import numpy as np

from spae_dask.maths.linalg.scaling import FloatArray, IntArray, squared_columns
from spae_dask.maths.selection.leverage import leverage_scores
from spae_dask.maths.selection.problem import ranked


def promising(
    core: FloatArray, V_k: FloatArray, available: IntArray, size: int, also: Sequence[IntArray] = ()
) -> IntArray:
    """All available columns; of many, those of most leverage and those best aligned with ``X V_k``.

    Parameters
    ----------
    core : ndarray (m, d)
        Core, scaled so that squares are harmless.
    V_k : ndarray (d, k)
        Its top right singular vectors.
    available : ndarray of int
        Columns to take from, ascending.
    size : int
        Take all if there are no more.
    also : sequence of ndarray of int
        Columns to take in any case.

    Returns
    -------
    ndarray of int
        Ascending.
    """
    if available.size <= size:
        return available
    target = (core @ V_k).T
    norms = squared_columns(core)
    aligned = np.divide(squared_columns(target @ core), norms, out=np.zeros_like(norms), where=norms > 0.0)
    barred = norms > 0.0
    barred[available] = False
    by_leverage, by_alignment = (
        ranked(np.where(barred, -1.0, score))[: size // 2] for score in (leverage_scores(V_k), aligned)
    )
    return np.unique(np.concatenate([by_leverage, by_alignment, *also]))
