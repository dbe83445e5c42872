"""Some columns of a Zarr array that is chunked along its columns: chunks that hold none of them are not read."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import uniform_bounds
from spae_dask.errors import StorageError

if TYPE_CHECKING:
    from spae_dask.storage.sources.zarr_blocks import ZarrBlocks


@dataclass(frozen=True, eq=False)
class ZarrColumns:
    """Row blocks of some columns.

    Parameters
    ----------
    blocks : ZarrBlocks
        The whole array.
    columns : ndarray (r,) of int
        Columns wanted, ascending.
    target_nbytes : int
        Decoded bytes of a block, where the chunks leave the choice.
    """

    blocks: "ZarrBlocks"
    columns: npt.NDArray[np.intp]
    target_nbytes: int

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, r)``."""
        return self.blocks.shape[0], int(self.columns.size)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries."""
        return self.blocks.dtype

    @cached_property
    def n_chunk_columns(self) -> int:
        """Columns of chunks that hold any of the columns."""
        return int(np.unique(self.columns // self.blocks.array.chunks[1]).size)

    @cached_property
    def rows_per_block(self) -> int:
        """Whole chunks; as many as decode to the usual size of a block."""
        n = self.shape[0]
        rows, columns = self.blocks.array.chunks
        decoded = min(rows, n) * columns * self.n_chunk_columns * self.dtype.itemsize
        return int(min(n, rows * max(1, self.target_nbytes // decoded)))

    @property
    def bounds(self) -> range | tuple[int, ...]:
        """Row bounds of the blocks."""
        return uniform_bounds(self.shape[0], self.rows_per_block)

    @property
    def read_nbytes(self) -> int:
        """Bytes of the chunks of a block that are in flight."""
        rows_of_chunks = -(-self.rows_per_block // self.blocks.array.chunks[0])
        return self.blocks.in_flight_nbytes(rows_of_chunks * self.n_chunk_columns)

    @property
    def in_process(self) -> bool:
        """That of the array."""
        return self.blocks.in_process

    def describe(self) -> str:
        """Return the place of the array."""
        return self.blocks.describe()

    def read(self, i: int) -> npt.NDArray[Any]:
        """The columns of block ``i``.

        Raises
        ------
        StorageError
            If a chunk cannot be read or decoded; it is named.
        """
        start = i * self.rows_per_block
        stop = min(start + self.rows_per_block, self.shape[0])
        try:
            return self.blocks.rows(start, stop, self.columns)
        except (MemoryError, StorageError):  # a StorageError already says what to do
            raise
        except Exception as error:  # codecs and stores raise exceptions of any type
            raise self.blocks.explain(start, stop, error, self.columns) from error
