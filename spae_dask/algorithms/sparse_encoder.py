"""The main job on a core: choose columns, build the encoder, certify it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spae_dask.algorithms.certificate import Certificate
from spae_dask.algorithms.certify import certify
from spae_dask.algorithms.core import CoreSummary, Floats
from spae_dask.algorithms.problem import Problem
from spae_dask.algorithms.smallest import smallest_r
from spae_dask.encoding import BatchEncoder, encode_batch, theorem_bound
from spae_dask.linalg.loss import sequential_explained
from spae_dask.linalg.spectral import right_singular


@dataclass(frozen=True, eq=False)
class FittedEncoder:
    """An encoder, its decoder and what is known about them.

    Attributes
    ----------
    H : ndarray (d, k)
        Encoder; columns of unit length, or zero where the data have no more to give.
    G : ndarray (k, d)
        Optimal decoder.
    mean, scale : ndarray (d,)
        Codes of x are ``(x - mean) / scale @ H``.
    selected : ndarray of int
        Features any component uses, ascending.
    chosen : ndarray of int
        Columns of the shared support, in the order chosen.
    explained_ratio : ndarray (k,)
        Share of the total that each component explains beyond those before it; sums to ``1 - loss / total``.
    spectrum : ndarray
        Singular values of X, descending.
    constant : ndarray of int
        Features without variance.
    fill : ndarray (d,) or None
        What stands for NaN; None if NaN is refused.
    n_samples : int
        Rows seen.
    certificate : Certificate
        The loss.
    """

    H: Floats
    G: Floats
    mean: Floats
    scale: Floats
    selected: npt.NDArray[np.intp]
    chosen: npt.NDArray[np.intp]
    explained_ratio: Floats
    spectrum: Floats
    constant: npt.NDArray[np.intp]
    fill: Floats | None
    n_samples: int
    certificate: Certificate


def encode_core(problem: Problem, summary: CoreSummary, *, passes: int, bytes_read: int) -> FittedEncoder:
    """Choose columns, build the encoder and certify it, all on a core; no data are read."""
    core, k = summary.core, problem.n_components

    def encode(r: int) -> BatchEncoder:
        return encode_batch(core, k, r, selection=problem.selection, rng=np.random.default_rng(problem.seed))

    r = problem.n_nonzero
    if r is None:
        r = smallest_r(core, k, problem.eps, lambda size: encode(size).H)
    encoded = encode(r)
    H, G = padded(encoded.H.T, k).T, padded(encoded.G, k)
    bound, theorem = theorem_bound(problem.selection, k, r)[:2]
    explained = sequential_explained(core, H)
    certificate = certify(
        summary,
        H,
        bound=bound,
        theorem=theorem,
        passes=passes,
        bytes_read=bytes_read,
        eps=problem.eps if problem.n_nonzero is None else None,
    )
    return FittedEncoder(
        H=H,
        G=G,
        mean=summary.mean,
        scale=summary.scale,
        selected=np.flatnonzero(H.any(axis=1)),
        chosen=encoded.selected,
        explained_ratio=explained / certificate.total if certificate.total > 0 else np.zeros(k),
        spectrum=right_singular(core, 0)[0],
        constant=summary.constant,
        fill=summary.fill,
        n_samples=summary.n_samples,
        certificate=certificate,
    )


def padded(rows: Floats, k: int) -> Floats:
    """Rows (k' <= k, d) with zero rows below, so that there are always k components."""
    padded = np.zeros((k, rows.shape[1]))
    padded[: rows.shape[0]] = rows
    return padded + 0.0  # no negative zeros, which only look odd
