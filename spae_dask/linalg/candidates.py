"""A core for a few columns, from their cross products alone."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def candidate_core(gram: Floats, cross: Floats) -> Floats:
    """Core ``M = Q'X`` with Q an orthonormal basis of the columns C.

    For columns among C it is exact: every selection, encoder and explained variance on them is that of X. The total of
    X outside span(C), ``||X||^2 - ||M||^2``, is lost whatever is done with them.

    Parameters
    ----------
    gram : ndarray (r, r)
        C'C.
    cross : ndarray (r, d)
        C'X.

    Returns
    -------
    ndarray (q, d)
        q is the number of independent columns, to about 1e-13 of the squared lengths (algorithm book, "Encoder": the
        eigenvectors of the unit-diagonal Gram matrix, cut at ``r 1e-13`` of the largest eigenvalue).
    """
    lengths = np.sqrt(np.clip(np.diag(gram), 0.0, None))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    eigenvalues, vectors = np.linalg.eigh(gram * inverse[:, None] * inverse)
    kept = eigenvalues > len(lengths) * 1e-13 * max(float(eigenvalues[-1]), 0.0)
    weights = inverse[:, None] * vectors[:, kept] / np.sqrt(eigenvalues[kept])
    core: Floats = weights.T @ cross
    return core
