"""Sources of data for the tests of runners; importable by worker processes."""

import os
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import zarr
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


def linked_store(
    path: Path, nbytes: int, chunks: tuple[int, int], n_features: int, dtype: str = "float32", compress: bool = True
) -> Path:
    """A Zarr array of ``nbytes`` decoded bytes, all its chunks one file that is linked under many names."""
    n = nbytes // (n_features * np.dtype(dtype).itemsize) // chunks[0] * chunks[0]
    options = {} if compress else {"compressors": None}
    array = zarr.create_array(path, shape=(n, n_features), chunks=chunks, dtype=dtype, **options)
    rng = np.random.default_rng(0)
    array[: chunks[0], : chunks[1]] = rng.integers(0, 4, size=chunks).astype(dtype)
    first = path / "c" / "0" / "0"
    for i, j in product(range(n // chunks[0]), range(n_features // chunks[1])):
        if i or j:
            (path / "c" / str(i)).mkdir(exist_ok=True)
            os.link(first, path / "c" / str(i) / str(j))
    return path
