"""Tables of losses and of components, for any page about an encoder."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from spae_dask.report.html import (
    Markup,
    number,
    table,
)
from spae_dask.strategies.certificate import Certificate

Floats = npt.NDArray[np.float64]


def share(part: float, whole: float) -> Markup:
    """A part as a percentage of the whole; zero of nothing."""
    value = part / whole if whole > 0 else 0.0
    return number(value, f"{value:.3%}")


def times(value: float) -> Markup:
    """A ratio."""
    return number(value, f"{value:.4f}")


def loss_table(certificates: Sequence[tuple[str, Certificate]], own_pca: Sequence[float] = ()) -> Markup:
    """Losses of an encoder on one or more sets of data, beside PCA's.

    Parameters
    ----------
    certificates : sequence of (str, Certificate)
        Name of the data and what was measured on them.
    own_pca : sequence of float
        Loss, on each of the data, of the PCA fitted on the first of them; the row is left out if not given.
    """
    all_of = [certificate for _, certificate in certificates]
    kinds = ", ".join(sorted({c.pca_loss_kind for c in all_of}))
    ratios = [Markup("<strong>{}</strong>").format(times(c.ratio)) for c in all_of]
    rows: list[list[Markup | str]] = [
        [f"PCA, the least loss of any encoder ({kinds})", *(share(c.pca_loss, c.total) for c in all_of)],
        ["sparse encoder", *(share(c.loss, c.total) for c in all_of)],
        [Markup("<strong>ratio</strong> of the second to the first"), *ratios],
    ]
    if any(c.decoder_loss is not None for c in all_of):
        rows.append(["sparse encoder, with the decoder it was fitted with", *map(_own_decoder, all_of)])
    if own_pca:
        losses = [share(loss, c.total) for loss, c in zip(own_pca, all_of, strict=True)]
        rows.append(["PCA, with the components it was fitted with", *losses])
    if any(c.bound is not None for c in all_of):
        bounds = ["" if c.bound is None else number(c.bound, f"at most {c.bound:.2f}") for c in all_of]
        rows.append(["ratio that the theorem guarantees", *bounds])
    caption = (
        f"Share of the variance lost by {all_of[0].n_components} codes per row. The first two rows give "
        "each encoder the best decoder for the data in the column."
    )
    return table(caption, ["", *(name for name, _ in certificates)], rows)


def _own_decoder(certificate: Certificate) -> Markup:
    loss = certificate.decoder_loss
    return share(certificate.loss if loss is None else loss, certificate.total)


def components_table(explained: Floats, by_pca: Floats | None) -> Markup:
    """Share of the variance each component adds, for the encoder and for PCA.

    Parameters
    ----------
    explained : ndarray (k,)
        Sequential shares of the encoder.
    by_pca : ndarray (k,) or None
        Shares of PCA's components, if they are known.
    """
    both = [explained] if by_pca is None else [explained, by_pca]
    rows = [
        [str(j + 1), *(share(value, 1.0) for shares in both for value in (shares[j], shares[: j + 1].sum()))]
        for j in range(explained.size)
    ]
    return table(
        "Share of the variance of the training data that each component adds to those before it.",
        ["component", "encoder", "encoder so far", "PCA", "PCA so far"][: 1 + 2 * len(both)],
        rows,
    )
