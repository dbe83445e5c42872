"""Results of held-out folds: what encoders of the other folds lose on each fold, and the features that they choose."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit


@dataclass(frozen=True)
class HeldOutSize:
    """Held-out loss of encoders of one size.

    Attributes
    ----------
    n_components, n_nonzero : int
        k and r.
    ratio : float
        Mean over the folds of the loss on a fold over that of PCA of the other folds, at the same k.
    ratio_error : float
        Standard error of the mean.
    """

    n_components: int
    n_nonzero: int
    ratio: float
    ratio_error: float

    @property
    def interval(self) -> tuple[float, float]:
        """Mean, and its standard error."""
        return self.ratio, self.ratio_error


@dataclass(frozen=True)
class HeldOutComponents:
    """Entries of rows held out that a number of components does not explain.

    Attributes
    ----------
    n_components : int
        k.
    lost : float
        Share of the sum of squares that PCA of the other folds loses, if it predicts each entry from other columns.
        Mean over the folds.
    lost_error : float
        Standard error of the mean.
    """

    n_components: int
    lost: float
    lost_error: float

    @property
    def interval(self) -> tuple[float, float]:
        """Mean, and its standard error."""
        return self.lost, self.lost_error


LEVEL = 0.95
"""Confidence of the band of a ratio over resamples."""


@dataclass(frozen=True)
class Bootstraps:
    """Encoders of resamples of the folds, which are drawn with replacement.

    Attributes
    ----------
    n_folds : int
        Number of folds, K, and of draws of a resample.
    ratio : float
        Loss over PCA's of an encoder of all rows by the quick search of the resamples.
    ratios : tuple of float
        The same of the encoder of each resample, on the rows that it was fitted on.
    features, counts : tuple of int
        Features that any of these encoders uses, ascending, and the number of the encoders that use each.
    """

    n_folds: int
    ratio: float
    ratios: tuple[float, ...]
    features: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def band(self) -> tuple[float, float]:
        """Ends of a 95 % band of the ratio.

        Percentiles of the ratios of the resamples, stretched about ``ratio`` for few folds: by the quantile of
        Student's t with K - 1 degrees of freedom over that of the normal distribution, and by ``sqrt(K / (K - 1))``
        (compare Hesterberg 2015, expanded percentile intervals). No ratio is below 1.
        """
        k, tail = self.n_folds, (1 - LEVEL) / 2
        stretch = math.sqrt(k / (k - 1)) * float(stdtrit(k - 1, 1 - tail) / ndtri(1 - tail))
        ends = np.quantile(self.ratios, [tail, 1 - tail])
        lower, upper = (self.ratio + stretch * (float(end) - self.ratio) for end in ends)
        return max(1.0, min(lower, self.ratio)), max(upper, self.ratio)

    def frequencies(self) -> dict[int, float]:
        """Share of the encoders that use a feature, for all that any uses, ascending."""
        return {feature: n / len(self.ratios) for feature, n in zip(self.features, self.counts, strict=True)}

    def frequency(self, n_features: int) -> npt.NDArray[np.float64]:
        """Share of the encoders that use each feature ``(d,)``."""
        return _of_all(self.frequencies(), n_features)

    def text(self) -> str:
        """The band, in a line for the terminal."""
        lower, upper = self.band
        return (
            f"{lower:.6f} to {upper:.6f} x PCA's loss, 95 % by {len(self.ratios):,} resamples of {self.n_folds} folds"
        )

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON, and the band."""
        return asdict(self) | {"band": list(self.band)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "Bootstraps":
        """The results of which ``found`` is the dictionary.

        Raises
        ------
        TypeError, KeyError, ValueError
            If it is no such dictionary.
        """
        features, counts = (tuple(int(each) for each in found[name]) for name in ("features", "counts"))
        ratios = tuple(float(each) for each in found["ratios"])
        return cls(int(found["n_folds"]), float(found["ratio"]), ratios, features, counts)


@dataclass(frozen=True)
class HeldOut:
    """Losses on folds of the rows, and the stability of an encoder.

    For each fold, encoder and PCA are those of all other folds.

    Attributes
    ----------
    folds : str
        Description of the folds.
    n_rows : tuple of int
        Rows of each fold.
    losses, pca_losses, totals : tuple of float
        On each fold, about the mean of the others: ``||X - X H G||^2``, the same of PCA, and ``||X||^2``.
    supports : tuple of tuple of int
        Features of each of the encoders, ascending.
    selected : tuple of int
        Features of the encoder of all rows, ascending.
    sizes : tuple of HeldOutSize
        Encoders of other sizes, by a quicker search.
    components : tuple of HeldOutComponents
        Numbers of components that that of the encoder was chosen from; none if it was given.
    chose_nonzeros : bool
        True if the number of nonzeros was chosen among ``sizes``.
    bootstraps : Bootstraps or None
        Encoders of resamples of the folds, if they were asked for.
    """

    folds: str
    n_rows: tuple[int, ...]
    losses: tuple[float, ...]
    pca_losses: tuple[float, ...]
    totals: tuple[float, ...]
    supports: tuple[tuple[int, ...], ...]
    selected: tuple[int, ...]
    sizes: tuple[HeldOutSize, ...] = ()
    components: tuple[HeldOutComponents, ...] = ()
    chose_nonzeros: bool = False
    bootstraps: Bootstraps | None = None

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.n_rows)

    @property
    def ratios(self) -> npt.NDArray[np.float64]:
        """Loss over PCA's on each fold."""
        return fold_ratios(self.losses, self.pca_losses, self.totals)

    @property
    def ratio(self) -> float:
        """Mean of the ratios."""
        return float(np.mean(self.ratios))

    @property
    def ratio_error(self) -> float:
        """Standard error of the mean."""
        return float(standard_error(self.ratios))

    @property
    def explained(self) -> float:
        """Share of the total of all folds that the encoders explain."""
        total = math.fsum(self.totals)
        return 1 - math.fsum(self.losses) / total if total > 0 else 0.0

    def frequency(self, n_features: int) -> npt.NDArray[np.float64]:
        """Share of the encoders that use each feature ``(d,)``."""
        return _of_all(self.frequencies(), n_features)

    def frequencies(self) -> dict[int, float]:
        """Share of the encoders that use a feature, for all that any uses, ascending."""
        return {feature: count / self.n_folds for feature, count in self.counts().items()}

    def counts(self) -> dict[int, int]:
        """Number of the encoders that use a feature, for all that any uses, ascending."""
        return dict(sorted(Counter(feature for each in self.supports for feature in each).items()))

    @property
    def n_stable(self) -> int:
        """Number of the encoder's features that the encoders of all folds use too."""
        return sum(self.counts().get(feature, 0) == self.n_folds for feature in self.selected)

    def text(self) -> str:
        """Loss on rows held out, in a line for the terminal."""
        return f"{self.ratio:.6f} +- {self.ratio_error:.6f} x the loss of PCA of the other folds, by {self.folds}"

    def stability(self) -> str:
        """Stability of the features, in a line."""
        of_all = f"{self.n_stable} of {len(self.selected)} features are in the encoders of all {self.n_folds} folds"
        return f"{of_all}; {len(self.counts())} are in any"

    def choice(self) -> str:
        """Origin of the size, in a line; empty if the size was given."""
        of = [f"k of {len(self.components)}"] if self.components else []
        of += [f"r of {len(self.sizes)}"] if self.chose_nonzeros else []
        return f"chosen: {' and '.join(of)} numbers, the least within one standard error of the best" if of else ""

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON, and what follows from them."""
        found = {"ratio": self.ratio, "ratio_error": self.ratio_error, "explained": self.explained}
        found |= {name: value for name, value in asdict(self).items() if name != "bootstraps"}
        return found if self.bootstraps is None else found | {"bootstraps": self.bootstraps.as_dict()}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> "HeldOut":
        """The results of which ``found`` is the dictionary.

        Raises
        ------
        TypeError, KeyError, ValueError
            If it is no such dictionary.
        """
        return cls(
            folds=str(found["folds"]),
            n_rows=tuple(int(each) for each in found["n_rows"]),
            losses=tuple(float(each) for each in found["losses"]),
            pca_losses=tuple(float(each) for each in found["pca_losses"]),
            totals=tuple(float(each) for each in found["totals"]),
            supports=tuple(tuple(int(feature) for feature in each) for each in found["supports"]),
            selected=tuple(int(feature) for feature in found["selected"]),
            sizes=tuple(HeldOutSize(**known_fields(HeldOutSize, each)) for each in found["sizes"]),
            components=tuple(
                HeldOutComponents(**known_fields(HeldOutComponents, each)) for each in found["components"]
            ),
            chose_nonzeros=bool(found["chose_nonzeros"]),
            bootstraps=None if found.get("bootstraps") is None else Bootstraps.from_dict(found["bootstraps"]),
        )


def known_fields(kind: type[Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of a stored record that are fields of a dataclass; later versions may have added others."""
    return {each.name: record[each.name] for each in fields(kind) if each.name in record}


def _of_all(frequencies: Mapping[int, float], n_features: int) -> npt.NDArray[np.float64]:
    """Frequencies by feature as those of all features ``(d,)``."""
    found = np.zeros(n_features)
    found[list(frequencies)] = list(frequencies.values())
    return found


def fold_ratios(losses: Any, pca_losses: Any, totals: Any) -> npt.NDArray[np.float64]:
    """Losses over those of PCA, fold by fold; 1 where both are no more than rounding of the total.

    Parameters
    ----------
    losses, pca_losses, totals : array-like
        Of shapes that broadcast.
    """
    floor = (64 * np.finfo(np.float64).eps) ** 2 * np.asarray(totals, dtype=np.float64) + np.finfo(np.float64).tiny
    ratios: npt.NDArray[np.float64] = np.maximum(losses, floor) / np.maximum(pca_losses, floor)
    return ratios


def standard_error(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Standard error of a mean over folds, which are the first axis."""
    return np.asarray(np.std(values, axis=0, ddof=1) / math.sqrt(len(values)))


Tried = TypeVar("Tried", HeldOutSize, HeldOutComponents)


def least_within(tried: Sequence[Tried]) -> Tried:
    """The first, which is the least, whose loss is within one standard error of the best one's.

    Parameters
    ----------
    tried : sequence
        Ascending.
    """
    best, error = min(each.interval for each in tried)
    return next(each for each in tried if each.interval[0] <= best + error)
