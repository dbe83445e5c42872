"""The main job on a core: choose columns, build the encoder, certify it."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from spae_dask.algorithms.certificate import Certificate, symmetric_bounds
from spae_dask.algorithms.certify import certify
from spae_dask.algorithms.core_summary import CoreSummary, Floats
from spae_dask.algorithms.methods import METHODS, Encoded, Search
from spae_dask.algorithms.problem import SHARED, Problem
from spae_dask.algorithms.smallest import loss_target, smallest_r
from spae_dask.algorithms.theory import target_of
from spae_dask.encoding.orthonormal import orthonormalize
from spae_dask.linalg.loss import encoder_loss, sequential_explained
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


def encode_core(
    problem: Problem,
    summary: CoreSummary,
    *,
    passes: int,
    bytes_read: int,
    start: Floats | None = None,
    effort: float = 1.0,
) -> FittedEncoder:
    """Build the encoder by the problem's method and certify it, all on a core; no data are read.

    ``start`` is an encoder (d, k') of no more columns and nonzeros that is known already; methods that search start
    from it if it is better than their own start. ``effort`` is that of ``Search``, for a given number of nonzeros.
    """
    core = summary.core
    encoded = (
        _smallest(problem, core)
        if problem.sizes is None
        else METHODS[problem.method](problem, core, problem.sizes, Search(effort, start))
    )
    if problem.orthonormal:
        H, G = orthonormalize(core, encoded.H)
        encoded = replace(encoded, H=H, G=G, prefix_losses=None, prefix_bounds=None)  # its prefixes are others
    return certified_encoder(problem, summary, encoded, passes=passes, bytes_read=bytes_read)


def certified_encoder(
    problem: Problem, summary: CoreSummary, encoded: Encoded, *, passes: int, bytes_read: int
) -> FittedEncoder:
    """Certify an encoder on a core, its columns filled up to k with zero ones."""
    core, k = summary.core, problem.n_components
    H, G = padded(encoded.H.T, k).T, padded(encoded.G, k)
    explained = sequential_explained(core, H)
    certificate = certify(
        summary,
        H,
        bound=encoded.bound,
        theorem=encoded.theorem,
        passes=passes,
        bytes_read=bytes_read,
        target=target_of(problem),
    )
    symmetric_lower, symmetric_upper = symmetric_bounds(certificate, H, G)
    certificate = replace(
        certificate,
        symmetric_lower=symmetric_lower,
        symmetric_upper=symmetric_upper,
        prefix_losses=encoded.prefix_losses,
        prefix_bounds=encoded.prefix_bounds,
    )
    return FittedEncoder(
        H=H,
        G=G,
        mean=summary.mean,
        scale=summary.scale,
        selected=np.flatnonzero(H.any(axis=1)),
        chosen=encoded.chosen,
        explained_ratio=explained / certificate.total if certificate.total > 0 else np.zeros(k),
        spectrum=right_singular(core, 0)[0],
        constant=summary.constant,
        fill=summary.fill,
        n_samples=summary.n_samples,
        certificate=certificate,
    )


def _smallest(problem: Problem, core: Floats) -> Encoded:
    """Encoder of the fewest nonzeros found whose loss is within ``1 + eps`` of PCA's.

    The search uses quick encoders; full effort then tries to do with fewer still.
    """
    encode = METHODS[problem.method]
    floor = problem.n_components if problem.method in SHARED else 1
    r = smallest_r(
        core, problem.n_components, problem.eps, lambda size: encode(problem, core, size, Search(effort=0)).H, floor
    )
    best = encode(problem, core, r, Search())
    target = loss_target(core, problem.n_components, problem.eps)
    while problem.method == "polished" and r > 1:
        fewer = encode(problem, core, r - 1, Search())
        if encoder_loss(core, fewer.H) > target:
            break
        best, r = fewer, r - 1
    return best


def padded(rows: Floats, k: int) -> Floats:
    """Rows (k' <= k, d) with zero rows below, so that there are always k components."""
    padded = np.zeros((k, rows.shape[1]))
    padded[: rows.shape[0]] = rows
    return padded + 0.0  # no negative zeros, which only look odd
