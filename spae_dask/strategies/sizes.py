"""Encoders of many sizes: which sizes are worth a look, and one encoder after another on a core."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np

from spae_dask.maths.encoders.budgets import budgets_of
from spae_dask.maths.linalg.loss import encoder_loss
from spae_dask.strategies.core_summary import CoreSummary, Floats
from spae_dask.strategies.parameters import SHARED, FitParameters

BEYOND = 5
"""Nonzeros a curve goes beyond those of a component at least."""

MOST_POINTS = 10
"""Points of a curve."""

COMPONENTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20)
NONZEROS = (1, 2, 3, 5, 8, 12, 20, 30)
"""Sizes that held-out folds choose from."""


class HasEncoder(Protocol):
    """An encoder (d, k), alone or with what is known of it."""

    @property
    def H(self) -> Floats:  # noqa: N802 - the paper's name
        """Encoder ``(d, k)``."""
        ...


Made = TypeVar("Made", bound=HasEncoder)


def curve_sizes(r: int, least: int, most: int, n_points: int) -> list[int]:
    """Numbers of nonzeros from ``least`` to twice ``r``, denser where they are small; ``r`` is one of them."""
    spaced = np.geomspace(least, max(least, min(max(2 * r, r + BEYOND), most)), n_points)
    return sorted({*(int(each) for each in spaced.round()), r})


def sizes_of(params: FitParameters, found: int, d: int, n_points: int = MOST_POINTS) -> list[int]:
    """Sizes of a curve about an encoder of ``found`` nonzeros a component on ``d`` features, by resolved rules."""
    # orthonormal components have more nonzeros than were asked for
    r = found if params.sizes is None else max(budgets_of(params.n_components, params.sizes))
    left = d - len(params.rules.exclude)
    most = left if shares_features(params) else min(params.n_features or left, left)
    return curve_sizes(r, min(fewest(params), r), most, n_points)


def fewest(params: FitParameters) -> int:
    """Fewest nonzeros of a component worth a try: as many as components, if all share them."""
    return params.n_components if shares_features(params) else 1


def shares_features(params: FitParameters) -> bool:
    """Return True if all components use the same features."""
    return params.method in SHARED or params.shared_support or params.sets_panel


def pairs(params: FitParameters, rs: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes of as many components as a fit, with every r that is enough for them, at least one."""
    k, least = params.n_components, fewest(params)
    return [(k, r) for r in rs if r >= least] or [(k, least)]


def by_size(
    params: FitParameters,
    n_features: int,
    sizes: Sequence[tuple[int, int]],
    encode: Callable[[FitParameters, list[Floats]], Made],
) -> Iterator[tuple[int, int, Made]]:
    """Encoders of all sizes, by k and then by r.

    Each is shown the encoders of the next smaller k and r, so the loss of polished ones never rises with either.

    Parameters
    ----------
    params : FitParameters
        Parameters of all but the size.
    n_features : int
        d.
    sizes : sequence of (int, int)
        Components and nonzeros.
    encode : callable
        Makes one encoder by the parameters of a fit. It may start from the encoders (d, k') of no larger size that it
        is given.
    """
    made: dict[tuple[int, int], Floats] = {}
    for k, r in sorted(set(sizes)):
        # orthonormal components give the same numbers, but have too many nonzeros to start other searches
        point = replace(params, n_components=k, n_nonzero=r, orthonormal=False)
        point.check(None, n_features)  # the rows were enough for a fit
        fewer = [size for size in made if size[0] == k][-1:]
        narrower = [size for size in made if size[0] < k and size[1] == r][-1:]
        found = encode(point, [made[size] for size in (*fewer, *narrower)])
        made[k, r] = found.H[:, found.H.any(axis=0)]
        yield k, r, found


def best_known(summary: CoreSummary, known: Sequence[Floats]) -> Floats | None:
    """The encoder of the least loss on a core, from which a search starts; None if none is known."""
    return min(known, key=lambda H: encoder_loss(summary.core, H), default=None)
