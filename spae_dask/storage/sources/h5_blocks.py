"""Row blocks of a dense matrix in an HDF5 file."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.blocks import uniform_bounds
from spae_dask.storage.sources.h5_arrays import H5Array
from spae_dask.storage.sources.runs import read_run
from spae_dask.storage.sources.zarr_blocks import MAX_BLOCK_NBYTES, TARGET_BLOCK_NBYTES


@dataclass(frozen=True, eq=False)
class H5Blocks:
    """A two-dimensional array in an HDF5 file, read in row blocks aligned with its chunks.

    Parameters
    ----------
    array : H5Array
        The array (n, d).
    feature_names : tuple of str, optional
        Names of the columns.
    """

    array: H5Array
    feature_names: tuple[str, ...] | None = None
    in_process: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, d)``."""
        n, d = self.array.shape
        return n, d

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the entries, in native byte order."""
        native: np.dtype[np.generic] = self.array.dtype.newbyteorder("=")
        return native

    @property
    def rows_per_block(self) -> int:
        """Whole rows of chunks up to the target; a part of one where a single row of chunks is too large."""
        n, chunk_rows = self.shape[0], min(self.array.chunks[0], self.shape[0])
        band = chunk_rows * self._row_nbytes
        if band <= MAX_BLOCK_NBYTES:
            return min(n, chunk_rows * max(1, TARGET_BLOCK_NBYTES // max(1, band)))
        return max(1, chunk_rows // -(-band // MAX_BLOCK_NBYTES))

    @property
    def decodes_per_chunk(self) -> int:
        """Number of times that a pass decodes each chunk: 1 unless a row of chunks is read in parts."""
        return -(-min(self.array.chunks[0], self.shape[0]) // self.rows_per_block)

    @property
    def read_nbytes(self) -> int:
        """One decoded chunk, beside its encoded form, and what HDF5 caches: chunks are decoded one after another."""
        return 3 * int(np.prod(self.array.chunks)) * self.array.dtype.itemsize

    @property
    def bounds(self) -> range | tuple[int, ...]:
        """Row bounds of the blocks."""
        return uniform_bounds(self.shape[0], self.rows_per_block)

    @property
    def _row_nbytes(self) -> int:
        return self.shape[1] * self.array.dtype.itemsize

    def read(self, i: int) -> npt.NDArray[np.generic]:
        """Rows of block ``i``.

        Raises
        ------
        StorageError
            If they cannot be read or decoded.
        """
        start = i * self.rows_per_block
        rows: npt.NDArray[Any] = read_run(self.array, start, min(start + self.rows_per_block, self.shape[0]))
        return rows.astype(self.dtype, copy=False)

    @property
    def files(self) -> tuple[str, ...]:
        """The file."""
        return (self.array.path,)

    def describe(self) -> str:
        """Return the place of the array."""
        return self.array.place
