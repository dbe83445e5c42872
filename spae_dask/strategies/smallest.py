"""The smallest number of nonzeros whose loss reaches a target, found on a core: no data are read.

Magdon-Ismail & Boutsidis (2015), Theorem 1 with r of order k / eps promises that some r is enough; the data usually
need far fewer. Doubling r brackets the answer and bisection closes the bracket. Along a nested path of columns (greedy
selections) losses never rise with r and the answer is the smallest of the path; other selections may reach the target
at a smaller r that is not looked at. The loss of the answer is always measured.
"""

from collections.abc import Callable

import numpy as np

from spae_dask.maths.linalg.loss import encoder_loss, rounding_error, total_variance
from spae_dask.maths.linalg.spectral import pca_loss, right_singular
from spae_dask.strategies.core_summary import Floats
from spae_dask.strategies.parameters import FitParameters


def loss_target(core: Floats, params: FitParameters) -> float:
    """Largest loss that meets the target of a fit, plus rounding."""
    total = total_variance(core)
    wanted = params.allowed_loss(pca_loss(right_singular(core, 0)[0], params.n_components), total)
    return wanted + rounding_error(wanted, total)


def smallest_r(core: Floats, k: int, target: float, encode: Callable[[int], Floats], floor: int | None = None) -> int:
    """Find a small r such that the encoder of r nonzeros loses at most ``target``.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Components.
    target : float
        Largest loss allowed.
    encode : callable
        Function from r to an encoder H (d, k) with at most r nonzeros a column.
    floor : int, optional
        Fewest nonzeros worth a try; k if not given, as where all components share their columns.

    Returns
    -------
    int
        Number r, at least ``floor``, or the number of nonzero columns if that is smaller; so many are always enough.
    """
    available = max(1, int(np.count_nonzero(core.any(axis=0))))
    least = min(k if floor is None else floor, available)
    return smallest_within(target, lambda r: encoder_loss(core, encode(r)), least, available)


def smallest_within(target: float, loss: Callable[[int], float], least: int, most: int) -> int:
    """A small r from ``least`` to ``most`` whose loss is at most ``target``; ``most`` if none is seen."""
    too_few, enough = 0, least
    while enough < most and loss(enough) > target:
        too_few, enough = enough, min(2 * enough, most)
    too_few = max(too_few, least - 1)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if loss(middle) <= target:
            enough = middle
        else:
            too_few = middle
    return enough
