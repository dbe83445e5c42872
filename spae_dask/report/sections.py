"""Sections for any report about an encoder, made from the results of fitting, planning and evaluating."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spae_dask.passes.memory import format_nbytes
from spae_dask.report.figures import loadings_map
from spae_dask.report.html import (
    Markup,
    Section,
    commands,
    definitions,
    filled,
    joined,
    number,
    table,
    themed_figure,
)
from spae_dask.strategies.certificate import Certificate

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Step:
    """A command that was run.

    Attributes
    ----------
    command : str
        Command as a user types it.
    seconds : float
        Time taken, in seconds.
    reads : str
        Description of the data that the command read.
    """

    command: str
    seconds: float
    reads: str


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
        [f"PCA, the least any encoder can lose ({kinds})", *(share(c.pca_loss, c.total) for c in all_of)],
        ["sparse encoder", *(share(c.loss, c.total) for c in all_of)],
        [Markup("<strong>ratio</strong>, the second over the first"), *ratios],
    ]
    if any(c.decoder_loss is not None for c in all_of):
        rows.append(["sparse encoder, with the decoder it was fitted with", *map(_own_decoder, all_of)])
    if own_pca:
        losses = [share(loss, c.total) for loss, c in zip(own_pca, all_of, strict=True)]
        rows.append(["PCA, with the components it was fitted with", *losses])
    if any(c.bound is not None for c in all_of):
        bounds = ["" if c.bound is None else number(c.bound, f"at most {c.bound:.2f}") for c in all_of]
        rows.append(["ratio the theorem promised beforehand", *bounds])
    caption = (
        f"Share of the variance lost by {all_of[0].n_components} codes per row. The first two rows allow each the best "
        "decoder for the data in the column."
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


def pca_shares(spectrum: Floats, k: int) -> Floats:
    """Share (k,) of the total that each of PCA's components adds, from all singular values, descending."""
    energy, shares = spectrum**2, np.zeros(k)
    total = float(energy.sum())
    if total > 0:
        shares[: energy.size] = energy[:k] / total
    return shares


def components_section(
    components: Floats, explained: Floats, spectrum: Floats, feature_labels: Sequence[str]
) -> Section:
    """The components: heat map of their loadings and what each explains.

    Parameters
    ----------
    components : ndarray (k, m)
        Encoder, restricted to the features that any component uses.
    explained, spectrum : ndarray
        Sequential shares and all singular values of the fit.
    feature_labels : sequence of str
        Names of those m features.
    """
    names = [f"{j + 1}" for j in range(components.shape[0])]
    nonzero = int((components != 0).sum())
    picture = themed_figure(
        lambda theme: loadings_map(components, feature_labels, [f"component {n}" for n in names], theme=theme),
        alt=f"Heat map of the loadings of {len(names)} components on {len(feature_labels)} features: "
        + "; ".join(_strongest(components[j], feature_labels, names[j]) for j in range(len(names))),
        caption=f"Loadings. Each row is a component of unit length; its code is the sum of these multiples of the "
        f"features, about their means. These {nonzero} numbers and the means are all that encoding takes.",
    )
    return Section("The components", joined(picture, components_table(explained, pca_shares(spectrum, explained.size))))


def _strongest(loadings: Floats, labels: Sequence[str], name: str) -> str:
    at = int(np.abs(loadings).argmax())
    return f"component {name} weighs {labels[at]} most, by {loadings[at]:.2f}"


def cost_table(steps: Sequence[Step]) -> Markup:
    """Table of the reads and the time of each step."""
    total = sum(step.seconds for step in steps)
    rows = [
        [
            Markup("<code>{}</code>").format(step.command),
            step.reads,
            number(step.seconds, f"{step.seconds:.2f} s"),
        ]
        for step in steps
    ]
    return table(
        "What each step read and took.",
        ["step", "read", "time"],
        [*rows, ["together", "", number(total, f"{total:.2f} s")]],
    )


def memory_list(*, worker_nbytes: int, finish_nbytes: int, limit_nbytes: int, peak_nbytes: int) -> Markup:
    """Memory projected before the fit and measured after the run."""
    projected = filled(
        "{} for the pass and {} for the final linear algebra, beside the libraries; the plan refuses what does not fit "
        "the {} there are",
        *map(_bytes, (worker_nbytes, finish_nbytes, limit_nbytes)),
    )
    measured = filled(
        "{} at the peak of the whole process, with all libraries and the dense PCA for comparison", _bytes(peak_nbytes)
    )
    return definitions([("projected", projected), ("measured", measured)])


def _bytes(nbytes: int) -> Markup:
    return number(nbytes, format_nbytes(nbytes))


def provenance_section(facts: Sequence[tuple[str, str]], lines: Sequence[str]) -> Section:
    """Section about the provenance of a page, with the commands that reproduce it.

    Parameters
    ----------
    facts : sequence of (str, str)
        Versions, digests, seeds.
    lines : sequence of str
        Shell commands.
    """
    return Section("Provenance, and how to reproduce this", joined(definitions(facts), commands(lines)))
