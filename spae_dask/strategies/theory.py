"""Theory in numbers: the nonzeros that a wanted excess asks for, and bounds in expectation in words."""

from dataclasses import dataclass

from spae_dask.maths.encoders.iterative import iterative_sizes
from spae_dask.maths.selection.adaptive import sufficient_columns
from spae_dask.strategies.parameters import FitParameters

COUNTABLE = 2.0**53
"""Beyond so many columns a number of them says nothing."""


@dataclass(frozen=True)
class Target:
    """A target, and the nonzeros a component for which theory promises a wanted excess beforehand.

    Attributes
    ----------
    eps : float or None
        Wanted excess over PCA's loss; None if the number of nonzeros or ``keep`` was given instead, as are the next
        two.
    theory_n_nonzero : int or None
        As the paper has it: ``5k + 5k/eps`` columns for components on shared columns, Theorem 2 (ii) of
        Magdon-Ismail & Boutsidis (2015), in expectation; ``r_k = 5 + ceil(5k/eps)`` for the last component of the
        iterative encoder, whose theorem compares its loss with more than PCA's.
    theory_n_nonzero_sharp : int or None
        The same with the constants this package proves: the best split between start and sampling;
        ``1 + ceil(2k/eps)``.
    keep : float or None
        Wanted share of the variance that PCA explains. The excess it allows is known after the data only, so theory has
        no number for it.
    """

    eps: float | None = None
    theory_n_nonzero: int | None = None
    theory_n_nonzero_sharp: int | None = None
    keep: float | None = None


def in_expectation(theorem: str, bound: float, n_repeats: int) -> str:
    """Sentence about a bound on the mean loss, and about the best of independent repeats.

    The excess over PCA's loss is at least 0 and ``bound - 1`` times PCA's loss on average. So it is above twice that
    with a probability of at most 1/2 (Markov), and in all of n independent repeats of at most ``2^-n``.

    Parameters
    ----------
    theorem : str
        Name of the theorem that proves the bound.
    bound : float
        Bound on the mean ratio to PCA's loss.
    n_repeats : int
        Independent repeats, of which the one of least loss is kept.
    """
    likely = (
        f"; with probability at least 1 - 2^-{n_repeats} at most {2 * bound - 1:.4g} x PCA's, as the best of "
        f"{n_repeats} independent repeats"
    )
    return f"in expectation; {theorem}" + (likely if n_repeats > 1 else "")


def target_of(params: FitParameters) -> Target:
    """The target of a fit; empty if n_nonzero gives the number of nonzeros."""
    if params.n_nonzero is not None:
        return Target()
    if params.eps is None:
        return Target(keep=params.wanted_share)
    k, eps = params.n_components, float(params.eps)
    if 5 * k / eps > COUNTABLE:
        return Target(eps)
    paper, sharp = (_nonzeros(params.method, k, eps, sharp=sharp) for sharp in (False, True))
    return Target(eps, paper, sharp)


def _nonzeros(method: str, k: int, eps: float, *, sharp: bool) -> int:
    return (
        iterative_sizes(k, eps, sharp=sharp)[-1] if method == "iterative" else sufficient_columns(k, eps, sharp=sharp)
    )
