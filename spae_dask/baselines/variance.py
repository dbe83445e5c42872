"""Zou's adjusted variance: variance that each component explains beyond the ones before it.

Zou, Hastie & Tibshirani, "Sparse principal component analysis", JCGS 15 (2006), section 3.4; the mathematics
are in :mod:`spae_dask.maths.linalg.codes`, here they are given ``X'X`` for any H.
"""

import numpy as np
import numpy.typing as npt

from spae_dask.baselines.inputs import scaled_core
from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.codes import sequential_variances
from spae_dask.maths.linalg.scaling import FloatArray


def adjusted_variance(H: npt.ArrayLike, gram: npt.ArrayLike) -> FloatArray:
    """Variance of each component's codes that the components before it do not have.

    Parameters
    ----------
    H : array_like, shape (d, k)
        Encoder; its columns count as they are, so give unit vectors.
    gram : array_like, shape (d, d)
        X'X, or a covariance or correlation matrix; the answer is in its units.

    Returns
    -------
    ndarray, shape (k,)
        ``R_jj²``; 0 for a zero component and for one whose codes depend on those before it.

    Raises
    ------
    InvalidInput
        If the shapes do not fit or `gram` is not symmetric.
    NonFiniteInput
        If `gram` holds NaN or infinite entries.

    References
    ----------
    Zou, Hastie & Tibshirani, JCGS 15 (2006) 265-286.
    """
    H = np.asarray(H, dtype=np.float64)
    A, scale = scaled_core(gram, gram=True)
    if H.ndim != 2 or len(H) != len(A):
        raise InvalidInput(
            f"H has shape {H.shape} and gram has shape {A.shape}. Give H with one row for each column of gram."
        )
    return sequential_variances(H.T @ A @ H) * scale
