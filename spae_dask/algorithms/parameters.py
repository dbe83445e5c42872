"""What is asked for: the parameters of a fit, checked before anything is read."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.flags import check_flag
from spae_dask.linalg.loss import allowed_loss
from spae_dask.selection import SELECTIONS

METHODS = ("polished", "batch", "iterative", "doubly-sparse")
SHARED = ("batch", "doubly-sparse")
"""Methods whose components all use the same columns."""
STRATEGIES = ("auto", "gram", "tsqr", "sketch", "stream", "sample", "paper")
EVALUATIONS = ("auto", "gram", "tsqr", "sketch")
"""Those by which an encoder is evaluated, in one read."""
TOLERANCE = 0.01
"""Of ``strategy="sample"``, where none is given."""
KEEP = 0.95
"""Share of what PCA explains that an encoder keeps, where neither ``n_nonzero``, ``eps`` nor ``keep`` is given."""
PROJECTIONS = ("randomized", "frequent-directions")
SPLITS = ("best", "paper", "dual-set")
MISSING = ("error", "mean", "zero")
PRECISIONS = ("exact", "fast")


@dataclass(frozen=True)
class FitParameters:
    """Parameters of a fit.

    Attributes
    ----------
    n_components : int
        k, columns of the encoder.
    n_nonzero : int, sequence of int or None
        r, the most nonzeros a column of the encoder may have, or one number a column; ``None`` for the smallest that
        reaches the target, ``eps`` or ``keep``.
    eps : float or None
        Target: relative excess over PCA's loss. Used only if ``n_nonzero`` is None.
    keep : float or None
        Target: share of the variance that PCA explains. Used only if ``n_nonzero`` is None, and refused beside
        ``eps``; ``KEEP`` if all three are None.
    method, selection, strategy, precision, missing : str
        As documented on ``SparseEncoder``.
    center, scale : bool
        Whether X is taken about its column means, and its columns divided by their standard deviations.
    orthonormal, shared_support : bool
        As documented on ``SparseEncoder``.
    n_rows : int or None
        Rows of a doubly sparse encoder; ``None`` for four a component, or more for a target.
    n_repeats : int
        Independent repeats of a random selection, of which the best is kept.
    power_iterations, oversampling, split, projection : int, int or None, str, str
        Of the paper's own pipeline, as documented on ``SparseEncoder``.
    certified : bool
        Whether a sketch reports a lower bound on PCA's loss, by Frequent Directions, in place of an estimate.
    n_candidates, sketch_rows : int or None
        Columns that a sketch proposes, and its rows; ``None`` for several times what k and r take.
    tolerance : float or None
        How much of PCA's loss may be left to gain when a sample is enough; given, it makes ``strategy="auto"`` sample.
    seed : int
        Seed of everything random.
    """

    n_components: int
    n_nonzero: int | Sequence[int] | None = None
    eps: float | None = None
    keep: float | None = None
    method: str = "polished"
    selection: str = "dual-set"
    center: bool = True
    scale: bool = False
    strategy: str = "auto"
    precision: str = "exact"
    missing: str = "error"
    orthonormal: bool = False
    shared_support: bool = False
    n_rows: int | None = None
    n_repeats: int = 1
    power_iterations: int = 0
    oversampling: int | None = None
    split: str = "best"
    projection: str = "randomized"
    certified: bool = False
    n_candidates: int | None = None
    sketch_rows: int | None = None
    tolerance: float | None = None
    seed: int = 0

    def check(self, n_samples: int | None, n_features: int) -> None:
        """Refuse parameters that no matrix, or not this one, allows.

        Parameters
        ----------
        n_samples : int or None
            n; None for a stream, which does not know.
        n_features : int
            d.

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
        for field in fields(self):
            if isinstance(field.default, bool):
                check_flag(field.name, getattr(self, field.name))
        n_most = sys.maxsize if n_samples is None else n_samples
        if n_most < 2:
            raise InvalidInput(
                f"the data have n_samples = {n_samples} row(s); a fit needs at least 2 to see any variation."
            )
        check_count("n_components", self.n_components, n_features)
        self._check_sizes(n_features)
        if self.n_rows is not None:
            check_count("n_rows", self.n_rows, n_most, "samples")
        check_count("n_repeats", self.n_repeats, 1000, "repeats that make sense")
        if self.power_iterations != 0:
            check_count("power_iterations", self.power_iterations, 20, "passes that make sense")
        self._check_pipeline(n_features)
        if self.n_candidates is not None:
            check_count("n_candidates", self.n_candidates, n_features)
        if self.sketch_rows is not None:
            check_count("sketch_rows", self.sketch_rows, n_most, "samples")
        self._check_tolerance()
        self.check_strategy("sample" if self.samples else self.strategy)

    @property
    def samples(self) -> bool:
        """Whether as few row blocks are read as the tolerance allows."""
        return self.strategy == "sample" or (self.strategy == "auto" and self.tolerance is not None)

    @property
    def sample_tolerance(self) -> float:
        """``tolerance``, or what stands for it."""
        return TOLERANCE if self.tolerance is None else float(self.tolerance)

    @property
    def wanted_share(self) -> float | None:
        """Share of what PCA explains that is to be kept; None if ``n_nonzero`` or ``eps`` is given."""
        if self.n_nonzero is not None or self.eps is not None:
            return None
        return KEEP if self.keep is None else float(self.keep)

    def allowed_loss(self, pca_loss: float, total: float) -> float:
        """Most an encoder may lose where ``n_nonzero`` is not given."""
        return allowed_loss(pca_loss, total, eps=self.eps, keep=self.wanted_share)

    @property
    def can_sketch(self) -> bool:
        """Whether candidate columns are enough for the method: not where it needs rows, or more and more columns."""
        own_columns = self.method == "polished" and not self.shared_support
        return own_columns or (self.method != "doubly-sparse" and self.n_nonzero is not None)

    def cannot(self, strategy: str) -> str | None:
        """Why a strategy cannot do this; None if it can, as ``"auto"`` can everything."""
        if self.precision == "fast" and strategy not in ("auto", "gram", "sketch"):
            return "precision='fast' multiplies in float32, which strategy 'auto', 'gram' and 'sketch' do"
        if strategy in ("sketch", "stream") and not self.can_sketch:
            return (
                "it knows candidate columns only, and takes method 'polished', 'batch' or 'iterative' with a given "
                "n_nonzero, and eps or keep with method='polished' and shared_support=False"
            )
        if strategy in ("stream", "sample") and self.missing == "mean":
            return (
                "missing='mean' must know the means of all rows before it fills gaps with them, and it sees each row "
                "once, at most: missing='zero' can be had"
            )
        if strategy == "sample" and self.method == "doubly-sparse":
            return "method='doubly-sparse' chooses among all rows, and it does not read all rows"
        if strategy == "paper" and (self.method not in ("batch", "polished") or self.n_nonzero is None):
            return (
                "it is the paper's own pipeline for its batch encoder, with no core to polish it on, and takes the "
                "default method or method='batch', and a given n_nonzero"
            )
        return None

    def check_strategy(self, strategy: str) -> None:
        """Refuse what a strategy cannot do.

        Raises
        ------
        InvalidInput
            Saying what it can.
        """
        cannot = self.cannot(strategy)
        if cannot is not None:
            raise InvalidInput(
                f"strategy={strategy!r} cannot do this: {cannot}; given were method={self.method!r}, "
                f"shared_support={self.shared_support}, n_nonzero={self.n_nonzero!r}, missing={self.missing!r} and "
                f"precision={self.precision!r}. strategy='gram' does all of it, where d x d matrices fit."
            )

    def _check_pipeline(self, n_features: int) -> None:
        """Check what only the paper's own pipeline uses."""
        check_choice("split", self.split, SPLITS)
        check_choice("projection", self.projection, PROJECTIONS)
        if self.oversampling is not None:
            check_count("oversampling", self.oversampling, n_features)
            if self.oversampling == 1:
                raise InvalidInput(
                    "oversampling=1 is not allowed: a projection has a bound from 2 rows beyond k on. Give a number "
                    f"from 2 to {n_features}."
                )
        changed = {"oversampling": None, "split": "best", "projection": "randomized"}
        given = [
            f"{name}={getattr(self, name)!r}" for name, default in changed.items() if getattr(self, name) != default
        ]
        if given and self.strategy != "paper":
            raise InvalidInput(
                f"{' and '.join(given)}: only strategy='paper' uses this, and given was strategy={self.strategy!r}. "
                "Leave it out, or use strategy='paper'."
            )
        if self.split == "paper" and self.n_nonzero is not None and self.shared_size <= 5 * self.n_components:
            raise InvalidInput(
                f"split='paper' starts with 5k = {5 * self.n_components} columns and samples the rest, and given was "
                f"n_nonzero={self.n_nonzero!r}: give more than {5 * self.n_components}, or use split='best'."
            )

    def _check_tolerance(self) -> None:
        given = self.tolerance
        if given is None:
            return
        if isinstance(given, bool) or not (isinstance(given, float | int | np.number) and 0 < given < float("inf")):
            raise InvalidInput(
                f"tolerance={given!r} is not allowed: give a positive number, such as 0.01 for 1 % of PCA's loss."
            )
        if not self.samples:
            raise InvalidInput(
                f"tolerance={given!r} tells strategy='sample' when to stop, and strategy={self.strategy!r} reads all "
                "rows. Leave out one of the two."
            )

    def _check_sizes(self, n_features: int) -> None:
        """Check ``n_nonzero``, or ``eps`` or ``keep`` if they are used."""
        r = self.n_nonzero
        if r is None:
            self._check_target()
        elif isinstance(r, tuple | list | np.ndarray):
            if len(r) != self.n_components:
                raise InvalidInput(
                    f"n_nonzero={list(r)} has {len(r)} numbers for n_components={self.n_components}: give one number, "
                    "or one for each component."
                )
            if self.method in SHARED and len(set(r)) > 1:
                raise InvalidInput(
                    f"n_nonzero={list(r)} differs between components, but with method={self.method!r} all use the same "
                    "columns: give one number, or use method='polished' or 'iterative'."
                )
            for each in r:
                check_count("n_nonzero", each, n_features)
        else:
            check_count("n_nonzero", r, n_features)

    def _check_target(self) -> None:
        """Check what decides the number of nonzeros."""
        eps, keep, numbers = self.eps, self.keep, float | int | np.floating
        if eps is not None and keep is not None:
            raise InvalidInput(
                f"eps={eps!r} and keep={keep!r} are two targets: give eps, an excess over PCA's loss, or keep, a share "
                "of the variance that PCA explains."
            )
        if eps is not None and not (isinstance(eps, numbers) and 0 < eps < float("inf")):
            raise InvalidInput(f"eps={eps!r} is not allowed: give a positive number, such as 0.05 for 5 %.")
        if keep is not None and not (isinstance(keep, numbers) and 0 < keep < 1):
            raise InvalidInput(
                f"keep={keep!r} is not allowed: give a number between 0 and 1, such as 0.95 for 95 % of the variance "
                "that PCA explains."
            )

    @property
    def shared_size(self) -> int:
        """Columns that all components share, where ``n_nonzero`` is given: the least of its numbers."""
        sizes = self.sizes
        assert sizes is not None, "n_nonzero is not given"
        return min(sizes) if isinstance(sizes, tuple) else sizes

    @property
    def sizes(self) -> int | tuple[int, ...] | None:
        """``n_nonzero`` as a number, or a tuple of one a component."""
        r = self.n_nonzero
        if r is None or isinstance(r, int | np.integer):
            return None if r is None else int(r)
        return tuple(int(each) for each in r)


def check_choice(name: str, given: object, allowed: Sequence[str]) -> None:
    """Refuse a parameter that is not one of the names allowed."""
    if given not in allowed:
        raise InvalidInput(f"{name}={given!r} is not allowed: choose one of {', '.join(map(repr, allowed))}.")


def check_count(name: str, given: object, largest: int, of_what: str = "features") -> None:
    """Refuse a parameter that is not a whole number from 1 to ``largest``, the number of ``of_what``."""
    if isinstance(given, bool) or not hasattr(given, "__index__") or not 1 <= int(given.__index__()) <= largest:
        of_what += f" (n_{of_what} = {largest})" if of_what in ("features", "samples") else ""
        raise InvalidInput(
            f"{name}={given!r} is not allowed: give a whole number from 1 to {largest}, the number of {of_what}."
        )
