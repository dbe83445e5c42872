"""Several accumulators that share one pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import scipy.sparse as sp

from spae_dask.passes.accumulators.base import (
    Accumulator,
    Rows,
    State,
    has_exact_sums,
    merge_scratch_nbytes,
    scratch_nbytes,
)
from spae_dask.passes.accumulators.by_columns import Columns, Parts, separated
from spae_dask.passes.accumulators.sparse import (
    SparseAccumulator,
    density_of,
    flops_per_sparse_row,
    takes_sparse,
    update_dense,
)


@dataclass(frozen=True)
class Together:
    """Several accumulators in one pass over the data.

    Parameters
    ----------
    parts : mapping of str to Accumulator
        The recipes by name; results come back under the same names.
    """

    recipe_kind: ClassVar[str] = "spae_dask.accumulators.together.Together"

    parts: Mapping[str, Accumulator[Any]]

    @property
    def state_nbytes(self) -> int:
        """Bytes of one state: the sum over the parts."""
        return sum(part.state_nbytes for part in self.parts.values())

    @property
    def panel_rows(self) -> int:
        """The most any part asks for."""
        return max(part.panel_rows for part in self.parts.values())

    def work_nbytes(self, n_rows: int) -> int:
        """The parts work in turn, each on panels of its own, so the largest counts."""
        return max(scratch_nbytes(part, n_rows) for part in self.parts.values())

    @property
    def merge_scratch_nbytes(self) -> int:
        """The most of any part: they are merged in turn."""
        return max(merge_scratch_nbytes(part) for part in self.parts.values())

    @property
    def flops_per_row(self) -> float:
        """Sum over the parts."""
        return sum(part.flops_per_row for part in self.parts.values())

    @property
    def exact_sums(self) -> bool:
        """True if those of all parts are exact."""
        return all(has_exact_sums(part) for part in self.parts.values())

    def zero(self) -> State:
        """States of all parts under ``name/array`` keys."""
        return joined({name: part.zero() for name, part in self.parts.items()})

    def update(self, state: State, rows: Rows, first_row: int) -> State:
        """Update every part with the same rows while they are in cache, in panels that its scratch is meant for."""
        return joined({name: self.update_part(name, part_of(state, name), rows, first_row) for name in self.parts})

    def update_part(self, name: str, state: State, rows: Rows, first_row: int) -> State:
        """State of one part with these rows added."""
        part = self.parts[name]
        for start in range(0, rows.shape[0], part.panel_rows):
            state = part.update(state, rows[start : start + part.panel_rows], first_row + start)
        return state

    @property
    def sparse_up_to(self) -> float:
        """Sparse rows are always taken: each part has them as it likes."""
        return 1.0

    def sparse_flops_per_row(self, density: float) -> float:
        """Sum over the parts."""
        return sum(flops_per_sparse_row(part, density) for part in self.parts.values())

    def sparse_work_nbytes(self, n_rows: int, n_stored: int) -> int:
        """The largest of the parts that take sparse rows; the others are in ``work_nbytes``."""
        sparse = (part for part in self.parts.values() if isinstance(part, SparseAccumulator))
        return max((part.sparse_work_nbytes(n_rows, n_stored) for part in sparse), default=0)

    def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
        """Update every part; rows are made dense once, for those parts alone that want them so."""
        density = density_of(rows)
        new, dense = {}, {}
        for name, part in self.parts.items():
            if takes_sparse(part, density):
                new[name] = part.update_sparse(part_of(state, name), rows, first_row)
            else:
                dense[name] = part
        together = joined(new)
        if dense:
            rest = {key: array for key, array in state.items() if key.partition("/")[0] in dense}
            together |= update_dense(Together(dense), rest, rows, first_row)
        return {key: together[key] for key in state}

    def merge(self, a: State, b: State) -> State:
        """Merge part by part."""
        return joined({name: part.merge(part_of(a, name), part_of(b, name)) for name, part in self.parts.items()})

    def of_columns(self, columns: Columns) -> "Together | None":
        """Recipe of some columns; None if a part needs whole rows."""
        found = {name: separated(part, columns) for name, part in self.parts.items()}
        parts = {name: part for name, part in found.items() if part is not None}
        return Together(parts) if len(parts) == len(found) else None

    def joined(self, parts: Parts) -> State:
        """State of all columns, part by part."""
        states = {}
        for name, recipe in self.parts.items():
            separable: Any = recipe
            states[name] = separable.joined([(columns, part_of(state, name)) for columns, state in parts])
        return joined(states)

    def result(self, state: State) -> dict[str, Any]:
        """Results of all parts by name."""
        return {name: part.result(part_of(state, name)) for name, part in self.parts.items()}


def joined(states: Mapping[str, State]) -> State:
    """One state of several by name, whose arrays are called ``name/array``."""
    return {f"{name}/{key}": array for name, state in states.items() for key, array in state.items()}


def part_of(state: State, name: str) -> State:
    """State of that name among those that were joined."""
    prefix = f"{name}/"
    return {key[len(prefix) :]: array for key, array in state.items() if key.startswith(prefix)}
