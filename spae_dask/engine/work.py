"""Work that is done span by span and gives back something small, such as the checksum of what it wrote."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from spae_dask.blocks import Block, RowBlocks, StoredEntries, stored_entries
from spae_dask.engine.spans import Span

Result_co = TypeVar("Result_co", covariant=True)


class SpanWork(Protocol[Result_co]):
    """A picklable callable; running it again on the same span must do no harm.

    It reads no other blocks than those of its span.
    """

    def __call__(self, source: RowBlocks, span: Span) -> Result_co: ...


@dataclass(frozen=True, eq=False)
class HeldBlocks:
    """A lazy source as the work on one span sees it: its shape, and the span's blocks already computed.

    Parameters
    ----------
    shape, dtype, bounds, name, stored
        Those of the lazy source.
    blocks : tuple of Block
        Blocks ``first_block``, ``first_block + 1``, ...
    first_block : int
        Number of the first one.
    """

    shape: tuple[int, int]
    dtype: np.dtype[np.generic]
    bounds: Sequence[int]
    name: str
    stored: StoredEntries | None = None
    blocks: tuple[Block, ...] = ()
    first_block: int = 0
    read_nbytes: int = 0
    in_process: bool = True

    @classmethod
    def like(cls, source: RowBlocks) -> "HeldBlocks":
        """With no blocks yet."""
        return cls(source.shape, source.dtype, source.bounds, source.describe(), stored_entries(source))

    def holding(self, blocks: tuple[Block, ...], first_block: int) -> "HeldBlocks":
        """With these blocks."""
        return replace(self, blocks=blocks, first_block=first_block)

    def read(self, i: int) -> Block:
        """Block ``i``, one of those held."""
        return self.blocks[i - self.first_block]

    def describe(self) -> str:
        """Name of the lazy source."""
        return self.name
