"""The contract of an accumulator: ``zero``, ``update``, ``merge`` and ``result``.

An accumulator is a frozen recipe. Its state is a plain mapping of names to arrays. So code can send, store and merge a
state without knowing its recipe. The four verbs are Beam's: ``zero``, ``update`` (add input), ``merge`` and ``result``
(extract output).
"""

from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.generic]
"""Consecutive rows of X, dense, of the source's own type."""

Floats = npt.NDArray[np.float64]

State = dict[str, npt.NDArray[Any]]
"""Arrays of one accumulator, by name."""

Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")

PANEL_NBYTES = 1 << 20
"""Bytes of the float64 rows that one update works on: they should stay in a core's second-level cache."""


class Accumulator(Protocol[Result_co]):
    """A mergeable statistic of X.

    ``zero`` is neutral for ``merge``; ``merge`` is associative; any partition of the rows gives the same result,
    all up to rounding. ``update`` may write only into the state it is given; ``merge`` and ``result`` never write
    into their arguments, because a scheduler may run them again.
    """

    @property
    def state_nbytes(self) -> int:
        """Bytes of one state."""
        ...

    @property
    def panel_rows(self) -> int:
        """Rows per update at which the arithmetic runs well."""
        ...

    def work_nbytes(self, n_rows: int) -> int:
        """Bytes of scratch one update of ``n_rows`` rows uses, at most ``panel_rows`` of them."""
        ...

    @property
    def flops_per_row(self) -> float:
        """Floating point operations per row of X."""
        ...

    def zero(self) -> State:
        """State of no rows at all."""
        ...

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Add rows ``first_row``, ``first_row + 1``, ... of X to ``state``, in place."""
        ...

    def merge(self, a: State, b: State) -> State:
        """State of the rows of ``a`` followed by the rows of ``b``."""
        ...

    def result(self, state: State) -> Result_co:
        """Extract the statistic of the rows that the state has seen."""
        ...


def has_exact_sums(accumulator: Accumulator[Any]) -> bool:
    """Return True if a state holds exact integers, and so has the same bits on any machine, however rows are cut.

    A recipe says so by an attribute ``exact_sums``.
    """
    return bool(getattr(accumulator, "exact_sums", False))


def scratch_nbytes(accumulator: Accumulator[Any], n_rows: int) -> int:
    """Bytes of scratch that the updates with a block of at most ``n_rows`` rows use, one panel after another."""
    return accumulator.work_nbytes(min(n_rows, accumulator.panel_rows))


def merge_scratch_nbytes(accumulator: Accumulator[Any]) -> int:
    """Bytes of scratch that a merge uses beside the merged state.

    A recipe that needs more than a few rows says so by an attribute ``merge_scratch_nbytes``.
    """
    return int(getattr(accumulator, "merge_scratch_nbytes", 0))


def panel_rows_for(n_features: int, at_least: int = 256) -> int:
    """Rows whose float64 copy fits ``PANEL_NBYTES``, but never fewer than ``at_least``."""
    return max(at_least, PANEL_NBYTES // (8 * n_features))


class RunPass(Protocol):
    """One read of the data: given an accumulator, returns what it makes of all rows."""

    def __call__(self, accumulator: Accumulator[Result], name: str = ...) -> Result: ...


def weighed(rows: Floats, roots: Floats | None) -> Floats:
    """Multiply rows (m, d) by the roots (m,) of their weights, in place; without weights leave them as they are."""
    if roots is not None:
        rows *= roots[:, None]
    return rows


def ones_of(n_rows: int, roots: Floats | None) -> Floats:
    """Column of ones (m,) beside rows, multiplied as they are."""
    return np.ones(n_rows) if roots is None else roots


def total_of(n_rows: int, roots: Floats | None) -> float:
    """Sum of the weights of rows: their number without weights."""
    return n_rows if roots is None else float(roots @ roots)
