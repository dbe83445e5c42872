"""Proof that the features of an encoder are the best of their number, or a bound on what any others could gain."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.loss import columns_loss, rounding_error, total_variance
from spae_dask.maths.linalg.scaling import unit_columns
from spae_dask.maths.linalg.spectral import pca_loss
from spae_dask.maths.selection.proof import Errors, prove
from spae_dask.strategies.core_summary import CoreSummary, Floats
from spae_dask.strategies.parameters import SHARED, FitParameters
from spae_dask.strategies.rounding import Rounding

NODES = 5000
"""Nodes of the tree of sets that a proof looks into, if no other number is given."""

MOST_FEATURES = 2000
"""Features up to which a proof keeps their products, and those outside the features of each node."""

SAME = 1e-6
"""Losses that agree to this share, or to rounding, are the same."""


@dataclass(frozen=True)
class Proof:
    """Best set of features known for all components together, and a bound on all sets of its size.

    Attributes
    ----------
    n_components, n_features : int
        k, and the most features of a set, with those that are included in any case.
    features : tuple of int
        The best set known, ascending: that of the encoder, or a better one that the proof found.
    loss : float
        Its loss.
    loss_lower : float
        No set of so many features loses less.
    encoder_loss : float
        Loss of the best set of the encoder's own features.
    pca_loss, total : float
        PCA's loss, and ``||X||^2``.
    complete : bool
        True if all sets were decided, False if a limit ended the proof before.
    n_nodes : int
        Nodes of the tree of sets that the proof looked into.
    """

    n_components: int
    n_features: int
    features: tuple[int, ...]
    loss: float
    loss_lower: float
    encoder_loss: float
    pca_loss: float
    total: float
    complete: bool
    n_nodes: int

    @property
    def is_best(self) -> bool:
        """True if no set of so many features loses less than this one, up to rounding."""
        return self.complete and self._same(self.loss_lower, self.loss)

    @property
    def improved(self) -> bool:
        """True if the proof found a better set than that of the encoder."""
        return not self._same(self.loss, self.encoder_loss)

    @property
    def gap(self) -> float:
        """Share of the loss that no set of so many features can save more than."""
        return (self.loss - self.loss_lower) / self.loss if self.loss > 0.0 else 0.0

    def _same(self, less: float, more: float) -> bool:
        return more - less <= SAME * more + rounding_error(more, self.total)

    def as_dict(self) -> dict[str, Any]:
        """The fields and properties by name, for JSON."""
        return asdict(self) | {"gap": self.gap, "is_best": self.is_best, "improved": self.improved}

    def __str__(self) -> str:
        """Lines for the terminal."""
        size = f"{self.n_features} feature{'s' if self.n_features != 1 else ''}"
        found = f"{self.loss:.6g}, {self._in_pca(self.loss)}"
        if self.improved:
            found += f"; the encoder's features lose {self.encoder_loss:.6g}"
        if self.is_best:
            said = f"the set found is the best: no {size} lose less"
        elif self.complete:
            said = f"all sets are decided up to rounding: no {size} lose less by more than {self.gap:.2g} of the loss"
        else:
            said = f"not finished: no {size} lose less by more than {self.gap:.2%} of the loss"
        lower = f"{self.loss_lower:.6g}, {self._in_pca(self.loss_lower)}"
        lines = [("loss found", found), ("loss at least", lower), ("proof", said), ("nodes", f"{self.n_nodes:,}")]
        return "\n".join(f"{name:<19}{text}" for name, text in lines)

    def _in_pca(self, loss: float) -> str:
        return f"{loss / self.pca_loss:.6f} times PCA's" if self.pca_loss > 0.0 else "and PCA loses nothing"


def check_provable(params: FitParameters, n_features: int) -> None:
    """Refuse encoders of which no proof is known.

    Parameters
    ----------
    params : FitParameters
        Parameters of the encoder, with features of rules by number, and with the size of a panel as that of the shared
        support.
    n_features : int
        d.

    Raises
    ------
    InvalidInput
        Naming the parameter.
    """
    if params.method == "doubly-sparse":
        raise InvalidInput(
            "method='doubly-sparse' makes the decoder of rows, and a proof is about the best decoder. Use "
            "method='polished' or 'batch'."
        )
    shared = params.shared_support or params.method in SHARED or params.n_components == 1
    if not shared or params.n_features is not None:
        raise InvalidInput(
            "a proof is about one set of features that all components may use. Give n_features without n_nonzero, or "
            "shared_support=True."
        )
    rules = params.rules.of_panel
    if rules:
        raise InvalidInput(
            f"{' and '.join(rules)}: a proof is about all sets of a number of features, and knows include and exclude "
            "alone. Leave out the other rules."
        )
    n_choice = min(n_features, params.n_top_features or n_features) - len(params.rules.exclude)
    if n_choice > MOST_FEATURES:
        raise InvalidInput(
            f"a proof keeps products of all pairs of features, and there are {n_choice:,} to choose from: more than "
            f"{MOST_FEATURES:,}. Leave some out, with exclude or n_top_features."
        )


def prove_features(
    params: FitParameters,
    summary: CoreSummary,
    selected: npt.NDArray[np.intp],
    *,
    node_limit: int | None = NODES,
    stop: Callable[[], bool] = lambda: False,
) -> Proof:
    """Bound the loss of all sets of features of the size of an encoder's; no data are read.

    Parameters
    ----------
    params : FitParameters
        Parameters of the encoder, with features of rules by number.
    summary : CoreSummary
        Core of the data.
    selected : ndarray of int
        Features of the encoder.
    node_limit : int, optional
        Most nodes of the tree of sets to look into. No limit if None.
    stop : callable
        Asked before each node; the proof ends if it returns True.

    Raises
    ------
    InvalidInput
        If no proof is known for the parameters.
    """
    check_provable(params, summary.core.shape[1])
    k, core, rules = params.n_components, summary.core, params.rules
    free = np.array(rules.include, dtype=np.intp)
    start = free[core[:, free].any(axis=0)]
    allowed = np.setdiff1d(np.flatnonzero(core.any(axis=0)), np.array(rules.exclude, dtype=np.intp))
    size = params.shared_size if params.sizes is not None else np.setdiff1d(selected, start).size
    found = prove(
        core,
        k,
        size,
        selected,
        start=start,
        allowed=allowed,
        rank_tol=summary.rank_tol(k),
        errors=errors_of(summary),
        node_limit=node_limit,
        stop=stop,
    )
    own = columns_loss(core, selected, k, rank_tol=summary.rank_tol(k)).loss
    better = found.loss < own * (1.0 - SAME)
    return Proof(
        n_components=k,
        n_features=size + start.size,
        features=tuple(int(j) for j in (found.columns if better else selected)),
        loss=found.loss if better else own,
        loss_lower=min(found.lower, own),
        encoder_loss=own,
        pca_loss=pca_loss(summary.spectrum(k), k),
        total=total_variance(core),
        complete=found.complete,
        n_nodes=found.n_nodes,
    )


def errors_of(summary: CoreSummary) -> Errors:
    """Errors of a core, relative to the lengths of its columns."""
    rounding: Rounding = summary.rounding
    lengths: Floats = unit_columns(summary.core)[1]
    varying = lengths > 0.0
    longer = float(np.max(rounding.lengths[varying] / lengths[varying], initial=1.0))
    return Errors(rounding.rows * longer, (rounding.products + rounding.mean**2) * longer**2)
