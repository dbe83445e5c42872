"""What is asked for: the parameters of a fit, checked before anything is read."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.selection import SELECTIONS

METHODS = ("batch",)
STRATEGIES = ("auto", "gram", "tsqr")
MISSING = ("error", "mean", "zero")
PRECISIONS = ("exact",)


@dataclass(frozen=True)
class Problem:
    """Parameters of a fit.

    Attributes
    ----------
    n_components : int
        k, columns of the encoder.
    n_nonzero : int or None
        r, the most nonzeros a column of the encoder may have; ``None`` for the smallest that reaches ``eps``.
    eps : float
        Wanted relative excess over PCA's loss; used only if ``n_nonzero`` is None.
    method, selection, strategy, precision, missing : str
        As documented on ``SparseEncoder``.
    center, scale : bool
        Whether X is taken about its column means, and its columns divided by their standard deviations.
    seed : int
        Seed of everything random.
    """

    n_components: int
    n_nonzero: int | None = None
    eps: float = 0.1
    method: str = "batch"
    selection: str = "dual-set"
    center: bool = True
    scale: bool = False
    strategy: str = "auto"
    precision: str = "exact"
    missing: str = "error"
    seed: int = 0

    def check(self, n_samples: int, n_features: int) -> None:
        """Refuse parameters that no matrix, or not this one, allows.

        Raises
        ------
        InvalidInput
            Naming the parameter, what was given and the allowed range.
        """
        check_choice("method", self.method, METHODS)
        check_choice("selection", self.selection, tuple(SELECTIONS))
        check_choice("strategy", self.strategy, STRATEGIES)
        check_choice("missing", self.missing, MISSING)
        check_choice("precision", self.precision, PRECISIONS)
        if n_samples < 2:
            raise InvalidInput(
                f"the data have n_samples = {n_samples} row(s); a fit needs at least 2 to see any variation."
            )
        check_count("n_components", self.n_components, n_features)
        if self.n_nonzero is not None:
            check_count("n_nonzero", self.n_nonzero, n_features)
        elif not (isinstance(self.eps, float | int | np.floating) and 0 < self.eps < float("inf")):
            raise InvalidInput(f"eps={self.eps!r} is not allowed: give a positive number, such as 0.05 for 5 %.")


def check_choice(name: str, given: object, allowed: Sequence[str]) -> None:
    """Refuse a parameter that is not one of the names allowed."""
    if given not in allowed:
        raise InvalidInput(f"{name}={given!r} is not allowed: choose one of {', '.join(map(repr, allowed))}.")


def check_count(name: str, given: object, n_features: int) -> None:
    """Refuse a parameter that is not a whole number from 1 to the number of features."""
    if isinstance(given, bool) or not hasattr(given, "__index__") or not 1 <= int(given.__index__()) <= n_features:
        raise InvalidInput(
            f"{name}={given!r} is not allowed: give a whole number from 1 to {n_features}, the number of features."
        )
