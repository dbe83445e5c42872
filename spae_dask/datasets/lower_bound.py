"""Matrix of the lower bound: every choice of columns loses much on it, so it tests every bound on sparse encoders.

Boutsidis, Drineas & Magdon-Ismail, "Near-optimal column-based matrix reconstruction", SIAM J. Comput. 43 (2014),
section 9.2, after Deshpande & Vempala (2006). All columns of a block point almost the same way, and each has a small
direction of its own that no other column helps with. Every loss is known in closed form. With r columns spread evenly
over k blocks the loss tends to ``1 + k/r`` times PCA's as blocks widen and ``alpha`` falls, and no encoder of r nonzero
rows in all does better (Magdon-Ismail & Boutsidis 2015, the lower bound).
"""

import numpy as np
import numpy.typing as npt


def lower_bound_matrix(n_blocks: int, block_columns: int, alpha: float) -> npt.NDArray[np.float64]:
    """Block-diagonal matrix of equal blocks.

    Parameters
    ----------
    n_blocks : int
        Blocks; the matrix is hard for k = ``n_blocks`` components.
    block_columns : int
        b, columns of a block: ``e_0 + alpha e_j`` for j = 1, ..., b.
    alpha : float
        Length of each column's own direction; the direction common to the columns of a block has length 1.

    Returns
    -------
    ndarray (n_blocks (b + 1), n_blocks b)
        Its best approximation of rank ``n_blocks`` loses ``n_blocks (b - 1) alpha^2``.
    """
    block = np.vstack([np.ones(block_columns), alpha * np.eye(block_columns)])
    return np.kron(np.eye(n_blocks), block).astype(np.float64, copy=False)


def lower_bound_loss(counts: npt.ArrayLike, block_columns: int, alpha: float) -> float:
    """Loss of the best encoder of as many components as blocks on chosen columns, ``||X - X_{C,k}||^2``.

    Parameters
    ----------
    counts : array_like (n_blocks,)
        Columns chosen in each block, at least 1; which ones does not matter.
    block_columns, alpha : int, float
        As for :func:`lower_bound_matrix`.
    """
    r, square = np.asarray(counts, dtype=np.float64), alpha**2
    return float(np.sum((block_columns - 1) * square + (block_columns - r) * square / (r + square)))


def even_choice_ratio(n_blocks: int, block_columns: int, alpha: float, n_columns: int) -> float:
    """Least information loss of an encoder whose nonzero rows are ``n_columns`` in all: that of an even choice.

    The loss is convex in the number of columns of a block, so the most even choice loses the least.

    Parameters
    ----------
    n_blocks, block_columns, alpha : int, int, float
        As for :func:`lower_bound_matrix`.
    n_columns : int
        Columns chosen, from ``n_blocks`` to all.
    """
    each, more = divmod(n_columns, n_blocks)
    counts = np.full(n_blocks, each) + (np.arange(n_blocks) < more)
    return lower_bound_loss(counts, block_columns, alpha) / (n_blocks * (block_columns - 1) * alpha**2)
