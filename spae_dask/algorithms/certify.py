"""From a core and an encoder to the certificate."""

from dataclasses import replace

from spae_dask.algorithms.certificate import Certificate
from spae_dask.algorithms.core import CoreSummary, Floats
from spae_dask.algorithms.metrics import encoder_metrics
from spae_dask.algorithms.theory import Target
from spae_dask.linalg.loss import information_loss

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
