"""From a core and an encoder to the certificate."""

from dataclasses import asdict, replace

import numpy as np

from spae_dask.algorithms.certificate import Certificate
from spae_dask.algorithms.core_summary import CoreSummary, Floats
from spae_dask.algorithms.metrics import encoder_metrics
from spae_dask.algorithms.theory import Target
from spae_dask.linalg.loss import information_loss, symmetric_explained

NO_TARGET = Target()


def certify(
    summary: CoreSummary,
    H: Floats,
    *,
    bound: float | None,
    theorem: str,
    passes: int,
    bytes_read: int,
    target: Target = NO_TARGET,
    decoder_loss: float | None = None,
    keep_metrics: bool = False,
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
    target : Target
        The excess that was wanted, if the number of nonzeros was chosen for one.
    decoder_loss : float or None
        See ``Certificate``.
    keep_metrics : bool
        Whether the certificate is to hold all metrics of the encoder.
    """
    found = encoder_metrics(summary.core, H)
    error = summary.loss_error(found.loss)
    ratio = information_loss(found.loss, found.pca_loss, found.total, error=error)
    return Certificate(
        loss=found.loss,
        pca_loss=found.pca_loss,
        ratio=ratio,
        pca_loss_kind="exact",
        total=found.total,
        explained=1 - found.loss / found.total if found.total > 0 else 0.0,
        symmetric_explained=found.symmetric_explained,
        symmetric_ratio=found.symmetric_ratio,
        bound=bound,
        theorem=theorem,
        n_components=H.shape[1],
        n_nonzero=max(found.n_nonzero),
        combined_nonzero=found.combined_nonzero,
        loss_error=error,
        passes=passes,
        bytes_read=bytes_read,
        eps=target.eps,
        theory_n_nonzero=target.theory_n_nonzero,
        theory_n_nonzero_sharp=target.theory_n_nonzero_sharp,
        decoder_loss=decoder_loss,
        metrics=replace(found, information_loss=ratio) if keep_metrics else None,
    )


def certify_between(
    core: Floats,
    H: Floats,
    loss: float,
    pca: tuple[float, float],
    *,
    total: float,
    error: float,
    certified: bool,
    bound: float | None,
    theorem: str,
    passes: int = 0,
    target: Target = NO_TARGET,
    decoder_loss: float | None = None,
) -> Certificate:
    """Certificate of an encoder whose loss is known and PCA's only between certified bounds.

    Parameters
    ----------
    core : ndarray (q, c)
        Core of columns among which H chooses, in a basis of their span: symmetric variance on it is that of X.
    H : ndarray (c, k)
        Encoder on that core.
    loss : float
        Its loss on X.
    pca : tuple of float
        Certified bounds on PCA's loss.
    total, error : float
        ``||X||^2``, and the rounding error of the loss.
    certified : bool
        Whether the lower bound stands for PCA's loss, or the upper one, as an estimate.
    bound, theorem : float or None, str
        What theory promised.
    passes, target, decoder_loss
        As for :func:`certify`.
    """
    lower, upper = pca
    best = lower if certified else upper
    symmetric = symmetric_explained(core, H)
    return Certificate(
        loss=loss,
        pca_loss=best,
        ratio=information_loss(loss, best, total, error=error),
        pca_loss_kind="certified lower bound" if certified else "estimate",
        pca_loss_lower=lower,
        pca_loss_upper=upper,
        total=total,
        explained=1 - loss / total if total > 0 else 0.0,
        symmetric_explained=symmetric,
        symmetric_ratio=symmetric / (total - best) if total > best else 1.0,
        bound=bound,
        theorem=theorem,
        n_components=H.shape[1],
        n_nonzero=int(np.count_nonzero(H, axis=0).max(initial=0)),
        combined_nonzero=int(np.count_nonzero(H.any(axis=1))),
        loss_error=error,
        passes=passes,
        bytes_read=0,
        decoder_loss=decoder_loss,
        **asdict(target),
    )
