"""All swaps of one column of a support for a column outside it, ranked by lower bounds on the gain.

Taking column i out of a support leaves the span T, whose best code u gains lambda. Bringing column j in adds the
direction q of its residual outside T, and the gain of the new support is at least the larger Ritz value of span{u, q},

    (lambda + c)/2 + sqrt(((lambda - c)/2)^2 + b^2),   c = ||D'q||^2,  b = u'DD'q.

With ``P_T = QQ' - gg'`` for one unit vector g of the span of Q per column i, all the swaps (i, j) are ranked by a few
matrix products.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spae_dask.maths.linalg.scaling import FloatArray

if TYPE_CHECKING:
    from spae_dask.maths.encoders.single_column import ColumnSolution

_POWER_STEPS = 3


class SwapTable(NamedTuple):
    """All swaps of a column i of a support for a column j outside it.

    Attributes
    ----------
    ritz : ndarray (s, c)
        Lower bounds on the gain after the swap; 0 where j may not enter, or i may not leave.
    energies, lengths : ndarray (s, c)
        Of column j outside the support without i: the sum of squares that its direction explains, and its length.
    border : ndarray (s, c)
        Products of the basis of the support with column j's part outside it, through ``DD'``.
    along : ndarray (s, c)
        Products of the directions that leave with the columns j.
    """

    ritz: FloatArray
    energies: FloatArray
    lengths: FloatArray
    border: FloatArray
    along: FloatArray


def swap_table(solution: "ColumnSolution") -> SwapTable:
    """Rank all swaps of one column of a support."""
    problem, inner = solution.problem, solution.inner
    inside, products = solution.products
    mixed = inner @ inside
    # of every column j outside the span of Q: squared length, energy, and products with DD'Q
    lengths2 = 1.0 - np.sum(inside**2, axis=0)
    energies = problem.energies - np.sum((2.0 * products - mixed) * inside, axis=0)
    products = products - mixed
    g = solution.leaving
    g_inner = g @ inner
    u = _best_without(solution, g)
    top = np.sum((u @ inner) * u, axis=1)[:, None]
    # the same three for column j, outside T_i instead of outside the span of Q
    along = g @ inside
    lengths2 = np.maximum(lengths2, 0.0) + along**2
    energies = energies + along * (2.0 * (g @ products) + along * np.sum(g_inner * g, axis=1)[:, None])
    cross = u @ products + np.sum(u * g_inner, axis=1)[:, None] * along
    barred = (lengths2 <= problem.dependent) | ~problem.live
    barred[:, solution.selected] = True
    if problem.reduced.free:
        barred[np.isin(solution.selected, problem.reduced.free)] = True
    lengths2[barred] = 1.0
    c = np.maximum(energies, 0.0) / lengths2
    half = 0.5 * (top - c)
    ritz = 0.5 * (top + c) + np.sqrt(half**2 + cross**2 / lengths2)
    ritz[barred] = 0.0
    return SwapTable(ritz, c, np.sqrt(lengths2), products, along)


def _best_without(solution: "ColumnSolution", g: FloatArray) -> FloatArray:
    """Nearly the best code of the support without column i, for every i, ``(s, s)`` in the basis Q.

    A few power steps from the best code of the whole support: any unit vector gives a lower bound.
    """
    u = np.tile(solution.code @ solution.Q, (g.shape[0], 1))
    for _ in range(_POWER_STEPS):
        u -= np.sum(u * g, axis=1)[:, None] * g
        u = u @ solution.inner
    u -= np.sum(u * g, axis=1)[:, None] * g
    lengths = np.sqrt(np.sum(u**2, axis=1))[:, None]
    return u / np.where(lengths > 0.0, lengths, 1.0)
