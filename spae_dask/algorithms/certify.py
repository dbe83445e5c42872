"""From a core and an encoder to the certificate."""

import numpy as np

from spae_dask.algorithms.certificate import Certificate
from spae_dask.algorithms.core import CoreSummary, Floats
from spae_dask.linalg.loss import encoder_loss, information_loss, symmetric_explained, total_variance
from spae_dask.linalg.spectral import pca_loss, right_singular


def certify(
    summary: CoreSummary,
    H: Floats,
    *,
    bound: float | None,
    theorem: str,
    passes: int,
    bytes_read: int,
    eps: float | None = None,
    decoder_loss: float | None = None,
) -> Certificate:
    """Measure the loss of an encoder on a core.

    Parameters
    ----------
    summary : CoreSummary
        Core of the data.
    H : ndarray (d, k)
        Encoder; zero columns are components that carry nothing.
    bound, theorem : float or None, str
        What theory promised.
    passes, bytes_read : int
        What the core cost.
    eps, decoder_loss : float or None
        See ``Certificate``.
    """
    k = H.shape[1]
    sigma, _ = right_singular(summary.core, 0)
    total = total_variance(summary.core)
    loss = encoder_loss(summary.core, H)
    best = pca_loss(sigma, k)
    symmetric = symmetric_explained(summary.core, H)
    error = summary.loss_error(loss)
    kept = total - best
    return Certificate(
        loss=loss,
        pca_loss=best,
        ratio=information_loss(loss, best, total, error=error),
        pca_loss_kind="exact",
        total=total,
        explained=1 - loss / total if total > 0 else 0.0,
        symmetric_explained=symmetric,
        symmetric_ratio=symmetric / kept if kept > 0 else 1.0,
        bound=bound,
        theorem=theorem,
        n_components=k,
        n_nonzero=int(np.count_nonzero(H, axis=0).max(initial=0)),
        combined_nonzero=int(np.count_nonzero(H.any(axis=1))),
        loss_error=error,
        passes=passes,
        bytes_read=bytes_read,
        eps=eps,
        decoder_loss=decoder_loss,
    )
