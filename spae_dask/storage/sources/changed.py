"""Sources whose entries are changed as they are read: what all of them have in common with the source beneath."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from spae_dask.blocks import LazyRowBlocks, RowBlocks, StoredEntries, in_smaller_blocks, stored_entries
from spae_dask.storage.sources.checked_store import ArrayChange, ReadsZarr

SMALLEST_INDEX = 4
"""Bytes of a column number at least, beside each stored entry."""


@dataclass(frozen=True, eq=False)
class ChangedBlocks:
    """Rows, columns and stored entries of another source, with other numbers.

    Parameters
    ----------
    source : RowBlocks
        Source to read. It has no lazy blocks.
    """

    source: RowBlocks

    def __post_init__(self) -> None:
        assert not isinstance(self.source, LazyRowBlocks), "a lazy source is changed in its own graph"

    @property
    def shape(self) -> tuple[int, int]:
        """That of the source."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries as they are changed."""
        raise NotImplementedError

    @property
    def bounds(self) -> Sequence[int]:
        """Those of the source."""
        return self.source.bounds

    @property
    def in_process(self) -> bool:
        """That of the source."""
        return self.source.in_process

    @cached_property
    def stored(self) -> StoredEntries | None:
        """Upper bound on the stored entries of sparse rows, whose values may be wider than in the source."""
        stored = stored_entries(self.source)
        wider = self.dtype.itemsize - self.source.dtype.itemsize
        if stored is None or wider <= 0:
            return stored
        entry = self.source.dtype.itemsize + SMALLEST_INDEX
        return StoredEntries(tuple(nbytes + wider * nbytes // entry for nbytes in stored.offsets), stored.density)

    @property
    def files(self) -> tuple[str, ...]:
        """Those of the source."""
        return tuple(getattr(self.source, "files", ()))

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that only some sources have, such as column names, from the source."""
        if name.startswith("__") or name == "source":  # asked for by pickle before there is a source
            raise AttributeError(name)
        return getattr(self.source, name)

    def with_arrays(self, change: ArrayChange) -> RowBlocks:
        """The same with other arrays beneath."""
        same: Any = self
        if isinstance(self.source, ReadsZarr):
            same = replace(self, source=self.source.with_arrays(change))
            vars(same).update({name: value for name, value in vars(self).items() if name not in vars(same)})
        changed: RowBlocks = same
        return changed

    def in_smaller_blocks(self, most_chunks: int) -> RowBlocks:
        """The same in smaller blocks, if the source has any."""
        smaller = in_smaller_blocks(self.source, most_chunks)
        same: RowBlocks = self if smaller is self.source else replace(self, source=smaller)
        return same

    def describe(self) -> str:
        """Name of the source."""
        return self.source.describe()
