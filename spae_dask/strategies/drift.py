"""Losses of an encoder on parts of the rows, such as batches or years, and the features that carry a drift."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.strategies.certificate import Certificate

Floats = npt.NDArray[np.float64]

N_FEATURES = 5
"""Features listed of a part."""

N_SHOWN = 3
"""Those of them in the table."""

SAME_PART, ALL_ROWS = "PCA of the same part", "PCA of all rows, by rows"
"""References of the ratios."""


@dataclass(frozen=True)
class FeatureShare:
    """A feature, and its share of what the encoder loses.

    Attributes
    ----------
    column : int
        Number of the column.
    name : str or None
        Name of the column.
    share, share_of_all : float
        Share of the squared residuals of the part, and of those of all rows.
    """

    column: int
    name: str | None
    share: float
    share_of_all: float

    def told(self) -> str:
        """Name and both shares."""
        name = f"column {self.column}" if self.name is None else self.name
        return f"{name} ({self.share:.1%}, {self.share_of_all:.1%})"


@dataclass(frozen=True)
class PartLoss:
    """Losses of an encoder on a part of the rows, about its own mean.

    Attributes
    ----------
    name : str
        Numbers of the rows, or the label that they share.
    n_rows : int
        Rows of the part.
    loss, decoder_loss : float
        Loss with the decoder that is best for the part, and with the encoder's own decoder.
    pca_loss : float
        Loss of PCA, as the reference of the ratio.
    ratio : float
        ``loss / pca_loss``.
    total : float
        Sum of squares of the part.
    features : tuple of FeatureShare
        Features with a larger share of ``decoder_loss`` than in all rows, by the difference.
    """

    name: str
    n_rows: int
    loss: float
    decoder_loss: float
    pca_loss: float
    ratio: float
    total: float
    features: tuple[FeatureShare, ...]

    @property
    def explained(self) -> float:
        """Share of the part that the encoder explains with its own decoder."""
        return 1 - self.decoder_loss / self.total if self.total > 0 else 0.0


@dataclass(frozen=True)
class Drift:
    """Loss of an encoder on all rows, and on each part of them.

    Attributes
    ----------
    certificate : Certificate
        Losses on all rows, as of ``evaluate``.
    by : str
        Way in which the rows are cut.
    reference : str
        PCA that the ratios compare with.
    parts : tuple of PartLoss
        Losses on the parts.
    """

    certificate: Certificate
    by: str
    reference: str
    parts: tuple[PartLoss, ...]

    def as_dict(self) -> dict[str, Any]:
        """Everything but the certificate, for JSON."""
        parts = [asdict(each) | {"explained": each.explained} for each in self.parts]
        return {"by": self.by, "reference": self.reference, "parts": parts}

    def named(self, names: npt.ArrayLike) -> "Drift":
        """The same with names of the columns."""
        known = np.asarray(names, dtype=object)
        parts = [
            replace(part, features=tuple(replace(each, name=str(known[each.column])) for each in part.features))
            for part in self.parts
        ]
        return replace(self, parts=tuple(parts))

    def __str__(self) -> str:
        """A table for the terminal: a line for each part."""
        width = max(len("part"), *(len(each.name) for each in self.parts))
        head = f"{'part':<{width}}  {'rows':>11}  {'ratio':>9}  {'explained':>9}  more of the loss than in all rows"
        lines = [head]
        for part in self.parts:
            told = ", ".join(each.told() for each in part.features[:N_SHOWN])
            ratio = f"{part.ratio:.4f}" if math.isfinite(part.ratio) else "inf"
            lines.append(f"{part.name:<{width}}  {part.n_rows:>11,}  {ratio:>9}  {part.explained:>9.2%}  {told or '-'}")
        lines.append("Shares are of the loss of the part, and of the loss of all rows.")
        lines.append(f"Ratios compare with {self.reference}. Explained shares are those of the encoder's own decoder.")
        return "\n".join(lines)


def drifting(lost: Floats, lost_of_all: Floats) -> tuple[FeatureShare, ...]:
    """Features with a larger share of the squared residuals (d,) of a part than of those of all rows."""
    share, share_of_all = (each / max(float(each.sum()), np.finfo(np.float64).tiny) for each in (lost, lost_of_all))
    order = np.argsort(share_of_all - share, kind="stable")[:N_FEATURES]
    return tuple(
        FeatureShare(int(column), None, float(share[column]), float(share_of_all[column]))
        for column in order
        if share[column] > share_of_all[column]
    )
