"""Sources of data for the tests of runners; importable by worker processes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spae_dask.blocks import uniform_bounds


@dataclass(frozen=True, eq=False)
class Counted:
    """A matrix that nobody stores: entry (i, j) is ``(i * d + j) mod 101``, in any number of blocks."""

    n_rows: int
    n_columns: int
    rows_per_block: int
    read_nbytes: int = 0
    in_process: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, self.n_columns

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype("float32")

    @property
    def bounds(self) -> range | tuple[int, ...]:
        return uniform_bounds(self.n_rows, self.rows_per_block)

    def read(self, i: int) -> NDArray[np.generic]:
        start = i * self.rows_per_block
        stop = min(start + self.rows_per_block, self.n_rows)
        entries = np.arange(start * self.n_columns, stop * self.n_columns) % 101
        return entries.reshape(stop - start, self.n_columns).astype(np.float32)

    def describe(self) -> str:
        return "counted numbers"
