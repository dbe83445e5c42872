"""What an accumulator is, and several of them riding in one pass.

An accumulator is a frozen recipe; its state is a plain mapping of names to arrays, so that a state can be sent,
stored and merged without knowing which recipe made it. The four verbs are Beam's: ``zero``, ``update`` (add input),
``merge`` and ``result`` (extract output).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.generic]
"""Consecutive rows of X, dense, of the source's own type."""

Floats = npt.NDArray[np.float64]

State = dict[str, npt.NDArray[Any]]
"""Arrays of one accumulator, by name."""

Result_co = TypeVar("Result_co", covariant=True)

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

    @property
    def work_nbytes(self) -> int:
        """Bytes of scratch one update of ``panel_rows`` rows uses."""
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
        """What the state says about the rows it has seen."""
        ...


def panel_rows_for(n_features: int, at_least: int = 256) -> int:
    """Rows whose float64 copy fits ``PANEL_NBYTES``, but never fewer than ``at_least``."""
    return max(at_least, PANEL_NBYTES // (8 * n_features))


@dataclass(frozen=True)
class Together:
    """Several accumulators in one pass over the data.

    Parameters
    ----------
    parts : mapping of str to Accumulator
        The recipes by name; results come back under the same names.
    """

    parts: Mapping[str, Accumulator[Any]]

    @property
    def state_nbytes(self) -> int:
        """Bytes of one state: the sum over the parts."""
        return sum(part.state_nbytes for part in self.parts.values())

    @property
    def panel_rows(self) -> int:
        """The most any part asks for."""
        return max(part.panel_rows for part in self.parts.values())

    @property
    def work_nbytes(self) -> int:
        """The parts work in turn, so the largest counts."""
        return max(part.work_nbytes * self.panel_rows // part.panel_rows for part in self.parts.values())

    @property
    def flops_per_row(self) -> float:
        """Sum over the parts."""
        return sum(part.flops_per_row for part in self.parts.values())

    def zero(self) -> State:
        """States of all parts under ``name/array`` keys."""
        return self._join({name: part.zero() for name, part in self.parts.items()})

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Update every part with the same rows while they are in cache."""
        return self._join(
            {name: part.update(self._part(state, name), rows, first_row) for name, part in self.parts.items()}
        )

    def merge(self, a: State, b: State) -> State:
        """Merge part by part."""
        return self._join(
            {name: part.merge(self._part(a, name), self._part(b, name)) for name, part in self.parts.items()}
        )

    def result(self, state: State) -> dict[str, Any]:
        """Results of all parts by name."""
        return {name: part.result(self._part(state, name)) for name, part in self.parts.items()}

    @staticmethod
    def _join(states: Mapping[str, State]) -> State:
        return {f"{name}/{key}": array for name, state in states.items() for key, array in state.items()}

    @staticmethod
    def _part(state: State, name: str) -> State:
        prefix = f"{name}/"
        return {key[len(prefix) :]: array for key, array in state.items() if key.startswith(prefix)}
