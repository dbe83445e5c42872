"""Some row blocks of a source, in an order of one's own, as a source of their own: what a sample reads. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import Block, LazyRowBlocks, RowBlocks

BlockNumbers = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class ChosenBlocks:
    """Blocks ``numbers[0], numbers[1], ...`` of ``source``, numbered 0, 1, ... and their rows from 0.

    Runners, layouts and memory gates take it for any other source. Pickled it is the source and the numbers.

    Parameters
    ----------
    source : RowBlocks
        Source that holds the blocks.
    numbers : ndarray (b,) of int
        Numbers of the chosen blocks; at least one.
    """

    source: RowBlocks
    numbers: BlockNumbers

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of the chosen blocks, and all columns."""
        return self.bounds[-1], self.source.shape[1]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """That of the source."""
        return self.source.dtype

    @cached_property
    def bounds(self) -> Sequence[int]:
        """Row bounds of the chosen blocks, one after another."""
        of_source = np.asarray(self.source.bounds)
        ends = np.cumsum(of_source[self.numbers + 1] - of_source[self.numbers])
        return (0, *(int(end) for end in ends))

    @property
    def read_nbytes(self) -> int:
        """That of the source."""
        return self.source.read_nbytes

    @property
    def in_process(self) -> bool:
        """That of the source."""
        return self.source.in_process

    def read(self, i: int) -> Block:
        """Block ``numbers[i]`` of the source."""
        return self.source.read(int(self.numbers[i]))

    def describe(self) -> str:
        """Name of the source."""
        return self.source.describe()

    def __reduce__(self) -> tuple[type["ChosenBlocks"], tuple[RowBlocks, BlockNumbers]]:
        """Without the bounds, which only the planning process looks at."""
        return type(self), (self.source, self.numbers)


@dataclass(frozen=True, eq=False)
class LazyChosenBlocks(ChosenBlocks):
    """The same of a lazy source, lazy itself."""

    source: LazyRowBlocks

    def lazy_blocks(self) -> list[Any]:
        """The chosen ones of the source's delayed blocks."""
        blocks = self.source.lazy_blocks()
        return [blocks[number] for number in self.numbers]


def choose_blocks(source: RowBlocks, numbers: BlockNumbers) -> ChosenBlocks:
    """The blocks ``numbers`` of ``source``; lazy if the source is."""
    if isinstance(source, LazyRowBlocks):
        return LazyChosenBlocks(source, numbers)
    return ChosenBlocks(source, numbers)
