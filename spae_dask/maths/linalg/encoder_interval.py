"""Certified bounds on the loss of an encoder from a Frequent Directions sketch alone.

X stands for the centered matrix with its columns divided by their scales, D = diag(1 / scale). What a sketch B of it
leaves open is E in ``X'X = B'B + D E D``, of which two things are certain: ``0 <= E <= shrunk I``, and the trace of E,
since every column's norm is known exactly. Then, with ``trace = tr DED``:

- For a decoder G and ``N = I - H G`` the loss ``||X N||^2`` is ``||B N||^2 + tr(DED NN')``, and ``NN' = I + M`` with
  ``M = H GG' H' - HG - (HG)'``. So it is ``||B N||^2 + trace + tr(E DMD)``, and DMD has rank 2k. By von Neumann's
  inequality the last term is largest where E spends its trace on the largest eigenvalues of DMD, at most ``shrunk`` on
  each. This is the best upper bound there is, since such an E exists.
- For every G the loss is ``||B (I - HG)||^2 + ||F (I - HG)||^2`` with ``F'F = DED``. The first term is at least the
  loss of H on B, the second at least what the best rank-k approximation leaves of F: its trace without the k largest
  eigenvalues, which are at most those of ``shrunk D^2``.
"""

import numpy as np
import numpy.typing as npt

from spae_dask.maths.linalg.loss import encoder_loss

Floats = npt.NDArray[np.float64]


def encoder_interval(
    sketch: Floats, left: Floats, shrunk: float, scale: Floats, H: Floats, G: Floats
) -> tuple[float, float]:
    """Certified interval for ``min over G of ||X - X H G||^2``.

    Parameters
    ----------
    sketch : ndarray (l, d)
        B, columns divided by their scales.
    left : ndarray (d,)
        ``||x_j||^2 - ||b_j||^2``: the diagonal of DED.
    shrunk : float
        Sum of all reductions of the squared singular values, before scaling.
    scale : ndarray (d,)
        Divides the columns.
    H : ndarray (d, k)
        Encoder.
    G : ndarray (k, d)
        A decoder, which should be near the best: the loss of the two bounds that of H from above, and is bounded too.

    Returns
    -------
    lower, upper : float
        ``upper`` also bounds the loss of H with G, unless that is more than the total.
    """
    k, trace = H.shape[1], float(np.sum(left))
    best = np.sort(scale**-2)[::-1][:k]
    lower = encoder_loss(sketch, H) + max(trace - shrunk * float(np.sum(best)), 0.0)
    residual = sketch - (sketch @ H) @ G
    most = largest_trace(_rank_2k(H, G, scale), shrunk, float(np.sum(left * scale**2)))
    total = float(np.vdot(sketch, sketch)) + trace
    return lower, max(min(float(np.vdot(residual, residual)) + trace + most, total), lower)


def _rank_2k(H: Floats, G: Floats, scale: Floats) -> Floats:
    """All d eigenvalues of DMD; no d x d matrix is formed."""
    k = H.shape[1]
    basis = np.asarray(np.linalg.qr(np.hstack([H, G.T]) / scale[:, None], mode="r"))
    inner = np.block([[G @ G.T, -np.eye(k)], [-np.eye(k), np.zeros((k, k))]])
    eigenvalues = np.linalg.eigvalsh(basis @ inner @ basis.T)
    return np.concatenate([eigenvalues, np.zeros(H.shape[0] - eigenvalues.size)])


def largest_trace(eigenvalues: Floats, ceiling: float, trace: float) -> float:
    """The most that ``tr(E M)`` can be over ``0 <= E <= ceiling I`` of the given trace, from M's eigenvalues (d,)."""
    descending = np.sort(eigenvalues)[::-1]
    spent = np.clip(trace - ceiling * np.arange(descending.size), 0.0, ceiling)
    return float(spent @ descending)
