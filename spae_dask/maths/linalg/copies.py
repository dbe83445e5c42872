"""Equal columns: an encoder uses the copy of lowest index, whatever the draw and the last bit of a core."""

import numpy as np

from spae_dask.maths.linalg.scaling import FloatArray, IntArray, squared_columns, unit_scaled

# Columns of a core are copies if they differ by less than this share of their length: a core made from a Gram matrix
# distinguishes columns only to the square root of rounding.
EQUAL = 1e-7


def lowest_equal(core: FloatArray) -> IntArray:
    """Lowest index ``(d,)`` of a column equal to each; its own where there is none, and for zero columns.

    Parameters
    ----------
    core : ndarray (m, d)
        Any finite core.
    """
    scaled = unit_scaled(core)[0]
    lowest = np.arange(scaled.shape[1])
    # equal columns have equal products with any vector, and few others have
    products = np.random.default_rng(0).standard_normal(scaled.shape[0]) @ scaled
    norms = np.sqrt(squared_columns(scaled))
    order = np.argsort(products, kind="stable")
    gaps = np.diff(products[order]) > EQUAL * np.sqrt(scaled.shape[0]) * 4.0 * norms[order[1:]]
    for near in np.split(order, np.flatnonzero(gaps) + 1):
        left = np.sort(near[norms[near] > 0.0])
        while left.size > 1:
            first = left[0]
            differ = np.sqrt(squared_columns(scaled[:, left] - scaled[:, [first]])) > EQUAL * norms[first]
            lowest[left[~differ]] = first
            left = left[differ]
    return lowest


def on_lowest(H: FloatArray, lowest: IntArray, *, shared: bool) -> FloatArray:
    """Encoder that uses, of equal columns, those of lowest index; as many of them as before.

    Parameters
    ----------
    H : ndarray (d, k)
        Encoder.
    lowest : ndarray (d,)
        See :func:`lowest_equal`.
    shared : bool
        True if the columns of H share their rows, which then move together.
    """
    moved = H.copy()
    used = np.flatnonzero(H.any(axis=1))
    for first in np.unique(lowest[used]):
        copies = np.flatnonzero(lowest == first)
        for j in [slice(None)] if shared else range(H.shape[1]):
            rows = copies[H[copies].any(axis=1) if shared else H[copies, j] != 0.0]
            moved[rows, j] = 0.0
            moved[copies[: rows.size], j] = H[rows, j]
    return moved


def on_lowest_places(columns: IntArray, lowest: IntArray) -> IntArray:
    """Distinct columns ``(r,)``, in their order, each on the copy of lowest index that no earlier one takes."""
    moved = columns.copy()
    for first in np.unique(lowest[columns]):
        among = np.flatnonzero(lowest[columns] == first)
        moved[among] = np.flatnonzero(lowest == first)[: among.size]
    return moved


def on_one(H: FloatArray, lowest: IntArray) -> FloatArray:
    """Encoder with the same codes that uses one of equal columns, the one of lowest index."""
    merged = np.zeros_like(H)
    np.add.at(merged, lowest, H)
    return merged
