"""Passes of a run compared: all of them must read the same rows, or the result would be of no data. Pure."""

from typing import Any

from spae_dask.accumulators.base import Accumulator, State
from spae_dask.accumulators.read_sum import MAGNITUDE, SUM, ReadSum, without_sum
from spae_dask.blocks import LazyRowBlocks, RowBlocks
from spae_dask.errors import DataChanged


class SameRows:
    """The sum of the rows that the first pass of a run read, with which those of later passes must agree.

    Parameters
    ----------
    source : RowBlocks
        Source that the passes read.
    """

    def __init__(self, source: RowBlocks) -> None:
        self._source = source
        self._first: State | None = None

    def recipe(self, accumulator: Accumulator[Any]) -> ReadSum:
        """The accumulator with the sum beside it."""
        return ReadSum(accumulator, stored=not isinstance(self._source, LazyRowBlocks))

    def checked(self, state: State, name: str) -> State:
        """The state of the accumulator alone.

        Raises
        ------
        DataChanged
            If this pass read other rows than the first one.
        """
        if self._first is None:
            self._first = {key: state[key].copy() for key in (SUM, MAGNITUDE)}
        elif not ReadSum.agree(self._first, state):
            raise DataChanged.told(
                f"the pass {name!r} found other numbers in {self._source.describe()} than the pass before"
            )
        return without_sum(state)
