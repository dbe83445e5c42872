"""Column subset selection on a core: ``(core, k, r, rng) -> r distinct indices in the order chosen``.

A core L stands for X wherever only X'X matters, ``L'L = X'X``. Selections compare by the loss they lead to,
``||X - X_{C,k}||^2`` for the chosen columns C, see :func:`spae_dask.maths.linalg.loss.columns_loss`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

import numpy as np

from spae_dask.errors import InvalidInput
from spae_dask.maths.linalg.project import DEPENDENT, RankTol
from spae_dask.maths.linalg.scaling import FloatArray, IntArray
from spae_dask.maths.selection import (
    adaptive,
    derandomized,
    dual_set,
    exchange,
    full_greedy,
    leverage,
    pivoting,
    targeted_greedy,
)


class Selection(Protocol):
    """Choose r of the d columns of a core for rank k."""

    def __call__(
        self,
        core: FloatArray,
        k: int,
        r: int,
        rng: np.random.Generator,
        /,
        *,
        rank_tol: RankTol = DEPENDENT,
        leading: FloatArray | None = None,
    ) -> IntArray:
        """Indices ``(r,)``, distinct, in order chosen; fewer only if there are fewer nonzero columns.

        A column whose part outside the span of others is, relative to the column, shorter than ``rank_tol`` counts as
        dependent on them, and is taken only where no other is left. ``leading`` are the top k right singular vectors,
        if they are known.
        """
        ...


GivenSelection = Callable[[FloatArray, int, int, np.random.Generator], IntArray]
"""Selection made by the caller: ``(core, k, r, rng) -> columns``."""

SELECTIONS: Mapping[str, Selection] = MappingProxyType(
    {
        "dual-set": dual_set.dual_set,
        "barrier": dual_set.barrier,
        "adaptive": adaptive.adaptive,
        "adaptive-paper": adaptive.adaptive_paper,
        "adaptive-derandomized": derandomized.adaptive_derandomized,
        "greedy": targeted_greedy.targeted_greedy,
        "full-greedy": full_greedy.full_greedy,
        "leverage": leverage.leverage,
        "pivoted-qr": pivoting.pivoted_qr,
        "exchange": exchange.exchange,
    }
)
"""Selections by the names users give."""

RANDOM_SELECTIONS = ("adaptive", "adaptive-paper")
"""Selections that draw columns, so that the best of several draws is worth taking."""


def selection_named(name: str) -> Selection:
    """Selection of a given name.

    Raises
    ------
    InvalidInput
        If no selection has that name.
    """
    if name not in SELECTIONS:
        raise InvalidInput(f"selection = {name!r} is not known; use one of {', '.join(map(repr, SELECTIONS))}")
    return SELECTIONS[name]


def select_columns(
    selection: str | GivenSelection,
    core: FloatArray,
    k: int,
    r: int,
    rng: np.random.Generator,
    *,
    rank_tol: RankTol = DEPENDENT,
    leading: FloatArray | None = None,
) -> IntArray:
    """Select columns by a named selection, which keeps to the rank tolerance, or by a caller's own."""
    if isinstance(selection, str):
        return selection_named(selection)(core, k, r, rng, rank_tol=rank_tol, leading=leading)
    return selection(core, k, r, rng)


__all__ = ["RANDOM_SELECTIONS", "SELECTIONS", "GivenSelection", "Selection", "select_columns", "selection_named"]
