"""Cores for a few columns of X: from their cross products alone, or cut out of a wide core."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from spae_dask.maths.linalg.scaling import PANEL_COLUMNS
from spae_dask.maths.linalg.triangular import add_rows

Floats = npt.NDArray[np.float64]
Columns = npt.NDArray[np.intp]


def basis_weights(gram: Floats, noise: float = 0.0) -> tuple[Floats, float]:
    """Weights that make an orthonormal basis of columns C, from their products.

    The eigenvectors of the Gram matrix of unit columns (algorithm book, "Encoder"), without those whose eigenvalue is
    below ``r 1e-13`` or ``r noise`` of the largest: q is the number of columns that are independent beyond noise.

    Parameters
    ----------
    gram : ndarray (r, r)
        C'C.
    noise : float
        Error of its entries, over the lengths of both columns.

    Returns
    -------
    weights : ndarray (r, q)
        ``C weights`` is orthonormal.
    dropped : float
        Largest eigenvalue left out: the basis misses this of the square of a difference of unit columns.
    """
    lengths = np.sqrt(np.clip(np.diag(gram), 0.0, None))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    eigenvalues, vectors = np.linalg.eigh(gram * inverse[:, None] * inverse)
    kept = eigenvalues > len(lengths) * max(1e-13, noise) * max(float(eigenvalues[-1]), 0.0)
    weights: Floats = inverse[:, None] * vectors[:, kept] / np.sqrt(eigenvalues[kept])
    return weights, float(np.max(np.abs(eigenvalues[~kept]), initial=0.0))


def candidate_core(gram: Floats, cross: Floats, noise: float = 0.0) -> tuple[Floats, float]:
    """Core ``M = Q'X`` with Q an orthonormal basis of the columns C.

    For columns among C it is exact: every selection, encoder and explained variance on them is that of X. The total of
    X outside span(C), ``||X||^2 - ||M||^2``, is lost whatever is done with them.

    Parameters
    ----------
    gram : ndarray (r, r)
        C'C.
    cross : ndarray (r, d)
        C'X.
    noise : float
        See :func:`basis_weights`.

    Returns
    -------
    core : ndarray (q, d)
        q is the number of independent columns, see :func:`basis_weights`.
    dropped : float
        Largest eigenvalue that the basis leaves out.
    """
    weights, dropped = basis_weights(gram, noise)
    return weights.T @ cross, dropped


def rows_triangle(blocks: Sequence[Floats], left_out: Columns) -> Floats:
    """Triangle R with ``R'R = AA'`` for a wide matrix A, in panels of its columns, so that A is never copied.

    Householder QR of A', which keeps the digits that AA' would lose.

    Parameters
    ----------
    blocks : sequence of ndarray (m_i, d)
        A, as blocks of its rows.
    left_out : ndarray of int
        Columns of A to leave out.

    Returns
    -------
    ndarray (m, m)
        Upper triangular; the leading triangle is that of the leading rows of A alone.
    """
    m, d = sum(block.shape[0] for block in blocks), blocks[0].shape[1]
    triangle = np.zeros((m, m), order="F")
    keep = np.ones(d, dtype=bool)
    keep[left_out] = False
    for start, stop in pairwise([*range(0, d, PANEL_COLUMNS), d]):
        kept = np.flatnonzero(keep[start:stop]) + start
        if kept.size:
            panel = np.concatenate([block[:, kept] for block in blocks])
            triangle = add_rows(triangle, panel.T)
    return np.triu(triangle)


def restricted_core(core: Floats, columns: Columns) -> Floats:
    """The given columns of a core, then columns that stand for all others.

    An encoder that uses the given columns only explains the same on both: all it depends on are those columns and
    ``LL'``.

    Parameters
    ----------
    core : ndarray (m, d)
        L.
    columns : ndarray (c,)
        Columns an encoder may use.

    Returns
    -------
    ndarray (m, c + m)
        The core itself, its columns in another order, if that is not wider.
    """
    others = np.setdiff1d(np.arange(core.shape[1]), columns)
    if others.size <= core.shape[0]:
        return core[:, np.concatenate([columns, others])]
    return np.hstack([core[:, columns], rows_triangle([core], columns).T])
