"""Certificate of an encoder on a core."""

from dataclasses import asdict, dataclass, replace

import numpy as np

from spae_dask.maths.linalg.loss import encoder_loss, information_loss, symmetric_explained
from spae_dask.maths.linalg.project import optimal_decoder
from spae_dask.maths.linalg.scaling import squared_columns, unit_scaled
from spae_dask.passes.accumulators import ResidualSums
from spae_dask.strategies.certificate import LEFT_OUT, Certificate
from spae_dask.strategies.core_summary import CoreSummary, Floats
from spae_dask.strategies.metrics import metrics_of
from spae_dask.strategies.rounding import Rounding
from spae_dask.strategies.theory import Target

NO_TARGET = Target()

EXACT = 1e-4
"""Losses are called exact if rounding moves them by less than this share of PCA's loss."""

DECODER_EXCESS = 1e-9
"""A decoder is made anew if it loses so much more than the best one, relatively."""


@dataclass(frozen=True)
class Measured:
    """A loss and the largest error of it.

    Attributes
    ----------
    loss, error : float
        Loss of an encoder with its decoder, and the largest error of that loss.
    """

    loss: float
    error: float


def pair_loss(core: Floats, H: Floats, G: Floats) -> float:
    """``||L - L H G||^2`` of a core L (m, d), an encoder H (d, k) and a decoder G (k, d)."""
    scaled, unit = unit_scaled(core)
    used = np.flatnonzero(H.any(axis=1))
    return float(np.sum(squared_columns(scaled - (scaled[:, used] @ H[used]) @ G))) * unit * unit


def better_decoder(core: Floats, H: Floats, G: Floats) -> Floats:
    """Decoder given, or one made anew for H, if H as it is in float64 has a better one.

    Between columns whose units differ by 1e16 and more, the last digit of H decides the codes.
    """
    if pair_loss(core, H, G) <= (1 + DECODER_EXCESS) * encoder_loss(core, H):
        return G
    return min((G, optimal_decoder(core, H)), key=lambda each: pair_loss(core, H, each))


def measured_on_core(summary: CoreSummary, H: Floats, G: Floats) -> Measured:
    """Loss of an encoder and its decoder on a core, and how far rounding can have moved it."""
    loss = pair_loss(summary.core, H, G)
    return Measured(loss, summary.rounding.loss_error(loss, H, G))


def measured_on_rows(sums: ResidualSums, rounding: Rounding, H: Floats, G: Floats) -> tuple[Measured, Floats]:
    """Loss of an encoder with the decoder that is best for the rows, from residuals of the rows themselves.

    Parameters
    ----------
    sums : ResidualSums
        Sums of the pair H, G.
    rounding : Rounding
        Rounding of the data. Errors of evaluating the residual count; errors of the core do not.
    H, G : ndarray (d, k), (k, d)
        Encoder and decoder.

    Returns
    -------
    Measured
        The loss.
    ndarray (k, d)
        The decoder.
    """
    change = sums.correction()
    best, (loss, error) = G + change, sums.loss_with(change)
    on_rows = replace(rounding, products=0.0, rows=0.0, by_products=False)
    error += max(on_rows.loss_error(sums.loss, H, each) for each in (G, best))
    return Measured(loss, error), best


def remeasured(certificate: Certificate, measured: Measured, pca_error: float) -> Certificate:
    """The certificate with a loss that was summed over the rows, in a read of its own."""
    loss, total, error = measured.loss, certificate.total, max(measured.error, pca_error)
    known = replace(
        certificate,
        loss=loss,
        loss_kind="exact",
        loss_lower=None,
        loss_upper=None,
        ratio=information_loss(loss, certificate.pca_loss, total, error=error),
        explained=1 - loss / total if total > 0 else 0.0,
        loss_error=error,
        summed_over_rows=True,
    )
    if known.pca_loss_kind == "approximate":
        known = replace(known, pca_loss_kind="exact", pca_loss_lower=None, pca_loss_upper=None)
    return known if is_exact(known) else approximate(known)


def certify(
    summary: CoreSummary,
    H: Floats,
    *,
    bound: float | None,
    theorem: str,
    passes: int,
    bytes_read: int,
    G: Floats | None = None,
    target: Target = NO_TARGET,
    decoder_loss: float | None = None,
    keep_metrics: bool = False,
    measured: Measured | None = None,
) -> Certificate:
    """Measure the loss of an encoder on a core.

    Parameters
    ----------
    summary : CoreSummary
        Core of the data.
    H : ndarray (d, k)
        Encoder; zero columns are components that carry nothing.
    bound, theorem : float or None, str
        Bound on the ratio that theory promised, and the theorem.
    passes, bytes_read : int
        Reads that the core took.
    G : ndarray (k, d), optional
        Decoder of the encoder; the best one for the core if not given.
    target : Target
        The excess that was wanted, if the number of nonzeros was chosen for one.
    decoder_loss : float or None
        See ``Certificate``.
    keep_metrics : bool
        True to store all metrics of the encoder in the certificate.
    measured : Measured, optional
        The loss, if it was summed over the rows; on the core if not given.
    """
    G = optimal_decoder(summary.core, H) if G is None else G
    measured = measured or measured_on_core(summary, H, G)
    found, rounding = metrics_of(summary.core, H, summary.spectrum(H.shape[1])), summary.rounding
    loss, pca_loss, total = measured.loss, found.pca_loss, found.total
    pca_error = rounding.pca_error(pca_loss, H.shape[1])
    error = max(measured.error, pca_error)
    ratio = information_loss(loss, pca_loss, total, error=error)
    certificate = Certificate(
        loss=loss,
        pca_loss=pca_loss,
        ratio=ratio,
        pca_loss_kind="exact",
        total=total,
        explained=1 - loss / total if total > 0 else 0.0,
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
        n_left_out=summary.n_left_out,
        left_out=rounding.left_out,
        exact_sums=summary.exact_sums,
        decoder_loss=decoder_loss,
        metrics=replace(found, loss=loss, information_loss=ratio) if keep_metrics else None,
        **asdict(target),
    )
    return certificate if is_exact(certificate) else approximate(certificate)


def is_exact(certificate: Certificate) -> bool:
    """Tell whether the loss may be called exact.

    Rounding must move it by next to nothing, or it and PCA's loss are zero to rounding. No column that varies may have
    been left out.
    """
    error, loss, pca_loss = certificate.loss_error, certificate.loss, certificate.pca_loss
    if certificate.left_out > LEFT_OUT * certificate.total:
        return False
    return error <= EXACT * max(pca_loss, EXACT * loss) or (pca_loss == 0.0 and loss <= error)


def approximate(certificate: Certificate) -> Certificate:
    """The same certificate with losses between the ends that rounding allows, where they were called exact."""
    error, loss, pca_loss = certificate.loss_error, certificate.loss, certificate.pca_loss
    known = replace(certificate, loss_kind="approximate", loss_lower=max(loss - error, 0.0), loss_upper=loss + error)
    if known.pca_loss_kind != "exact":
        return known
    return replace(
        known,
        pca_loss_kind="approximate",
        pca_loss_lower=max(pca_loss - error, 0.0),
        pca_loss_upper=pca_loss + error,
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
    n_left_out: int = 0,
    left_out: float = 0.0,
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
        Certified bounds on PCA's loss, rounding included.
    total, error : float
        ``||X||^2``, and the largest error of the loss.
    certified : bool
        True to report the lower bound as PCA's loss; False to report the upper bound, as an estimate.
    bound, theorem : float or None, str
        Bound on the ratio that theory promised, and the theorem.
    passes, target, decoder_loss
        As for :func:`certify`.
    n_left_out, left_out : int, float
        Columns left out as constant to rounding, and their sum of squares.
    """
    # no encoder loses less than PCA
    upper = min(pca[1], loss + error)
    lower = min(pca[0], upper)
    best = lower if certified else upper
    symmetric = symmetric_explained(core, H)
    certificate = Certificate(
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
        n_left_out=n_left_out,
        left_out=left_out,
        decoder_loss=decoder_loss,
        **asdict(target),
    )
    return certificate if is_exact(certificate) else approximate(certificate)
