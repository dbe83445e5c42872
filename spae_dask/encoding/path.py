"""How the loss falls with sparsity: the smallest r for a target, and tables of loss over k and r.

More nonzeros never need to lose more: a nested selection only widens its span, and a search may start from the encoder
of a smaller r. So the loss along a path does not rise with r, and the smallest r that meets a target is found by
doubling and halving. It is smallest for that path; over all encoders the problem is NP-hard. For the batch encoder of
a nested selection see :mod:`spae_dask.encoding.nested`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.linalg.loss import information_loss, symmetric_explained, total_variance
from spae_dask.linalg.scaling import FloatArray
from spae_dask.linalg.spectral import pca_loss, right_singular


class Encoder(Protocol):
    """What a path needs to know of an encoder."""

    @property
    def H(self) -> FloatArray:  # noqa: N802  (the paper's name)
        """Encoder ``(d, k')``."""
        ...

    @property
    def loss(self) -> float:
        """Its loss."""
        ...


E_co = TypeVar("E_co", bound=Encoder, covariant=True)
E = TypeVar("E", bound=Encoder)


class Encode(Protocol[E_co]):
    """Make an encoder with k columns of at most r nonzeros.

    ``start_H`` is the best encoder known for a smaller r or k, or None. An encoding that ignores it may lose more with
    more nonzeros; the smallest r is then that of the sizes tried.
    """

    def __call__(self, core: FloatArray, k: int, r: int, start_H: FloatArray | None, /) -> E_co:
        """Encoder for this k and r."""
        ...


@dataclass(frozen=True, eq=False)
class SmallestR(Generic[E]):
    """The smallest r found to meet a target.

    Attributes
    ----------
    r : int
        Nonzeros per column; the number of nonzero columns of X if no r meets the target.
    encoder : Encoder
        The encoder for it.
    ratio : float
        Its information loss.
    reached : bool
        Whether that is within the target.
    tried : dict
        Information loss of every r tried.
    """

    r: int
    encoder: E
    ratio: float
    reached: bool
    tried: dict[int, float]


def smallest_r(core: FloatArray, k: int, eps: float, encode: Encode[E]) -> SmallestR[E]:
    """Find the smallest r with ``loss <= (1 + eps) ||X - X_k||^2``, by doubling r, then halving the interval.

    About ``2 log2(r)`` encodings, each handed the encoder of the largest smaller r.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Number of codes.
    eps : float
        Accuracy, at least 0.
    encode : Encode
        How to make an encoder.

    Raises
    ------
    InvalidInput
        If eps is negative.
    """
    if not eps >= 0.0:
        raise InvalidInput(f"eps = {eps}; the target (1 + eps) times the loss of PCA needs eps >= 0")
    most = max(1, int(np.count_nonzero(np.any(core != 0.0, axis=0))))
    ratio_of = ratio_to_pca(core, k)
    made: dict[int, E] = {}

    def meets(r: int) -> bool:
        below = max((tried for tried in made if tried < r), default=None)
        made[r] = encode(core, k, r, None if below is None else made[below].H)
        return ratio_of(made[r].loss) <= 1.0 + eps

    low, high = 0, 1
    while not meets(high) and high < most:
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle):
            high = middle
        else:
            low = middle
    tried = {r: ratio_of(made[r].loss) for r in sorted(made)}
    return SmallestR(high, made[high], tried[high], tried[high] <= 1.0 + eps, tried)


def ratio_to_pca(core: FloatArray, k: int) -> Callable[[float], float]:
    """Function from a loss to the information loss, for one core and k.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    k : int
        Number of codes.
    """
    least = pca_loss(right_singular(core)[0], k)
    total = total_variance(core)
    return lambda loss: information_loss(loss, least, total)


@dataclass(frozen=True)
class PathRecord:
    """One encoder of a path.

    Attributes
    ----------
    k, r : int
        Codes and nonzeros allowed per column.
    loss, ratio : float
        Loss, and information loss.
    symmetric_explained : float
        ``||X H H^+||^2``.
    combined_nonzeros : int
        Features that any column uses.
    """

    k: int
    r: int
    loss: float
    ratio: float
    symmetric_explained: float
    combined_nonzeros: int


def sparsity_path(core: FloatArray, ks: Sequence[int], rs: Sequence[int], encode: Encode[E]) -> list[PathRecord]:
    """Encode for all k and r.

    Each encoding is handed the better of the encoders for the next smaller r and for the next smaller k, so with an
    encoding that starts from it no loss rises with k or r.

    Parameters
    ----------
    core : ndarray (m, d)
        Core of X.
    ks, rs : sequence of int
        Numbers of codes, and of nonzeros per column.
    encode : Encode
        How to make an encoder.

    Returns
    -------
    list of PathRecord
        By k, then by r, ascending.
    """
    records: list[PathRecord] = []
    narrower: dict[int, E] = {}
    for k in sorted(set(ks)):
        ratio_of = ratio_to_pca(core, k)
        made: dict[int, E] = {}
        for r in sorted(set(rs)):
            known = [*list(made.values())[-1:], *([narrower[r]] if r in narrower else [])]
            start = min(known, key=lambda encoder: encoder.loss, default=None)
            encoder = encode(core, k, r, None if start is None else start.H)
            made[r] = encoder
            records.append(
                PathRecord(
                    k,
                    r,
                    encoder.loss,
                    ratio_of(encoder.loss),
                    symmetric_explained(core, encoder.H),
                    int(np.count_nonzero(np.any(encoder.H != 0.0, axis=1))),
                )
            )
        narrower = made
    return records
