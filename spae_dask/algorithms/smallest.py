"""The smallest number of nonzeros whose loss is near enough to PCA's, found on a core: no data are read.

Magdon-Ismail & Boutsidis (2015), Theorem 1 with r of order k / eps promises that some r is enough; the data usually
need far fewer. Doubling r brackets the answer and bisection closes the bracket. Along a nested path of columns (greedy
selections) losses never rise with r and the answer is the smallest of the path; other selections may reach the target
at a smaller r that is not looked at. The loss of the answer is always measured.
"""

from collections.abc import Callable

import numpy as np

from spae_dask.algorithms.core import Floats
from spae_dask.linalg.loss import encoder_loss, rounding_error, total_variance
from spae_dask.linalg.spectral import pca_loss, right_singular


def smallest_r(core: Floats, k: int, eps: float, encode: Callable[[int], Floats]) -> int:
    """Find a small r such that the encoder of r nonzeros loses at most ``1 + eps`` times what PCA loses.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Components.
    eps : float
        Wanted relative excess, positive.
    encode : callable
        From r to an encoder H (d, k) with at most r nonzeros a column.

    Returns
    -------
    int
        At least k, or the number of nonzero columns if that is smaller; so many are always enough.
    """
    best = pca_loss(right_singular(core, 0)[0], k)
    wanted = (1 + eps) * best
    wanted += rounding_error(wanted, total_variance(core))
    available = max(1, int(np.count_nonzero(core.any(axis=0))))

    def reached(r: int) -> bool:
        return encoder_loss(core, encode(r)) <= wanted

    too_few, enough = 0, min(k, available)
    while enough < available and not reached(enough):
        too_few, enough = enough, min(2 * enough, available)
    too_few = max(too_few, min(k, available) - 1)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if reached(middle):
            enough = middle
        else:
            too_few = middle
    return enough
