"""How many nonzeros theory asks for a wanted excess eps, to stand beside the number that the data needed."""

from dataclasses import dataclass

from spae_dask.algorithms.problem import Problem
from spae_dask.encoding.iterative import iterative_sizes
from spae_dask.selection.adaptive import sufficient_columns

COUNTABLE = 2.0**53
"""Beyond so many columns a number of them says nothing."""


@dataclass(frozen=True)
class Target:
    """A wanted excess over PCA's loss and the nonzeros a component for which theory promises it beforehand.

    Attributes
    ----------
    eps : float or None
        Wanted excess; None if the number of nonzeros was given instead, as are the other two.
    theory_n_nonzero : int or None
        As the paper has it: ``5k + 5k/eps`` columns for components on shared columns, Theorem 2 (ii) of
        Magdon-Ismail & Boutsidis (2015), in expectation; ``r_k = 5 + ceil(5k/eps)`` for the last component of the
        iterative encoder, whose theorem compares its loss with more than PCA's.
    theory_n_nonzero_sharp : int or None
        The same with the constants this package proves: the best split between start and sampling;
        ``1 + ceil(2k/eps)``.
    """

    eps: float | None = None
    theory_n_nonzero: int | None = None
    theory_n_nonzero_sharp: int | None = None


def target_of(problem: Problem) -> Target:
    """The target of a problem; empty if the problem gives the number of nonzeros."""
    if problem.n_nonzero is not None:
        return Target()
    k, eps = problem.n_components, float(problem.eps)
    if 5 * k / eps > COUNTABLE:
        return Target(eps)
    paper, sharp = (_nonzeros(problem.method, k, eps, sharp=sharp) for sharp in (False, True))
    return Target(eps, paper, sharp)


def _nonzeros(method: str, k: int, eps: float, *, sharp: bool) -> int:
    return (
        iterative_sizes(k, eps, sharp=sharp)[-1] if method == "iterative" else sufficient_columns(k, eps, sharp=sharp)
    )
